"""A, B and C of a multiplication: their dimensions, and an atom's part of them."""

from __future__ import annotations

import enum

from nvbackend.atoms import MmaAtom, Residency
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout import Layout
from nvbackend.tiled.rules import OPERAND


class MmaOperand(enum.Enum):
    """An operand; C means the accumulators, C and D."""

    A = "A"
    B = "B"
    C = "C"

    @property
    def places(self) -> tuple[int, int]:
        """Where its two dimensions are among M, N and K: M, K of A; N, K of B; M, N of C."""
        return {MmaOperand.A: (0, 2), MmaOperand.B: (1, 2), MmaOperand.C: (0, 1)}[self]

    def layout_of(self, atom: MmaAtom) -> Layout:
        """(thread, value) to an element of the atom's tile."""
        return {MmaOperand.A: atom.layout_a, MmaOperand.B: atom.layout_b, MmaOperand.C: atom.layout_c}[self]

    def residency_of(self, atom: MmaAtom) -> Residency:
        """Where the atom keeps it: registers, shared memory or tensor memory."""
        return {MmaOperand.A: atom.a_residency, MmaOperand.B: atom.b_residency, MmaOperand.C: atom.d_residency}[self]

    def element_of(self, atom: MmaAtom) -> ElementType:
        """Its element type."""
        return {MmaOperand.A: atom.a, MmaOperand.B: atom.b, MmaOperand.C: atom.c}[self]


class Beside(enum.Enum):
    """What an instruction takes in registers besides its operands: metadata of a sparse A, and scale factors."""

    METADATA = "E"
    SCALE_A = "SFA"
    SCALE_B = "SFB"

    @property
    def places(self) -> tuple[int, int]:
        """Where the two dimensions of the operand that it belongs to are among M, N and K."""
        return MmaOperand.B.places if self is Beside.SCALE_B else MmaOperand.A.places

    def layout_of(self, atom: MmaAtom) -> Layout | None:
        """(thread, value) to the element of A or B that the value belongs to; None if the atom has no such operand."""
        return {Beside.METADATA: atom.layout_e, Beside.SCALE_A: atom.layout_sfa, Beside.SCALE_B: atom.layout_sfb}[self]


def operand_named(operand: MmaOperand | str) -> MmaOperand:
    """The operand of that name, in either case; D is where C is. Raises tiled-mma.operand."""
    if isinstance(operand, MmaOperand):
        return operand
    letter = "C" if operand.upper() == "D" else operand.upper()
    if letter not in MmaOperand.__members__:
        OPERAND.fail(given=operand)
    return MmaOperand[letter]
