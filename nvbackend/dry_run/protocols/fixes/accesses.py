"""Two accesses of shared memory that nothing orders, and what the run shows of those who make them."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.dry_run.objects.groups import Groups
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier, Wait
from nvbackend.dry_run.order.naming import crew
from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.protocols.state import State
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.machine.function import MachineInstr

OF_GROUPS = frozenset({Completion.MMA_GROUP, Completion.BULK_GROUP, Completion.COPY_GROUP})
"""How operations complete whose groups threads commit and wait for."""
Who = tuple[int, int]
"""A CTA and a warp of it."""


class Accesses:
    """`second` should come after `first` is done; `earlier` and `part` are what meets of each."""

    def __init__(self, state: State, first: Record, earlier: Part, second: Record, part: Part) -> None:
        self._state = state
        self.first, self.earlier = first, earlier
        self.second, self.part = second, part
        self.by_first: Who = (first.cta, first.warp)
        self.by_second: Who = (second.cta, second.warp)
        self.is_own = self.by_first == self.by_second

    @property
    def reader(self) -> str:
        """Who made the first access."""
        return self._name(self.first, self.earlier)

    @property
    def other(self) -> str:
        """Who made the second access."""
        return self._name(self.second, self.part)

    def _name(self, record: Record, part: Part) -> str:
        of = f" of CTA {record.cta}" if self.first.cta != self.second.cta else ""
        return crew(part.instr, record.warp) + of

    def is_alike(self) -> bool:
        """Whether the warp of the second access executes the first one too; else it has another role."""
        return self.by_second in self.executed(self.earlier.instr)

    def executed(self, instr: MachineInstr) -> set[Who]:
        """The CTAs and warps whose accesses by an instruction are known."""
        records = self._state.memory.records
        known = (one for one in (*records.records, *records.loose) if one is not None)
        return {(one.cta, one.warp) for one in known if any(part.instr is instr for part in one.parts)}

    def all_come(self) -> bool:
        """Whether all warps of the CTA make one of the accesses: a barrier between them may be one of all."""
        both = self.executed(self.earlier.instr) | self.executed(self.part.instr)
        return sum(cta == self.second.cta for cta, _ in both) == self._state.launch.warps

    def waited_for_other_lanes(self, arrival: MachineInstr) -> bool:
        """Whether the second access comes after a wait for this arrival of the first one's warp, of other lanes."""
        guard = self.second.guard or self._state.guards.get(self.by_second)
        by = guard.barrier.by.get(self.by_first) if isinstance(guard, Wait) else None
        return by is not None and by.instr is arrival

    def has_waited_for_its_own(self) -> bool:
        """Whether who reads has waited for what it has copied itself by the same instruction."""
        kind = self.earlier.instr.semantics.issues
        if kind not in OF_GROUPS:
            return False
        groups = self._groups_of(self.by_second, kind)
        is_open = any(one.instr is self.earlier.instr and one.rounds == self.first.rounds for one in groups.operations)
        return groups.has_committed and not is_open

    def groups_of_first(self, kind: Completion) -> Groups:
        """The groups of who made the first access."""
        return self._groups_of(self.by_first, kind)

    def _groups_of(self, who: Who, kind: Completion) -> Groups:
        return self._state.groups_of(self._state.warps[who], kind)

    def announced_late(self, barrier: Mbarrier, phase: int) -> MachineInstr | None:
        """What announces the bytes of a phase when the one before is over already, with arrivals and no bytes."""
        if not phase or any(one.expected for one in barrier.ended[phase - 1]):
            return None
        came = [*barrier.ended, barrier.arrivals][phase]
        return next((one.instr for one in came if one.expected and not one.arrivals), None)

    def arrivals_after(self, barrier: Mbarrier, by_all: bool = False) -> Iterator[tuple[int, Arrival]]:
        """The arrivals of who made the first access, or of all warps, since then, each with its phase."""
        for phase, several in enumerate([*barrier.ended, barrier.arrivals]):
            mine = (one for one in several if one.arrivals and (by_all or (one.cta, one.warp) == self.by_first))
            yield from ((phase, one) for one in mine if one.at > self.first.event)

    def is_waited_for(self, barrier: Mbarrier) -> bool:
        """Whether the warp waits for its operation before it arrives."""
        first = next(self.arrivals_after(barrier), None)
        return first is not None and bool(first[1].seen >> self.first.event & 1)

    def released_by(self) -> Mbarrier | None:
        """The mbarrier by which the filling warp learns that the memory is free: the last that it waited for."""
        guard = self.second.guard or self._state.guards.get(self.by_second)
        if not isinstance(guard, Wait) or guard.barrier.brings:
            return None
        return guard.barrier
