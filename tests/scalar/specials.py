"""Inputs and constants of every element type, rich in the numbers that arithmetic goes wrong at."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from nvbackend.intrinsics.row.types import ElementType, pred, tf32
from tests.scalar.numbers import Array, bits_of, dtype, from_bits, integers

_FLOAT_SHAPE = {"f16": (10, 15), "bf16": (7, 127), "tf32": (10, 127), "f32": (23, 127), "f64": (52, 1023)}
"""Bits of the mantissa, and the exponent's bias."""
_TF32 = 0xFFFFE000


@cache
def _special_floats(element: ElementType) -> tuple[float, ...]:
    """Zero, subnormal, least, largest, ties of narrower types, the ends of the integers and their neighbours."""
    mantissa, bias = _FLOAT_SHAPE[element.name]
    least = math.ldexp(1.0, 1 - bias - mantissa)
    numbers = [0.0, least, 3 * least, math.ldexp(1.0, 1 - bias), 0.5, 1.0, 1.5, 2.5, 3.0, 7.0, 8.5, 15.5, 1e-3, math.pi]
    numbers += [math.ldexp(2.0 - math.ldexp(1.0, -mantissa), bias), 65504.0, 65520.0, 448.0, 464.0]
    for bits in (3, 4, 7, 8, 15, 16, 31, 32, 63, 64):
        end = math.ldexp(1.0, bits)
        numbers += [end, end - 1, end - 0.5, end * (1 + 2.0**-mantissa), end * (1 - 2.0 ** -(mantissa + 1))]
    for digits in (7, 10, 23):  # ties of bf16, f16, f32, and what lies beside them
        tie = 1 + 2.0 ** -(digits + 1)
        numbers += [tie, tie + 2.0**-digits, tie * (1 + 2.0**-mantissa), tie * (1 - 2.0**-mantissa), tie * 2.0**40]
    numbers += [math.inf, math.nan]
    return tuple(one for number in numbers for one in (number, -number))


@cache
def _special_integers(element: ElementType) -> tuple[int, ...]:
    numbers = [*range(-9, 18), element.bits - 1, element.bits, element.bits + 1]
    for bits in (4, 7, 8, 15, 16, 24, 25, 31, 32, 53, 54, 62, 63, 64):
        for size in (
            1 << bits,
            (1 << bits) + (1 << max(bits - 8, 0)),
            (1 << bits) + (1 << max(bits - 11, 0)),
            3 << bits,
        ):
            numbers += [size + by for by in (-1, 0, 1)] + [-size + by for by in (-1, 0, 1)]
    return tuple(sorted(set(integers(numbers, element).tolist())))


def random_bits(rng: np.random.Generator, element: ElementType, count: int) -> Array:
    """The bits of `count` values: a third special numbers, a third of middling size, a third any bits."""
    width = 8 * dtype(element).itemsize
    any_bits = (
        rng.integers(0, 1 << width, count, np.uint64, endpoint=width < 64)
        if width < 64
        else rng.integers(0, (1 << 64) - 1, count, np.uint64, endpoint=True)
    )
    any_bits &= np.uint64((1 << width) - 1)
    if element.is_float and element.name in _FLOAT_SHAPE:
        special = rng.choice(np.array(_special_floats(element)), count)
        middling = rng.normal(0, 1, count) * 2.0 ** rng.integers(-12, 40, count)
        kind = np.float32 if element is tf32 else dtype(element)
        with np.errstate(all="ignore"):
            choices = [bits_of(one.astype(kind)).astype(np.uint64) for one in (special, middling)]
    elif element.is_integer:
        special_integers = integers(rng.choice(np.array(_special_integers(element), object), count), element)
        choices = [bits_of(special_integers).astype(np.uint64), rng.integers(0, 100, count, np.uint64)]
    else:
        choices = [rng.integers(0, 2, count, np.uint64), any_bits]
    chosen = np.choose(rng.integers(0, 3, count), [*choices, any_bits])
    if element is tf32:
        chosen &= np.uint64(_TF32)
    if element.bits < 8 and element is not pred and not element.is_integer:
        chosen &= np.uint64((1 << element.bits) - 1)
    return chosen


@cache
def constants(element: ElementType) -> tuple[Any, ...]:
    """Numbers of Python that are constants of `element`."""
    if element is pred:
        return False, True
    if element.is_integer:
        return _special_integers(element)
    mantissa, bias = _FLOAT_SHAPE[element.name]
    largest = math.ldexp(2.0 - math.ldexp(1.0, -mantissa), bias)
    beside_ties = [1 + 2.0**-digits + by for digits in (8, 11, 24) for by in (-(2.0**-40), 0.0, 2.0**-40)]
    numbers = (*_special_floats(element), *beside_ties, 0.1, -1 / 3, 1e-9, 2.0**-149)
    return tuple(one for one in numbers if not math.isfinite(one) or abs(one) <= largest)


@cache
def plain_constants(element: ElementType) -> tuple[Any, ...]:
    """The few constants of `element` that optimisers have rules for: zeros, ones, twos, and the ends of an integer."""
    if element is pred:
        return False, True
    if element.is_float:
        return tuple(one for number in (0.0, 1.0, 2.0, 0.5) for one in (number, -number))
    least, greatest = _special_integers(element)[0], _special_integers(element)[-1]
    return tuple(sorted({0, 1, 2, greatest, least, *((-1, -2) if least < 0 else ())}))


def every_special(element: ElementType) -> Array:
    """All special values of `element`."""
    if element is pred:
        return np.array([False, True])
    if element.is_integer:
        return np.array(_special_integers(element), dtype(element))
    with np.errstate(all="ignore"):
        values = np.array(_special_floats(element)).astype(dtype(element))
    return from_bits(tf32, bits_of(values) & np.uint32(_TF32)) if element is tf32 else values
