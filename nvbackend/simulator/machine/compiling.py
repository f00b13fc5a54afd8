"""What a call may ask while an instruction is compiled: readers and writers of its operands, and its site."""

from __future__ import annotations

from typing import NoReturn, Protocol

from nvbackend.ptx.syntax import Instruction, Operand
from nvbackend.simulator.events import By, Site
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Reader, Writer


class Compiling(Protocol):
    """The place of one instruction that is being compiled."""

    instruction: Instruction
    site: Site
    target: str
    """The chip that the text is for, such as sm_90a."""

    def read(self, operand: Operand, type: str) -> Reader:
        """The value of a register, special register, constant or variable's address, as bits of `type` (s32, f16x2,
        pred, b128, ...): of a wider register the low bits. `!p` is read too. An integer constant is cut to the type."""

    def write(self, operand: Operand, type: str) -> Writer:
        """Set a register to bits of `type`: sign-extended (s8, s16, s32) or zero-extended into a wider one. `_` takes
        all."""

    def reads(self, operand: Operand, type: str) -> Reader:
        """The elements of a vector (or of one register), of shape (elements, n)."""

    def writes(self, operand: Operand, type: str) -> Writer:
        """Set the elements of a vector to values of shape (elements, n)."""

    def address(self, operand: Operand) -> Reader:
        """The address in brackets, base plus offset, as uint64."""

    def coordinates(self, operand: Operand, type: str = "s32") -> Reader:
        """The coordinates of `[map, {...}]`, of shape (coordinates, n)."""

    def immediate(self, operand: Operand) -> int:
        """The value of an integer constant; anything else is unknown here."""

    def by(self, lanes: Lanes, *, proxy: str = "generic", order: str = "weak", scope: str = "") -> By:
        """Who does it: these lanes, at this instruction."""

    def unknown(self, what: str) -> NoReturn:
        """Raise simulator.unknown: `what` names the piece of the instruction that the simulator does not know."""
