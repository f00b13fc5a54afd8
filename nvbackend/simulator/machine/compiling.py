"""What a call may ask while an instruction is compiled: readers and writers of its operands, and its site."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.ptx.syntax import Address, Instruction, Integer, Name, Operand, Pair, Vector
from nvbackend.simulator.events import Bits, By, Site
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.symbols import Symbols
from nvbackend.simulator.machine.types import bits, extended
from nvbackend.simulator.machine.wave import Reader, Step, Wave, Writer
from nvbackend.simulator.rules import UNKNOWN

Compile = Callable[[Instruction, "Compiling"], Step]
"""How a family of instructions is compiled."""


class Compiling:
    """The place of one instruction that is being compiled."""

    def __init__(self, instruction: Instruction, site: Site, symbols: Symbols, target: str) -> None:
        self.instruction = instruction
        self.site = site
        self.symbols = symbols
        self.target = target
        """The chip that the text is for, such as sm_90a."""

    def read(self, operand: Operand, type: str) -> Reader:
        """The value of a register, special register, constant or variable's address, as bits of `type` (s32, f16x2,
        pred, b128, ...): of a wider register the low bits. `!p` is read too. An integer constant is cut to the type."""
        if bits(type) is None:
            self.unknown(f"the type {type}")
        found = self.symbols.slot(operand, type)
        if found is None:
            dynamic = self.symbols.dynamic(operand, type)
            return dynamic if dynamic is not None else self.unknown("an operand of this form")
        slot, convert = found
        if convert is None:
            return lambda wave, lanes: wave.registers[slot][lanes.index]
        return lambda wave, lanes: convert(wave.registers[slot][lanes.index])

    def write(self, operand: Operand, type: str) -> Writer:
        """Set a register to bits of `type`: sign-extended (s8, s16, s32) or zero-extended into a wider one. `_` takes
        all."""
        if isinstance(operand, Name) and operand.text == "_":
            return lambda _wave, _lanes, _values: None
        register = self.symbols.register(operand)
        if register is None:
            self.unknown("a destination that is not a register")
        slot, dtype = register
        is_signed = type.startswith("s")

        def write(wave: Wave, lanes: Lanes, values: Bits) -> None:
            registers = wave.registers
            if values.dtype != dtype:
                values = extended(values, dtype, is_signed=is_signed)
            if lanes.full:
                registers[slot] = values
            else:
                changed = registers[slot].copy()
                changed[lanes.index] = values
                registers[slot] = changed

        return write

    def elements(self, operand: Operand) -> tuple[Operand, ...]:
        """The operands in braces; a vector register's elements; or the one operand."""
        if isinstance(operand, Vector):
            return tuple(one for element in operand.elements for one in self.elements(element))
        return self.symbols.elements(operand)

    def reads(self, operand: Operand, type: str) -> Reader:
        """The elements of a vector (or of one register), of shape (elements, n)."""
        readers = [self.read(element, type) for element in self.elements(operand)]
        return lambda wave, lanes: np.stack([reader(wave, lanes) for reader in readers])

    def writes(self, operand: Operand, type: str) -> Writer:
        """Set the elements of a vector to values of shape (elements, n)."""
        writers = [self.write(element, type) for element in self.elements(operand)]

        def write(wave: Wave, lanes: Lanes, values: Bits) -> None:
            for writer, each in zip(writers, values, strict=True):
                writer(wave, lanes, each)

        return write

    def address(self, operand: Operand) -> Reader:
        """The address in brackets, base plus offset, as uint64."""
        if not isinstance(operand, Address):
            self.unknown("an address without brackets")
        base = self.read(operand.base, "u64")
        if not operand.offset:
            return base
        offset = np.uint64(operand.offset & (1 << 64) - 1)
        narrow = self.symbols.bits(operand.base)
        if narrow is not None and narrow <= 32:
            return lambda wave, lanes: base(wave, lanes) + offset & np.uint64(0xFFFFFFFF)
        return lambda wave, lanes: base(wave, lanes) + offset

    def coordinates(self, operand: Operand, type: str = "s32") -> Reader:
        """The coordinates of `[map, {...}]`, of shape (coordinates, n)."""
        if not isinstance(operand, Address) or operand.coordinates is None:
            self.unknown("an address without coordinates")
        return self.reads(operand.coordinates, type)

    def pair(self, operand: Operand) -> tuple[Operand, Operand | None]:
        """The two destinations of `%r|%p`, or the one and None."""
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    def constant(self, operand: Operand) -> int | None:
        """The number that an operand always is, where that is known: a constant, or a register that one is moved to."""
        return self.symbols.constant(operand)

    def immediate(self, operand: Operand) -> int:
        """The value of an integer constant; anything else is unknown here."""
        return operand.value if isinstance(operand, Integer) else self.unknown("an operand that is not a constant")

    def by(
        self,
        lanes: Lanes,
        *,
        order: str = "weak",
        scope: str = "",
        members: NDArray[np.uint32] | None = None,
    ) -> By:
        """Who does it: these lanes, at this instruction, by the generic proxy."""
        return By(self.site, lanes.threads, None, "generic", order, scope, members)

    def unknown(self, what: str) -> NoReturn:
        """Raise simulator.unknown: `what` names the piece of the instruction that the simulator does not know."""
        UNKNOWN.fail(at=self.site.location, line=self.site.line, what=what, text=self.site.text)
