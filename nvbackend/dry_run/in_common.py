"""Operands that a warp or a warpgroup gives as one, of which threads give different ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, Findings
from nvbackend.dry_run.order.naming import in_rounds, instruction
from nvbackend.dry_run.seam import Step
from nvbackend.dry_run.values.lanes import lanes_in, numbers_of
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE

if TYPE_CHECKING:
    from nvbackend.dry_run.values.apart import Sum


def check_in_common(findings: Findings, step: Step) -> None:
    """Whether all threads give the same operands, as far as that is known."""
    for name in step.facts.in_common:
        if type(step.value(name)) is int:
            continue
        apart = _apart(step, name)
        if apart is not None:
            group, threads = ("warp", WARP_SIZE) if len(step.warps) == 1 else ("warpgroup", WARPGROUP_SIZE)
            one, other, index = apart
            findings.add(
                *(ACCOUNTING, name, rules.NOT_IN_COMMON, step.instr, ()),
                now=in_rounds(step.rounds()), instruction=instruction(step.instr), operand=name, threads=threads,
                group=group, one=one, other=other, index=index,
            )  # fmt: skip


def _apart(step: Step, name: str) -> tuple[str, str, str] | None:
    """Two that certainly give different values, and what tells them apart; None for none."""
    from nvbackend.dry_run.values.apart import parts_of

    first: Sum | None = None
    for index, warp in enumerate(step.warps):
        parts = parts_of(step.value(name, of=index))
        if parts is None:
            continue
        lanes, every = lanes_in(step.lanes), numbers_of(parts[1])
        first_number = every[lanes[0]]
        other = next((lane for lane in lanes if every[lane] != first_number), None)
        if other is not None:
            return f"lane {lanes[0]}", f"lane {other} of warp {warp}", "the lane"
        mine = parts[0], first_number
        if first is not None and mine[0] is first[0] and mine[1] != first[1]:
            return f"warp {step.warps[0]}", f"warp {warp}", "the warp"
        first = first or mine
    return None
