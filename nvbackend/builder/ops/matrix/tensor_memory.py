"""Columns of tensor memory with their allocation, the allocations of raw addresses, and loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.value_tracking.addresses.places import Place, Places
from nvbackend.builder.values.attributes import OF_TILE, KnownAttributes
from nvbackend.builder.values.values import Arithmetic, Emitter, Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import ElementType, u32
from nvbackend.isel.machine.function import TMEM, Access, MemoryObject, MemoryTouch, RegisterBlock, Touch
from nvbackend.isel.machine.pseudo import READ_REGISTERS
from nvbackend.isel.machine.tensor_memory_uses import LANE_SHIFT, Uses
from nvbackend.isel.operands.memory import BOUNDS, READ_BEFORE_WAIT

_COLUMN_MASK = (1 << LANE_SHIFT) - 1


@user_facing
class TmemColumns(Arithmetic):
    """`width` columns of an allocation in tensor memory, usable wherever an address (u32) of it is."""

    __slots__ = ("_address", "_k", "width")

    def __init__(self, k: Emitter, address: Value, width: int) -> None:
        self._k = k
        self._address = address
        self.width = width

    def _value(self) -> Value:
        return self._address

    @property
    def address(self) -> Value:
        """The address of the first lane of the first column."""
        return self._address

    def columns(self, first: Operand, width: int) -> TmemColumns:
        """`width` columns from column `first` of these on. Raises tcgen05.bounds for a constant that leaves them."""
        number = first if isinstance(first, int) else getattr(first, "constant", None)
        last = (number if isinstance(number, int) else 0) + width
        if width < 1 or last > self.width or (isinstance(number, int) and number < 0):
            BOUNDS.fail(what=f"{width} column(s) from {number or 0} on", name="this block", columns=self.width)
        return TmemColumns(self._k, self._address + self._number(first), width)

    def lanes(self, first: Operand) -> TmemColumns:
        """The same columns from lane `first` on: a warp can access the 32 lanes from 32 * (warp % 4) on."""
        return TmemColumns(self._k, self._address + (self._number(first) << LANE_SHIFT), self.width)

    def _check_wide(self, columns: int | None, instruction: str) -> None:
        """Raises tcgen05.bounds where an instruction touches more columns, None for an unknown number."""
        if columns is not None and columns > self.width:
            BOUNDS.fail(what=f"{columns} column(s) of {instruction}", name="this block", columns=self.width)

    def _number(self, operand: Operand) -> Value:
        return as_value(self._k, operand, u32 if isinstance(operand, int) else None).to(u32)

    if not TYPE_CHECKING:  # it would make a type checker accept the brackets

        def __getitem__(self, index: object) -> NoReturn:
            """Raises tile.attribute: threads read tensor memory by instructions of whole warps."""
            advice = (
                "take some of its columns by block.columns(first, width), and its lanes by block.lanes(first); read "
                'them by k.tcgen05.ld(block, "32x32b", registers) and write them by k.tcgen05.st'
            )
            OF_TILE.fail(owner=repr(self), name="elements in brackets", advice=advice)

        def __setitem__(self, index: object, value: object) -> NoReturn:
            """Raises tile.attribute: threads write tensor memory by instructions of whole warps."""
            self[index]

    def __repr__(self) -> str:
        return f"<{self.width} columns of tensor memory>"


class TmemPlaces:
    """Which values of a function are addresses in tensor memory, and in which allocation."""

    def __init__(self, shared: Places) -> None:
        self._shared = shared
        self._known = Places()
        self._cells: dict[tuple[int, int, str], Place] = {}

    def allocate(self, cell: ir.Value, columns: int, name: str) -> MemoryObject:
        """A new allocation, whose address `tcgen05.alloc` writes to the shared memory at `cell`."""
        made = replace(self._shared.allocate(name, columns, columns).object, space=TMEM)
        if (key := self._key(cell)) is not None:
            self._cells[key] = Place(made)
        return made

    def find(self, address: ir.Value) -> Place | None:
        """The allocation and column of an address; None if unknown."""
        self._read_cells(address)
        place = self._known.of_address(address)
        if place is None:
            return None
        terms = {name: factor for name, factor in place.terms.items() if factor & _COLUMN_MASK}
        return Place(place.object, place.offset & _COLUMN_MASK, terms)

    def touches(self, operands: Operands, uses: Uses) -> Iterator[MemoryTouch]:
        """The accesses of `uses` at the operands whose allocation is known."""
        for name, (use, columns) in uses.items():
            registers = operands[name]
            value = registers[0] if isinstance(registers, Sequence) else registers
            place = self.find(value) if isinstance(value, ir.Value) else None
            if place is not None:
                yield place.touch(use, name, columns)

    def _read_cells(self, value: ir.Value) -> None:
        """A value loaded from where an allocation wrote its address is that address."""
        waiting = [value]
        while waiting:
            term = waiting.pop()
            if isinstance(term, ir.LoadInstr):
                pointer = term.operands[0]
                inside = pointer.operands[0] if isinstance(pointer, ir.CastInstr) else None
                key = None if inside is None else self._key(inside)
                if key in self._cells:
                    self._known.addresses[term] = self._cells[key]
            elif isinstance(term, ir.Instruction) and term.opname == "add":
                waiting += term.operands

    def _key(self, cell: ir.Value) -> tuple[int, int, str] | None:
        place = self._shared.of_address(cell)
        return None if place is None else (place.object.id, place.offset, str(sorted(place.terms.items())))


@user_facing
class TensorLoad(KnownAttributes):
    """The registers that a load from tensor memory fills; they are valid only after `k.tcgen05.wait_ld`."""

    __slots__ = ("_blocks", "_element", "_k", "_waited", "block")

    def __init__(self, k: Core, element: ElementType, blocks: Sequence[list[ir.Value]], block: RegisterBlock) -> None:
        self._k = k
        self.block = block
        self._element = element
        self._blocks = list(blocks)
        self._waited = False

    def __repr__(self) -> str:
        state = "" if self._waited else ", not waited for"
        return f"<load from tensor memory: {len(self._blocks[0])} registers of {self._element}{state}>"

    def __getitem__(self, index: int) -> Value:
        """The register of this number, of `values`."""
        return self.values[index]

    @property
    def values(self) -> list[Value]:
        """The loaded registers of this thread. Raises tcgen05.read-before-wait before the wait."""
        return self._read(0)

    @property
    def reduced(self) -> Value:
        """Their minimum or maximum, if the load has `red=` (tcgen05.read-before-wait before the wait)."""
        return self._read(-1)[0]

    def _read(self, block: int) -> list[Value]:
        if not self._waited:
            READ_BEFORE_WAIT.fail()
        self._k.pseudo(READ_REGISTERS, [Touch(self.block, Access.READ)])
        return [self._k.wrap(register, self._element) for register in self._blocks[block]]
