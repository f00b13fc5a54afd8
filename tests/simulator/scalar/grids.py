"""Floating-point formats by NumPy's and ml_dtypes' values, and rounding to them by searching the neighbours."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

_DTYPES: dict[str, tuple[Any, int, int, int]] = {
    # values, bits, code of the largest number, code of NaN
    "f64": (np.float64, 64, 0x7FEFFFFFFFFFFFFF, 0x7FF8000000000000),
    "f32": (np.float32, 32, 0x7F7FFFFF, 0x7FFFFFFF),
    "f16": (np.float16, 16, 0x7BFF, 0x7FFF),
    "bf16": (ml_dtypes.bfloat16, 16, 0x7F7F, 0x7FFF),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 0x7B, 0x7F),
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 0x7E, 0x7F),
    "e3m2": (ml_dtypes.float6_e3m2fn, 8, 0x1F, 0x1F),
    "e2m3": (ml_dtypes.float6_e2m3fn, 8, 0x1F, 0x1F),
    "e2m1": (ml_dtypes.float4_e2m1fn, 8, 0x07, 0x07),
}
_SMALLEST = {"f16": 1 << 10, "bf16": 1 << 7, "f32": 1 << 23, "f64": 1 << 52}
"""The codes of the least numbers that are not subnormal."""
_SCALE = 2**4
_SIGNS = {"e3m2": 0x20, "e2m3": 0x20, "e2m1": 0x08}


class Grid:
    """The numbers of one format. Codes are integers. With `flushes`, a number is 0 if it is subnormal once
    it is rounded to the digits of a normal one."""

    def __init__(self, name: str, *, flushes: bool = False) -> None:
        self.name, self.flushes = name, flushes
        self.dtype, self.bits, self.largest, self.nan = _DTYPES[name]
        self.sign = _SIGNS.get(name, 1 << (self.bits - 1))
        self.has_infinity = name in ("f64", "f32", "f16", "bf16", "e5m2")

    def value(self, code: int) -> float:
        """The number that a code is."""
        if self.bits <= 16:
            return self._values[code]
        with np.errstate(invalid="ignore"):
            return float(np.array([code], f"uint{self.bits}").view(self.dtype)[0])

    @cached_property
    def _values(self) -> list[float]:
        codes = np.arange(2 * self.sign, dtype=f"uint{self.bits}")
        with np.errstate(invalid="ignore"):
            return [float(one) for one in codes.view(self.dtype)]

    @cached_property
    def _positive(self) -> list[float]:
        return self._values[: self.largest + 1]

    def _below(self, size: Fraction) -> int:
        """The code of the largest number that is not above `size`."""
        if self.bits <= 16:
            return bisect.bisect_right(self._positive, size) - 1
        last = self.value(self.largest)
        near = self.dtype(float(min(size, Fraction(last))))
        while Fraction(float(near)) > size:
            near = np.nextafter(near, self.dtype(0))
        while float(near) < last and Fraction(float(np.nextafter(near, self.dtype(np.inf)))) <= size:
            near = np.nextafter(near, self.dtype(np.inf))
        return int(near.view(f"uint{self.bits}"))

    def rounded(self, number: Fraction, mode: str, *, negative: bool | None = None, saturate: bool = False) -> int:
        """The code of a number, rounded; `negative` is the sign of a zero."""
        is_negative = number < 0 if number else bool(negative)
        sign = self.sign if is_negative else 0
        size = abs(number)
        if self.flushes and size < (smallest := Fraction(self.value(_SMALLEST[self.name]))):
            scaled = GRIDS[self.name].rounded(number * _SCALE, mode, negative=is_negative)
            is_normal = abs(Fraction(self.value(scaled))) >= smallest * _SCALE
            return sign | (_SMALLEST[self.name] if is_normal else 0)
        low = self._below(size)
        down = Fraction(self.value(low))
        step = Fraction(self.value(self.largest)) - Fraction(self.value(self.largest - 1))
        up = Fraction(self.value(low + 1)) if low < self.largest else down + step
        if size == down:
            return sign | low
        above = {
            "rn": 2 * size > down + up or (2 * size == down + up and low % 2 == 1),
            "rna": 2 * size >= down + up,
            "rz": False,
            "rm": is_negative,
            "rp": not is_negative,
        }[mode]
        code = low + above
        if code > self.largest and (saturate or not self.has_infinity):
            code = self.largest if saturate or self.name != "e4m3" else self.nan
        return sign | code

    def special(self, value: float) -> int:
        """The code of an infinity, or NaN."""
        if math.isnan(value):
            return self.nan
        return (self.largest + 1) | (self.sign if value < 0 else 0)

    def flushed(self, code: int) -> int:
        """A subnormal number as zero."""
        return code & self.sign if (code & ~self.sign) < _SMALLEST[self.name] else code


GRIDS = {name: Grid(name) for name in _DTYPES}
FLUSHING = {name: Grid(name, flushes=True) for name in ("f16", "f32")}


def combined(operation: str, grid: Grid, mode: str, codes: list[int]) -> int:
    """add, sub, mul, fma, div or sqrt of numbers of one format, rounded once to it."""
    values = [grid.value(code) for code in codes]
    return (
        grid.special(special)
        if (special := _special(operation, values)) is not None
        else _finite(operation, grid, mode, values)
    )


def _special(operation: str, values: list[float]) -> float | None:
    """The result where an operand is NaN or infinite, or the result is."""
    if all(map(math.isfinite, values)) and not (
        (operation == "div" and values[1] == 0) or (operation == "sqrt" and values[0] < 0)
    ):
        return None
    with np.errstate(all="ignore"):
        a, *rest = (np.float64(one) for one in values)
        if operation == "add":
            result = a + rest[0]
        elif operation == "sub":
            result = a - rest[0]
        elif operation == "mul":
            result = a * rest[0]
        elif operation == "fma":
            product = a * rest[0]
            if math.isfinite(a) and math.isfinite(rest[0]):
                product = np.float64(0)
            result = product + rest[1]
        elif operation == "div":
            result = a / rest[0]
        else:
            result = np.sqrt(a)
    return None if math.isfinite(result) else float(result)


def _finite(operation: str, grid: Grid, mode: str, values: list[float]) -> int:
    a, *rest = values
    if any(map(math.isinf, values)):  # a finite number over an infinite one
        return grid.sign if math.copysign(1, a) * math.copysign(1, rest[0]) < 0 else 0
    if operation == "sqrt":
        if a == 0:
            return grid.sign if math.copysign(1, a) < 0 else 0
        return grid.rounded(_root(Fraction(a)), mode)
    if operation in ("mul", "div"):
        exact = Fraction(a) * Fraction(rest[0]) if operation == "mul" else Fraction(a) / Fraction(rest[0])
        return grid.rounded(exact, mode, negative=math.copysign(1, a) * math.copysign(1, rest[0]) < 0)
    first, second = (a * 1.0, -rest[0] if operation == "sub" else rest[0]) if operation != "fma" else (0.0, rest[1])
    exact = (Fraction(a) * Fraction(rest[0]) if operation == "fma" else Fraction(first)) + Fraction(second)
    signs = [
        math.copysign(1, a) * math.copysign(1, rest[0]) if operation == "fma" else math.copysign(1, first),
        math.copysign(1, second),
    ]
    both = signs == [-1, -1]
    return grid.rounded(exact, mode, negative=both or (signs[0] != signs[1] and mode == "rm"))


def _root(number: Fraction) -> Fraction:
    """The square root; where it is irrational, a number between it and all that a format has."""
    scale = 1 << 1400
    scaled = number * scale * scale
    root = math.isqrt(math.floor(scaled))
    return Fraction(root, scale) if root * root == scaled else Fraction(2 * root + 1, 2 * scale)
