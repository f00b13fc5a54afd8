"""What lanes of a warp get from one another: shuffles, votes, matches and reductions (PTX ISA 9.7.9, 9.7.13).

Each gives numbers and where they are known. A lane that is not among the members has no result. That the members come
together is for the rules of convergence to see to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from nvbackend.builder.thread_tables.arithmetic import Mask, Numbers, signed, wrapped
from nvbackend.builder.thread_tables.cta import Cta
from nvbackend.builder.value_tracking.known import Known
from nvbackend.intrinsics.row.hierarchy import WARP_SIZE

Found: TypeAlias = "tuple[Numbers, Mask] | None"
"""A result, and where it is known; None where nothing is known of it."""

_OWN = np.arange(WARP_SIZE, dtype=np.uint64)
_LANE = np.uint64(WARP_SIZE - 1)
_SEGMENT_SHIFT = np.uint64(8)
"""Where the mask of the segments is in shfl's operand `clamp`."""
_BITS = 32
_ONE = np.uint64(1)


def _by_lane(cta: Cta, operands: Sequence[Known]) -> list[tuple[Numbers, Mask]]:
    """The operands, and where they are known, by elected lane, rank, warp and lane."""
    shapes = [one.numbers.shape[:2] for one in operands if one.numbers is not None]
    outer = np.broadcast_shapes(*shapes)

    def spread(table: Any) -> Any:
        return np.broadcast_to(table, (*outer, cta.threads)).reshape(*outer, cta.warps, WARP_SIZE)

    return [
        (spread(np.uint64(0) if one.numbers is None else one.numbers), spread(_where(one)))  # nothing is known of it
        for one in operands
    ]


def _where(known: Known) -> Any:
    if known.numbers is None:
        return np.False_
    return np.True_ if known.where is None else known.where


def _by_thread(table: Any) -> Any:
    return table.reshape(*table.shape[:2], -1)


def shuffled(cta: Cta, mode: str, members: Known, value: Known, lane: Known, clamp: Known) -> tuple[Found, Found]:
    """shfl.sync: the value of another lane, and whether that lane is one of the segment."""
    if members.numbers is None or lane.numbers is None or clamp.numbers is None:
        return None, None
    (there, named), (numbers, known), (by, aimed), (bound, cut) = _by_lane(cta, (members, value, lane, clamp))
    by, segment = by & _LANE, bound >> _SEGMENT_SHIFT & _LANE
    first = _OWN & segment
    last = first | (bound & ~segment & _LANE)
    if mode == "up":
        within, other = by + last <= _OWN, _OWN - by
    else:
        other = {"down": _OWN + by, "bfly": _OWN ^ by, "idx": first | (by & ~segment & _LANE)}[mode]
        within = other <= last
    source = np.where(within, other, _OWN)
    present = (there >> _OWN & _ONE).astype(bool) & named & aimed & cut
    index = source.astype(np.int64)
    taken = np.take_along_axis(known, index, -1) & (there >> source & _ONE).astype(bool) & present
    result = None if value.numbers is None else (_by_thread(np.take_along_axis(numbers, index, -1)), _by_thread(taken))
    return result, (_by_thread(within.astype(np.uint64)), _by_thread(present))


def collected(cta: Cta, operation: str, members: Known, value: Known, width: int) -> tuple[Found, ...]:
    """vote, match and redux by their names in `COLLECTIONS`: what comes of the `value` of all members."""
    if members.numbers is None or value.numbers is None:
        return None, None
    (there, named), (numbers, known) = _by_lane(cta, (members, value))
    member = (there[..., np.newaxis] >> _OWN & _ONE).astype(bool)
    present = (there >> _OWN & _ONE).astype(bool) & named
    seen = _Seen(member, numbers[..., np.newaxis, :], known[..., np.newaxis, :], numbers[..., np.newaxis], width)
    found = COLLECTIONS[operation](seen)
    everybody = (seen.sure | ~member).all(-1)
    return tuple(
        (_by_thread(result), _by_thread(present & (everybody if where is None else where))) for result, where in found
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What each lane sees, on one more axis: which lanes are members, their numbers, and which of them are known."""

    member: Mask
    others: Numbers
    sure: Mask
    own: Numbers
    width: int

    @property
    def holding(self) -> Mask:
        """The members that certainly have another number than 0."""
        holding: Mask = self.member & self.sure & (self.others != 0)
        return holding

    @property
    def failing(self) -> Mask:
        """The members that certainly have 0."""
        failing: Mask = self.member & self.sure & (self.others == 0)
        return failing


_Collected: TypeAlias = tuple[tuple[Any, Any], ...]
"""Results, and where they are known; None for where all members' numbers are."""


def _any(seen: _Seen) -> _Collected:
    holds = seen.holding.any(-1)
    return ((holds.astype(np.uint64), holds | (~seen.member | seen.failing).all(-1)),)


def _all(seen: _Seen) -> _Collected:
    fails = seen.failing.any(-1)
    return (((~fails).astype(np.uint64), fails | (~seen.member | seen.holding).all(-1)),)


def _uniform(seen: _Seen) -> _Collected:
    mixed = seen.holding.any(-1) & seen.failing.any(-1)
    return (((~mixed).astype(np.uint64), mixed | (~seen.member | seen.sure).all(-1)),)


def _ballot(seen: _Seen) -> _Collected:
    return ((_bits(seen.member & (seen.others != 0)), None),)


def _match_any(seen: _Seen) -> _Collected:
    return ((_bits(seen.member & (seen.others == seen.own)), None),)


def _match_all(seen: _Seen) -> _Collected:
    equal = (~seen.member | (seen.others == seen.own)).all(-1)
    return (np.where(equal, _bits(seen.member), np.uint64(0)), None), (equal.astype(np.uint64), None)


def _bits(lanes: Mask) -> Numbers:
    """A bit for each lane."""
    bits: Numbers = np.where(lanes, _ONE << _OWN, np.uint64(0)).sum(-1, dtype=np.uint64)
    return bits


def _reduction(function: Callable[..., Any], neutral: int, *, with_sign: bool = False) -> Callable[..., _Collected]:
    def reduced(seen: _Seen) -> _Collected:
        numbers = signed(seen.others, seen.width) if with_sign else seen.others
        result = function(np.where(seen.member, numbers, numbers.dtype.type(neutral)), axis=-1)
        return ((wrapped(result.astype(np.uint64), seen.width), None),)

    return reduced


_HIGHEST, _LOWEST = (1 << _BITS - 1) - 1, -(1 << _BITS - 1)
COLLECTIONS: dict[str, Callable[..., _Collected]] = {
    "vote any": _any,
    "vote all": _all,
    "vote uni": _uniform,
    "vote ballot": _ballot,
    "match any": _match_any,
    "match all": _match_all,
    "add": _reduction(np.add.reduce, 0),
    "and": _reduction(np.bitwise_and.reduce, (1 << _BITS) - 1),
    "or": _reduction(np.bitwise_or.reduce, 0),
    "xor": _reduction(np.bitwise_xor.reduce, 0),
    "min u32": _reduction(np.minimum.reduce, (1 << _BITS) - 1),
    "max u32": _reduction(np.maximum.reduce, 0),
    "min s32": _reduction(np.minimum.reduce, _HIGHEST, with_sign=True),
    "max s32": _reduction(np.maximum.reduce, _LOWEST, with_sign=True),
}
