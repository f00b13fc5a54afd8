"""A binary floating-point format: its bits as values, and values rounded to its bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass

Array = NDArray[Any]
_MANTISSA = 52
"""Bits of a float64's mantissa."""
_BIAS = 1023
_ONE = np.uint64(1)
_SIGN = np.uint64(63)
_MAGNITUDE = np.uint64((1 << 63) - 1)
_FRACTION = np.uint64((1 << _MANTISSA) - 1)
_CUT_BITS = np.uint64(29)
_CUT = np.uint64((1 << 29) - 1)
"""The bits of a float64's mantissa that f32 has not."""
_HALF = np.uint32(16)
_LEAST = np.float32(2.0**-126)
_TABLED = 8
"""Formats of up to so many bits are read by a table."""


@dataclass(frozen=True)
class Format:
    """A format of one number: `exponent` and `mantissa` are its fields in bits, `storage` the bits that it is kept in.

    `infinity` and `nan` are codes without a sign, None where the format has none; `unused` are zero bits below the
    mantissa, as in tf32. `largest` is the code of the largest finite number.
    """

    name: str
    storage: int
    exponent: int
    mantissa: int
    bias: int
    largest: int
    infinity: int | None = None
    nan: int | None = None
    signed: bool = True
    unused: int = 0

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The unsigned integers that hold the bits of one number."""
        return np.dtype(f"uint{max(self.storage, 8)}")

    @cached_property
    def sign(self) -> int:
        """The sign bit; 0 where there is none."""
        return 1 << (self.exponent + self.mantissa) if self.signed else 0

    def decode(self, bits: Array) -> Array:
        """The values of these bits, float64. Bits above the format do not count."""
        if self.name == "f64":
            return bits.view(np.float64)
        if self.name == "f32":
            return bits.view(np.float32).astype(np.float64)
        if self.name == "f16":
            return bits.view(np.float16).astype(np.float64)
        if self.name == "bf16":
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        if self.exponent + self.mantissa + self.signed <= _TABLED:
            found: Array = self._table[bits & bits.dtype.type(len(self._table) - 1)]
            return found
        return self._values(bits.astype(np.uint64) >> np.uint64(self.unused))

    @cached_property
    def _table(self) -> Array:
        return self._values(np.arange(1 << (self.exponent + self.mantissa + self.signed), dtype=np.uint64))

    def _values(self, codes: Array) -> Array:
        magnitude = codes & np.uint64((1 << (self.exponent + self.mantissa)) - 1)
        field = (magnitude >> np.uint64(self.mantissa)).astype(np.int64)
        fraction = (magnitude & np.uint64((1 << self.mantissa) - 1)).astype(np.float64)
        normal = field > 0 if self.mantissa else np.ones(codes.shape, bool)
        scale = np.where(normal, field, 1) - self.bias - self.mantissa
        values = np.ldexp(fraction + np.where(normal, float(1 << self.mantissa), 0.0), scale)
        if self.infinity is not None:
            values = np.where(magnitude == np.uint64(self.infinity), np.inf, values)
        values = np.where(magnitude > np.uint64(self.last), np.nan, values)
        return np.where((codes & np.uint64(self.sign)) != 0, -values, values)

    @cached_property
    def last(self) -> int:
        """The last code that is not a NaN."""
        return self.largest if self.infinity is None else self.infinity

    def encode(
        self, values: Array, rounding: str = "rn", *, saturate: bool = False, random: Array | None = None
    ) -> Array:
        """The bits of these float64, rounded once: rn, rna (ties away from zero), rz, rm, rp, or rs.

        `saturate` gives the largest finite number in place of infinity, and of what rounds to it. A NaN is `nan`; where
        there is none, the largest number. For rs, `random` (uint64) is added to what is cut off: its highest bit is
        just below the last one kept.
        """
        if rounding == "rn" and not saturate and self.name in _NEAREST:
            return self._with_nan(_NEAREST[self.name](values), np.isnan(values))
        return self.encode_by_bits(values, rounding, saturate=saturate, random=random)

    def _with_nan(self, codes: Array, is_nan: Array) -> Array:
        if np.count_nonzero(is_nan):
            codes = codes.copy()
            codes[is_nan] = self.largest if self.nan is None else self.nan
        return codes

    def encode_by_bits(
        self, values: Array, rounding: str = "rn", *, saturate: bool = False, random: Array | None = None
    ) -> Array:
        """`encode`, always by its own arithmetic on bits."""
        bits = values.view(np.uint64)
        if self.mantissa == _MANTISSA:
            return self._with_nan(bits, np.isnan(values))
        negative = (bits >> _SIGN).astype(bool)
        magnitude = bits & _MAGNITUDE
        if not self.mantissa:
            code = self._power(magnitude, rounding)
            return self._finish(code, negative, values, rounding, saturate)
        field = (magnitude >> np.uint64(_MANTISSA)).astype(np.int64)
        kept = (magnitude & _FRACTION) | ((field > 0).astype(np.uint64) << np.uint64(_MANTISSA))
        first = _BIAS + 1 - self.bias
        base = np.maximum(field, first)
        shift = np.minimum(base - field + (_MANTISSA - self.mantissa), _MANTISSA + 2).astype(np.uint64)
        code = kept >> shift
        rest = kept - (code << shift)
        code += _increment(rounding, code, rest, shift, negative, random)
        code += (base - first).astype(np.uint64) << np.uint64(self.mantissa)
        return self._finish(code, negative, values, rounding, saturate)

    def _power(self, magnitude: Array, rounding: str) -> Array:
        """The code of a power of two, where the format has no other numbers: what is less becomes the least."""
        exponent = (magnitude >> np.uint64(_MANTISSA)).astype(np.int64) - (_BIAS - self.bias)
        up = (rounding == "rp") & ((magnitude & _FRACTION) > 0)
        return np.where(exponent < 0, 0, exponent + up).astype(np.uint64)

    def _finish(self, code: Array, negative: Array, values: Array, rounding: str, saturate: bool) -> Array:
        if not self.signed:
            negative = np.zeros_like(negative)
        is_infinity = np.isinf(values)
        over = (code > np.uint64(self.largest)) | is_infinity
        if np.count_nonzero(over):
            beyond = self.infinity if self.infinity is not None else self.nan
            if saturate or beyond is None:
                code = np.where(over, np.uint64(self.largest), code)
            else:
                stays = over & _stays(rounding, negative) & ~is_infinity
                code = np.where(stays, np.uint64(self.largest), np.where(over, np.uint64(beyond), code))
        if self.signed:
            code |= negative.astype(np.uint64) << np.uint64(self.exponent + self.mantissa)
        code = self._with_nan(code, np.isnan(values))
        return (code << np.uint64(self.unused) if self.unused else code).astype(self.dtype)


def _increment(
    rounding: str, code: Array, rest: Array, shift: Array, negative: Array, random: Array | None
) -> Array | np.uint64:
    """What rounding adds to the last bit kept; `rest` are the `shift` bits that are cut off."""
    if rounding == "rz":
        return np.uint64(0)
    if rounding in ("rm", "rp"):
        return np.logical_and(rest, negative if rounding == "rm" else ~negative).astype(np.uint64)
    if rounding == "rs":
        assert random is not None
        carried: Array = np.right_shift(rest + np.right_shift(random, np.uint64(64) - shift), shift)
        return carried
    half = np.left_shift(_ONE, shift - _ONE)
    up: Array = rest >= half if rounding == "rna" else (rest + (code & _ONE)) > half
    return up.astype(np.uint64)


def _stays(rounding: str, negative: Array) -> Array:
    """Where a number beyond the largest is rounded to it."""
    if rounding == "rm":
        return ~negative
    if rounding == "rp":
        return negative
    return np.full(negative.shape, rounding == "rz")


def _nearest_bf16(values: Array) -> Array:
    """By an f32 whose last bit is set where that loses anything: its lower half is rounded then."""
    bits = values.view(np.uint64)
    odd = (bits & ~_CUT) | (((bits & _CUT) != 0).astype(np.uint64) << _CUT_BITS)
    single = odd.view(np.float64).astype(np.float32)
    tiny = (np.abs(single) < _LEAST) & (values != 0)
    if np.count_nonzero(tiny):
        return FORMATS["bf16"].encode_by_bits(values)
    words = single.view(np.uint32)
    codes: Array = (words + (np.uint32(0x7FFF) + ((words >> _HALF) & np.uint32(1)))) >> _HALF
    return codes.astype(np.uint16)


_NEAREST: dict[str, Callable[[Array], Array]] = {
    "f32": lambda values: values.astype(np.float32).view(np.uint32),
    "f16": lambda values: values.astype(np.float16).view(np.uint16),
    "bf16": _nearest_bf16,
}
"""Formats that are rounded to nearest by NumPy, or nearly; NaN is not yet right."""


def _ieee(name: str, storage: int, exponent: int, mantissa: int, nan: int, unused: int = 0) -> Format:
    infinity = ((1 << exponent) - 1) << mantissa
    bias = (1 << (exponent - 1)) - 1
    return Format(name, storage, exponent, mantissa, bias, infinity - 1, infinity, nan, unused=unused)


FORMATS = {
    one.name: one
    for one in (
        _ieee("f64", 64, 11, 52, 0x7FF8000000000000),
        _ieee("f32", 32, 8, 23, 0x7FFFFFFF),
        _ieee("tf32", 32, 8, 10, 0x3FFFF, unused=13),
        _ieee("f16", 16, 5, 10, 0x7FFF),
        _ieee("bf16", 16, 8, 7, 0x7FFF),
        _ieee("e5m2", 8, 5, 2, 0x7F),
        Format("e4m3", 8, 4, 3, 7, 0x7E, nan=0x7F),
        Format("ue4m3", 8, 4, 3, 7, 0x7E, nan=0x7F, signed=False),
        Format("e3m2", 8, 3, 2, 3, 0x1F),
        Format("e2m3", 8, 2, 3, 1, 0x1F),
        Format("e2m1", 4, 2, 1, 1, 0x7),
        Format("ue8m0", 8, 8, 0, 127, 0xFE, nan=0xFF, signed=False),
    )
}
"""Every format by its name in PTX. PTX ISA 5.2.2 and 5.2.3 (Alternate Floating-Point Data Formats)."""
