"""Which launches have an array so large that indices of 32 bits may not reach all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LARGE = 1 << 31
"""Bytes: an index of so many elements of one byte wraps."""


def has_large_array(values: Sequence[Any]) -> bool:
    """Whether one of the arguments that are bound is one."""
    return any(extent_of(value) >= LARGE for value in values)


def extent_of(value: Any) -> int:
    """The bytes of an array that is bound, on a GPU or in the simulator; 0 for anything else."""
    extent = getattr(value, "extent", None)
    if extent is not None:
        return int(extent) if value.plan is None else 0
    return int(value.nbytes) if getattr(value, "ndim", 0) else 0
