"""Shared memory that one thread writes and another reads with no barrier between: the ordinary race.

Two accesses race if one thread executes the first, a thread of another warp the second, both touch one byte, and
nothing orders them. Each condition must be certain:

- who executes: `MachineBlock.crew`, and blocks that dominate, or belong to each round of a loop;
- the byte: `isel.flow.footprints`;
- no order: on no way from the first to the second does a thread acquire anything; and either all that acquired before
  the first was a barrier of both threads, or all that the first thread releases after it is one. In both cases the
  two accesses lie between the same two meetings of these threads.

Threads of one warp are not checked: much code relies on their running in lockstep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nvbackend.diagnostics import Diagnostic
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.flow.accesses import AccessKind, Run, shared_accesses
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.footprints import Overlap, footprints_of
from nvbackend.isel.flow.loops import Loop
from nvbackend.isel.machine.function import Crew, MachineFunction, MemoryObject
from nvbackend.isel.machine.naming import with_line
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED, find_uses
from nvbackend.isel.protocols.shared import rules
from nvbackend.isel.protocols.shared.pairs import Pairs, is_atomic
from nvbackend.isel.protocols.shared.syncs import Syncs, acquires

_WRITES = frozenset({AccessKind.WRITE, AccessKind.COPY, AccessKind.LOAD})
_READS = frozenset(AccessKind) - _WRITES - {AccessKind.RECEIVE}
_HAZARDS = {
    **dict.fromkeys((AccessKind.WRITE, AccessKind.COPY), _READS),
    **dict.fromkeys((AccessKind.READ, AccessKind.STORE, AccessKind.SEND), _WRITES),
}
"""What must not follow an access of each kind in another thread. Loads are waited for, multiplies have `refills`."""


@dataclass(frozen=True, slots=True)
class Race:
    """Two runs of accesses that meet in a byte, the second in the next round of `loop` where there is one."""

    first: Run
    second: Run
    overlap: Overlap
    loop: Loop | None


def check_shared_races(function: MachineFunction) -> list[Diagnostic]:
    """Every race, at its second access; what one barrier fixes is reported once."""
    races = list(by_cause(find_races(function)))
    return [_diagnose(function, race) for race in races]


def find_races(function: MachineFunction) -> list[Race]:
    """All of them, by the places of the second access."""
    if function.attributes.get(ATTACHED) or function.values is None:
        return []
    memory = _contested(function)
    if not memory:
        return []
    return sorted(_Races(function, memory).find(), key=lambda race: race.second.site.position)


def _contested(function: MachineFunction) -> set[MemoryObject]:
    """The allocations that are accessed in two ways of which one must not follow the other."""
    kinds: dict[MemoryObject, set[AccessKind]] = {}
    for accesses in shared_accesses(function).values():
        for kind, touch in accesses:
            kinds.setdefault(touch.object, set()).add(kind)
    return {
        allocation
        for allocation, kinds_of in kinds.items()
        if any(kinds_of & _HAZARDS.get(kind, frozenset()) for kind in kinds_of)
    }


class _Races:
    """The search in one function, for the races in `memory`."""

    def __init__(self, function: MachineFunction, memory: set[MemoryObject]) -> None:
        self._pairs = Pairs(function, memory, _HAZARDS, acquires)
        self._footprints = footprints_of(function)
        self._syncs = Syncs(function, self._pairs.sites)

    def find(self) -> Iterator[Race]:
        """All races, by the second access."""
        for first, second in self._pairs.find():
            if not (is_atomic(first.site) and is_atomic(second.site)):
                yield from self._race(first, second)

    def _race(self, first: Run, second: Run) -> Iterator[Race]:
        by, also = self._pairs.crew(first), self._pairs.crew(second)
        if by is None or also is None:
            return
        loop = None
        if not self._pairs.is_before(first, by.anchor, second):
            loop = self._round(first, by, second, also)
            if loop is None:
                return
        if not self._is_ordered_before(first, second, loop):
            overlap = self._overlap(first, by, second, also, loop is not None)
            if overlap is None or self._pairs.is_ordered_somewhere(first, second):
                return
            if not any(
                run.kind in _WRITES and self._overwrites(run, crew) for run, crew in ((first, by), (second, also))
            ):
                yield Race(first, second, overlap, loop)

    def _overwrites(self, run: Run, crew: Crew) -> bool:
        """Whether a run certainly writes over an mbarrier: that is the mistake, and said by the life of mbarriers."""
        uses = find_uses(self._pairs.function)
        begun = [cell for cell in uses.cells if cell.object is run.object and uses.of(cell, MbarrierUse.INIT)]
        return any(
            cell.offset is not None
            and self._footprints.reaches(run, crew, cell.offset, cell.offset + cell.object.element_bytes)
            for cell in begun
        )

    def _round(self, first: Run, by: Crew, second: Run, also: Crew) -> Loop | None:
        """The loop in each round of which both are."""
        loops = self._pairs.loops
        loop = loops.innermost(also.anchor)
        if loop is None or not {first.site.block, by.anchor, second.site.block} <= loop.blocks:
            return None
        return loop if all(loops.every_round(loop, anchor) for anchor in (by.anchor, also.anchor)) else None

    def _is_ordered_before(self, first: Run, second: Run, loop: Loop | None) -> bool:
        """Whether a thread may come to the second past what it acquires by, and not past the first."""
        last = self._pairs.last[second.number] - self._pairs.last[first.number]
        return any(loop is None or self._syncs.block(position) in loop.blocks for position in last)

    def _overlap(self, first: Run, by: Crew, second: Run, also: Crew, is_carried: bool) -> Overlap | None:
        """A byte that two threads access between the same two meetings."""
        before = self._syncs.before(self._pairs.last[first.number])
        for groups in (before, self._syncs.first_release(first.accesses[-1][0])):
            for inside in groups:
                overlap = self._footprints.overlap(first, by, second, also, inside, is_carried)
                if overlap is not None:
                    return overlap
        return None


def by_cause(races: Iterable[Race]) -> Iterator[Race]:
    """One of those that one barrier fixes: before the second access, for all that lie around it.

    They come in the order of their second accesses: a barrier reported before, in the loop of a later race, fixes that
    one too.
    """
    told: list[Site] = []
    for race in races:
        if race.loop is not None:
            fixed = any(site.block in race.loop.blocks for site in told)
        else:
            fixed = any(race.first.site.position < site.position for site in told)
        if not fixed:
            told.append(race.second.site)
            yield race


def _diagnose(function: MachineFunction, race: Race) -> Diagnostic:
    first, second = race.first.site.instr, race.second.site.instr
    is_written = race.first.kind in _WRITES
    rule = rules.MISSING_BARRIER if is_written else rules.OVERWRITTEN_EARLY
    before, behind = with_line(first), with_line(second)
    from nvbackend.isel.protocols.shared.meeting import barrier_between

    return rule.diagnose(
        at=second.location,
        notes=((f"it is {'written' if is_written else 'read'} here", first.location),),
        writer=before if is_written else behind,
        reader=behind if is_written else before,
        memory=race.first.object.called,
        first=f"thread {race.overlap.first}",
        second=f"thread {race.overlap.second}",
        byte=race.overlap.byte,
        fix=barrier_between(function, race.first.site.block, race.second.site.block),
    )
