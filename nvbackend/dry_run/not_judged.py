"""What runs of a kernel did not come to, in words: the report of the kernel has them."""

from __future__ import annotations

from collections.abc import Set

from nvbackend.dry_run.machine.machine import Machine
from nvbackend.dry_run.order.naming import instruction, listed
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.scenario.other_places import untouched
from nvbackend.isel.machine.function import MachineInstr

_MOST = 3
"""At most so many lines are named."""


def of_end(machine: Machine) -> str:
    """What comes after the end of a run that takes too long; "" of another one."""
    if not machine.is_over_budget:
        return ""
    when = machine.last_rounds.spoken()
    return f"what runs after {when}: the dry run ends there" if when else "what runs after the end of the dry run"


def of_blocks(program: Program, blocks: Set[int]) -> tuple[str, ...]:
    """The barriers and copies in other blocks than those that runs have executed."""
    lines: dict[str, str] = {}
    for number in sorted(untouched(program, blocks, _is_shared)):
        for part in program.blocks[number].parts:
            if part.recorded is not None and _is_shared(instr := part.recorded.instr) and instr.location is not None:
                lines.setdefault(f"line {instr.location.line}", instruction(instr))
    if not lines:
        return ()
    several = [f"{name} of {place}" for place, name in lines.items()]
    more = [f"{len(several) - _MOST} lines more"] if len(several) > _MOST else []
    return (f"{listed([*several[:_MOST], *more])}: no dry run comes there",)


def _is_shared(instr: MachineInstr) -> bool:
    """Whether other threads wait for an instruction, or it waits for others, or something of it goes on."""
    said = instr.semantics
    return said.barrier is not None or said.mbarrier is not None or said.issues is not None
