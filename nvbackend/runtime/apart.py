"""Arrays that must not overlap: those of restrict pointers, where the kernel writes one of a pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nvbackend.diagnostics import Diagnostic
from nvbackend.runtime.rules import OVERLAP
from nvbackend.signature import Pointer, Signature

MOST_ADDRESSES = 1024
"""So many addresses are remembered."""


class Apart:
    """The pairs of parameters, by their places, whose arrays are compared at each launch of one kernel."""

    __slots__ = ("_extents", "_pairs", "_signature", "places")

    def __init__(self, signature: Signature, pairs: Sequence[tuple[int, int]]) -> None:
        self._signature = signature
        self._pairs = pairs
        self.places = tuple(dict.fromkeys(place for pair in pairs for place in pair))
        self._extents: dict[int, int] = {}
        """The most bytes of an array that was seen at an address."""

    def note(self, ranges: Mapping[int, range]) -> bool:
        """Remember the arrays of these addresses; False where others were forgotten to make room."""
        has_room = len(self._extents) < MOST_ADDRESSES
        if not has_room:
            self._extents.clear()
        for each in ranges.values():
            self._extents[each.start] = max(len(each), self._extents.get(each.start, 0))
        return has_room

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether arrays at these addresses certainly share nothing, each taken for the longest one seen there."""
        extents = self._extents
        for pair in self._pairs:
            low, high = sorted([values[place] for place in pair])
            if low not in extents or low + extents[low] > high:
                return False
        return True

    def overlaps(self, ranges: Mapping[int, range]) -> Iterator[Diagnostic]:
        """launch.overlap for each pair of parameters whose arrays, of these addresses, share memory."""
        for pair in self._pairs:
            first, second = (ranges[place] for place in pair)
            shared = range(max(first.start, second.start), min(first.stop, second.stop))
            if shared:
                parameters = [self._signature.parameters[place] for place in pair]
                names = [each.name for each in parameters]
                promised = [each.name for each in parameters if isinstance(each.type, Pointer) and each.type.restrict]
                yield OVERLAP.diagnose(
                    first=names[0],
                    second=names[1],
                    count=len(shared),
                    address=shared.start,
                    promised=" and ".join(promised),
                )
