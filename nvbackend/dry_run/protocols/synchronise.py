"""Steps on barriers of threads: named ones of a CTA, and that of a cluster."""

from __future__ import annotations

from functools import partial

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING
from nvbackend.dry_run.objects.barriers import Barrier, Comer
from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.footprints import number
from nvbackend.dry_run.order.naming import after_rounds, in_rounds, instruction, line, warps
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import ALL_LANES, BLOCKED, DONE, Named, Outcome, Step
from nvbackend.dry_run.values.lanes import bits
from nvbackend.dry_run.values.unknown import Unknown
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Scope


class ThreadBarriers:
    """The barriers of a run. A warp that waits has joined a phase, and goes on when that is over."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._joined: dict[tuple[int, int], tuple[Barrier, int]] = {}
        self._arrived: dict[tuple[int, int], tuple[Barrier, int]] = {}
        """The phase of the cluster's barrier that a warp has arrived in and not waited for."""

    def execute(self, step: Step) -> Outcome:
        """A warp comes to a barrier."""
        barrier = step.instr.semantics.barrier
        assert barrier is not None
        self._state.warp(step).meet()
        if barrier.scope is Scope.CTA:
            return self._named(step)
        return self._cluster(step) if barrier.scope is Scope.CLUSTER else DONE

    def waits_at(self, warp: Warp) -> Barrier | None:
        """The barrier that a warp waits at."""
        found = self._joined.get((warp.cta, warp.index))
        return None if found is None else found[0]

    def ended(self) -> None:
        """Some warp has ended: barriers of all warps wait for one less."""
        for barrier in [*self._state.barriers.values()]:
            self._advance(barrier)
        for cluster in [*self._state.clusters.values()]:
            self._advance_cluster(cluster)

    def needed(self, barrier: Barrier) -> int:
        """The threads that a phase waits for."""
        return self._state.alive(barrier.cta) * WARP_SIZE if barrier.count is None else barrier.count

    def _named(self, step: Step) -> Outcome:
        said = step.instr.semantics.barrier
        assert said is not None and step.instr.row is not None
        warp = self._state.warp(step)
        key = warp.cta, warp.index
        if key not in self._joined:
            id = number(step.value("id"), step.lanes)
            has_count = "threads" in step.facts.operands
            count = number(step.value("threads"), step.lanes) if has_count else None
            promised = has_count and self._state.launch.promised(step.instr, "threads")
            if id is None or (has_count and count is None) or promised:
                self._state.findings.lost = True
                return DONE
            barrier = self._state.barriers.setdefault((step.cta, id), Barrier(id, step.cta))
            comer = Comer(step.instr, warp.index, step.cta, step.rounds(), count, said.waits)
            self._check(barrier, warp, comer)
            if said.waits:
                self._joined[key] = barrier, barrier.phase
            if "predicate" in step.facts.operands:
                barrier.holding.append(_holding(step))
            barrier.arrive(warp, comer, warp.tell(), WARP_SIZE)
            self._advance(barrier)
            if not said.waits:
                return DONE
        barrier, phase = self._joined[key]
        if barrier.phase <= phase:
            return BLOCKED
        del self._joined[key]
        warp.learn(barrier.known[phase])
        if "predicate" not in step.facts.operands:
            return DONE
        known = barrier.reduced(phase, str(step.instr.row.axes["operation"]))
        return {"result": Named(step.cta, barrier.number, phase) if known is None else known}

    def _advance(self, barrier: Barrier) -> None:
        if barrier.comers:
            first = barrier.comers[0]
            if barrier.count is None:  # it comes after the ends of those that it does not wait for
                barrier.seen |= self._state.exits[barrier.cta]
            if barrier.advance(self._state.warps[first.cta, first.warp], self.needed(barrier)):
                self._check_rounds(barrier, barrier.last)

    def _check_rounds(self, barrier: Barrier, came: list[Comer]) -> None:
        """Check that a barrier of all threads does not part: that none came to it while the others were elsewhere.

        That warps meet from different lines is as it may be meant; not that one ends, and the others come there alone.
        """
        if came[0].count is not None:
            return
        for one in came:
            early, others = barrier.apart.get((id(one.instr), one.rounds), ([], one))
            ended = [warp for warp in early if self._state.warps[barrier.cta, warp].ended]
            if ended:
                self._state.findings.add(
                    *(ACCOUNTING, f"barrier {barrier.number}", rules.BARRIER_PARTED, one.instr),
                    ((f"warp {others.warp} comes here instead{after_rounds(others.rounds)}", others.instr.location),),
                    now=in_rounds(one.rounds), instruction=instruction(one.instr), warp=one.warp, early=warps(ended),
                    other=others.warp, line=line(others.instr),
                )  # fmt: skip
        barrier.note_apart()

    def _check(self, barrier: Barrier, warp: Warp, comer: Comer) -> None:
        """Check that counts agree, that no more threads arrive than counted, and that none may be a phase early."""
        findings, about = self._state.findings, f"barrier {barrier.number}"
        if barrier.comers and barrier.count != comer.count:
            first = barrier.comers[0]
            everybody = self._state.launch.warps * WARP_SIZE
            one, other = comer.count or everybody, barrier.count or everybody
            if one != other:
                findings.add(
                    *(ACCOUNTING, about, rules.BARRIER_COUNTS, comer.instr),
                    ((f"{instruction(first.instr)} of warp {first.warp}", first.instr.location),),
                    now=in_rounds(comer.rounds), warp=warp.index, count=one, barrier=barrier.number,
                    first=f"{instruction(first.instr)} of warp {first.warp}", others=other,
                )  # fmt: skip
            return
        if barrier.knows_last(warp) or comer.count is None:
            return
        who, counted = warps(one.warp for one in barrier.last), barrier.last[0].count
        counts = f", and they counted {counted} threads" if counted != comer.count else ""
        findings.add(
            *(ACCOUNTING, about, rules.BARRIER_CROWD, comer.instr),
            tuple((f"{instruction(one.instr)} of warp {one.warp} comes in the phase before", one.instr.location)
                  for one in barrier.last[:1]),
            now=in_rounds(comer.rounds), warp=warp.index, barrier=barrier.number, count=comer.count,
            reason=f"nothing that it waited for says that this phase, of {who}, is over{counts}",
            holds=partial(self._has_no_order, {(one.cta, one.warp) for one in (comer, *barrier.last)}),
        )  # fmt: skip

    def _has_no_order(self, whose: set[tuple[int, int]]) -> bool:
        """Whether none of the warps waits for another one by atomics, which may say that a phase is over."""
        return not any(self._state.atomics.may_order(one) for one in whose)

    def _cluster(self, step: Step) -> Outcome:
        said, warp = step.instr.semantics.barrier, self._state.warp(step)
        assert said is not None
        key = warp.cta, warp.index
        barrier = self._state.clusters.setdefault(
            self._state.cluster_of(step.cta), Barrier(-1, self._state.cluster_of(step.cta))
        )
        if said.arrives and key not in self._joined:
            self._state.is_relaxed |= said.relaxed
            known = warp.tell_relaxed() if said.relaxed else warp.tell()
            self._arrived[key] = barrier, barrier.phase
            comer = Comer(step.instr, warp.index, step.cta, step.rounds(), None, said.waits)
            barrier.arrive(warp, comer, known, WARP_SIZE)
            self._advance_cluster(barrier)
        if not said.waits:
            return DONE
        if key not in self._arrived:
            return DONE  # a wait without an arrival: the verifier reports it
        barrier, phase = self._arrived[key]
        if barrier.phase <= phase:
            self._joined[key] = barrier, phase
            return BLOCKED
        self._joined.pop(key, None)
        del self._arrived[key]
        warp.learn(barrier.known[phase])
        return DONE

    def _advance_cluster(self, barrier: Barrier) -> None:
        if not barrier.comers:
            return
        ctas = range(barrier.cta, barrier.cta + self._state.launch.cluster)
        first = barrier.comers[0]
        came = {(one.cta, one.warp) for one in barrier.comers}
        missing = any(
            not warp.ended and (cta, index) not in came
            for cta in ctas
            for index in range(self._state.launch.warps)
            for warp in (self._state.warps[cta, index],)
        )
        if not missing:
            barrier.advance(self._state.warps[first.cta, first.warp], 0)


def _holding(step: Step) -> tuple[int, int] | None:
    """The lanes in which the predicate of a reducing barrier holds, and all; None where that is unknown."""
    value = step.value("predicate")
    if isinstance(value, Unknown):
        return None
    holding = (ALL_LANES if value else 0) if isinstance(value, int) else bits(value)
    return holding & step.lanes, step.lanes
