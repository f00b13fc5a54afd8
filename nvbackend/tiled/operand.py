"""A, B and C of a multiplication: which dimensions they have, and what an atom has of them."""

from __future__ import annotations

import enum

from nvbackend.atoms import MmaAtom, Residency
from nvbackend.intrinsics.types import ElementType
from nvbackend.layout import Layout
from nvbackend.tiled.rules import OPERAND


class Operand(enum.Enum):
    """An operand; C stands for the accumulators, which are C and D."""

    A = "A"
    B = "B"
    C = "C"

    @property
    def places(self) -> tuple[int, int]:
        """Where its two dimensions are among M, N and K: M, K of A; N, K of B; M, N of C."""
        return {Operand.A: (0, 2), Operand.B: (1, 2), Operand.C: (0, 1)}[self]

    def layout_of(self, atom: MmaAtom) -> Layout:
        """(thread, value) to an element of the atom's tile."""
        return {Operand.A: atom.layout_a, Operand.B: atom.layout_b, Operand.C: atom.layout_c}[self]

    def residency_of(self, atom: MmaAtom) -> Residency:
        """Where the atom has it."""
        return {Operand.A: atom.a_residency, Operand.B: atom.b_residency, Operand.C: atom.d_residency}[self]

    def element_of(self, atom: MmaAtom) -> ElementType:
        """Its type."""
        return {Operand.A: atom.a, Operand.B: atom.b, Operand.C: atom.c}[self]


def operand_named(given: Operand | str) -> Operand:
    """The operand of that name, in either case; D is where C is. Raises tiled-mma.operand."""
    if isinstance(given, Operand):
        return given
    letter = "C" if given.upper() == "D" else given.upper()
    if letter not in Operand.__members__:
        OPERAND.fail(given=given)
    return Operand[letter]
