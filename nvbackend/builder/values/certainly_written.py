"""Where an accumulator is written, as the builder goes from line to line."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.scopes.blocks import LOOPS, Region


class CertainlyWritten:
    """Whether every way to a line writes to the registers since they were cleared."""

    def __init__(self) -> None:
        self._places: list[tuple[Region, ...]] = []
        self._relied_on: set[Region] = set()

    def write(self, regions: Sequence[Region]) -> None:
        """A write inside these blocks, outermost first."""
        self._places.append(tuple(regions))

    def clear(self, regions: Sequence[Region]) -> bool:
        """What was written no longer counts. Whether a read relied on it that comes again, in a loop around here."""
        self._places = []
        return not self._relied_on.isdisjoint(regions)

    def at(self, regions: Sequence[Region]) -> bool:
        """Whether it is written at a line inside these blocks."""
        for place in self._places:
            around = place
            while tuple(regions[: len(around)]) != around and _certainly_runs(around[-1]):
                around = around[:-1]
            if tuple(regions[: len(around)]) == around:
                self._relied_on.update(each for each in regions[len(around) :] if each.kind in LOOPS)
                return True
        return False


def _certainly_runs(region: Region) -> bool:
    """Whether it is a counted loop with a first round, of which no thread leaves anything out."""
    is_whole = region.kind == "range" and not (region.left or region.skipped)
    if not is_whole or not all(isinstance(each, ir.Constant) for each in region.rounds):
        return False
    start, end = (each.constant for each in region.rounds[:2])
    return bool(start < end)
