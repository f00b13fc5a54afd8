"""Values that differ by lane: arrays of 32 numbers, merged and taken apart by the bits of a mask of lanes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
LANES = 32
ALL = (1 << LANES) - 1
LANE = np.arange(LANES, dtype=np.uint64)
"""The number of each lane."""


def is_known(value: Any) -> bool:
    """Whether it is a number in every lane."""
    return not isinstance(value, Unknown)


@lru_cache(maxsize=256)
def where(mask: int) -> Any:
    """The lanes of `mask`, as truth values."""
    return np.unpackbits(np.frombuffer(mask.to_bytes(4, "little"), np.uint8), bitorder="little").view(np.bool_)


def bits(condition: Any) -> int:
    """The lanes in which an array is not 0, a bit each."""
    return int.from_bytes(np.packbits(condition != 0, bitorder="little").tobytes(), "little")


def tidy(array: Any) -> Any:
    """A number instead of an array in which all lanes are equal."""
    first = array[0]
    if first != array[-1]:
        return array
    return array if np.count_nonzero(array != first) else int(first)


def among(value: Any, mask: int) -> Any:
    """`value` as the lanes of `mask` see it: a number where they all have the same."""
    if type(value) is int or isinstance(value, Unknown) or not mask:
        return value
    lowest = int(value[(mask & -mask).bit_length() - 1])
    if mask & (mask - 1) == 0:
        return lowest
    if value[mask.bit_length() - 1] != lowest:
        return value
    return value if np.count_nonzero((value != lowest) & where(mask)) else lowest


def merge(mask: int, inside: Any, outside: Any) -> Any:
    """`inside` in the lanes of `mask`, `outside` in the others."""
    if inside is outside:
        return inside
    if isinstance(inside, Unknown) or isinstance(outside, Unknown):
        return UNKNOWN
    if type(inside) is int and type(outside) is int and inside == outside:
        return inside
    return tidy(np.where(where(mask), np.uint64(inside), np.uint64(outside)))
