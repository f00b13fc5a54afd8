"""Floats as bits: NumPy is the witness, and exact fractions for bf16, which it does not have."""

from __future__ import annotations

import math
import operator
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nvbackend.dry_run.values import floats

_TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_BITS = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}
_SPECIAL = (0.0, -0.0, 1.0, -1.5, 0.1, 3e-5, 60000.0, math.inf, -math.inf, math.nan)
_HOLDS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _bits(value: Any) -> int:
    return int(value.view(_BITS[{2: "f16", 4: "f32", 8: "f64"}[value.nbytes]]))


def _numbers(name: str) -> list[Any]:
    pick = random.Random(name)
    return [_TYPES[name](one) for one in (*_SPECIAL, *(pick.uniform(-100, 100) for _ in range(10)))]


@pytest.mark.parametrize("name", _TYPES)
def test_arithmetic_is_that_of_the_format(name: str) -> None:
    rules = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide, "minnum": np.fmin}
    for said, rule in rules.items():
        function = floats.function_of(f"{said} {name}")
        assert function is not None
        for a in _numbers(name):
            for b in _numbers(name):
                if said == "minnum" and a == b == 0:
                    continue  # either zero is right
                with np.errstate(all="ignore"):
                    right = rule(a, b)
                found = floats.number(function(_bits(a), _bits(b)), name)
                assert found == right or (math.isnan(found) and np.isnan(right)), (said, a, b)


@pytest.mark.parametrize("name", _TYPES)
def test_comparisons_know_of_nan(name: str) -> None:
    for said, holds in _HOLDS.items():
        ordered, unordered = (floats.function_of(f"fcmp {kind}{said} {name}") for kind in "ou")
        assert ordered is not None and unordered is not None
        for a in _numbers(name):
            for b in _numbers(name):
                none = bool(np.isnan(a) or np.isnan(b))
                assert ordered(_bits(a), _bits(b)) == (not none and bool(holds(a, b)))
                assert unordered(_bits(a), _bits(b)) == (none or bool(holds(a, b)))


@pytest.mark.parametrize("source", _TYPES)
@pytest.mark.parametrize("target", _TYPES)
def test_conversions_round_as_numpy_does(source: str, target: str) -> None:
    function = floats.function_of(f"fptrunc {source} {target}")
    assert function is not None
    for one in _numbers(source):
        with np.errstate(all="ignore"):
            right = _TYPES[target](one)
        found = floats.number(function(_bits(one)), target)
        assert found == right or (math.isnan(found) and np.isnan(right)), one


def test_signs_and_integers() -> None:
    for said, a, right in (
        ("fneg f32", 0x3F800000, 0xBF800000),
        ("fabs f16", 0xBC00, 0x3C00),
        ("sitofp i32 f32", 0xFFFFFFFF, 0xBF800000),
        ("uitofp i8 f64", 255, 0x406FE00000000000),
        ("fptosi f32 i32", 0xC0200000, 0xFFFFFFFE),
        ("fptosi.sat f32 i8", 0xFF800000, 0x80),
        ("fptosi.sat f32 i8", 0x43800000, 0x7F),
        ("fptoui.sat f32 i16", 0xC0200000, 0),
        ("fptoui.sat f32 i16", 0x7FC00000, 0),
    ):
        function = floats.function_of(said)
        assert function is not None and function(a) == right, said


def test_bf16_is_the_nearest_of_its_numbers() -> None:
    pick = random.Random(16)
    for value in (pick.uniform(-1000, 1000) for _ in range(200)):
        single = float(np.float32(value))
        found = floats.bits(single, "bf16")
        gap = abs(Fraction(floats.number(found, "bf16")) - Fraction(single))
        for other in (found - 1, found + 1):
            further = abs(Fraction(floats.number(other, "bf16")) - Fraction(single))
            assert gap < further or (gap == further and not found & 1)


def test_no_float_is_no_operation_of_floats() -> None:
    assert [floats.function_of(one) for one in ("add i32", "load f32", "sqrt f32", "parameter")] == [None] * 4


def test_what_is_tried_is_around_the_constants() -> None:
    half = 0x3F000000
    found = set(floats.tried([(half, "f32")], 32))
    assert {half - 1, half, half + 1} <= found and _bits(np.float32(-1.0)) in found
