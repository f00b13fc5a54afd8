"""How tensor cores add products: aligned to the largest exponent, cut off, summed exactly, and rounded.

The algorithm is that of MMA-Sim (arXiv 2511.10909): the products of a group and the number that they are added to are
shifted to the largest exponent among them, bits further than `fraction` below it are cut off, and the sum of what is
left is exact. It is cut to float32, or rounded to nearest for float16. Exponents are those before the product of the
significands is normalised; a subnormal number has the least exponent of its format. Whoever calls does so under
`np.errstate(all="ignore")`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass

Array = NDArray[Any]

Part = slice | NDArray[np.int64]

NONE = -8192
"""The exponent of zero: below that of any number, and so that two of them add up within 16 bits."""
_LEAST_SCALE = -400
_LEAST_PRODUCT = -60
_FLOAT32_BITS = 23
_FLOAT64_BITS = 52
_BIAS = 1023
_LEAST_FLOAT32 = -149
_LEAST_NORMAL = {"f16": -14, "f32": -126}
_NAN: dict[str, Any] = {"f16": np.uint16(0x7FFF), "f32": np.uint32(0x7FFFFFFF)}
"""The one NaN that tensor cores give."""


@dataclass(frozen=True, slots=True)
class Model:
    """How an instruction adds: `group` products at a time (0: all of them), with `fraction` bits below the largest
    exponent, to float32 with `kept` bits of its mantissa.

    `apart`: ptxas makes it of two others, which add the products of k, and then of k + `apart`, for k % (2 * apart) <
    apart; and of an ordinary addition of C.
    `claimed`: the model was held to this instruction on hardware, by MMA-Sim or by us; otherwise it is that of its
    nearest relative.
    """

    fraction: int
    group: int = 0
    kept: int = _FLOAT32_BITS
    claimed: bool = True
    apart: int = 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """A matrix of float64 values with the exponents that they are aligned by, of 16 bits.

    `narrow`: a product of two of them fits float32, in range and in precision. `present` says which elements of a
    sparse matrix are there: nothing is multiplied by the others, not even infinity.
    """

    values: Array
    exponents: Array
    narrow: bool = False
    present: Array | None = None

    def columns(self, part: Part) -> Numbers:
        """Some columns of it."""
        present = None if self.present is None else self.present[..., part]
        return Numbers(self.values[..., part], self.exponents[..., part], self.narrow, present)

    def rows(self, part: Part) -> Numbers:
        """Some rows of it."""
        return Numbers(self.values[..., part, :], self.exponents[..., part, :], self.narrow)


def numbers(values: Array, least: int, *, narrow: bool = False) -> Numbers:
    """The values with their exponents; `least` is the smallest exponent of a normal number of their format."""
    found = np.maximum(_exponents(values), np.int16(least))
    found[values == 0] = NONE
    return Numbers(values, found, narrow)


def _exponents(values: Array) -> Array:
    """The exponents of normal float64; something below -1000 for zero."""
    fields = values.view(np.uint64) >> np.uint64(_FLOAT64_BITS)
    return (fields.astype(np.int16) & np.int16(0x7FF)) - np.int16(_BIAS)


def _power(exponents: Array) -> Array:
    """2^exponents, as float64; of exponents that are those of normal numbers."""
    return ((exponents.astype(np.int64) + _BIAS) << _FLOAT64_BITS).view(np.float64)


def multiply_add(model: Model, a: Numbers, b: Numbers, c: Array, d: str) -> Array:
    """The bits of a @ b + c in the format `d`, f32 or f16; `c` holds values of that format, or of f16 for f32."""
    extent = a.values.shape[-1]
    if model.apart:
        first = np.flatnonzero(np.arange(extent) % (2 * model.apart) < model.apart)
        total = np.zeros_like(c)
        for places in (first, first + model.apart):
            total = _add_group(model, a.columns(places), b.rows(places), total, d)
        return bits(c + total, d)
    group = model.group or extent
    for start in range(0, extent, group):
        part = slice(start, start + group)
        c = _add_group(model, a.columns(part), b.rows(part), c, d)
    return bits(c, d)


def add_terms(fraction: int, terms: list[tuple[Array, Array]], c: Array, d: str) -> Array:
    """The bits of `c` plus terms, significands of any size with their exponents, aligned and cut as products are."""
    highest = numbers(c, _LEAST_NORMAL[d]).exponents
    for _, exponents in terms:
        highest = np.maximum(highest, exponents)
    unit = np.maximum(highest, np.int16(_LEAST_SCALE)).astype(np.int32) - fraction
    total = np.trunc(np.ldexp(c, -unit))
    special = c.copy()
    for significands, exponents in terms:
        total += np.trunc(np.ldexp(significands, exponents.astype(np.int32) - unit))
        special = special + significands
    return bits(np.where(np.isfinite(special), rounded(np.ldexp(total, unit), d), special), d)


def bits(values: Array, d: str) -> Array:
    """The bits of values that are of format f32 or f16; every NaN is the canonical one."""
    codes = values.astype(np.float16).view(np.uint16) if d == "f16" else values.astype(np.float32).view(np.uint32)
    found: Array = np.where(np.isnan(values), _NAN[d], codes)
    return found


def _add_group(model: Model, a: Numbers, b: Numbers, c: Array, d: str) -> Array:
    finite = all(np.isfinite(one).all() for one in (a.values, b.values, c))
    if finite:
        return _finite(model, a, b, c, d)
    special = _special(a, b, c)
    found = _finite(model, _cleared(a), _cleared(b), np.where(np.isfinite(c), c, 0.0), d)
    return np.where(np.isfinite(special), found, special)


def _cleared(matrix: Numbers) -> Numbers:
    """The finite numbers alone."""
    finite = np.isfinite(matrix.values)
    exponents = np.where(finite, matrix.exponents, np.int16(NONE))
    return Numbers(np.where(finite, matrix.values, 0.0), exponents, matrix.narrow)


def _special(a: Numbers, b: Numbers, c: Array) -> Array:
    """NaN or infinity where the result is; zero elsewhere."""
    found = np.where(np.isfinite(c), 0.0, c)
    for k in range(a.values.shape[-1]):
        product = a.values[..., :, k, None] * b.values[..., None, k, :]
        counts = ~np.isfinite(product)
        if a.present is not None:
            counts &= a.present[..., :, k, None]
        found = found + np.where(counts, product, 0.0)
    return found


def _finite(model: Model, a: Numbers, b: Numbers, c: Array, d: str) -> Array:
    if (total := _exact(model.fraction, a, b, c)) is None:
        addend = numbers(c, _LEAST_NORMAL[d])
        highest = _highest(a.exponents, b.exponents, addend.exponents)
        total = _aligned(model.fraction, a, b, highest)
        unit = np.maximum(highest, np.int16(_LEAST_SCALE)) - np.int16(model.fraction)
        total += np.trunc(c * _power(-unit))
        total *= _power(unit)
    return rounded(total, d, model.kept)


def rounded(total: Array, d: str, kept: int = _FLOAT32_BITS) -> Array:
    """Exact sums as float64, cut to float32 with `kept` bits of mantissa, or rounded to the nearest float16."""
    if d == "f16":
        return total.astype(np.float16).astype(np.float64) + 0.0
    mask = np.uint64((1 << 64) - (1 << (_FLOAT64_BITS - kept)))
    cut: Array = (total.view(np.uint64) & mask).view(np.float64)
    small = np.abs(total) < 2.0 ** _LEAST_NORMAL["f32"]
    if small.any():
        unit = _LEAST_FLOAT32 + _FLOAT32_BITS - kept
        cut = np.where(small, np.ldexp(np.trunc(np.ldexp(total, -unit)), unit), cut)
    return cut.astype(np.float32).astype(np.float64) + 0.0


def _exact(fraction: int, a: Numbers, b: Numbers, c: Array) -> Array | None:
    """a @ b + c where alignment cuts nothing off, so that float64 holds it: integers of a few bits, mostly."""
    tops = [int(one.exponents.max(initial=NONE)) for one in (a, b)]
    if min(tops) == NONE:
        return c + 0.0
    largest = float(np.abs(c).max())
    highest = max(sum(tops), math.frexp(largest)[1] - 1 if largest else NONE)
    unit = highest - fraction
    if _lowest_bit(a.values) + _lowest_bit(b.values) < unit:
        return None
    scaled = c * math.ldexp(1.0, -unit)
    if (scaled != np.rint(scaled)).any():
        return None
    found: Array = np.matmul(a.values, b.values) + c
    return found


def _lowest_bit(values: Array) -> int:
    """The largest power of two that divides all of the values, not all zero."""
    fractions, exponents = np.frexp(values)
    whole = np.ldexp(fractions, 53).astype(np.int64)
    _, low = np.frexp((whole & -whole).astype(np.float64))
    return int((low + exponents)[whole != 0].min()) - 54


def _by_k(a: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    """A column of `a` and the row of `b` that it meets, as arrays that broadcast to the shape of the product."""
    columns, rows = np.moveaxis(a, -1, 0).copy(), np.moveaxis(b, -2, 0)
    return zip(columns[..., None], rows[..., None, :], strict=True)


def _highest(a: Array, b: Array, c: Array) -> Array:
    """The largest exponent of the products of each element and of what they are added to."""
    found, sums = c.copy(), np.empty_like(c)
    for column, row in _by_k(a, b):
        np.add(column, row, out=sums)
        np.maximum(found, sums, out=found)
    return found


def _aligned(fraction: int, a: Numbers, b: Numbers, highest: Array) -> Array:
    """The sum of the products in units of 2^(highest - fraction), each cut to a whole number of them; float64."""
    small = a.narrow and b.narrow and _fits_int32(fraction, a.values.shape[-1])
    floats, wholes = (np.float32, np.int32) if small else (np.float64, np.float64)
    floor = np.int16(_LEAST_PRODUCT if small else _LEAST_SCALE)
    scale = _power(np.int16(fraction) - np.maximum(highest, floor)).astype(floats)
    total, whole = np.zeros(highest.shape, wholes), np.empty(highest.shape, wholes)
    product = np.empty(highest.shape, floats)
    for column, row in _by_k(a.values.astype(floats), b.values.astype(floats)):
        np.multiply(column, row, out=product)
        product *= scale
        if small:
            np.copyto(whole, product, casting="unsafe")
        else:
            np.trunc(product, out=whole)
        total += whole
    return total.astype(np.float64)


def _fits_int32(fraction: int, depth: int) -> bool:
    """Whether the sum of `depth` products, each less than 4 * 2^fraction, fits 32 bits."""
    return depth << (fraction + 2) <= 1 << 31
