"""Commits of tcgen05: each tracks what its own thread has issued."""

from __future__ import annotations

from nvbackend.dry_run.order.words import instruction, line
from nvbackend.dry_run.protocols.findings import ACCOUNTING
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.isel.protocols.groups.rules import OTHER_THREADS


def tracked(state: State, step: Step) -> int:
    """The events of the operations that a commit waits for; it is a mistake if other lanes alone have issued any."""
    warp = step.warps[0]
    issued = state.tensor_issued[step.cta, warp]
    events = issued.tracked(step.lanes)
    if not events and issued.first:
        (lanes, first), *_ = issued.first.items()
        state.findings.add(
            *(ACCOUNTING, "commit", OTHER_THREADS, step.instr, (("it is issued here", first.location),)),
            holds=lambda: not issued.tracked(step.lanes), completion=f"the {instruction(step.instr)}",
            others=_called(step.lanes, warp), issue=f"the {instruction(first)} of {line(first)}",
            issuers=_called(lanes, warp),
        )  # fmt: skip
    return events


def _called(lanes: int, warp: int) -> str:
    """Some lanes of a warp. A run elects the last one."""
    if lanes.bit_count() > 1:
        return f"several lanes of warp {warp}"
    lane = lanes.bit_length() - 1
    return f"the elected lane of warp {warp}" if lane == WARP_SIZE - 1 else f"lane {lane} of warp {warp}"
