"""Lanes of one warp that exchange data through shared memory must synchronise in between."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import EXCHANGE
from nvbackend.dry_run.objects.groups import Operation
from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.footprints import Access
from nvbackend.dry_run.order.lanes import Exchange
from nvbackend.dry_run.order.naming import in_rounds, instruction, line, touch_of
from nvbackend.dry_run.protocols.collisions import lost_sums
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step
from nvbackend.intrinsics.row.semantics import Completion


class Exchanges:
    """What the lanes of each warp do without an order between them."""

    def __init__(self, state: State) -> None:
        self._state = state

    def met(self, warp: Warp) -> None:
        """The lanes of a warp have met."""
        self._state.memory.met(warp)
        warp.order.meet()

    def may_have_met(self, warp: Warp) -> None:
        """The lanes of a warp have met, or have learnt from memory what each of them has done."""
        self._state.memory.may_have_met(warp)
        warp.order.meet()

    def share(self, step: Step, warp: Warp) -> None:
        """Lanes access what they share by an atomic or another strong access: where it gives nothing, they learn
        nothing."""
        if step.decides:
            self.met(warp)
        elif step.instr.row is None or step.instr.row.outputs:
            self.may_have_met(warp)
        else:
            self._state.memory.may_have_met(warp)

    def access(self, step: Step, cta: int, access: Access) -> None:
        """Lanes read or write memory of a CTA by ordinary instructions."""
        shadow, order = self._state.memory.lanes[cta], self._state.warp(step).order
        found = shadow.access(access.writes, access.part, step.lanes, order)
        if found is not None:
            self._report(step, access, found)

    def issue(self, step: Step, ctas: Sequence[int], access: Access) -> None:
        """Each of several lanes issues an operation, which accesses memory of CTAs."""
        order = self._state.warp(step).order
        if step.lanes & step.lanes - 1 == 0 or not order.has_notes:
            return
        for cta in ctas:
            found = self._state.memory.lanes[cta].look(access.writes, access.part, step.lanes, order)
            if found is not None:
                self._report(step, access, found)

    def land(self, warp: Warp, operation: Operation) -> None:
        """Each lane has waited for its part of an operation, about which an mbarrier has told nothing."""
        for cta, part in operation.writes if not operation.bit & warp.seen else ():
            self._state.memory.lanes[cta].land(part, operation.lanes, warp.order)

    def _report(self, step: Step, access: Access, found: Exchange) -> None:
        touch = touch_of(step.instr, access.part.operand)
        earlier, now = instruction(found.earlier), in_rounds(step.rounds())
        note = (f"{earlier} is here", found.earlier.location)
        memory = self._state.memory.names.name(touch, found.address)
        if step.changes and access.writes and (lost := lost_sums(step, access)):
            who = f"{instruction(step.instr)} of warp {step.warps[0]}"
            self._state.findings.add(
                *(EXCHANGE, "", rules.TWO_WRITERS, step.instr, (note,)), now=now, memory=memory, second=who,
                first=f"{who} in another lane", **lost,
            )  # fmt: skip
            return
        self._state.findings.add(
            *(EXCHANGE, "", rules.MISSING_WARP_SYNC, step.instr, (note,)), now=now, memory=memory, warp=step.warps[0],
            second=instruction(step.instr), does="writes" if access.writes else "reads", first=earlier,
            did="wrote" if found.wrote else "read", between=_between(step, found),
        )  # fmt: skip


def _between(step: Step, found: Exchange) -> str:
    """Where lanes have to meet: after a copy, when each has waited for its own."""
    if found.wrote and found.earlier.semantics.issues is Completion.COPY_GROUP:
        return f"after they have waited for what {line(found.earlier)} copies, and before {line(step.instr)}"
    return "between the two lines"
