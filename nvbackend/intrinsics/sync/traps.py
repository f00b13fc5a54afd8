"""trap and brkpt rows: the launch ends with an error, the thread stops in a debugger. PTX ISA 9.7.19."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.row.row import Asm, Effect, Row, chosen

TRAPS = {
    "trap": ("9.7.19.4 (trap)", "Ends the launch with an error."),
    "brkpt": ("9.7.19.1 (brkpt)", "Stops the thread in a debugger; without one the launch ends with an error."),
}
"""The section and the meaning of each."""


@cache
def trap(opcode: str) -> Row:
    """trap or brkpt. Raises NoSuchRow for another opcode."""
    section, summary = TRAPS[chosen("opcode", opcode, tuple(TRAPS))]
    return Row(
        family="traps",
        opcode=opcode,
        ptx=opcode,
        operands=(),
        lowering=Asm("{ptx};"),
        effects=Effect.ORDERS,  # what was written before is written
        section=section,
        summary=summary,
        axes={"opcode": opcode},
    )


def rows() -> Iterator[Row]:
    """Both rows."""
    return (trap(opcode) for opcode in TRAPS)
