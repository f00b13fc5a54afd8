"""Exact sums kept in a float64 by rounding to odd, so that they can be rounded once more to any narrower format."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_LAST = np.uint64(1)


def to_odd(total: Array, error: Array) -> Array:
    """`total` + `error`, where `total` is their sum rounded to nearest: cut off, the last bit set if that loses any.

    Rounding what comes back to at most 51 bits, by any mode, rounds the exact sum (Boldo and Melquiond, 2008).
    """
    bits = total.view(np.uint64)
    inexact = (error != 0) & ((bits & _LAST) == 0) & np.isfinite(total)
    toward = np.where((error > 0) == (total > 0), np.int64(1), np.int64(-1))
    return np.where(inexact, (bits.view(np.int64) + toward).view(np.float64), total)


def sum_error(a: Array, b: Array, total: Array) -> Array:
    """What `total`, the rounded sum of `a` and `b`, lacks; exact unless it is infinite (Knuth's two-sum)."""
    part = total - a
    error: Array = (a - (total - part)) + (b - part)
    return error


def odd_sum(a: Array, b: Array) -> Array:
    """a + b rounded to odd."""
    total = a + b
    return to_odd(total, sum_error(a, b, total))
