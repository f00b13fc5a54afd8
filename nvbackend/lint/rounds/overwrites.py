"""Ordinary stores to words that cp.async still writes, on each way into a block, where loops have ended.

Which stage the last copies fill depends on how many rounds ran. Joined over all of them each copy is complete on some
way. On each way alone, copies that every path to its end issues and that no wait completes are in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.dataflow import Site, Solution
from nvbackend.isel.flow.loops import Loops, loops_of
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.lint.numbers.touched import said
from nvbackend.lint.rounds.written_out import WrittenOut

_STORES = ("st", "stmatrix")


class Flight(Protocol):
    """What is in flight, as an analysis has it in a state."""

    def after(self, state: Any, site: Site, /) -> Any:
        """The state after an instruction."""

    def in_flight(self, state: Any, /) -> set[int]:
        """The positions of the operations that are complete on no path."""

    def written(self, place: int, /) -> int:
        """The words that an instruction certainly writes, where they are known."""


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A store, a copy whose words it writes, and the round after which the loop ends; 0 where any will do."""

    position: int
    issuer: int
    ends: int = 0


@dataclass(frozen=True)
class Overwrites:
    """The question of one function, written out: the analysis, and what that has found."""

    function: MachineFunction
    out: WrittenOut
    analysis: Flight
    solution: Solution[Any]

    def find(self) -> Iterator[Overwritten]:
        """The first such store of each block: where every way whose rounds are apart has one, or every
        way after each of two rounds: which ones depends on the number of stages.
        """
        for block in self.solution.at_entry:
            ways = self._ways_into(block)
            apart = [way for way in ways if self.out.later.isdisjoint(site.position for site in self._sites(way))]
            if not apart or self._loops.innermost(block) is not None:
                continue
            stores = {way: store for way in apart if (store := self._first(way, block)) is not None}
            spared = {self._round(way) for way in apart if way not in stores} | {0}
            rounds = {number: store for way, store in stores.items() if (number := self._round(way)) not in spared}
            ends = min(rounds) if len(rounds) > 1 else 0
            if len(stores) == len(apart):
                yield min(stores.values(), key=lambda store: store.position)
            elif ends:
                yield replace(rounds[ends], ends=ends)

    def _round(self, block: str) -> int:
        """The round of its loop that a block is in."""
        sites = self._sites(block)
        return self.out.rounds[sites[-1].position] if sites else 0

    @cached_property
    def _loops(self) -> Loops:
        return loops_of(self.function)

    @cached_property
    def _blocks(self) -> dict[int, str]:
        return {site.position: block for block, sites in self.solution.sites.items() for site in sites}

    def _sites(self, block: str) -> tuple[Site, ...]:
        return self.solution.sites[block]

    def _ways_into(self, block: str) -> list[str]:
        """The blocks that lead there, through blocks in which nothing happens.

        A block that is passed is looked at once: the ways through a row of such blocks double with each branch.
        """
        ways: dict[str, None] = {}
        passed, waiting = {block}, [block]
        while waiting:
            for way in filter(self.solution.at_entry.__contains__, self._loops.predecessors(waiting.pop())):
                if not self._is_passed(way):
                    ways[way] = None
                elif way not in passed:
                    passed.add(way)
                    waiting.append(way)
        return list(ways)

    def _is_passed(self, block: str) -> bool:
        is_bare = not self._sites(block) and self._loops.innermost(block) is None
        return is_bare and block != self.function.entry.name

    def _following(self, block: str) -> Iterator[Site]:
        """The instructions of a block, and of those that certainly follow it and nothing else."""
        while True:
            yield from self._sites(block)
            successors = self.function.blocks[block].successors
            if len(successors) != 1 or len(self._loops.predecessors(successors[0])) != 1:
                return
            block = successors[0]

    def _first(self, way: str, block: str) -> Overwritten | None:
        state = self.solution.at_entry[way]
        for site in self._sites(way):
            state = self.analysis.after(state, site)
        issued = {place for place in self.analysis.in_flight(state) if self._is_issued(place, way)}
        for site in self._following(block):
            line, place = self.out.lifted.lines[site.position], site.position
            if line.instruction.parts[0] in _STORES and line.instruction.guard is None:
                words, flying = self.analysis.written(place), self.analysis.in_flight(state)
                copies = (each for each in sorted(issued & flying) if self.analysis.written(each) & words)
                copy = next(copies, None)
                if copy is not None:
                    return Overwritten(place, copy)
            state = self.analysis.after(state, site)
        return None

    def _is_issued(self, place: int, way: str) -> bool:
        """Whether it is a copy that every path to the end of a block issues."""
        line = self.out.lifted.lines[place]
        is_copy = said(line).issues is Completion.COPY_GROUP and line.instruction.guard is None
        return is_copy and self._loops.dominates(self._blocks[place], way)
