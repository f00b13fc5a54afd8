"""Reductions of memory against exact arithmetic, value by value."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from nvbackend.simulator.copies.reduction import can_reduce, combined

INTEGERS = {"u32": (32, False), "s32": (32, True), "u64": (64, False), "s64": (64, True), "b32": (32, False)}
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def wrapped(value, width, signed):
    value %= 1 << width
    return value - (1 << width) if signed and value >> (width - 1) else value


RULES = {
    "add": lambda old, new: old + new,
    "min": min,
    "max": max,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "inc": lambda old, new: 0 if old >= new else old + 1,
    "dec": lambda old, new: new if old == 0 or old > new else old - 1,
}


@pytest.mark.parametrize("operation", RULES)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name, operation):
    width, signed = INTEGERS[name]
    generator = np.random.default_rng(5)
    dtype = np.dtype(f"{'i' if signed else 'u'}{width // 8}")
    old, new = (generator.integers(0, 256, 64 * width // 8, np.uint8).view(dtype) for _ in range(2))
    old[:8], new[:8] = [0, 1, 5, 5, 0, 7, 6, 0], [0, 1, 5, 4, 3, 8, 9, 1]
    expected = [wrapped(RULES[operation](int(a), int(b)), width, signed) for a, b in zip(old, new, strict=True)]
    assert combined(operation, name, old.view(np.uint8), new.view(np.uint8)).view(dtype).tolist() == expected


@pytest.mark.parametrize("name", FLOATS)
def test_sums_are_rounded_once(name):
    dtype = np.dtype(FLOATS[name])
    generator = np.random.default_rng(6)
    old, new = (generator.normal(0, 8, 500).astype(dtype) for _ in range(2))
    got = combined("add", name, old.view(np.uint8), new.view(np.uint8)).view(dtype)
    for a, b, c in zip(old.tolist(), new.tolist(), got.tolist(), strict=True):
        exact = Fraction(a) + Fraction(b)
        near = [dtype.type(c)]
        near += [np.nextafter(dtype.type(c), dtype.type(side)) for side in (np.inf, -np.inf)]
        errors = [abs(Fraction(float(one)) - exact) for one in near if np.isfinite(float(one))]
        assert errors[0] == min(errors)


@pytest.mark.parametrize("name", FLOATS)
def test_extremes_pass_over_nan_and_order_zeros(name):
    dtype = np.dtype(FLOATS[name])
    old = np.array([1, np.nan, 3, 0.0, -0.0], dtype)
    new = np.array([2, 5, np.nan, -0.0, 0.0], dtype)
    least = combined("min", name, old.view(np.uint8), new.view(np.uint8)).view(dtype).astype(float)
    most = combined("max", name, old.view(np.uint8), new.view(np.uint8)).view(dtype).astype(float)
    assert least.tolist() == [1, 5, 3, 0, 0]
    assert most.tolist() == [2, 5, 3, 0, 0]
    assert np.signbit(least).tolist() == [False, False, False, True, True]
    assert np.signbit(most).tolist() == [False, False, False, False, False]


@pytest.mark.parametrize("name", FLOATS)
def test_infinities_of_both_signs_have_no_sum(name):
    old, new = (np.array([value], FLOATS[name]).view(np.uint8) for value in (np.inf, -np.inf))
    assert np.isnan(combined("add", name, old, new).view(FLOATS[name]).astype(np.float64)).all()


def test_subnormal_numbers_are_flushed_where_the_type_says_so():
    tiny = np.array([1e-40, -1e-40, 1.0], np.float32).view(np.uint8)
    zero = np.zeros(3, np.float32).view(np.uint8)
    assert combined("add", "f32", tiny, zero).view(np.float32).tolist() == [np.float32(1e-40), np.float32(-1e-40), 1]
    assert combined("add", "f32.ftz", tiny, zero).view(np.float32).tolist() == [0, 0, 1]


def test_what_exists():
    assert can_reduce("add", "bf16")
    assert not can_reduce("inc", "f32")
    assert not can_reduce("add", "e4m3")
