"""Whether a thread has the registers that one instruction takes at once: ptxas stops where it has not.

What ptxas needs beside the operands was measured, with 12.9 and 13.5, by the number that C7602 asks for.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics import mma
from nvbackend.intrinsics.register_budget import REGISTER_FILE, launch_limit
from nvbackend.intrinsics.row import RegisterClass, Row
from nvbackend.intrinsics.types import f64
from nvbackend.isel.machine import MachineFunction

LAUNCH_REGISTERS = "registers"
"""The attribute of a function that says how many registers ptxas gives a thread at most, where that is declared."""

ROOM = Rule(
    id="machine.register-room",
    message="{instruction} needs {needed} registers a thread at once; {threads} threads are launched with {limit}",
    fix="let a thread have {needed} registers: at most {most} threads an SM (threads times min_ctas) and no lower "
    "max_registers; or use a smaller N or fewer columns",
    why="ptxas cannot compile the instruction (C7602). setmaxnreg does not help: what counts is the launch.",
    reference="ptxas 12.9 and 13.5 (C7602)",
)
RULES = (ROOM,)

_WGMMA = "wgmma.mma_async"
_TENSOR_LOADS = ("tcgen05.ld", "tcgen05.ld.red", "tcgen05.st")
_OVERHEAD = {_WGMMA: 26, **dict.fromkeys(_TENSOR_LOADS, 18)}
"""By opcode: registers that ptxas wants beside those of the data."""
_DATA = ("d", "a", "metadata", "values", "reduced")
"""Operands whose registers one instruction has all at once; A may be a descriptor."""
_WIDE_F64, _OF_WIDE_F64 = 16, 64
"""The M of the f64 mma that ptxas expands for some chips, and what it wants for them everywhere."""


def registers_needed(row: Row) -> int:
    """The least limit of registers a thread with which ptxas compiles an instruction; 0 where any will do."""
    overhead = _OVERHEAD.get(row.opcode)
    if overhead is not None:
        return overhead + sum(
            operand.count
            for operand in row.operands
            if operand.name in _DATA and operand.register is not RegisterClass.B64
        )
    if row.family == mma.FAMILY and row.axes.get("a") is f64 and mma.instruction_of(row).shape[0] == _WIDE_F64:
        return _OF_WIDE_F64
    return 0


def check_register_room(function: MachineFunction) -> Iterator[Diagnostic]:
    """Every instruction that needs more registers than a thread can have; not for code attached to another's kernel."""
    threads = function.attributes.get("threads")
    if not isinstance(threads, int) or "attached" in function.attributes:
        return
    limit = function.attributes.get(LAUNCH_REGISTERS, launch_limit(threads, None, None))
    assert isinstance(limit, int)
    for instr in function.instructions():
        needed = registers_needed(instr.row) if instr.row is not None else 0
        if needed > limit:
            assert instr.row is not None
            yield ROOM.diagnose(
                at=instr.location,
                instruction=instr.row.ptx,
                needed=needed,
                threads=threads,
                limit=limit,
                most=REGISTER_FILE // (-(-needed // 8) * 8),
            )
