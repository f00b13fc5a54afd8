"""The operands of a row that is emitted directly."""

from __future__ import annotations

from collections.abc import Collection

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.row import Operand, Role, Row

OPERANDS = Rule(
    id="instruction.operands",
    message="{instruction} takes {wanted}, and {given} was given",
    fix="give each operand by its name; nvbackend explain says what they are",
    why="An operand that is missing has no register, and one too many has no place in the statement.",
    reference="PTX ISA, the instruction's syntax",
)
RULES = (OPERANDS,)


def check_names(row: Row, given: Collection[str]) -> None:
    """Raises instruction.operands unless `given` are the operands that `row` reads, by name."""
    wanted = [one.name for one in row.operands if one.role is not Role.OUTPUT or one.tied]
    if set(wanted) != set(given):
        OPERANDS.fail(instruction=row.ptx, wanted=", ".join(wanted) or "nothing", given=", ".join(given) or "nothing")


def check_registers(row: Row, operand: Operand, given: int) -> None:
    """Raises instruction.operands unless `operand` has as many registers as were given."""
    if given != operand.count:
        said = f"{operand.count} register(s) of {operand.name}"
        OPERANDS.fail(instruction=row.ptx, wanted=said, given=f"{given}")
