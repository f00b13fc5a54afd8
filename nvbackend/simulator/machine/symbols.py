"""What the operands of a program's instructions are: slots of registers, constants, special registers and addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.names import Names
from nvbackend.ptx.syntax import Float, Function, Integer, Name, Negated, Operand, Position, Sum, Variable
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine import specials
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.slots import Slots
from nvbackend.simulator.machine.types import bits, container
from nvbackend.simulator.machine.wave import Reader, Wave
from nvbackend.simulator.memory import windows

CARRY_FLAG = Name("%CC.CF")
"""The carry flag, which no text names."""
Convert = Callable[[Bits], Bits]


class Slot(NamedTuple):
    """Where an operand's value is, and what makes bits of the wanted type of it (None: they are)."""

    slot: int
    convert: Convert | None


class Place(NamedTuple):
    """Where a variable is: a state space and the address in it (shared and local: the offset)."""

    space: str
    address: int


@dataclass(frozen=True)
class Symbols:
    """The names of a module, and the slots and addresses that one program gives them."""

    names: Names
    slots: Slots
    places: Mapping[Position, Place]
    """Of variables and functions, by where they are declared."""
    constants: Mapping[tuple[Position, str], int]
    """The registers that only ever hold one number, by their declaration and name."""

    def slot(self, operand: Operand, type: str) -> Slot | None:
        """The slot with the value of an operand; None for what has none (a clock, an address in brackets)."""
        dtype = container(type)
        if isinstance(operand, Integer):
            return self._constant(operand.value, dtype, type)
        if isinstance(operand, Float):
            return self._constant(_float_bits(operand, type), dtype, type)
        if isinstance(operand, Negated):
            register = self.register(operand.name)
            return Slot(register[0], np.logical_not) if register is not None else None
        if isinstance(operand, Sum):
            window = windows.SHARED if operand.generic and self._space(operand.name) == "shared" else 0
            return self._address(operand.name, operand.offset + window, dtype)
        return self._named(operand, dtype) if isinstance(operand, Name) else None

    def _named(self, operand: Name, dtype: Any) -> Slot | None:
        register = self.register(operand)
        if register is not None:
            return Slot(register[0], _cut_to(dtype) if register[1] is not dtype else None)
        if operand.text == "WARP_SZ":
            return self._constant(32, dtype, "u32")
        value = specials.of_launch(operand.text)
        if value is not None:
            own = container("pred" if specials.width(operand.text) == 1 else f"u{specials.width(operand.text)}")
            return Slot(self.slots.named(operand.text, value), _cut_to(dtype) if own is not dtype else None)
        return self._address(operand, 0, dtype)

    def _constant(self, value: int, dtype: Any, type: str) -> Slot:
        if bits(type) == 128:
            halves = [value & (1 << 64) - 1, value >> 64 & (1 << 64) - 1]
            make = lambda wave: np.tile(np.array(halves, np.uint64), (wave.size, 1))  # noqa: E731
            return Slot(self.slots.named((value, 128), make), None)
        return Slot(self.slots.constant(value, dtype), None)

    def _space(self, name: Name) -> str:
        place = self._place(name)
        return place.space if place is not None else ""

    def _place(self, name: Name) -> Place | None:
        declared = self.names.of.get(name.position)
        return self.places.get(declared.position) if isinstance(declared, Variable | Function) else None

    def _address(self, name: Name, offset: int, dtype: Any) -> Slot | None:
        place = self._place(name)
        if place is None:
            return None
        address = place.address + offset
        if place.space == "shared":
            return Slot(self.slots.named((address, "shared", dtype), lambda wave: _shared(wave, address, dtype)), None)
        if place.space == "local":
            add = np.uint64(address & (1 << 64) - 1)
            return Slot(self.frame_slot, lambda values: (values + add).astype(dtype))
        return Slot(self.slots.constant(address, dtype), None)

    @property
    def frame_slot(self) -> int:
        """The slot with each thread's address of the local memory of the function that it runs."""
        return self.slots.register("frame", np.uint64)

    def register(self, operand: Operand) -> tuple[int, Any] | None:
        """The slot of a register and the type of its array; None for another operand. A `.param` of a device function
        is a register of bytes."""
        if not isinstance(operand, Name):
            return None
        if operand is CARRY_FLAG:
            return self.slots.register(CARRY_FLAG.text, np.bool_), np.bool_
        declared = self.names.of.get(operand.position)
        if not isinstance(declared, Variable) or declared.position in self.places:
            return None
        if declared.space == "reg":
            return self.of_register(declared, operand.text)
        return self.parameter(declared), np.uint8

    def of_register(self, variable: Variable, name: str) -> tuple[int, Any]:
        """The slot of a register that a `.reg` variable declares, and the type of its array."""
        key, dtype = (variable.position, name), container(variable.type)
        slot = self.slots.register(key, dtype, 2 if bits(variable.type) == 128 else 1)
        self.slots.names[key] = slot
        return slot, dtype

    def parameter(self, variable: Variable) -> int:
        """The slot of a `.param` variable: its bytes, (threads, size)."""
        width = size_of(variable)
        return self.slots.named((variable.position, "bytes"), lambda wave: np.zeros((wave.size, width), np.uint8))

    def constant(self, operand: Operand) -> int | None:
        """The number that an operand always is: a constant, or a register that only ever holds one."""
        if isinstance(operand, Integer):
            return operand.value
        declared = self.declared(operand)
        known = isinstance(operand, Name) and declared is not None
        return self.constants.get((declared.position, operand.text)) if known else None  # type: ignore[union-attr]

    def declared(self, operand: Operand) -> Variable | None:
        """The variable that a name, or the base of an address, means."""
        declared = self.names.of.get(operand.position) if isinstance(operand, Name) else None
        return declared if isinstance(declared, Variable) else None

    def dynamic(self, operand: Operand, type: str) -> Reader | None:
        """A clock, or None."""
        if not isinstance(operand, Name) or operand.text not in specials.CLOCKS:
            return None
        name, dtype = operand.text, container(type)
        mask = (1 << 8 * np.dtype(dtype).itemsize) - 1

        def read(wave: Wave, lanes: Lanes) -> Bits:
            return np.full(lanes.count, specials.clock(name, wave) & mask, dtype)

        return read

    def bits(self, operand: Operand) -> int | None:
        """The width of a register; None for another operand."""
        declared = self.declared(operand)
        return bits(declared.type) if declared is not None and declared.space == "reg" else None

    def elements(self, operand: Operand) -> tuple[Operand, ...]:
        """The elements of a vector register; any other operand alone."""
        declared = self.declared(operand)
        if not isinstance(operand, Name) or declared is None or declared.vector == 1 or "." in operand.text:
            return (operand,)
        return tuple(Name(f"{operand.text}.{axis}", position=operand.position) for axis in "xyzw"[: declared.vector])


def size_of(variable: Variable) -> int:
    """The bytes of a variable; 0 for an array of open extent."""
    size = max((bits(variable.type) or 8) // 8, 1) * variable.vector
    for extent in variable.shape:
        size *= extent or 0
    return size


def alignment_of(variable: Variable) -> int:
    """What its address is a multiple of."""
    return variable.alignment or max((bits(variable.type) or 8) // 8, 1) * variable.vector


def _cut_to(dtype: Any) -> Convert:
    return lambda values: values.astype(dtype)


def _shared(wave: Wave, address: int, dtype: Any) -> Bits:
    rank = np.arange(wave.size) // wave.cta_threads % wave.cluster_size
    return ((rank << windows.RANK_SHIFT) + address).astype(dtype)


def _float_bits(value: Float, type: str) -> int:
    """The bits of a constant as a value of `type`: a decimal one has 64 bits and is rounded."""
    width = bits(type)
    if value.width == width:
        return value.bits
    number = np.array([value.bits], np.uint64).view(np.float64) if value.width == 64 else None
    if number is not None and width == 32:
        return int(number.astype(np.float32).view(np.uint32)[0])
    if number is not None and type in ("f16", "b16"):
        return int(number.astype(np.float16).view(np.uint16)[0])
    return value.bits
