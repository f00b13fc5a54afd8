"""Lanes of one warp that exchange data through shared memory must synchronise in between."""

from __future__ import annotations

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import EXCHANGE
from nvbackend.dry_run.order.footprints import Access
from nvbackend.dry_run.order.words import in_rounds, instruction, touch_of
from nvbackend.dry_run.protocols.collisions import lost_sums
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step


class Exchanges:
    """The meetings of all warps by number, and what their lanes do between them. A wait counts as one."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._meetings: dict[tuple[int, int], int] = {}
        self._count = 0

    def met(self, cta: int, warp: int) -> None:
        """The lanes of a warp have met."""
        self._state.memory.met(self._state.warps[cta, warp])
        self.may_have_met(cta, warp)

    def may_have_met(self, cta: int, warp: int) -> None:
        """The lanes of a warp have met, or have waited for what each of them came to."""
        self._state.memory.may_have_met(self._state.warps[cta, warp])
        last = self._meetings.pop((cta, warp), None)
        if last is not None:
            for shadow in self._state.memory.lanes:
                shadow.forget(last)

    def access(self, step: Step, cta: int, access: Access) -> None:
        """Lanes read or write their CTA's memory by ordinary instructions."""
        if cta != step.cta:
            return
        key = step.cta, step.warps[0]
        meeting = self._meetings.get(key)
        if meeting is None:
            self._count += 1
            meeting = self._meetings[key] = self._count
        shadow = self._state.memory.lanes[cta]
        found = shadow.access(step.instr, access.writes, access.part.addresses, access.part.size, step.lanes, meeting)
        if found is None:
            return
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
            did="wrote" if found.wrote else "read",
        )  # fmt: skip
