"""Writes of data to the bytes of an mbarrier."""

from __future__ import annotations

from nvbackend.dry_run import rules
from nvbackend.dry_run.order.footprints import Access
from nvbackend.dry_run.order.words import in_rounds, instruction, touch_of
from nvbackend.dry_run.protocols.findings import ACCOUNTING
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step
from nvbackend.isel.machine.function import MemoryObject

MBARRIER_BYTES = 8


class Overwritten:
    """The allocations that hold mbarriers: others cannot be hit, since each access stays in its own."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._holders: set[int] = set()

    def holds(self, memory: MemoryObject) -> None:
        """An mbarrier is initialised in an allocation."""
        self._holders.add(memory.id)

    def look(self, step: Step, access: Access, ctas: list[int]) -> None:
        """A step accesses the memory of these CTAs."""
        if not access.writes or not self._holders:
            return
        touch = touch_of(step.instr, access.part.operand)
        if touch is not None and not self._holders.intersection((touch.object.id, touch.object.twin)):
            return
        for (cta, offset), barrier in self._state.mbarriers.items():
            if cta in ctas and access.part.covers(offset, MBARRIER_BYTES):
                self._state.findings.add(
                    *(ACCOUNTING, barrier.name, rules.OVERWRITTEN, step.instr),
                    (("it is initialised here", barrier.instr.location),),
                    now=in_rounds(step.rounds()), instruction=instruction(step.instr), warp=step.warps[0],
                    barrier=barrier.name,
                )  # fmt: skip
