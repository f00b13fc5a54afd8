"""When no warp can go on: what each waits for, what is missing there, and which of it is the cause."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.diagnostics import Location
from nvbackend.dry_run import rules
from nvbackend.dry_run.order.footprints import number
from nvbackend.dry_run.order.words import in_rounds, instruction
from nvbackend.dry_run.protocols.findings import ACCOUNTING, DEADLOCK, Notes
from nvbackend.dry_run.protocols.mbarriers import Mbarrier
from nvbackend.dry_run.protocols.signals import Signals
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.protocols.synchronise import ThreadBarriers
from nvbackend.dry_run.seam import Step
from nvbackend.intrinsics.row.semantics import Budget, MbarrierUse, Scope
from nvbackend.isel.machine.function import MachineInstr


class Deadlocks:
    """Explains one deadlock."""

    def __init__(self, state: State, signals: Signals, threads: ThreadBarriers) -> None:
        self._state = state
        self._signals = signals
        self._threads = threads

    def explain(self, waiting: Sequence[Step]) -> None:
        """Find the cause: wrong counts first, else the first wait."""
        if self._state.findings.lost:
            return
        mbarriers = [(step, barrier) for step in waiting for barrier in self._barriers(step)]
        self._bytes(mbarriers)
        if self._state.findings:
            return
        pools = [step for step in waiting if step.instr.semantics.budget is Budget.RAISE]
        roots = self._roots(waiting)
        named = [step for step in roots if step.instr.semantics.barrier is not None]
        if pools:
            self._pool(pools[0])
        elif named:
            self._named(named, waiting)
        else:
            self._counts([pair for pair in mbarriers if pair[0] in roots] or mbarriers)
            if mbarriers and not self._state.findings:
                self._mbarrier([pair for pair in mbarriers if pair[0] in roots] or mbarriers, waiting)

    def _roots(self, waiting: Sequence[Step]) -> list[Step]:
        """The waiting steps that do not wait for one another, as far as earlier phases show who arrives; else all."""
        at = {(step.cta, warp): step for step in waiting for warp in step.warps}
        found = []
        for step in waiting:
            comers = self._comers(step)
            if not any(key in at and at[key] is not step for key in comers):
                found.append(step)
        return found or list(waiting)

    def _comers(self, step: Step) -> set[tuple[int, int]]:
        """The warps that came to the last phase of what a step waits for, and have not come to this one."""
        barrier = self._threads.waits_at(self._state.warp(step)) if step.instr.semantics.barrier is not None else None
        if barrier is not None:
            came = {(one.cta, one.warp) for one in barrier.comers}
            if barrier.count is None:
                ctas = range(barrier.cta, barrier.cta + (self._state.launch.cluster if barrier.number < 0 else 1))
                return {(cta, warp) for cta in ctas for warp in range(self._state.launch.warps)} - came
            return {(one.cta, one.warp) for one in barrier.last} - came
        return {
            (one.cta, one.warp)
            for mbarrier in self._barriers(step)
            for one in mbarrier.last
            if one.arrivals and (one.cta, one.warp) not in {(other.cta, other.warp) for other in mbarrier.arrivals}
        }

    def _barriers(self, step: Step) -> list[Mbarrier]:
        use = step.instr.semantics.mbarrier
        if use is None or not use & (MbarrierUse.WAIT | MbarrierUse.POLL):
            return []
        found = (self._state.mbarriers.get(place) for place, _ in self._signals.places(step) or ())
        return [barrier for barrier in found if barrier is not None]

    def _bytes(self, mbarriers: Sequence[tuple[Step, Mbarrier]]) -> None:
        """Phases that got other bytes than they count."""
        for step, barrier in mbarriers:
            if not barrier.pending and barrier.bytes:
                expected = sum(one.expected for one in barrier.arrivals)
                brought = sum(one.brought for one in barrier.arrivals)
                first = next((one for one in barrier.arrivals if one.expected), barrier.arrivals[0])
                self._state.findings.add(
                    *(ACCOUNTING, barrier.name, rules.BYTES, first.instr),
                    (*self._arrived(barrier), ("who waits for the phase", step.instr.location)),
                    now=in_rounds(first.rounds), phase=barrier.phase, barrier=barrier.name, expected=expected,
                    brought=brought,
                )  # fmt: skip
                return

    def _counts(self, mbarriers: Sequence[tuple[Step, Mbarrier]]) -> None:
        """Phases that got some of their arrivals and not all."""
        for step, barrier in mbarriers:
            adds = next((one.instr for one in barrier.arrivals if _adds(one.instr)), None)
            if adds is not None and barrier.pending:
                self._state.findings.add(
                    *(ACCOUNTING, barrier.name, rules.ARRIVALS, adds, (("who waits", step.instr.location),)),
                    now="", barrier=barrier.name, count=barrier.count,
                    reason=f"this one adds an arrival to a phase before it makes it: {barrier.pending} stay missing "
                    "(with .noinc it is one of those that are counted)",
                )  # fmt: skip
                return
        for step, barrier in mbarriers:
            if 0 < barrier.pending < barrier.count:
                came = barrier.count - barrier.pending
                self._state.findings.add(
                    *(ACCOUNTING, barrier.name, rules.ARRIVALS, step.instr, self._arrived(barrier)),
                    now=in_rounds(step.rounds()), barrier=barrier.name, count=barrier.count,
                    reason=f"only {came} come in phase {barrier.phase}: warp {step.warps[0]} of CTA {step.cta} waits "
                    "for it forever",
                )  # fmt: skip
                return

    def _arrived(self, barrier: Mbarrier) -> Notes:
        seen: dict[int, tuple[str, Location | None]] = {}
        for one in barrier.arrivals:
            text = f"{instruction(one.instr)} of warp {one.warp} in CTA {one.cta}"
            seen.setdefault(id(one.instr), (f"{text} came in this phase", one.instr.location))
        return tuple(seen.values())[:3]

    def _mbarrier(self, mbarriers: Sequence[tuple[Step, Mbarrier]], waiting: Sequence[Step]) -> None:
        step, barrier = min(
            mbarriers, key=lambda one: (one[1].phase, one[0].lanes.bit_count() > 1, bool(one[1].arrivals))
        )
        row = step.instr.row
        assert row is not None
        by_parity = row.has_operand("parity")
        wanted = number(step.value("parity" if by_parity else "state"), step.lanes) or 0
        words = f"parity {wanted & 1}" if by_parity else f"the token of phase {wanted}"
        others = [
            f"{instruction(other.instr)} of warp {other.warps[0]} in CTA {other.cta}"
            for other in waiting
            if other is not step
        ]
        came = barrier.count - barrier.pending
        state = f"{barrier.phase} phase(s) of it are over, and in the current one {came} of {barrier.count} arrivals "
        state += "have come"
        if barrier.bytes:
            state += f", with {barrier.bytes} bytes still to come"
        rest = f"; the others wait too: {', '.join(dict.fromkeys(others[:4]))}" if others else "; all others have ended"
        notes = [(f"{instruction(other.instr)} of warp {other.warps[0]} waits here", other.instr.location)
                 for other in waiting if other is not step and other.instr is not step.instr]  # fmt: skip
        notes += [
            (f"an arrival of its last phase: {instruction(one.instr)}", one.instr.location) for one in barrier.last[:1]
        ]
        self._state.findings.add(
            *(DEADLOCK, barrier.name, rules.DEADLOCK, step.instr, tuple(dict.fromkeys(notes))[:4]),
            now=in_rounds(step.rounds()), wanted=words, barrier=barrier.name, reason=state + rest,
            fix="let as many arrivals come as there are waits, each before the thread that makes it waits for what "
            "comes after; or wait for the other parity",
        )  # fmt: skip

    def _named(self, named: Sequence[Step], waiting: Sequence[Step]) -> None:
        step = named[0]
        barrier = self._threads.waits_at(self._state.warp(step))
        said = step.instr.semantics.barrier
        if barrier is None or said is None:
            return
        others = [f"{instruction(other.instr)} of warp {other.warps[0]}" for other in waiting
                  if self._threads.waits_at(self._state.warp(other)) is not barrier]  # fmt: skip
        rest = f"others wait at {', '.join(dict.fromkeys(others[:4]))}" if others else "all others have ended"
        notes = tuple(dict.fromkeys(
            (f"{instruction(other.instr)} of warp {other.warps[0]} waits here", other.instr.location)
            for other in waiting if other.instr is not step.instr
        ))[:4]  # fmt: skip
        if said.scope is Scope.CLUSTER:
            self._state.findings.add(
                *(DEADLOCK, "cluster", rules.CLUSTER_HANGS, step.instr, notes),
                now=in_rounds(step.rounds()),
                reason=rest,
            )
            return
        self._state.findings.add(
            *(DEADLOCK, f"barrier {barrier.number}", rules.BARRIER_HANGS, step.instr, notes),
            now=in_rounds(step.rounds()), barrier=barrier.number, count=self._threads.needed(barrier),
            arrived=barrier.arrived, reason=rest,
        )  # fmt: skip

    def _pool(self, step: Step) -> None:
        state, group = self._state, step.warps[0] // 4
        count = step.instr.immediates["registers"]
        state.findings.add(
            *(DEADLOCK, "registers", rules.POOL, step.instr, ()),
            now=in_rounds(step.rounds()), count=count, group=group, needed=count - state.registers[step.cta, group],
            there=state.pools[step.cta],
        )  # fmt: skip


def _adds(instr: MachineInstr) -> bool:
    """Whether an arrival is added to the phase in which it comes."""
    use = instr.semantics.mbarrier
    return use is not None and bool(use & MbarrierUse.RECOUNT) and instr.semantics.tracks is not None
