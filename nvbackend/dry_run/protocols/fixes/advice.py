"""Fixes for two unordered accesses: by what reads, what writes, and what each of them waits for."""

from __future__ import annotations

from collections.abc import Callable

from nvbackend.diagnostics import Rule
from nvbackend.dry_run import rules
from nvbackend.dry_run.objects.mbarriers import Mbarrier, Wait
from nvbackend.dry_run.order.naming import line, touch_of
from nvbackend.dry_run.order.record import Part, Record, is_of_matrix
from nvbackend.dry_run.protocols.fixes.accesses import Accesses
from nvbackend.dry_run.protocols.fixes.calls import NAMED, OF_CLUSTER, OF_WARP, SYNC, sync_call, wait_call
from nvbackend.dry_run.protocols.fixes.releases import Releases, released_for_all
from nvbackend.dry_run.protocols.state import State
from nvbackend.isel.protocols.shared.meeting import are_parted, barrier_between


class Advice:
    """Fixes for accesses of shared memory: `second` should come after `first` is done."""

    def __init__(self, state: State, first: Record, earlier: Part, second: Record, part: Part) -> None:
        self._state = state
        self._both = both = Accesses(state, first, earlier, second, part)
        self._first, self._earlier, self._second, self._part = first, earlier, second, part
        self._releases = Releases(state, both)
        self._sync = sync_call(both)

    def later(self, rule: Rule) -> Callable[[], str]:
        """The fix for what breaks this rule, when the run is over: it shows which waits are there."""
        untold = self._first.untold
        if untold is not None and (untold is self._part.instr or self._both.waited_for_other_lanes(untold)):
            there, since = line(untold), line(self._earlier.instr)
            does = "copy" if untold is self._part.instr else "arrive"
            why = f"its lanes {does} for themselves, and have not met the others since {since}"
            meet = released_for_all(untold) or f"put k.warp.sync() before {there}: {why}"
            return lambda: meet
        if self._second.hidden >> self._first.event & 1:
            return self._of_lanes
        now = self.of(rule)

        def fix() -> str:
            released = self._releases.told_at
            if released is not None and self._both.is_waited_for(released):
                return self._releases.in_step(released)
            if rule in (rules.REFILL, rules.REFILL_IN_FLIGHT):
                is_told = self._both.is_own and not isinstance(self._first.barrier, Mbarrier)
                unwaited = (
                    "" if is_told or self._both.released_by() is not None else self._releases.announced(by_all=True)
                )
                return unwaited or self._of_those_who_come(now)
            if rule not in (rules.MISSING_BARRIER, rules.OVERWRITTEN_EARLY):
                before, put, rest = now.partition(f"put {SYNC} between ")
                between = self._between(put + rest)
                return before + between if between else self._of_those_who_come(now)
            told = self._releases.told_early() or (
                self._releases.announced(by_all=False) if rule is rules.MISSING_BARRIER else ""
            )
            return told or self._between(now) or self._of_those_who_come(now)

        return fix

    def _of_lanes(self) -> str:
        """Where other lanes of the second warp waited: it meets them, and all warps that make the access meet it."""
        who = self._both.by_second
        sync, others = "k.warp.sync()", self._both.executed(self._part.instr) - {who}
        if any(cta == self._second.cta for cta, _ in others):
            sync = SYNC if self._both.all_come() else NAMED
        return f"put {sync} before {line(self._part.instr)}, where the lanes that waited and the others meet"

    def of(self, rule: Rule) -> str:
        """The fix as far as the run shows it by now."""
        if rule in (rules.REFILL, rules.REFILL_IN_FLIGHT, rules.WRITE_IN_FLIGHT):
            return self._releases.fix() + self._or_address(self._earlier)
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
        if self._both.all_come():
            return fix
        both = self._both.executed(self._earlier.instr) | self._both.executed(self._part.instr)
        return fix.replace(SYNC, NAMED if len(both) > 1 else OF_WARP)

    def _between(self, fix: str) -> str:
        """Where all who make the accesses come, for a fix that asks for a barrier between them; "" where none is known.

        What lies between is not the branch of one of them: warps of two roles have no place in common.
        """
        if not fix.startswith(f"put {SYNC} between ") or self._state.launch.function is None:
            return ""
        function, (first, second) = self._state.launch.function, (self._earlier.instr, self._part.instr)
        blocks = {id(one): name for name, block in function.blocks.items() for one in block.instructions}
        here, there = blocks.get(id(first)), blocks.get(id(second))
        alike = self._both.is_alike() or self._both.by_first in self._both.executed(second)
        if here is None or there is None or (not alike and are_parted(function, here, there)):
            return ""
        between = barrier_between(function, here, there, fix.removeprefix(f"put {SYNC} ").partition(", or")[0])
        return fix if between.startswith(f"put {SYNC}, or") else between

    def _barrier(self) -> str:
        first, second = line(self._earlier.instr), line(self._part.instr)
        if self._earlier.instr is self._part.instr and self._first.writes and is_of_matrix(self._part):
            return f"correct the place or the stride of {second}, so that no two warps' tiles overlap"
        if self._second.engine and self._first.rounds == self._second.rounds and not self._first.writes:
            return f"let {second} copy to another stage, or put {self._sync} after {first} and the copy after that"
        if self._first.rounds and self._second.rounds and self._first.rounds != self._second.rounds:
            second = f"{second} of a later round"
        both = (
            ""
            if self._sync == OF_CLUSTER
            else f", or another barrier that {self._both.reader} and {self._both.other} come to"
        )
        return f"put {self._sync} between {first} and {second}{both}"

    def _phase(self) -> str:
        barrier, phase = self._first.barrier, self._first.phase
        here = line(self._part.instr)
        if not isinstance(barrier, Mbarrier):
            return f"let {self._both.other} wait before {here} for what completes {line(self._earlier.instr)}"
        if (*self._both.by_second, barrier.place) in self._state.asked:
            return f"repeat k.mbarrier.test until its answer is true, or put k.mbarrier.wait before {here}"
        late = self._both.announced_late(barrier, phase)
        if late is not None:
            last = next(one.instr for one in reversed(barrier.ended[phase - 1]) if one.arrivals)
            return (
                f"put the k.mbarrier.expect_tx of {line(late)} before the arrivals of {line(last)}: phase {phase - 1}"
            )
        return (
            f"let {self._both.other} wait for phase {phase} of {barrier.name}, parity {phase & 1}, before {here}: "
            f"k.mbarrier.wait{self._or_address(self._part)}"
        )

    def _or_address(self, part: Part) -> str:
        """An address that is made by hand may be what is wrong."""
        made = touch_of(part.instr, part.operand) is None
        return f"; if {line(part.instr)} means other bytes, correct its address or descriptor" if made else ""

    def _group_of_copies(self) -> str:
        here = line(self._part.instr)
        if self._both.is_own:
            return f"put {wait_call(self._both)} before {here}"
        untracked = self._untracked()
        if untracked:
            return untracked
        if self._both.has_waited_for_its_own():
            wait = f"let {self._both.reader} wait for {line(self._earlier.instr)} as {self._both.other} does"
            return f"{wait}, each thread for its own copies, and put {self._sync} after that, before {here}"
        return f"put {wait_call(self._both)} in {self._both.reader}, and then {self._sync} before {here}"

    def _untracked(self) -> str:
        """Whether the copying warp arrived where the reader waits, by an arrival that does not wait for copies."""
        guard = self._state.guards.get(self._both.by_second)
        arrival = None if guard is None else guard.barrier.by.get(self._both.by_first)
        if guard is None or arrival is None or arrival.instr.semantics.tracks is not None:
            return ""
        return (
            f"arrive on {guard.barrier.name} by k.cp_async.mbarrier_arrive in {line(arrival.instr)}, with "
            "no_increment=True where the barrier counts this arrival"
        )

    def _fence(self) -> str:
        if self._first.engine:  # cp.async: its bytes are written when a wait says so, and not before
            here, copy = line(self._part.instr), line(self._earlier.instr)
            return f"put k.fence.proxy_async() before {here} in {self._both.other}, after its wait for {copy}"
        put = f"put k.fence.proxy_async() after {line(self._earlier.instr)} in {self._both.reader}"
        guard = self._state.guards.get(self._both.by_second)
        arrival = guard.barrier.by.get(self._both.by_first) if isinstance(guard, Wait) else None
        if isinstance(guard, Wait) and arrival is not None:
            return f"{put}, before it arrives on {guard.barrier.name} in {line(arrival.instr)}"
        return f"{put}, and {self._sync} after the fence, before {line(self._part.instr)}"
