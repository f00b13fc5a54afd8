"""Fixes for memory that is written again too early: how who reads it tells who writes it that it is free."""

from __future__ import annotations

from nvbackend.dry_run.objects.mbarriers import Mbarrier
from nvbackend.dry_run.order.naming import line, listed
from nvbackend.dry_run.protocols.fixes.accesses import OF_GROUPS, Accesses
from nvbackend.dry_run.protocols.fixes.calls import NAMED, sync_call, wait_call
from nvbackend.dry_run.protocols.state import State
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE, Completion
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr


def released_for_all(arrival: MachineInstr) -> str:
    """Where one thread gives a stage of a ring back, and others of its warpgroup may still read it."""
    if not arrival.facts.get(facts.FOR_ALL):
        return ""
    return (
        f"end the block of {line(arrival)} with k.barrier.sync(number, {WARPGROUP_SIZE}), another number for each "
        "warpgroup, of which one thread releases the stage; or let each thread release it: "
        'k.pipeline(..., released_by="thread")'
    )


class Releases:
    """What is missing between the first access and an arrival, or between a wait and the second access."""

    def __init__(self, state: State, both: Accesses) -> None:
        self._state = state
        self._both = both
        self._first, self._earlier, self._second, self._part = both.first, both.earlier, both.second, both.part
        self._sync = sync_call(both)
        self.told_at: Mbarrier | None = None
        """Where the first access is said to be over, if it is one that its warp has to wait for itself."""

    def fix(self) -> str:  # noqa: PLR0911
        """The fix as far as the run shows it by now."""
        kind, here = self._earlier.instr.semantics.issues, line(self._part.instr)
        barrier = self._both.released_by()
        if barrier is not None and (given := self._given_by_others(barrier)):
            return given
        if kind is Completion.COMMIT:
            if barrier is None:
                return (
                    f"let a k.tcgen05.commit after {line(self._earlier.instr)} arrive on an mbarrier, and put "
                    f"k.mbarrier.wait for that before {here}"
                )
            return f"arrive on {barrier.name} by k.tcgen05.commit after {line(self._earlier.instr)}"
        if isinstance(self._first.barrier, Mbarrier):
            return self._of_a_copy(self._first.barrier, here)
        if kind in OF_GROUPS and self._both.is_own:
            return f"put {wait_call(self._both)} before {here}"
        if barrier is not None:
            return self._by_arrival(barrier, kind)
        if kind in OF_GROUPS:
            return f"put {wait_call(self._both)} in {self._both.reader}, and then {self._sync} before {here}"
        arrive = (
            f"let {self._both.reader} arrive on an mbarrier after {line(self._earlier.instr)} (k.mbarrier.arrive) and "
            f"{self._both.other} wait for it before {here} (k.mbarrier.wait)"
        )
        return (
            f"put {self._sync} between {line(self._earlier.instr)} and {here}, or {arrive}"
            if self._both.is_alike()
            else arrive
        )

    def _by_arrival(self, barrier: Mbarrier, kind: Completion | None) -> str:
        arrival, reader = barrier.by.get(self._both.by_first), self._both.reader
        if kind in OF_GROUPS:
            wait = wait_call(self._both)
            if not any(cta == self._first.cta and warp // 4 == self._first.warp // 4 for cta, warp in barrier.by):
                is_own = barrier.place[0] == self._first.cta
                of = "" if is_own else f" of CTA {barrier.place[0]}"
                by = "" if is_own else ", as k.pipeline(..., multicast=True) does it"
                return f"let {reader} arrive on {barrier.name}{of} too after {wait}, and count that{by}"
            self.told_at = barrier
            return f"put {wait} in {reader} before it arrives on {barrier.name}" + (
                f", in {line(arrival.instr)}" if arrival is not None else ""
            )
        if arrival is not None:
            return f"let {reader} arrive on {barrier.name} after {line(self._earlier.instr)}, its last access"
        for_all = {released_for_all(one.instr) for one in barrier.by.values()}
        return (for_all.pop() if len(for_all) == 1 else "") or (
            f"let {reader} arrive on {barrier.name} too after {line(self._earlier.instr)}, and count it; or let "
            f"it meet those who arrive before they do ({NAMED})"
        )

    def _given_by_others(self, barrier: Mbarrier) -> str:
        """Where a copy fills memory of a CTA, and other CTAs alone say that theirs is free."""
        filled, ctas = self._first.cta, {cta for cta, _ in barrier.by}
        if self._first.writes or not self._second.engine or not ctas or ctas & {filled, self._second.cta}:
            return ""
        giver = listed([f"CTA {cta}" for cta in sorted(ctas)])
        name, here = self._state.named(barrier, self._second.cta), line(self._part.instr)
        return (
            f"let {here} copy to {giver}, which arrive{'s' if len(ctas) == 1 else ''} on {name}, for which "
            f"{self._both.other} waits; or let CTA {filled}, to which it copies, arrive there"
        )

    def _of_a_copy(self, barrier: Mbarrier, here: str) -> str:
        phase = self._first.phase
        if barrier.place[0] == self._second.cta:
            return self._as_another_waits(barrier) or (
                f"fill another stage, or wait for phase {phase} of {barrier.name} and for all who read what it brings "
                f"before {here}"
            )
        free, cta, who, before = self._both.released_by(), self._second.cta, self._both.other, here
        arrival = None if free is None else free.by.get(self._both.by_first)
        if free is not None and arrival is not None:
            cta, who = self._first.cta, self._both.reader
            before = f"it arrives on {self._state.named(free, cta)}, in {line(arrival.instr)}"
        return (
            f"let CTA {barrier.place[0]} arrive on an mbarrier of CTA {cta} (k.mbarrier.arrive with rank=) after its "
            f"wait for phase {phase} of {barrier.name}, and {who} wait for that before {before}"
        )

    def _as_another_waits(self, barrier: Mbarrier) -> str:
        """The wait that another warp makes which fills for the same mbarrier, and this one never."""
        mine, waits = self._both.by_second, self._state.waits
        rings = {one.barrier.name.partition("[")[0] for one in waits[mine].values()}
        for cta, warp in barrier.by if mine in barrier.by and self._both.is_own else ():
            for wait in waits[cta, warp].values() if cta == mine[0] else ():
                ring, _, is_one = wait.barrier.name.partition("[")
                if not wait.barrier.brings and ring not in rings:
                    which = f"its stage of {ring}" if is_one else ring
                    return (
                        f"let {self._both.other} wait for {which} too before {line(self._part.instr)}, as warp {warp} "
                        f"does in {line(wait.instr)}: k.mbarrier.wait"
                    )
        return ""

    def in_step(self, barrier: Mbarrier) -> str:
        """Where the wait for the operation is there, and the arrival is for another stage or phase."""
        phase, arrival = next(self._both.arrivals_after(barrier))
        return (
            f"let {self._both.other} wait for phase {phase} of {barrier.name}, where {self._both.reader} arrives in "
            f"{line(arrival.instr)}, before {line(self._part.instr)}; or correct the count of stages of "
            f"{self._both.reader}, which is not in step with it"
        )

    def announced(self, *, by_all: bool) -> str:
        """The wait for the mbarrier on which a warp, or any that comes after it, arrives: the other never waits."""
        waits = self._state.waits[self._both.by_second]
        found = [
            (arrival.at, phase, barrier)
            for barrier in self._state.mbarriers.values()
            if barrier.place not in waits and barrier.place[0] == self._second.cta and not barrier.brings
            if self._both.by_second not in barrier.by
            for phase, arrival in self._both.arrivals_after(barrier, by_all)
            if arrival.seen >> self._first.event & 1 and not arrival.seen >> self._second.event & 1
        ]
        if not found:
            return ""
        _, phase, barrier = min(found, key=lambda one: one[0])
        wait = (
            f"let {self._both.other} wait for phase {phase} of {barrier.name}, parity {phase & 1}, before "
            f"{line(self._part.instr)}: k.mbarrier.wait"
        )
        both_read = self._both.by_first in self._both.executed(self._part.instr)
        if by_all or not (both_read and self._both.is_alike()):
            return wait
        return f"{wait}; or, where {self._both.reader} has data of its own, let each of the two use other words"

    def told_early(self) -> str:
        """Where the other waits for an arrival of who made the first access, which it makes before that."""
        barrier, there = self._both.released_by(), line(self._earlier.instr)
        arrival = None if barrier is None else barrier.by.get(self._both.by_first)
        if barrier is None or arrival is None or self._both.is_alike() or self._first.untold is not None:
            return ""
        if self._both.is_waited_for(barrier):
            return ""
        return (
            f"let {self._both.reader} arrive on {barrier.name} after {there}: {line(arrival.instr)} comes before that"
        )
