"""The protocols of one run: the effect of each step on them, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING
from weakref import proxy

from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.in_common import check_in_common
from nvbackend.dry_run.objects.boxes import check_start
from nvbackend.dry_run.objects.fills import Fill
from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.extents import Outside
from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.protocols.collisions import Collisions
from nvbackend.dry_run.protocols.exchanges import Exchanges
from nvbackend.dry_run.protocols.lifetimes import Lifetimes
from nvbackend.dry_run.protocols.operations import Operations
from nvbackend.dry_run.protocols.signals import Signals
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.protocols.synchronise import ThreadBarriers
from nvbackend.dry_run.seam import BLOCKED, DONE, Launch, Outcome, Step
from nvbackend.dry_run.sums import Sums
from nvbackend.intrinsics.row.row import Effect
from nvbackend.intrinsics.row.semantics import Budget, Completion, FenceOf, Scope, Semantics
from nvbackend.isel.machine.function import MachineInstr

if TYPE_CHECKING:
    from nvbackend.dry_run.protocols.deadlocks import Deadlocks
    from nvbackend.dry_run.protocols.tensor import Tensors

_Handler = Callable[["Run", Step], Outcome]
_Executes = tuple[_Handler, bool, bool]
"""What executes an instruction, whether its lanes may learn what others have done, and whether they meet for it."""


class _Explained:
    """What `Explain` turns into findings. It is imported for the first one: most kernels have none."""

    state: State

    def conflict(self, first: Record | None, second: Record, part: Part, cta: int, address: int, why: str) -> None:
        from nvbackend.dry_run.protocols.explain import Explain

        Explain(self.state).conflict(first, second, part, cta, address, why)

    def left(self, record: Record, part: Part, outside: Outside) -> None:
        from nvbackend.dry_run.protocols.explain import Explain

        Explain(self.state).left(record, part, outside)


class Run:
    """What judges the steps of one run (`seam.Protocols`). `give_way` is called before each."""

    def __init__(self, launch: Launch, give_way: Callable[[], None] | None = None) -> None:
        self._give_way = give_way
        explained = _Explained()
        self._state = State(launch, explained.conflict, explained.left)
        explained.state = proxy(self._state)  # which has it: a run goes by its references, as soon as it is over
        self._signals = Signals(self._state)
        self._threads = ThreadBarriers(self._state)
        self._exchanges = Exchanges(self._state)
        self._operations = Operations(self._state, self._signals, self._exchanges)
        self._tensors: Tensors | None = None
        """What few kernels have."""
        self._sums = Sums(self._state)
        self._lifetimes = Lifetimes(self._state)
        self._collisions = Collisions(self._state)
        self._executes: dict[int, _Executes] = {}
        self._is_stuck = False
        self._waiting: Sequence[Step] = ()

    def execute(self, step: Step) -> Outcome:
        """The step happens now, if it can."""
        if self._give_way is not None:
            self._give_way()
        known = self._executes.get(id(step.instr))
        if known is None:
            row, said = step.instr.row, step.instr.semantics
            meets = said.barrier is not None or (row is not None and bool(row.effects & Effect.CONVERGENT))
            known = _handler(step.instr), row is not None and _may_learn(said), meets
            self._executes[id(step.instr)] = known
        handler, may_learn, meets = known
        if step.facts.in_common:
            check_in_common(self._state.findings, step)
        if meets:
            for one in self._state.warps_of(step):
                self._meet(one)
        elif may_learn:
            for one in self._state.warps_of(step):
                self._exchanges.may_have_met(one)
        elif len(step.warps) == 1 and (warp := self._state.warp(step)).heard_by and _is_of_lanes(step):
            *parts, last = warp.alike(step.lanes)
            for lanes in parts:
                handler(self, replace(step, lanes=lanes))
            return handler(self, replace(step, lanes=last))
        return handler(self, step)

    def met(self, cta: int, warp: int) -> None:
        """The lanes of a warp have reconverged."""
        self._meet(self._state.warps[cta, warp])

    def _meet(self, warp: Warp) -> None:
        if warp.is_apart:
            warp.meet()
        self._exchanges.met(warp)

    def left_out(self) -> None:
        """There may be more writes than the steps show."""
        self._state.footprints.unknown = True
        self._state.memory.complete = False

    def ended(self, cta: int, warp: int) -> None:
        """All threads of a warp have left the kernel."""
        self._lifetimes.ended(self._state.warps[cta, warp])
        self._threads.ended()

    def deadlock(self, waiting: Sequence[Step]) -> None:
        """No warp can go on; these are the steps that wait."""
        self._is_stuck = True
        if self._tensors is not None:
            self._tensors.is_stuck = True
        self._flush()
        self._waiting = waiting
        self._deadlocks.explain(waiting)

    def first_waits(self) -> Sequence[MachineInstr]:
        """Where threads wait for the first phase of an mbarrier at which nobody has arrived: none before a deadlock."""
        return [step.instr for step, _ in self._deadlocks.first_waits(self._waiting)]

    def told_at(self, instr: MachineInstr) -> list[Diagnostic]:
        """The deadlock as that of a wait that is to be inverted."""
        self._deadlocks.tell(instr, self._waiting)
        return self._state.findings.causes()

    def finish(self, *, whole: bool = True) -> list[Diagnostic]:
        """What was found."""
        self._flush()
        if whole and not self._is_stuck:
            self._lifetimes.finish()
            if self._tensors is not None:
                self._tensors.finish()
        if self._state.findings:
            from nvbackend.dry_run.protocols.left_out import Astray, LeftOut, TooMany

            LeftOut(self._state).find()
            TooMany(self._state).find()
            Astray(self._state).find()
        return self._state.findings.causes()

    def unread(self) -> Iterable[tuple[MachineInstr, Fill]]:
        """The copies of which nothing has read a part, where the run ended by itself and all reads are known."""
        state = self._state
        if self._is_stuck or state.findings.lost or not state.memory.complete or state.footprints.unseen:
            return ()
        from nvbackend.dry_run.objects.unread import unread_of

        return unread_of(state.memory, state.launch.ctas)

    @cached_property
    def _deadlocks(self) -> Deadlocks:
        from nvbackend.dry_run.protocols.deadlocks import Deadlocks

        return Deadlocks(self._state, self._signals, self._threads)

    def _of_tensors(self) -> Tensors:
        if self._tensors is None:
            from nvbackend.dry_run.protocols.tensor import Tensors

            self._tensors = Tensors(self._state)
        return self._tensors

    def _flush(self) -> None:
        for warp in self._state.warps.values():
            if warp.used:
                warp.flush(warp)

    def _barrier(self, step: Step) -> Outcome:
        self._signals.went_on(self._state.warp(step))
        return self._threads.execute(step)

    def _budget(self, step: Step) -> Outcome:
        return _change_registers(self._state, step)

    def _mbarrier(self, step: Step) -> Outcome:
        event = 1 << self._state.events.new() if step.facts.commits else 0
        if event:
            self._state.tensor_commits[step.cta, step.warps[0]] |= event
        self._lifetimes.reach(step, event)
        if step.facts.waits:
            self._state.memory.may_have_met(self._state.warp(step))
        return self._signals.execute(step)

    def _fence(self, step: Step) -> Outcome:
        said = step.instr.semantics.fence
        assert said is not None
        for warp in self._state.warps_of(step):
            if said.of is FenceOf.ASYNC_PROXY:
                if said.shared:
                    warp.fence_proxy(step.lanes)
            elif said.of is FenceOf.INIT:
                warp.fence_init()
            elif said.of is FenceOf.MEMORY:
                warp.fence_memory()
        if said.of in (FenceOf.BEFORE_SYNC, FenceOf.AFTER_SYNC):
            self._of_tensors().fence(step, said.of)
        return DONE

    def _tensor_memory(self, step: Step) -> Outcome:
        self._access(step)
        return self._of_tensors().allocate(step)

    def _issue(self, step: Step) -> Outcome:
        self._signals.went_on(self._state.warp(step))
        if step.facts.together:
            several = list(self._state.warps_of(step))
            passed = reduce(or_, (warp.passed for warp in several))
            for warp in several:
                warp.passed |= passed
        check_start(self._state.findings, self._state.launch, step)
        outcome, event, known = self._operations.issue(step)
        self._lifetimes.reach(step, 1 << event)
        if step.facts.of_tensors:
            self._of_tensors().access(step, event, known)
        elif step.facts.together:
            self._sums.multiply(step)
        return outcome

    def _group(self, step: Step) -> Outcome:
        self._signals.went_on(self._state.warp(step))
        if step.instr.semantics.commits is not None:
            self._operations.commit(step)
        if step.instr.semantics.awaits is not None:
            self._operations.wait(step)
            for warp in self._state.warps_of(step):
                warp.seen |= warp.passed
        return DONE

    def _access(self, step: Step) -> Outcome:
        self._signals.went_on(self._state.warp(step))
        warp = self._state.warp(step)
        base = self._state.cluster_of(step.cta)
        accesses = self._state.footprints.of(step)
        if step.instr.semantics.atomic:
            self._exchanges.share(step, warp)
            self._state.atomics.note(step)
            accesses = sorted(accesses, key=lambda one: one.writes)  # it writes after it has read
        for access in accesses:
            cta = step.cta if access.rank < 0 else base + access.rank
            if step.swaps and not access.writes:
                continue  # it leaves nothing of what was there, and its write is judged
            if step.guessed and not access.somewhere and self._state.memory.extents.leaves(access.part) is not None:
                continue
            self._signals.overwritten.look(step, access, [cta])
            self._lifetimes.touch(step, cta)
            if access.somewhere:
                said = step.instr.semantics
                if step.changes and access.writes and not step.guessed:
                    self._collisions.note(step, access)
                is_own, memory = not said.in_peer and cta == step.cta, self._state.memory
                if not is_own or not memory.access_somewhere(warp, step.rounds, cta, access, step.lanes, step.swaps):
                    self._state.footprints.unknown |= access.writes and (step.swaps or not said.atomic)
                continue
            self._state.memory.access(warp, step.rounds, cta, access, step.lanes, warp.hidden(step.lanes))
            if step.instr.row is None and not step.instr.semantics.atomic:
                self._exchanges.access(step, cta, access)
        self._state.memory.complete = not self._state.footprints.unknown
        return DONE


def _handler(instr: MachineInstr) -> _Handler:  # noqa: PLR0911
    said = instr.semantics
    if said.barrier is not None:
        return Run._barrier
    if said.fence is not None:
        return Run._fence
    if said.budget is not None:
        return Run._budget
    if said.tensor_memory is not None:
        return Run._tensor_memory
    if said.mbarrier is not None and said.issues is None:
        return Run._mbarrier
    if said.issues is not None and said.issues is not Completion.NOTHING:
        return Run._issue
    if said.commits is not None or said.awaits is not None:
        return Run._group
    if said.memory or said.atomic:
        return Run._access
    return lambda _run, _step: DONE


def _is_of_lanes(step: Step) -> bool:
    """Whether each lane does it for itself, by what it knows, and goes on at once with nothing that it gives."""
    said, row = step.instr.semantics, step.instr.row
    does = bool(said.memory) or said.mbarrier is not None or said.issues is not None
    return (
        does and not step.facts.waits and said.awaits is None and not said.atomic and (row is None or not row.outputs)
    )


def _may_learn(said: Semantics) -> bool:
    """Whether lanes may learn by an access what others have done; of atomics, who decides by them."""
    return bool(said.memory) and said.issues is None and said.acquires is not Scope.THREAD and not said.atomic


def _change_registers(state: State, step: Step) -> Outcome:
    """A warpgroup gives registers back, or takes more as soon as there are enough."""
    count = step.instr.immediates["registers"]
    key = step.cta, step.warps[0] // 4
    more = count - state.registers[key]
    if step.instr.semantics.budget is Budget.RAISE and more > state.pools[step.cta]:
        return BLOCKED
    if (more > 0) is (step.instr.semantics.budget is Budget.RAISE):
        state.pools[step.cta] -= more
        state.registers[key] = count
    return DONE
