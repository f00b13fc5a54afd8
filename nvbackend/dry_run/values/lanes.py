"""Values of a warp: 32 numbers, merged and taken apart by the bits of a mask of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown
from nvbackend.dry_run.values.vectors import Lanes

LANES = 32
ALL = (1 << LANES) - 1


LANE = Lanes([*range(LANES)])
"""The number of each lane."""


def numbers_of(value: Any) -> Sequence[int]:
    """A value by lane: a number is that of all of them."""
    return value.numbers if isinstance(value, Lanes) else (value,) * LANES


def is_known(value: Any) -> bool:
    """Whether it is a number in every lane."""
    return not isinstance(value, Unknown)


@lru_cache(maxsize=256)
def lanes_in(mask: int) -> tuple[int, ...]:
    """The lanes of `mask`."""
    return tuple([lane for lane in range(LANES) if mask >> lane & 1])


def bits(condition: Lanes) -> int:
    """The lanes in which a number is not 0, a bit each."""
    return sum([1 << lane for lane, number in enumerate(condition.numbers) if number])


def tidy(lanes: Lanes) -> Lanes | int:
    """A number instead of one for each lane where all are equal."""
    numbers = lanes.numbers
    first = numbers[0]
    if first != numbers[-1]:
        return lanes
    return first if numbers.count(first) == len(numbers) else lanes


def among(value: Any, mask: int) -> Any:
    """`value` as the lanes of `mask` see it: a number where they all have the same."""
    if type(value) is int or isinstance(value, Unknown) or not mask:
        return value
    numbers = value.numbers
    lowest = numbers[(mask & -mask).bit_length() - 1]
    if mask & (mask - 1) == 0:
        return lowest
    if numbers[mask.bit_length() - 1] != lowest:
        return value
    if mask == ALL:
        return lowest if numbers.count(lowest) == LANES else value
    return lowest if all(numbers[lane] == lowest for lane in lanes_in(mask)) else value


def merge(mask: int, inside: Any, outside: Any) -> Any:
    """`inside` in the lanes of `mask`, `outside` in the others."""
    if inside is outside:
        return inside
    if isinstance(inside, Unknown) or isinstance(outside, Unknown):
        return UNKNOWN
    if type(inside) is int and type(outside) is int and inside == outside:
        return inside
    pairs = zip(numbers_of(inside), numbers_of(outside), strict=True)
    return tidy(Lanes([one if mask >> lane & 1 else other for lane, (one, other) in enumerate(pairs)]))
