"""Arithmetic that rounds once, on float64 arrays: sums that remember what they lost, and rounding to any type.

The formulas are those of IEEE 754; PTX ISA 9.7.9 (cvt) says which numbers a type has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any
SHAPES: dict[str, tuple[int, int, float]] = {
    "f16": (10, -14, 65504.0),
    "bf16": (7, -126, float.fromhex("0x1.fep127")),
    "tf32": (10, -126, float.fromhex("0x1.ffcp127")),
    "f32": (23, -126, float.fromhex("0x1.fffffep127")),
    "e4m3": (3, -6, 448.0),
    "e5m2": (2, -14, 57344.0),
}
"""Bits of the mantissa, the least exponent of a normal number, the largest number."""


def odd_sum(a: Array, b: Array) -> Array:
    """a + b in float64, rounded to odd where it is inexact: a second rounding to fewer bits is right."""
    with np.errstate(all="ignore"):
        total = np.asarray(a + b, np.float64)
        back = total - a
        lost = (a - (total - back)) + (b - back)
        is_even = (total.view(np.uint64) & np.uint64(1)) == 0
        other = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
        return np.where(np.isfinite(total) & np.isfinite(lost) & (lost != 0) & is_even, other, total)


def odd_integer(words: Array) -> Array:
    """Integers as float64, rounded to odd where that is inexact."""
    if words.dtype.itemsize < 8:
        return words.astype(np.float64)
    is_negative = words < 0 if words.dtype.kind == "i" else np.zeros(words.shape, bool)
    size = words.astype(np.uint64)
    size = np.where(is_negative, (~size) + np.uint64(1), size)
    large = size >> np.uint64(52) > 0
    cut = (size >> np.uint64(12) << np.uint64(1)) | ((size & np.uint64(0xFFF)) != 0)
    value = np.where(large, np.ldexp(cut.astype(np.float64), 11), np.where(large, 0, size).astype(np.float64))
    return np.where(is_negative, -value, value)


def rounded(value: Array, name: str, mode: str = "rn", *, saturate: bool = False, ftz: bool = False) -> Array:
    """float64 numbers as those of a type, in float64; NaN stays, infinities too unless they saturate."""
    mantissa, least, largest = SHAPES[name]
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(value)[1] - 1, least) - mantissa
        steps = np.ldexp(value, -exponent)
        result = np.ldexp(_whole(steps, mode), exponent)
        to_zero = {"rz": np.ones(value.shape, bool), "rm": value > 0, "rp": value < 0}.get(
            mode, np.zeros(value.shape, bool)
        )
        end = np.copysign(largest, value)
        past = (np.abs(result) > largest) & np.isfinite(value)
        result = np.where(past, np.where(to_zero | saturate, end, np.copysign(np.inf, value)), result)
        result = np.where(np.isinf(value), end if saturate else value, result)
        result = np.copysign(np.where(np.isnan(value), np.nan, result), value)
        return flushed(result, name) if ftz else result


def flushed(value: Array, name: str) -> Array:
    """The same with subnormal numbers as zeros of their sign."""
    least = math.ldexp(1.0, SHAPES[name][1])
    return np.where(np.abs(value) < least, np.copysign(0.0, value), value)


def _whole(steps: Array, mode: str) -> Array:
    directed = {"rm": np.floor, "rp": np.ceil, "rz": np.trunc, "rn": np.rint}
    if mode in directed:
        return directed[mode](steps)
    size = np.abs(steps)
    low = np.floor(size)
    return np.copysign(low + (size - low >= 0.5), steps)


def quotient(a: Array, b: Array, mode: str, *, ftz: bool = False) -> Array:
    """a / b of numbers of f32, rounded once to f32."""
    with np.errstate(all="ignore"):
        near = a / b
        return rounded(_beside(near, near * b, a), "f32", mode, ftz=ftz)


def root(a: Array, mode: str, *, ftz: bool = False) -> Array:
    """The square root of numbers of f32, rounded once to f32."""
    with np.errstate(all="ignore"):
        near = np.sqrt(a)
        return rounded(_beside(near, near * near, a), "f32", mode, ftz=ftz)


def _beside(near: Array, back: Array, given: Array) -> Array:
    """`near`, moved to the side of the exact result where it is a number of f32 that is not exact.

    `back` undoes the operation: of a number of f32 it is exact in float64, and larger than `given` where `near` is.
    """
    is_single = rounded(near, "f32", "rz") == near
    inexact = is_single & np.isfinite(near) & (near != 0) & (back != given) & np.isfinite(back)
    towards = np.where(np.abs(back) > np.abs(given), 0.0, np.copysign(np.inf, near))
    return np.where(inexact, np.nextafter(near, towards), near)
