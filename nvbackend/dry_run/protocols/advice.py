"""Fixes for two unordered accesses: by what reads, what writes, and what each of them waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nvbackend.diagnostics import Rule
from nvbackend.dry_run import rules
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier, Wait
from nvbackend.dry_run.order.naming import crew, line, listed, touch_of
from nvbackend.dry_run.order.record import Part, Record, is_of_matrix
from nvbackend.dry_run.protocols.state import State
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.protocols.shared.meeting import are_parted, barrier_between

_WAITS = {
    Completion.MMA_GROUP: "k.wgmma.wait_group({})",
    Completion.BULK_GROUP: "k.tma.wait_group({}reading=True)",
    Completion.COPY_GROUP: "k.cp_async.wait_group({})",
}
_COMMITS = {
    Completion.MMA_GROUP: "k.wgmma.commit_group()",
    Completion.BULK_GROUP: "k.tma.commit_group()",
    Completion.COPY_GROUP: "k.cp_async.commit_group()",
}
_SYNC, _NAMED, _OF_CLUSTER = "k.barrier.sync()", "k.barrier.sync(number, threads)", "k.cluster.sync()"
_OF_WARP = "k.warp.sync()"


class Advice:
    """Fixes for accesses of shared memory: `second` should come after `first` is done."""

    def __init__(self, state: State, first: Record, earlier: Part, second: Record, part: Part) -> None:
        self._state = state
        self._first, self._earlier = first, earlier
        self._second, self._part = second, part
        self._is_own = (first.cta, first.warp) == (second.cta, second.warp)
        self._released: Mbarrier | None = None
        """Where the first access is said to be over, if it is one that its warp has to wait for itself."""
        self._sync = _SYNC if first.cta == second.cta else _OF_CLUSTER

    def later(self, rule: Rule) -> Callable[[], str]:
        """The fix for what breaks this rule, when the run is over: it shows which waits are there."""
        untold = self._first.untold
        if untold is not None and (untold is self._part.instr or self._waited_for_other_lanes(untold)):
            there, since = line(untold), line(self._earlier.instr)
            does = "copy" if untold is self._part.instr else "arrive"
            why = f"its lanes {does} for themselves, and have not met the others since {since}"
            meet = f"put k.warp.sync() before {there}: {why}"
            return lambda: meet
        if self._second.hidden >> self._first.event & 1:
            return self._of_lanes
        now = self.of(rule)

        def fix() -> str:
            released = self._released
            if released is not None and self._is_waited_for(released):
                return self._in_step(released)
            if rule in (rules.REFILL, rules.REFILL_IN_FLIGHT):
                is_told = self._is_own and not isinstance(self._first.barrier, Mbarrier)
                unwaited = "" if is_told or self._released_by() is not None else self._announced(by_all=True)
                return unwaited or self._of_those_who_come(now)
            if rule not in (rules.MISSING_BARRIER, rules.OVERWRITTEN_EARLY):
                before, put, rest = now.partition(f"put {_SYNC} between ")
                between = self._between(put + rest)
                return before + between if between else self._of_those_who_come(now)
            told = self._told_early() or (self._announced(by_all=False) if rule is rules.MISSING_BARRIER else "")
            return told or self._between(now) or self._of_those_who_come(now)

        return fix

    def _waited_for_other_lanes(self, arrival: MachineInstr) -> bool:
        """Whether the second access comes after a wait for this arrival of the first one's warp, of other lanes."""
        guard = self._second.guard or self._state.guards.get((self._second.cta, self._second.warp))
        by = guard.barrier.by.get((self._first.cta, self._first.warp)) if isinstance(guard, Wait) else None
        return by is not None and by.instr is arrival

    def _of_lanes(self) -> str:
        """Where other lanes of the second warp waited: it meets them, and all warps that make the access meet it."""
        who = self._second.cta, self._second.warp
        sync, others = "k.warp.sync()", self._executed(self._part.instr) - {who}
        if any(cta == self._second.cta for cta, _ in others):
            sync = _SYNC if self._all_come() else _NAMED
        return f"put {sync} before {line(self._part.instr)}, where the lanes that waited and the others meet"

    def of(self, rule: Rule) -> str:
        """The fix as far as the run shows it by now."""
        if rule in (rules.REFILL, rules.REFILL_IN_FLIGHT, rules.WRITE_IN_FLIGHT):
            return self._release() + self._or_address(self._earlier)
        made = {
            rules.READ_BEFORE_WAIT.id: self._phase,
            rules.COPY_READ_BEFORE_WAIT.id: self._group_of_copies,
            rules.MISSING_FENCE.id: self._fence,
            rules.TWO_WRITERS.id: self._one_writer,
        }
        return made.get(rule.id, self._barrier)()

    def _one_writer(self) -> str:
        """Where copies of two CTAs bring other boxes to the same bytes, no barrier makes room for both."""
        first, second = self._first, self._second
        if not (first.engine and second.engine and first.cta != second.cta):
            return f"let one thread write each byte, or {self._barrier()}"
        here, there = line(self._part.instr), line(self._earlier.instr)
        both = f"the copies of {here}" if here == there else f"{there} and {here}"
        return (
            f"let {both} fill other bytes in each CTA that issues them, as by k.cluster.rank() in the place of the "
            "destination; or leave one CTA out of the mask of the other"
        )

    def _of_those_who_come(self, fix: str) -> str:
        """The fix with a barrier that counts its threads, where not all warps make one of the accesses, or one does."""
        if self._all_come():
            return fix
        both = self._executed(self._earlier.instr) | self._executed(self._part.instr)
        return fix.replace(_SYNC, _NAMED if len(both) > 1 else _OF_WARP)

    def _between(self, fix: str) -> str:
        """Where all who make the accesses come, for a fix that asks for a barrier between them; "" where none is known.

        What lies between is not the branch of one of them: warps of two roles have no place in common.
        """
        if not fix.startswith(f"put {_SYNC} between ") or self._state.launch.function is None:
            return ""
        function, (first, second) = self._state.launch.function, (self._earlier.instr, self._part.instr)
        blocks = {id(one): name for name, block in function.blocks.items() for one in block.instructions}
        here, there = blocks.get(id(first)), blocks.get(id(second))
        alike = self._is_alike() or (self._first.cta, self._first.warp) in self._executed(second)
        if here is None or there is None or (not alike and are_parted(function, here, there)):
            return ""
        between = barrier_between(function, here, there, fix.removeprefix(f"put {_SYNC} ").partition(", or")[0])
        return fix if between.startswith(f"put {_SYNC}, or") else between

    def _barrier(self) -> str:
        first, second = line(self._earlier.instr), line(self._part.instr)
        if self._earlier.instr is self._part.instr and self._first.writes and is_of_matrix(self._part):
            return f"correct the place or the stride of {second}, so that no two warps' tiles overlap"
        if self._second.engine and self._first.rounds == self._second.rounds and not self._first.writes:
            return f"let {second} copy to another stage, or put {self._sync} after {first} and the copy after that"
        if self._first.rounds and self._second.rounds and self._first.rounds != self._second.rounds:
            second = f"{second} of a later round"
        both = (
            "" if self._sync == _OF_CLUSTER else f", or another barrier that {self._reader} and {self._other} come to"
        )
        return f"put {self._sync} between {first} and {second}{both}"

    @property
    def _reader(self) -> str:
        """Who made the first access."""
        return self._name(self._first, self._earlier)

    @property
    def _other(self) -> str:
        """Who made the second access."""
        return self._name(self._second, self._part)

    def _name(self, record: Record, part: Part) -> str:
        of = f" of CTA {record.cta}" if self._first.cta != self._second.cta else ""
        return crew(part.instr, record.warp) + of

    def _phase(self) -> str:
        barrier, phase = self._first.barrier, self._first.phase
        here = line(self._part.instr)
        if not isinstance(barrier, Mbarrier):
            return f"let {self._other} wait before {here} for what completes {line(self._earlier.instr)}"
        if (self._second.cta, self._second.warp, barrier.place) in self._state.asked:
            return f"repeat k.mbarrier.test until its answer is true, or put k.mbarrier.wait before {here}"
        late = self._announced_late(barrier, phase)
        if late is not None:
            last = next(one.instr for one in reversed(barrier.ended[phase - 1]) if one.arrivals)
            return (
                f"put the k.mbarrier.expect_tx of {line(late)} before the arrivals of {line(last)}: phase {phase - 1}"
            )
        return (
            f"let {self._other} wait for phase {phase} of {barrier.name}, parity {phase & 1}, before {here}: "
            f"k.mbarrier.wait{self._or_address(self._part)}"
        )

    def _announced_late(self, barrier: Mbarrier, phase: int) -> MachineInstr | None:
        """What announces the bytes of a phase when the one before is over already, with arrivals and no bytes."""
        if not phase or any(one.expected for one in barrier.ended[phase - 1]):
            return None
        came = [*barrier.ended, barrier.arrivals][phase]
        return next((one.instr for one in came if one.expected and not one.arrivals), None)

    def _or_address(self, part: Part) -> str:
        """An address that is made by hand may be what is wrong."""
        made = touch_of(part.instr, part.operand) is None
        return f"; if {line(part.instr)} means other bytes, correct its address or descriptor" if made else ""

    def _group_of_copies(self) -> str:
        here = line(self._part.instr)
        if self._is_own:
            return f"put {self._wait()} before {here}"
        untracked = self._untracked()
        if untracked:
            return untracked
        if self._has_waited_for_its_own():
            wait = f"let {self._reader} wait for {line(self._earlier.instr)} as {self._other} does"
            return f"{wait}, each thread for its own copies, and put {self._sync} after that, before {here}"
        return f"put {self._wait()} in {self._reader}, and then {self._sync} before {here}"

    def _has_waited_for_its_own(self) -> bool:
        """Whether who reads has waited for what it has copied itself by the same instruction."""
        kind = self._earlier.instr.semantics.issues
        if kind not in _WAITS:
            return False
        groups = self._state.groups_of(self._state.warps[self._second.cta, self._second.warp], kind)
        is_open = any(
            one.instr is self._earlier.instr and one.rounds == self._first.rounds for one in groups.operations
        )
        return groups.has_committed and not is_open

    def _untracked(self) -> str:
        """Whether the copying warp arrived where the reader waits, by an arrival that does not wait for copies."""
        guard = self._state.guards.get((self._second.cta, self._second.warp))
        arrival = None if guard is None else guard.barrier.by.get((self._first.cta, self._first.warp))
        if guard is None or arrival is None or arrival.instr.semantics.tracks is not None:
            return ""
        return (
            f"arrive on {guard.barrier.name} by k.cp_async.mbarrier_arrive in {line(arrival.instr)}, with "
            "no_increment=True where the barrier counts this arrival"
        )

    def _fence(self) -> str:
        put = f"put k.fence.proxy_async() after {line(self._earlier.instr)} in {self._reader}"
        guard = self._state.guards.get((self._second.cta, self._second.warp))
        arrival = guard.barrier.by.get((self._first.cta, self._first.warp)) if isinstance(guard, Wait) else None
        if isinstance(guard, Wait) and arrival is not None:
            return f"{put}, before it arrives on {guard.barrier.name} in {line(arrival.instr)}"
        return f"{put}, and {self._sync} after the fence, before {line(self._part.instr)}"

    def _wait(self) -> str:
        """The call that waits for the first access, leaving what may be left; with the commit where it has none."""
        kind = self._earlier.instr.semantics.issues
        if kind not in _WAITS:
            return "a wait for its completion"
        groups = self._state.groups_of(self._state.warps[self._first.cta, self._first.warp], kind)
        open_ = next((one for one in groups.operations if one.bit >> self._first.event & 1), None)
        if open_ is None:
            return _WAITS[kind].format("" if kind is Completion.BULK_GROUP else "0")
        lane = (open_.lanes & -open_.lanes).bit_length() - 1
        left = groups.committed(lane) - open_.group_of(lane) - 1
        leave = str(left) if self._is_own and left > 0 else ""
        if kind is Completion.BULK_GROUP:
            wait = _WAITS[kind].format(f"{leave}, " if leave else "")
        else:
            wait = _WAITS[kind].format(leave or "0")
        return wait if left >= 0 else f"{_COMMITS[kind]} after {line(open_.instr)}, and {wait}"

    def _release(self) -> str:  # noqa: PLR0911
        kind, here = self._earlier.instr.semantics.issues, line(self._part.instr)
        barrier = self._released_by()
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
        if kind in _WAITS and self._is_own:
            return f"put {self._wait()} before {here}"
        if barrier is not None:
            return self._by_arrival(barrier, kind)
        if kind in _WAITS:
            return f"put {self._wait()} in {self._reader}, and then {self._sync} before {here}"
        arrive = (
            f"let {self._reader} arrive on an mbarrier after {line(self._earlier.instr)} (k.mbarrier.arrive) and "
            f"{self._other} wait for it before {here} (k.mbarrier.wait)"
        )
        return (
            f"put {self._sync} between {line(self._earlier.instr)} and {here}, or {arrive}"
            if self._is_alike()
            else arrive
        )

    def _is_alike(self) -> bool:
        """Whether the warp of the second access executes the first one too; else it has another role."""
        who = self._second.cta, self._second.warp
        return who in self._executed(self._earlier.instr)

    def _executed(self, instr: MachineInstr) -> set[tuple[int, int]]:
        """The CTAs and warps whose accesses by an instruction are known."""
        records = self._state.memory.records
        known = (one for one in (*records.records, *records.loose) if one is not None)
        return {(one.cta, one.warp) for one in known if any(part.instr is instr for part in one.parts)}

    def _all_come(self) -> bool:
        """Whether all warps of the CTA make one of the accesses: a barrier between them may be one of all."""
        both = self._executed(self._earlier.instr) | self._executed(self._part.instr)
        return sum(cta == self._second.cta for cta, _ in both) == self._state.launch.warps

    def _given_by_others(self, barrier: Mbarrier) -> str:
        """Where a copy fills memory of a CTA, and other CTAs alone say that theirs is free."""
        filled, ctas = self._first.cta, {cta for cta, _ in barrier.by}
        if self._first.writes or not self._second.engine or not ctas or ctas & {filled, self._second.cta}:
            return ""
        giver = listed([f"CTA {cta}" for cta in sorted(ctas)])
        name, here = self._state.named(barrier, self._second.cta), line(self._part.instr)
        return (
            f"let {here} copy to {giver}, which arrive{'s' if len(ctas) == 1 else ''} on {name}, for which "
            f"{self._other} waits; or let CTA {filled}, to which it copies, arrive there"
        )

    def _of_a_copy(self, barrier: Mbarrier, here: str) -> str:
        phase = self._first.phase
        if barrier.place[0] == self._second.cta:
            return self._as_another_waits(barrier) or (
                f"fill another stage, or wait for phase {phase} of {barrier.name} and for all who read what it brings "
                f"before {here}"
            )
        free, cta, who, before = self._released_by(), self._second.cta, self._other, here
        arrival = None if free is None else free.by.get((self._first.cta, self._first.warp))
        if free is not None and arrival is not None:
            cta, who = self._first.cta, self._reader
            before = f"it arrives on {self._state.named(free, cta)}, in {line(arrival.instr)}"
        return (
            f"let CTA {barrier.place[0]} arrive on an mbarrier of CTA {cta} (k.mbarrier.arrive with rank=) after its "
            f"wait for phase {phase} of {barrier.name}, and {who} wait for that before {before}"
        )

    def _as_another_waits(self, barrier: Mbarrier) -> str:
        """The wait that another warp makes which fills for the same mbarrier, and this one never."""
        mine, waits = (self._second.cta, self._second.warp), self._state.waits
        rings = {one.barrier.name.partition("[")[0] for one in waits[mine].values()}
        for cta, warp in barrier.by if mine in barrier.by and self._is_own else ():
            for wait in waits[cta, warp].values() if cta == mine[0] else ():
                ring, _, is_one = wait.barrier.name.partition("[")
                if not wait.barrier.brings and ring not in rings:
                    which = f"its stage of {ring}" if is_one else ring
                    return (
                        f"let {self._other} wait for {which} too before {line(self._part.instr)}, as warp {warp} does "
                        f"in {line(wait.instr)}: k.mbarrier.wait"
                    )
        return ""

    def _arrivals_after(self, barrier: Mbarrier, by_all: bool = False) -> Iterator[tuple[int, Arrival]]:
        """The arrivals of who made the first access, or of all warps, since then, each with its phase."""
        who = self._first.cta, self._first.warp
        for phase, several in enumerate([*barrier.ended, barrier.arrivals]):
            mine = (one for one in several if one.arrivals and (by_all or (one.cta, one.warp) == who))
            yield from ((phase, one) for one in mine if one.at > self._first.event)

    def _is_waited_for(self, barrier: Mbarrier) -> bool:
        """Whether the warp waits for its operation before it arrives."""
        first = next(self._arrivals_after(barrier), None)
        return first is not None and bool(first[1].seen >> self._first.event & 1)

    def _in_step(self, barrier: Mbarrier) -> str:
        """Where the wait for the operation is there, and the arrival is for another stage or phase."""
        phase, arrival = next(self._arrivals_after(barrier))
        return (
            f"let {self._other} wait for phase {phase} of {barrier.name}, where {self._reader} arrives in "
            f"{line(arrival.instr)}, before {line(self._part.instr)}; or correct the count of stages of "
            f"{self._reader}, which is not in step with it"
        )

    def _announced(self, *, by_all: bool) -> str:
        """The wait for the mbarrier on which a warp, or any that comes after it, arrives: the other never waits."""
        waits = self._state.waits[self._second.cta, self._second.warp]
        found = [
            (arrival.at, phase, barrier)
            for barrier in self._state.mbarriers.values()
            if barrier.place not in waits and barrier.place[0] == self._second.cta and not barrier.brings
            if (self._second.cta, self._second.warp) not in barrier.by
            for phase, arrival in self._arrivals_after(barrier, by_all)
            if arrival.seen >> self._first.event & 1 and not arrival.seen >> self._second.event & 1
        ]
        if not found:
            return ""
        _, phase, barrier = min(found, key=lambda one: one[0])
        wait = (
            f"let {self._other} wait for phase {phase} of {barrier.name}, parity {phase & 1}, before "
            f"{line(self._part.instr)}: k.mbarrier.wait"
        )
        both_read = (self._first.cta, self._first.warp) in self._executed(self._part.instr)
        if by_all or not (both_read and self._is_alike()):
            return wait
        return f"{wait}; or, where {self._reader} has data of its own, let each of the two use other words"

    def _told_early(self) -> str:
        """Where the other waits for an arrival of who made the first access, which it makes before that."""
        barrier, there = self._released_by(), line(self._earlier.instr)
        arrival = None if barrier is None else barrier.by.get((self._first.cta, self._first.warp))
        if barrier is None or arrival is None or self._is_alike() or self._first.untold is not None:
            return ""
        if self._is_waited_for(barrier):
            return ""
        return f"let {self._reader} arrive on {barrier.name} after {there}: {line(arrival.instr)} comes before that"

    def _by_arrival(self, barrier: Mbarrier, kind: Completion | None) -> str:
        arrival = barrier.by.get((self._first.cta, self._first.warp))
        if kind in _WAITS:
            if not any(cta == self._first.cta and warp // 4 == self._first.warp // 4 for cta, warp in barrier.by):
                is_own = barrier.place[0] == self._first.cta
                of = "" if is_own else f" of CTA {barrier.place[0]}"
                by = "" if is_own else ", as k.pipeline(..., multicast=True) does it"
                return f"let {self._reader} arrive on {barrier.name}{of} too after {self._wait()}, and count that{by}"
            self._released = barrier
            return f"put {self._wait()} in {self._reader} before it arrives on {barrier.name}" + (
                f", in {line(arrival.instr)}" if arrival is not None else ""
            )
        if arrival is not None:
            return f"let {self._reader} arrive on {barrier.name} after {line(self._earlier.instr)}, its last access"
        return (
            f"let {self._reader} arrive on {barrier.name} too after {line(self._earlier.instr)}, and count it; or let "
            "it meet those who arrive before they do (k.barrier.sync(1, threads) at the end of a ring.drain() block)"
        )

    def _released_by(self) -> Mbarrier | None:
        """The mbarrier by which the filling warp learns that the memory is free: the last that it waited for."""
        guard = self._second.guard or self._state.guards.get((self._second.cta, self._second.warp))
        if not isinstance(guard, Wait) or guard.barrier.brings:
            return None
        return guard.barrier
