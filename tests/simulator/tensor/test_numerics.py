"""Sums of tensor cores against fractions, element by element."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from nvbackend.simulator.tensor.numerics import Model, multiply_add, numbers
from tests.simulator.tensor.exact_model import dot_add

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FORMATS = {
    # mantissa bits, least exponent, exponents of random numbers
    "f16": (10, -14, (-16, 8)),
    "bf16": (7, -126, (-30, 30)),
    "tf32": (10, -126, (-130, -100)),
    "e4m3": (3, -6, (-8, 8)),
}
MODELS = [Model(25), Model(24, 8), Model(24, 4), Model(23, 4), Model(13, 0, 13), Model(25, 16)]


def random_numbers(random, shape, name, spread=None):
    mantissa, least, (low, high) = FORMATS[name]
    low, high = spread or (low, high)
    exponents = np.maximum(random.integers(low, high + 1, shape), least)
    units = random.integers(0, 2 << mantissa, shape) * random.choice([-1, 1], shape)
    return np.ldexp(units.astype(float), exponents - mantissa) * (random.random(shape) > 0.1)


def starts(random, shape, d):
    """C of random size, some subnormal, some zero."""
    places = random.integers(-18, 6, shape) if d == "f16" else random.integers(-40, 20, shape)
    values = np.ldexp(random.standard_normal(shape), places) * (random.random(shape) > 0.2)
    return values.astype(np.float16 if d == "f16" else np.float32).astype(float)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize(("name", "d"), [*((name, "f32") for name in FORMATS), ("f16", "f16"), ("e4m3", "f16")])
def test_random_sums(name, d, model):
    random = np.random.default_rng(model.fraction)
    least = FORMATS[name][1]
    a, b = random_numbers(random, (2, 4, 16), name), random_numbers(random, (2, 16, 3), name)
    if d == "f16":
        a, b = a / 16, b / 16
        a, b = (np.where(np.abs(one) < 2.0**least, 0, one) for one in (a, b))
    c = starts(random, (2, 4, 3), d)
    narrow = name in ("f16", "e4m3")
    found = multiply_add(model, numbers(a, least, narrow=narrow), numbers(b, least, narrow=narrow), c, d)
    values = found.view(np.float16 if d == "f16" else np.float32)
    leasts = (least, least, -14 if d == "f16" else -126)
    for batch, row, column in np.ndindex(2, 4, 3):
        expected = dot_add(
            [Fraction(one) for one in a[batch, row]],
            [Fraction(one) for one in b[batch, :, column]],
            Fraction(c[batch, row, column]),
            leasts=leasts,
            fraction=model.fraction,
            group=model.group,
            kept=model.kept,
            d=d,
        )
        largest = 65504 if d == "f16" else 2**128
        got = float(values[batch, row, column])
        assert (abs(expected) > largest and np.isinf(got)) or Fraction(got) == expected, (batch, row, column)


def test_bits_below_the_fraction_are_cut_from_each_product():
    ones = numbers(np.array([[1.0, 2.0**-26, 2.0**-26]]), -126)
    columns = numbers(np.ones((3, 1)), -126)
    assert multiply_add(Model(25), ones, columns, np.zeros((1, 1)), "f32").view(np.float32) == 1.0
    larger = numbers(np.array([[1.0, 2.0**-25, 2.0**-25]]), -126)
    assert multiply_add(Model(24), larger, columns, np.zeros((1, 1)), "f32").view(np.float32) == 1.0
    four = numbers(np.array([[1.0, 2.0**-25, 2.0**-25, 2.0**-24]]), -126)
    columns = numbers(np.ones((4, 1)), -126)
    assert multiply_add(Model(25), four, columns, np.zeros((1, 1)), "f32").view(np.float32) == 1.0 + 2.0**-23
    one, other = (numbers(np.array([[value]]), -126) for value in (1 + 2.0**-14, 1.0))
    assert multiply_add(Model(23, kept=13), one, other, np.zeros((1, 1)), "f32").view(np.float32) == 1.0


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        ([np.inf, 1.0], [1.0, 1.0], 0.0, np.inf),
        ([np.inf, np.inf], [1.0, -1.0], 0.0, np.nan),
        ([np.inf, 1.0], [0.0, 1.0], 0.0, np.nan),
        ([np.nan, 1.0], [0.0, 1.0], 0.0, np.nan),
        ([1.0, 1.0], [1.0, 1.0], -np.inf, -np.inf),
        ([np.inf, 1.0], [1.0, 1.0], -np.inf, np.nan),
        ([-0.0, -0.0], [1.0, 1.0], -0.0, 0.0),
    ],
)
def test_what_is_no_number(a, b, c, expected):
    found = multiply_add(Model(25), numbers(np.array([a]), -14), numbers(np.array([b]).T, -14), np.array([[c]]), "f32")
    assert np.array_equal(found.view(np.float32), [[np.float32(expected)]], equal_nan=True)
    if np.isnan(expected):
        assert found == 0x7FFFFFFF
    else:
        assert np.signbit(found.view(np.float32)) == np.signbit(expected)


def test_small_integers_take_the_exact_way_and_large_ones_do_not():
    """Both ways agree where nothing is cut off."""
    random = np.random.default_rng(3)
    a, b, c = (random.integers(-8, 9, shape).astype(float) for shape in ((1, 16, 32), (1, 32, 8), (1, 16, 8)))
    exact = (a @ b + c).astype(np.float32)
    small = multiply_add(Model(25), numbers(a, -14), numbers(b, -14), c, "f32").view(np.float32)
    assert np.array_equal(small, exact)
    grouped = multiply_add(Model(25, 8), numbers(a, -14, narrow=True), numbers(b, -14, narrow=True), c, "f32")
    assert np.array_equal(grouped.view(np.float32), exact)
