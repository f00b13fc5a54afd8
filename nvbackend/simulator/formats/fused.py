"""a * b + c rounded once, in f32 and f64."""

from __future__ import annotations

import numpy as np

from nvbackend.simulator.formats.exact import fused_exactly
from nvbackend.simulator.formats.odd import Array, odd_sum, sum_error

_CUT = np.uint64((1 << 29) - 1)
"""The bits of a float64's mantissa that f32 has not."""
_MIDDLE = np.uint64(1 << 28)
_NORMAL = np.uint32(0x7F800000)
_LEAST = np.float32(2.0**-126)
_SPLIT = float((1 << 27) + 1)
_SMALL, _LARGE = 2.0**-400, 2.0**400


def fused_f32(a: Array, b: Array, c: Array) -> Array:
    """In f32. The sum in float64 is rounded again as the exact one is, but at the middle of two f32 or below 2^-126."""
    product = a.astype(np.float64) * b.astype(np.float64)
    wide = c.astype(np.float64)
    total = product + wide
    if np.count_nonzero((total.view(np.uint64) & _CUT) == _MIDDLE) == 0:
        found: Array = total.astype(np.float32)
        if np.count_nonzero(found.view(np.uint32) & _NORMAL) == found.size or _are_zero(found, total):
            return found
    return odd_sum(product, wide).astype(np.float32)


def _are_zero(found: Array, total: Array) -> bool:
    """Whether what is not normal is exactly 0."""
    return not np.count_nonzero((np.abs(found) < _LEAST) & (total != 0))


def fused_f64(a: Array, b: Array, c: Array) -> Array:
    """In f64: a product and a sum with their errors, the errors summed by rounding to odd (Boldo and Melquiond, 2008).

    Numbers for which an error could not be held are summed as integers.
    """
    high = a * b
    finite = np.isfinite(a) & np.isfinite(b)
    found = np.where(finite & np.isinf(c), c, high + c)  # where the product would be the other infinity too
    sizes = np.abs(np.stack((a, b, c)))
    safe = ((sizes > _SMALL) & (sizes < _LARGE)).all(axis=0)
    plain = (a == 0) | (b == 0) | ((c == 0) & (high != 0))  # found is right there
    low = _product_error(a, b, high)
    least = c + low
    top = high + least
    rest = odd_sum(sum_error(high, least, top), sum_error(c, low, least))
    found = np.where(safe, top + rest, found)
    left = ~safe & ~plain & finite & np.isfinite(c)
    for lane in zip(*np.nonzero(left), strict=True):
        found[lane] = fused_exactly(float(a[lane]), float(b[lane]), float(c[lane]))
    return found


def _product_error(a: Array, b: Array, product: Array) -> Array:
    """a * b - product, exactly where nothing overflows or underflows (Dekker)."""
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    error: Array = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    return error


def _halves(a: Array) -> tuple[Array, Array]:
    scaled = a * _SPLIT
    high = scaled - (scaled - a)
    return high, a - high
