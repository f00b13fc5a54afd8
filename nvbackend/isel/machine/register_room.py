"""Whether a thread has the registers that one instruction takes at once: otherwise ptxas stops.

What ptxas needs besides the operands was measured, with 12.9 and 13.5, by the number that C7602 asks for.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.mma import families
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE, Completion
from nvbackend.intrinsics.row.types import ElementType, b1, bf16, f16, f32, f64, s4, s8, tf32, u4, u8
from nvbackend.intrinsics.sync.register_budget import REGISTER_FILE, launch_limit
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.target.target import Target

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

_OVERHEAD = {Completion.MMA_GROUP: 26, Completion.LOAD_WAIT: 18, Completion.STORE_WAIT: 18}
"""Registers that ptxas wants besides those of the data, of asynchronous instructions by what completes them."""
_DATA = ("d", "a", "metadata", "values", "reduced")
"""Operands whose registers one instruction has all at once; A may be a descriptor."""
_WIDE, _OF_WIDE_F64 = 16, 64
"""The M of most mma; what ptxas wants everywhere for those of f64, which it expands for some chips."""
_MMA_OVERHEAD, _MMA_DATA = 18, ("a", "b", "c")
"""Of the other mma, whose results take the place of C."""
_OF_VOLTA_F16 = 26
_TURING, _AMPERE, _BLACKWELL = 75, 80, 100
"""The chips from which on wmma becomes mma of M 16, those that have them all, and those that have no integer mma of M 8
and none of b1: ptxas expands these."""
_EXPANDED = {s8: 25, u8: 25, s4: 25, u4: 25, b1: 28}
"""By the type of A, what such an expanded one wants."""
_WMMA = {bf16: 28, tf32: 25, f64: 26, s8: 25, u8: 25}
_WMMA_F16, _WMMA_F32, _WMMA_F32_OF_TURING = 26, 28, 25
"""A wmma becomes several mma of the chip: by the type of A, and for f16 by that of the sums."""


def registers_needed(row: Row, target: Target) -> int:
    """The least limit of registers a thread with which ptxas compiles an instruction; 0 where any will do."""
    if row.semantics.issues in _OVERHEAD:
        return _OVERHEAD[row.semantics.issues] + sum(
            operand.count
            for operand in row.operands
            if operand.name in _DATA and operand.register is not RegisterClass.B64
        )
    if row.family == families.MMA:
        return _of_mma(row, target)
    return _of_wmma(row, target) if row.opcode == families.WMMA_MMA else 0


def _of_mma(row: Row, target: Target) -> int:
    """What the data of one mma take, or those that ptxas expands it to."""
    from nvbackend.intrinsics.mma import mma

    shape, a = mma.instruction_of(row).shape, row.axes["a"]
    assert isinstance(a, ElementType)
    if target.number >= _BLACKWELL and a in _EXPANDED and (a is b1 or shape[0] < _WIDE):
        return _EXPANDED[a]
    if a is f64 and shape[0] == _WIDE:
        return _OF_WIDE_F64
    if shape[0] < _WIDE and a is not f64:
        return _OF_VOLTA_F16 if a is f16 and target.number < _AMPERE else 0
    words = sum(row.operand(name).count * (2 if a is f64 else 1) for name in _MMA_DATA)
    return _MMA_OVERHEAD + words


def _of_wmma(row: Row, target: Target) -> int:
    """What one mma takes of those that a wmma becomes."""
    a = row.axes["a"]
    assert isinstance(a, ElementType)
    if a is f16:
        in_f32 = f32 in (row.axes["c"], row.axes["d"])
        if target.number < _TURING:
            return _OF_VOLTA_F16
        if target.number < _AMPERE:
            return _WMMA_F32_OF_TURING if in_f32 else 0
        return _WMMA_F32 if in_f32 else _WMMA_F16
    if target.number >= _BLACKWELL and a in _EXPANDED:
        return _EXPANDED[a]
    return _WMMA.get(a, 0) if target.number >= _AMPERE else 0


def check_register_room(function: MachineFunction) -> Iterator[Diagnostic]:
    """Every instruction that needs more registers than a thread can have; not for code attached to another's kernel."""
    threads = function.attributes.get("threads")
    if not isinstance(threads, int) or "attached" in function.attributes:
        return
    limit = function.attributes.get(LAUNCH_REGISTERS, launch_limit(threads, None, None))
    assert isinstance(limit, int)
    rows = {id(instr.row): instr.row for instr in function.instructions() if instr.row is not None}
    needs = {key: more for key, row in rows.items() if (more := registers_needed(row, function.target)) > limit}
    for instr in function.instructions() if needs else ():
        if instr.row is not None and id(instr.row) in needs:
            needed = needs[id(instr.row)]
            yield ROOM.diagnose(
                at=instr.location,
                instruction=instr.row.ptx,
                needed=needed,
                threads=threads,
                limit=limit,
                most=REGISTER_FILE // (-(-needed // 8) * 8) // WARPGROUP_SIZE * WARPGROUP_SIZE,
            )
