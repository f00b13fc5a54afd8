"""Branches that the place of the CTA in the grid decides, and which no run has taken: a place that takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from nvbackend.dry_run.machine.machine import Ways
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.needed import is_of_protocols
from nvbackend.dry_run.scenario.choose import MAIN, Scale, special_of
from nvbackend.dry_run.scenario.other_ways import Condition, OtherWays, seen
from nvbackend.dry_run.seam import Launch
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.machine.function import MachineInstr

_FIRST = range(4)
"""The places that are tried of any grid."""
_NEAR = 64
"""Places up to this one are tried before other parameters are."""
_FARTHEST = 1 << 15
"""No place beyond this one is tried."""
_TRIED = 2000
"""So many places and parameters are tried for one condition."""

Place = tuple[Scale, Mapping[str, int]]
"""Where a cluster runs, and the parameters."""


class Run(NamedTuple):
    """A run that was made: where, with which parameters, which ways it went, and its end if that came too early."""

    scale: Scale
    values: Mapping[str, int]
    ways: Ways
    end: str = ""


def untouched(program: Program, blocks: Set[int], is_one: Callable[[MachineInstr], bool] = is_of_protocols) -> set[int]:
    """The blocks, but for those that some run has executed, that have instructions of protocols, or of another kind."""
    return {
        number
        for number, block in enumerate(program.blocks)
        if number not in blocks
        and any(part.recorded is not None and is_one(part.recorded.instr) for part in block.parts)
    }


class OtherPlaces:
    """The conditions of a kernel that its place decides; `launch` gives the launch of a run of some scale."""

    def __init__(self, program: Program, other: OtherWays, launch: Callable[[Scale], Launch]) -> None:
        self._program = program
        self._other = other
        self._launch = launch

    def places(
        self, runs: Sequence[Run], blocks: Set[int], loops: set[str]
    ) -> Iterator[tuple[Condition, Iterator[Place]]]:
        """Conditions of which one way leads to what no run has executed, and where they go that way, near places first.

        All `runs` executed `blocks`; parameters of `loops` stay positive.
        """
        left = untouched(self._program, blocks)
        for one in self._other.conditions if left else ():
            asked = [run for run in runs if seen(one.slot, run.ways)]
            taken = {way for run in asked for way in seen(one.slot, run.ways)}
            if one.specials and len(taken) == 1 and (wish := not next(iter(taken))) in self._leading(one.slot, left):
                yield one, self._of(one, wish, asked[0], loops)

    def _leading(self, slot: int, left: Set[int]) -> set[bool]:
        """The ways of a condition that lead to some of these blocks."""
        found, blocks = set(), self._program.blocks
        for block in blocks:
            if block.condition != slot or len(block.targets) != 2:
                continue
            for way, target in zip((True, False), block.targets, strict=True):
                without = () if block.meeting is None else (block.meeting,)
                if not left.isdisjoint(reached((target,), lambda one: blocks[one].targets, without=without)):
                    found.add(way)
        return found

    def _of(self, one: Condition, wish: bool, run: Run, loops: set[str]) -> Iterator[Place]:
        scales = list(self._scales(one, run))
        near = [scale for scale in scales if scale.place <= _NEAR]
        few = [scale for scale in near if scale.place in _FIRST and scale.row in _FIRST]
        alone = list(self._other.changes(one, run.values, loops)) if one.places else []
        several = (
            *product(near, [{}]),
            *((scale, changed) for changed in alone for scale in few),
            *product([scale for scale in scales if scale.place > _NEAR], [{}]),
        )
        for scale, changed in several[:_TRIED]:
            values = {**run.values, **changed}
            if self._goes(one, wish, values, scale):
                yield scale, values

    def _goes(self, one: Condition, wish: bool, values: Mapping[str, int], scale: Scale) -> bool:
        """Whether some CTA of the cluster that runs goes that way."""
        launch = self._launch(scale)
        return any(one.of(values, special_of(launch, rank)) is wish for rank in range(launch.cluster))

    def _scales(self, one: Condition, run: Run) -> Iterator[Scale]:
        """Places that are near the numbers of a condition, nearest first; axes that it does not ask for stay."""
        extents, base = self._launch(MAIN).cluster_shape, run.scale
        named = {*one.numbers, *(run.values[name] for name in one.places)}
        near = {*_FIRST, *(number + by for number in named for by in (-1, 0, 1))}
        along = {name.partition(".")[2] for name in one.specials}
        counts = any(name.startswith("n") for name in one.specials)
        columns = {number // extent for number in near for extent in (1, extents[0])} if "x" in along else {base.place}
        rows = {number // extent for number in near for extent in (1, *extents[1:])} if along - {"x"} else {_row(base)}
        after = {number - 1 for number in near} if counts else {base.after}
        tried = product(*(sorted(one for one in each if 0 <= one <= _FARTHEST) for each in (columns, rows, after)))
        for column, row, later in sorted(tried, key=sum):
            yield replace(MAIN, place=column, row=row, after=later)


def _row(scale: Scale) -> int:
    return scale.place if scale.row is None else scale.row


def said(scale: Scale, extents: tuple[int, int, int]) -> dict[str, int]:
    """What a message says of a place, beside parameters."""
    found = {"k.block_id()": scale.place * extents[0], 'k.block_id("y")': _row(scale) * extents[1]}
    return {name: number for name, number in found.items() if number}
