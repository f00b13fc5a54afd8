"""Approximations: within the error that PTX ISA 9.7.3 and 9.7.4 allow, and the numbers of its tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.simulator.scalar.grids import GRIDS
from tests.simulator.scalar.operands import computed

INF, NAN = math.inf, math.nan


def f32(values):
    return np.array(values, np.float32)


def of(opcode, *values):
    return computed(opcode, *(f32(one).view(np.uint32) for one in values))[0].view(np.float32)


TABLES = {
    "rcp": ((-INF, -0.0), (-0.0, -INF), (0.0, INF), (INF, 0.0)),
    "sqrt": ((-INF, NAN), (-1.0, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (4.0, 2.0)),
    "rsqrt": ((-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0), (4.0, 0.5)),
    "sin": ((-INF, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, NAN)),
    "cos": ((-INF, NAN), (-0.0, 1.0), (0.0, 1.0), (INF, NAN)),
    "lg2": ((-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, -INF), (INF, INF), (8.0, 3.0)),
    "ex2": ((-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (INF, INF), (3.0, 8.0), (-149.0, 2.0**-149)),
    "tanh": ((-INF, -1.0), (-0.0, -0.0), (0.0, 0.0), (INF, 1.0), (2.0**-140, 2.0**-140)),
}


@pytest.mark.parametrize("name", TABLES)
def test_special_values(name):
    pairs = (*TABLES[name], (NAN, NAN))
    found = of(f"{name}.approx.f32", [one for one, _ in pairs])
    for (value, want), got in zip(pairs, found, strict=True):
        if math.isnan(want):
            assert int(got.view(np.uint32)) == 0x7FFFFFFF
        else:
            assert (float(got), bool(np.signbit(got))) == (want, math.copysign(1, want) < 0), value


RELATIVE = {
    "rcp": (lambda x: 1 / x, 2.0**-23),
    "sqrt": (math.sqrt, 2.0**-23),
    "rsqrt": (lambda x: 1 / math.sqrt(x), 2.0**-22.9),
    "ex2": (lambda x: 2.0**x, 2.0**-22),
    "tanh": (math.tanh, 2.0**-11),
}


@pytest.mark.parametrize("name", RELATIVE)
def test_relative_error(name):
    exact, bound = RELATIVE[name]
    values = f32(np.random.default_rng(1).uniform(2.0**-6, 100.0, 300))
    for x, got in zip(values.tolist(), of(f"{name}.approx.f32", values).tolist(), strict=True):
        assert abs(got - exact(x)) <= bound * abs(exact(x))


@pytest.mark.parametrize(("name", "exact"), [("sin", math.sin), ("cos", math.cos)])
def test_absolute_error(name, exact):
    values = f32(np.random.default_rng(2).uniform(-2 * math.pi, 2 * math.pi, 300))
    for x, got in zip(values.tolist(), of(f"{name}.approx.f32", values).tolist(), strict=True):
        assert abs(got - exact(x)) <= 2.0**-20.5


def test_the_error_of_a_logarithm():
    values = f32(np.random.default_rng(3).uniform(0.01, 50.0, 300))
    for x, got in zip(values.tolist(), of("lg2.approx.f32", values).tolist(), strict=True):
        allowed = 2.0**-22 * (1 if 0.5 < x < 2 else abs(math.log2(x)))
        assert abs(got - math.log2(x)) <= allowed


@pytest.mark.parametrize("form", ["approx", "full"])
def test_approximate_division(form):
    rng = np.random.default_rng(4)
    a, b = f32(rng.uniform(-10, 10, 300)), f32(rng.uniform(0.1, 10, 300))
    for x, y, got in zip(a.tolist(), b.tolist(), of(f"div.{form}.f32", a, b).tolist(), strict=True):
        assert abs(got - x / y) <= 2.0**-22 * abs(x / y)


def test_division_by_a_large_number():
    found = of("div.approx.f32", [1.0, -1.0, INF, 1.0], [1.5 * 2.0**126] * 3 + [2.0**126])
    assert found[:2].tolist() == [0.0, 0.0] and np.signbit(found[:2]).tolist() == [False, True]
    assert math.isnan(found[2]) and found[3] == 2.0**-126
    assert of("div.full.f32", [1.0], [1.5 * 2.0**126])[0] > 0


def test_flushing():
    tiny = [2.0**-130, -(2.0**-130)]
    assert of("rcp.approx.ftz.f32", tiny).tolist() == [INF, -INF]
    assert of("sqrt.approx.ftz.f32", tiny).tolist() == [0.0, 0.0]
    assert of("ex2.approx.ftz.f32", [-130.0, -126.0]).tolist() == [0.0, 2.0**-126]
    assert of("ex2.approx.f32", [-130.0]).tolist() == [2.0**-130]
    assert of("lg2.approx.ftz.f32", tiny[:1]).tolist() == [-INF]


@pytest.mark.parametrize(("name", "kind"), [("ex2", "f16"), ("ex2.ftz", "bf16"), ("tanh", "f16"), ("tanh", "bf16")])
def test_halves(name, kind):
    grid = GRIDS[kind]
    first, _, rest = name.partition(".")
    codes = np.arange(0, 1 << 16, 97, dtype=np.uint16)
    found = computed(f"{first}.approx.{rest + '.' if rest else ''}{kind}", codes)[0]
    for code, got in zip(codes.tolist(), found.tolist(), strict=True):
        x = grid.value(code)
        if math.isnan(x):
            assert got == 0x7FFF
            continue
        exact = math.tanh(x) if first == "tanh" else INF if x > 128 else 2.0 ** max(x, -1000.0)
        bound = {"ex2": 2.0**-9.9 if kind == "f16" else 2.0**-7, "tanh": 2.0**-10.9 if kind == "f16" else 2.0**-8}
        value = grid.value(got)
        if exact > grid.value(grid.largest):
            assert value in (INF, grid.value(grid.largest))
        else:
            assert abs(value - exact) <= bound[first] * abs(exact) + 2.0 ** (-24 if kind == "f16" else -126)


def test_upper_words_of_f64():
    values = np.array([3.0, -0.5, 2.0**-1040, INF, -0.0, NAN])
    found = computed("rcp.approx.ftz.f64", values.view(np.uint64))[0]
    assert (found & np.uint64(0xFFFFFFFF)).tolist() == [0] * 6
    assert int(found[-1]) == 0x7FFFFFFF00000000
    numbers = found.view(np.float64)[:5].tolist()
    assert abs(numbers[0] - 1 / 3) < 2.0**-20 and numbers[1:] == [-2.0, INF, 0.0, -INF]
    roots = computed("rsqrt.approx.ftz.f64", values.view(np.uint64))[0].view(np.float64)
    assert abs(roots[0] - 3**-0.5) < 2.0**-20 and math.isnan(roots[1]) and roots[2] == INF
    full = computed("rsqrt.approx.f64", values.view(np.uint64))[0].view(np.float64)
    assert abs(full[0] - 3**-0.5) < 2.0**-50
