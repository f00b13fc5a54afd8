"""The selector classes of operand B, as the seed on tcgen05 emission has them (WGMMA Emission).

Its compiler infers from B's type which form of descriptor operand is selected. No instruction has these classes: PTX
names the types themselves.
"""

from __future__ import annotations

import enum

from nvbackend.diagnostics import Rule, user_facing
from nvbackend.intrinsics.row.types import ElementType, b1, bf16, e4m3, e5m2, f16, s4, s8, tf32, u4, u8

_REFERENCE = "tileiras documents: tcgen05 emission, WGMMA Emission"

OPERAND_B = Rule(
    id="wgmma.seed-operand-b",
    message="tileiras has no selector class for a B of type {given}",
    fix="ask about one of {legal}",
    why="wgmma multiplies no such elements, so that no form of descriptor operand belongs to them.",
    reference=_REFERENCE,
)


class SeedOperandB(enum.Enum):
    """The classes, from the smallest."""

    BIT = "bit"
    BYTE = "byte"
    HALF_FLOAT = "half/float"
    EXTENDED = "extended"


_CLASSES: dict[ElementType, SeedOperandB] = {
    b1: SeedOperandB.BIT,
    **dict.fromkeys((s4, u4, s8, u8), SeedOperandB.BYTE),
    **dict.fromkeys((f16, bf16, tf32, e4m3, e5m2), SeedOperandB.HALF_FLOAT),
}


@user_facing
def seed_operand_b(element: ElementType, *, sparse: bool = False) -> SeedOperandB:
    """The class of a B of `element`; that of every `sparse` selector is EXTENDED. Raises wgmma.seed-operand-b."""
    if element not in _CLASSES:
        OPERAND_B.fail(given=element, legal=", ".join(map(str, _CLASSES)))
    return SeedOperandB.EXTENDED if sparse else _CLASSES[element]
