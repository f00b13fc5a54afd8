"""What a multimem operation takes besides its axes: the registers of the vector, and where the address lies."""

from __future__ import annotations

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.row import Row

_REFERENCE = "PTX ISA 9.7.9 (multimem.ld_reduce, multimem.st, multimem.red)"
VALUES = Rule(
    id="multimem.values",
    message="{instruction} takes {wanted} register(s) of {kind}, and {given} were given",
    fix="give as many registers as the vector has; four 8-bit elements are one",
    why="The vector's length is part of the instruction's spelling.",
    reference=_REFERENCE,
)
ADDRESS = Rule(
    id="multimem.address",
    message="{instruction} at an address in shared memory",
    fix="use an address of a multicast object, which lies in global memory",
    why="What it does at any other address is not defined.",
    reference=_REFERENCE,
)
RULES = (VALUES, ADDRESS)


def check_values(row: Row, given: int, kind: object) -> None:
    """Raises multimem.values unless `given` registers are the vector that `row` writes."""
    wanted = row.operand("values").count
    if given != wanted:
        VALUES.fail(instruction=row.ptx, wanted=wanted, kind=kind, given=given)


def check_address(instruction: str, *, in_shared: bool) -> None:
    """Raises multimem.address for an address in shared memory."""
    if in_shared:
        ADDRESS.fail(instruction=instruction)
