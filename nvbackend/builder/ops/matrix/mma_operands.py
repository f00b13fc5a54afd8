"""Rules on the operands of an mma: how many registers, and which operands only some instructions have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.row.row import RegisterClass, Role, Row
from nvbackend.intrinsics.row.types import ElementType, f32, f64, u32

REGISTERS = Rule(
    id="mma.registers",
    message="{operand} of {instruction} is {needed} registers of {element} a thread, not {given}",
    fix="give the thread's whole fragment: {needed} values of {element}, packed from the lowest bits up",
    why="The instruction would read unrelated registers, and the product would be wrong.",
    reference="PTX ISA 9.7.14.5 (matrix fragments)",
)
OPERANDS = Rule(
    id="mma.operands",
    message="{instruction} {has} {operand}",
    fix="{fix}",
    why="A sparse A means nothing without its metadata, nor a scaled product without its factors.",
    reference="PTX ISA 9.7.14.5.14 (scale-a-data, scale-b-data), 9.7.14.6.3 (metadata)",
)
OPTIONAL = ("metadata", "scale_a", "scale_b")
"""Operands that only some instructions have, each one register."""
_VALUES = {RegisterClass.F32: f32, RegisterClass.F64: f64}


def register_type(row: Row, operand: str) -> ElementType:
    """The value type of a register of `operand`: f32 or f64 for those, else u32, with one element or several packed."""
    return _VALUES.get(row.operand(operand).register, u32)


def fragment_violations(row: Row, counts: Mapping[str, int]) -> Iterator[Diagnostic]:
    """What is wrong with the number of registers given for each fragment."""
    for name, given in counts.items():
        needed = row.operand(name).count
        if given != needed:
            yield REGISTERS.diagnose(
                operand=name.upper(),
                instruction=row.ptx,
                needed=needed,
                element=register_type(row, name),
                given=given,
            )


def optional_violations(row: Row, given: Mapping[str, bool]) -> Iterator[Diagnostic]:
    """Which operands are missing, or given although the instruction has none."""
    names = {operand.name for operand in row.operands if operand.role is Role.INPUT}
    for name, is_given in given.items():
        if is_given != (name in names):
            yield OPERANDS.diagnose(
                instruction=row.ptx,
                has="has no" if is_given else "needs",
                operand=name,
                fix=f"leave {name} out" if is_given else f"give {name}: one register of u32 a thread",
            )
