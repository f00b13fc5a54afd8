"""What must hold over a whole function that uses tcgen05."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.tcgen05 import FAMILY
from nvbackend.isel.machine import MachineFunction, MachineInstr

GROUP_AXIS = "cta_group"

CTA_GROUPS_MIXED = Rule(
    id="tcgen05.cta-groups-mixed",
    message="{instruction} is of cta_group::{given} in a kernel whose {first} is of cta_group::{group}",
    fix="use one cta_group for every tcgen05 instruction of the kernel, allocation included",
    why="ptxas refuses the function: a CTA shares its tensor memory with its pair, or does not.",
    reference="PTX ISA 9.7.16.5 (issue granularity); ptxas 13.5",
)


def check_cta_groups(function: MachineFunction) -> Iterator[Diagnostic]:
    """Each tcgen05 instruction of another cta_group than the function's first one."""
    first: MachineInstr | None = None
    for instr in function.instructions():
        group = _group(instr)
        if group is None:
            continue
        if first is None:
            first = instr
        elif group != _group(first):
            yield CTA_GROUPS_MIXED.diagnose(
                at=instr.location,
                notes=((f"the first one, {first.opcode}", first.location),),
                instruction=instr.opcode,
                given=group,
                first=first.opcode,
                group=_group(first),
            )


def _group(instr: MachineInstr) -> object:
    if instr.row is None or instr.row.family != FAMILY:
        return None
    return instr.row.axes.get(GROUP_AXIS)
