"""What diagnostics call an instruction of the machine form."""

from __future__ import annotations

from nvbackend.isel.machine.function import MachineInstr

MOST_NOTES = 3
"""Places of one kind that a diagnostic lists: more fill the screen and say nothing new."""


def with_line(instr: MachineInstr) -> str:
    """Its opcode, and its line in the program where that is known."""
    return f"the {instr.opcode}" + (f" of line {instr.location.line}" if instr.location else "")
