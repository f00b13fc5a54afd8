"""Where boxes of tensor maps begin: coordinates that the hardware refuses, known only as a loop runs."""

from __future__ import annotations

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, Findings
from nvbackend.dry_run.order.footprints import number
from nvbackend.dry_run.order.naming import in_rounds, instruction
from nvbackend.dry_run.seam import Launch, Step
from nvbackend.intrinsics.copy.tma import BULK_ALIGNMENT
from nvbackend.isel.machine import facts

_COORDINATES = "coordinates"


def check_start(findings: Findings, launch: Launch, step: Step) -> None:
    """Refuse a box that begins at no multiple of 16 bytes, unless a parameter that the dry run chose decides where."""
    unit = step.instr.facts.get(facts.UNIT)
    if unit is None:
        return
    start = number(step.value(_COORDINATES, 0), step.lanes)
    if start is None or start * unit % BULK_ALIGNMENT == 0 or launch.sources(step.instr, _COORDINATES, 0):
        return
    findings.add(
        *(ACCOUNTING, _COORDINATES, rules.BOX_START, step.instr, ()),
        now=in_rounds(step.rounds()), instruction=instruction(step.instr), warp=step.warps[0], start=start,
        given=start * unit % BULK_ALIGNMENT, step=BULK_ALIGNMENT, width=step.instr.facts[facts.BOX_ROW] // unit,
    )  # fmt: skip
