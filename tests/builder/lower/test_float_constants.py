"""Python's numbers as constants of each float type: the nearest number of the type, down to the last subnormal one."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder

FORMATS = {nvb.f16: (5, 10), nvb.bf16: (8, 7), nvb.tf32: (8, 10), nvb.f32: (8, 23)}
"""Bits of the exponent and of the mantissa (PTX ISA 5.2.3)."""
OF_NUMPY: dict[nvb.ElementType, Callable[[float], float]] = {
    nvb.f16: lambda x: float(np.float16(x)),
    nvb.bf16: lambda x: float(np.array(np.float64(x)).astype(ml_dtypes.bfloat16)),
    nvb.f32: lambda x: float(np.float32(x)),
}


def nearest(number: float, element: nvb.ElementType) -> Fraction:
    """By the definition: of two as near, tf32 takes the one away from zero, as cvt.rna does, others the even one."""
    exponent_bits, mantissa = FORMATS[element]
    least = 2 - (1 << exponent_bits - 1)
    exact = abs(Fraction(number))
    exponent = max(least, math.frexp(number)[1] - 1)
    unit = Fraction(2) ** (exponent - mantissa)
    below, rest = divmod(exact, unit)
    up = rest * 2 > unit or (rest * 2 == unit and (element is nvb.tf32 or below % 2 == 1))
    return (below + up) * unit * (-1 if number < 0 else 1)


def numbers(element: nvb.ElementType) -> list[float]:
    """Of every magnitude, many near the least, and those halfway between two."""
    rng = np.random.default_rng(41)
    exponent_bits, mantissa = FORMATS[element]
    least, most = 2 - (1 << exponent_bits - 1), (1 << exponent_bits - 1) - 2
    exponents = [*rng.integers(least - mantissa - 2, least + 2, 300), *rng.integers(least, most, 200)]
    drawn = [float(rng.uniform(1, 2) * 2.0 ** int(each)) for each in exponents]
    steps = [int(each) for each in rng.integers(0, 4 << mantissa, 100)]
    halves = [(2 * each + 1) * 2.0 ** (least - mantissa - 1) for each in steps]
    return [sign * each for each in (*drawn, *halves, 0.0) for sign in (1, -1)]


@pytest.mark.parametrize("element", FORMATS, ids=str)
def test_a_constant_is_the_nearest_number(element: nvb.ElementType) -> None:
    k = KernelBuilder("k", "sm_90a", threads=32)
    for number in numbers(element):
        constant = float(k.const(number, element).ir.constant)
        assert Fraction(constant) == nearest(number, element), number
        assert np.signbit(constant) == np.signbit(number), number
        if element in OF_NUMPY and abs(number) > 2.0**-148:
            assert constant == OF_NUMPY[element](number)
