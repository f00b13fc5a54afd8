"""Waits that leave so many groups of cp.async in flight that what a loop reads first has not come.

A ring of tiles is filled ahead of a loop, and each round waits for its own tile alone. Which tile a group fills is
known when the kernel runs; but where not one group is done when a tile is read for the first time, that tile is not
there. So each read is looked at as it is first come to: without the ways back to the loops that it is in, in every
round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.accesses import AccessKind, Relation, Run
from nvbackend.isel.flow.dataflow import Site, solve
from nvbackend.isel.flow.finished import with_successors
from nvbackend.isel.flow.loops import Loops, loops_of
from nvbackend.isel.flow.memory_uses import writes_elsewhere
from nvbackend.isel.machine.function import MachineFunction, MemoryUse
from nvbackend.isel.protocols.proxy.state import (
    DONE,
    HAZARDS,
    Event,
    Meeting,
    Step,
    is_drained,
)

_MOST_BLOCKS = 8
"""So many blocks that read what is copied are looked at, each by itself."""
_WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)
Ages = frozenset[tuple[int, int]]
"""The state of copies on some path: the id of an allocation, and the age of a group that fills it, or DONE."""


@dataclass(frozen=True)
class CopyAges:
    """The ages of all copies into each allocation, as an analysis for the solver; `events` by position."""

    events: Mapping[int, Event]
    oldest: int

    def entry(self) -> Ages:
        """Nothing is copied yet."""
        return frozenset()

    def join(self, left: Ages, right: Ages, /) -> Ages:
        """What may be so on either way."""
        return left | right

    def transfer(self, state: Ages, site: Site, /) -> Ages:
        """What may be so after the instruction."""
        event = self.events[site.position]
        if event.run is not None:
            return state | {(event.run.object.id, 0)} if event.run.kind is AccessKind.COPY else state
        if event.step is Step.COMMIT and event.kind is AccessKind.COPY:
            return frozenset((one, age if age == DONE else min(age + 1, self.oldest)) for one, age in state)
        if event.step is Step.PHASE or _is_wait(event):
            return frozenset((one, DONE if is_drained(age, event.pending) else age) for one, age in state)
        return state


def _is_wait(event: Event) -> bool:
    return event.step is Step.WAIT and event.kind is AccessKind.COPY


def first_reads(function: MachineFunction, events: Mapping[int, Event], oldest: int) -> Iterator[Meeting]:
    """The reads of what copies alone fill, where on no way that comes there first any copy into it is done.

    `function` and `events` are of the reduced program, `oldest` is an age that no wait leaves in flight.
    """
    if not any(_is_wait(event) and event.pending for event in events.values()):
        return
    runs = [event.run for event in events.values() if event.run is not None]
    copies: dict[int, Run] = {}
    for run in runs:
        if run.kind is AccessKind.COPY:
            copies.setdefault(run.object.id, run)
    reads = {run for run in runs if run.object.id in copies and run.kind in HAZARDS[AccessKind.COPY]}
    blocks = dict.fromkeys(_blocks(function, events, reads))
    loops = loops_of(function)
    for block in list(blocks)[:_MOST_BLOCKS] if loops.regular else ():
        for site, state in solve(_until(function, loops, block), CopyAges(events, oldest)).visit():
            read = events[site.position].run
            if site.block == block and read is not None and read in reads:
                ages = frozenset(age for one, age in state if one == read.object.id)
                if ages and DONE not in ages:
                    yield Meeting(copies[read.object.id], read, Relation.SURE, frozenset({max(ages)}))


def filled_by_copies_alone(function: MachineFunction) -> frozenset[int]:
    """The allocations, by id, that cp.async and nothing else writes to; none where a place is not known."""
    if function.attributes.get("attached") or any(map(writes_elsewhere, function.instructions())):
        return frozenset()
    written: dict[bool, set[int]] = {False: set(), True: set()}
    for instr in function.instructions():
        written[instr.semantics.issues is Completion.COPY_GROUP].update(
            one.object.id for one in instr.memory if one.use in _WRITES
        )
    return frozenset(written[True] - written[False])


def _blocks(function: MachineFunction, events: Mapping[int, Event], reads: set[Run]) -> Iterator[str]:
    position = 0
    for name, block in function.blocks.items():
        for _ in block.instructions:
            if events[position].run in reads:
                yield name
            position += 1


def _until(function: MachineFunction, loops: Loops, block: str) -> MachineFunction:
    """The ways that lead to `block` for the first time: without those back to a loop all of whose rounds run it."""
    taken = {}
    for name, one in function.blocks.items():
        ahead = [
            successor
            for successor in one.successors
            if not (loops.is_reachable(name) and loops.dominates(successor, block) and loops.dominates(block, name))
        ]
        if len(ahead) < len(one.successors):
            taken[name] = ahead
    return with_successors(function, taken)
