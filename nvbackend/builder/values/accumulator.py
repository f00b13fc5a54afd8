"""Registers that asynchronous instructions write: accumulators, and fragments of A."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from llvmlite import ir

from nvbackend.builder.scopes.blocks import Region, Storage
from nvbackend.builder.scopes.rules import ACCUMULATOR_REGISTERS
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.carried import Carried
from nvbackend.builder.values.certainly_written import CertainlyWritten
from nvbackend.builder.values.placed import Placed, TilePlaces
from nvbackend.builder.values.read_value import ReadValue
from nvbackend.builder.values.values import Emitter, Operand, Value, as_value, constant
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.fragments.warpgroup import accumulator_position, check_index
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.types import ElementType, f16, f32, s32, u16, u32
from nvbackend.isel.machine.facts import UNUSED
from nvbackend.isel.machine.function import Access, RegisterBlock, Touch
from nvbackend.isel.machine.pseudo import READ_REGISTERS, WRITE_REGISTERS

_HALF_BITS = f16.bits


def pack_halves(low: Value, high: Value) -> Value:
    """The u32 register of two f16, `low` in its lower half."""
    first, second = (half.bitcast(u16).to(u32) for half in (low, high))
    return first | second << _HALF_BITS


def halves(register: Value) -> tuple[Value, Value]:
    """The two f16 of a u32 register, the lower half first."""
    low, high = ((register >> shift).to(u16).bitcast(f16) for shift in (0, _HALF_BITS))
    return low, high


class Registers(Emitter, Protocol):
    """What mutable registers need from their builder."""

    regions: list[Region]
    sums: list[Carried]

    def pseudo(self, opcode: str, touches: Sequence[Touch] = (), *, facts: Mapping[str, int] | None = None) -> None:
        """Record what no machine instruction expresses."""

    def emit(self, row: Row, operands: Mapping[str, object]) -> dict[str, list[ir.Value]]:
        """Emit one machine instruction."""

    def read(self, storage: Storage) -> list[ir.Value]:
        """The current values of the registers."""

    def write(self, storage: Storage, values: Sequence[ir.Value]) -> None:
        """Set the registers."""


@user_facing
class Accumulator(Placed):
    """D of one `wgmma` instruction: M x N elements over the 128 threads of a warpgroup, `registers` for each thread.

    A fresh or cleared accumulator is overwritten by the next mma (scale-D 0); every mma after that adds (scale-D 1).
    Where no mma may have followed, such as in a loop that may have no iterations, a read sets the registers to 0 first
    if none did, for a branch. `fill` moves a number to each register. A loop after either keeps its mma in flight.
    Reading is legal only after a wait has drained the group that wrote it; the verifier reports other reads.
    """

    def __init__(
        self,
        k: Registers,
        block: RegisterBlock,
        storage: Storage,
        scale: Storage,
        n: int,
        element: ElementType,
        places: TilePlaces | None = None,
    ):
        self._k = k
        self.block = block
        self.storage = storage
        """The storage of its registers."""
        self.scale = scale
        """The storage of the next mma's scale-D."""
        self.n = n
        self.element = element
        self.places = places
        """What knows the rows and columns of its elements."""
        self._written = CertainlyWritten()
        self._carried = Carried(block.name)
        k.sums.append(self._carried)
        self._carried.begin(k.regions)

    @property
    def name(self) -> str:
        """Its name in the machine form and in diagnostics."""
        return self.block.name

    @property
    def registers(self) -> int:
        """How many 32-bit registers a thread has; `values()` reads them."""
        return len(self.storage.slots)

    @property
    def register_class(self) -> RegisterClass:
        """The class of its registers: float registers for f32 accumulators, 32-bit registers for all others."""
        return RegisterClass.F32 if self.element is f32 else RegisterClass.B32

    @property
    def register_type(self) -> ElementType:
        """The type of a register's value: f32 or s32, or u32 for two f16 (the lower column in the lower half)."""
        return u32 if self.element is f16 else self.element

    def clear(self) -> None:
        """Let the next mma overwrite the accumulator. It costs no instruction per register."""
        self._carried.begin(self._k.regions)
        if self._written.clear(self._k.regions):
            self.fill(0)
        self._k.write(self.scale, [constant(self._k, 0, s32).ir])

    def _note_mma(self, *, begins: bool) -> None:
        """An mma writes to it here, which may overwrite what is there."""
        self._written.write(self._k.regions)
        self._carried.add(self._k.regions)
        if begins:
            self._carried.begin(self._k.regions)

    def fill(self, number: Operand) -> None:
        """Set every element to `number`, a Python number or a value of the element's type; the next mma adds to it."""
        element = as_value(self._k, number, self.element)
        self.set([pack_halves(element, element) if self.element is f16 else element] * self.registers)

    def set(self, values: Sequence[Operand]) -> None:
        """Write all of the thread's registers, in order; the next mma adds to them (wgmma.registers).

        Of an accumulator of f16, they are registers of two elements each, or twice as many f16, as `elements` has them.
        """
        if self.element is f16 and len(values) == 2 * self.registers:
            own = [as_value(self._k, value, f16) for value in values]
            values = [pack_halves(*pair) for pair in zip(own[::2], own[1::2], strict=True)]
        if len(values) != self.registers:
            ACCUMULATOR_REGISTERS.fail(accumulator=self.name, registers=self.registers, given=len(values))
        registers = [as_value(self._k, value, self.register_type).ir for value in values]
        self._k.pseudo(WRITE_REGISTERS, [Touch(self.block, Access.WRITE)])
        self._k.write(self.storage, registers)
        self._k.write(self.scale, [constant(self._k, 1, s32).ir])
        self._written.write(self._k.regions)
        self._carried.set(self._k.regions, registers)

    def values(self) -> list[Value]:
        """The thread's registers, in order. Register i is at `position(thread, i)`."""
        registers, facts = self._read()
        return [ReadValue(register, facts) for register in registers]

    def _read(self) -> tuple[list[Value], dict[str, int]]:
        """The thread's registers, and the facts of the instruction that reads them: UNUSED until one of them is."""
        facts = {UNUSED: 1}
        self._k.pseudo(READ_REGISTERS, [Touch(self.block, Access.READ)], facts=facts)
        registers = self._k.read(self.storage) if self._is_written() else self._or_zeros()
        self._carried.read(self._k.regions, registers)
        return [self._k.wrap(register, self.register_type) for register in registers], facts

    def _is_written(self) -> bool:
        """Whether something certainly was written to it here since it was cleared."""
        return self._written.at(self._k.regions)

    def _or_zeros(self) -> list[ir.Value]:
        """Its registers, which are 0 from here on where nothing was written to them since it was cleared."""
        registers, scale = self._k.read(self.storage), self._k.read(self.scale)[0]
        if isinstance(scale, ir.Constant) and scale.constant == 0:
            return [ir.Constant(register.type, 0) for register in registers]
        row = wgmma.zero_unwritten(self.register_class, self.registers)
        registers = self._k.emit(row, {"d": registers, "scale_d": scale})["d"]
        self._k.write(self.storage, registers)
        self._written.write(self._k.regions)
        return registers

    def _places(self) -> TilePlaces | None:
        return self.places

    def _elements(self) -> Sequence[Value]:
        return elements_of(self)

    def __len__(self) -> int:
        return self.registers

    def __iter__(self) -> Iterator[Value]:
        return iter(self.values())

    def __getitem__(self, index: int) -> Value:
        check_index("register", index, self.registers)
        return self.values()[index]

    def position(self, thread: int, index: int) -> tuple[int, int]:
        """Row and column of element `index` of `thread` (0..127), in elements of the M x N tile."""
        return accumulator_position(thread, index)

    def __repr__(self) -> str:
        return f"<accumulator {self.name}: m64n{self.n} {self.element}, {self.registers} registers>"


def elements_of(accumulator: Accumulator) -> list[Value]:
    """The thread's elements, in the order of its registers."""
    if accumulator.element is not f16:
        return accumulator.values()
    registers, facts = accumulator._read()
    return [ReadValue(half, facts) for register in registers for half in halves(register)]


class WgmmaFragment(KnownAttributes):
    """A in registers, for one `wgmma` instruction: four 32-bit registers per thread."""

    def __init__(self, k: Registers, block: RegisterBlock, registers: Sequence[Value], element: ElementType) -> None:
        self._k = k
        self.block = block
        self._registers = tuple(registers)
        self.element = element

    def __repr__(self) -> str:
        return f"<fragment {self.block.name}: A of {self.element}, {len(self._registers)} registers>"

    @property
    def registers(self) -> tuple[Value, ...]:
        """The thread's four registers, to read: no mma that multiplies them may be in flight (wgmma.read-in-flight)."""
        self._k.pseudo(READ_REGISTERS, [Touch(self.block, Access.READ)])
        return self._registers
