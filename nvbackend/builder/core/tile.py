"""Operand tiles in shared memory: an address and the layout that the tensor core will read it by."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NoReturn

from nvbackend.builder.core.memory import Address, Memory
from nvbackend.builder.scopes.rules import TILE_INDEX
from nvbackend.builder.values.attributes import OF_TILE, KnownAttributes
from nvbackend.builder.values.values import Operand
from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import tma
from nvbackend.intrinsics.row.types import u8
from nvbackend.intrinsics.words.smem_descriptor import UNIT, Major
from nvbackend.layout import ComposedLayout, Swizzle
from nvbackend.layout.descriptors.rules import BOUNDS, STEP
from nvbackend.layout.descriptors.smem_layout import SmemLayout


@user_facing
@dataclass(frozen=True, slots=True)
class SharedTile(KnownAttributes):
    """A tile of shared memory in a canonical layout, from `address` on, which counts bytes (u8).

    A whole tile starts at a multiple of `layout.alignment`.

    `view` is how many of its rows belong to it where it is a part of a larger tile, None for a whole one.
    """

    address: Address
    layout: SmemLayout
    view: int | None = None

    @property
    def cute(self) -> ComposedLayout:
        """The layout from (M or N, K) of its rows to elements from its address on: CuTe's sA or sB."""
        return self.layout.first_rows(self.view)

    def at(self, row: Operand, column: Operand) -> Address:
        """The address of element (row, column) in the layout. Raises layout.bounds for constants outside it.

        Of constants the alignment is known. If the index of the contiguous dimension is a constant that begins a
        16-byte chunk, the address is known to be aligned to 16 bytes; of other indices, to what their arithmetic shows:
        `thread % 8 * 4` of f32 begins chunks.
        """
        numbers = [index if isinstance(index, int) else getattr(index, "constant", None) for index in (row, column)]
        for number, extent in zip(numbers, self._extents, strict=True):
            if isinstance(number, int) and not 0 <= number < extent:
                BOUNDS.fail(row=numbers[0], column=numbers[1], rows=self._extents[0], columns=self._extents[1])
        function = self.cute.in_elements()
        known = function.layout_b(*(number if isinstance(number, int) else 0 for number in numbers))
        rest = (0 if isinstance(number, int) else index for number, index in zip(numbers, (row, column), strict=True))
        index = function.layout_b(*rest)
        along = numbers[self.layout.major is Major.K]
        if isinstance(along, int):
            index = _exchanged(function.swizzle, index, known)
        else:
            index = function.swizzle(index + known)
        byte = self.layout._byte_of(index)
        return self.address.byte_offset(byte, align=self._alignment(byte, along)).cast(self.layout.element)

    def _alignment(self, byte: object, along: object) -> int | None:
        """What the address of this byte of the tile is known to be a multiple of; None: what its arithmetic shows."""
        if isinstance(byte, int):
            return math.gcd(self.address.align, byte)
        begins = isinstance(along, int) and along % self.layout._chunk_extent == 0
        return math.gcd(self.address.align, UNIT) if begins else None

    @property
    def _extents(self) -> tuple[int, int]:
        return self.layout.rows if self.view is None else self.view, self.layout.columns

    @property
    def panels(self) -> int:
        """How many panels of the layout these rows are. Raises layout.step where they end within one."""
        if self.view is None or self.layout.major is Major.K:
            return self.layout.panels
        panels, rest = divmod(self.view, self.layout.panel_extent)
        if rest:
            advice = f"take a multiple of {self.layout.panel_extent} rows: whole panels"
            problem = "they are parts of panels, which no box fills"
            STEP.fail(step=self.view, axis="rows", layout=self.layout._name, problem=problem, advice=advice)
        return panels

    @property
    def panel_box(self) -> tuple[int, int]:
        """A panel of these rows as a tensor map's box: strided extent, contiguous extent, in elements."""
        strided, contiguous = self.layout.panel_box
        return (self._extents[0] if self.layout.major is Major.K else strided), contiguous

    def rows_from(self, block: Operand, rows: int) -> SharedTile:
        """The same tile seen from row `block * rows` on, `rows` rows, which must be whole core matrices.

        Raises layout.step unless the tile is a whole number of such blocks, layout.bounds for a block outside it.
        """
        step = self.layout.row_step_bytes(rows)
        number = block if isinstance(block, int) else getattr(block, "constant", None)
        if isinstance(number, int) and not 0 <= number * rows < self.layout.rows:
            BOUNDS.fail(row=number * rows, column=0, rows=self.layout.rows, columns=self.layout.columns)
        if rows == self.layout.rows:
            return self
        align = math.gcd(self.address.align, step)
        whole = isinstance(block, int) and block == 0
        address = self.address if whole else self.address.steps(block, step, align=align)
        return dataclasses.replace(self, address=address, view=rows)

    def _check_view(self, row: int, rows: int) -> None:
        """Raises layout.bounds unless `rows` rows from `row` on lie in this tile."""
        if self.view is not None and row + rows > self.view:
            BOUNDS.fail(row=row + rows - 1, column=0, rows=self.view, columns=self.layout.columns)


@user_facing
@dataclass(frozen=True, slots=True)
class SharedTiles(KnownAttributes):
    """Equal tiles one after another, such as the stages of a ring."""

    first: Address
    layout: SmemLayout
    count: int

    def at(self, index: Operand) -> SharedTile:
        """The tile with this index (shared.tile if a number is out of range)."""
        number = index if isinstance(index, int) else getattr(index, "constant", None)
        if isinstance(number, int) and not 0 <= number < self.count:
            TILE_INDEX.fail(given=number, count=self.count, last=self.count - 1)
        return SharedTile(self.first.steps(index, self.layout.bytes, align=self.first.align), self.layout)

    if not TYPE_CHECKING:  # it would make a type checker accept the brackets

        def __getitem__(self, index: object) -> NoReturn:
            """Raises tile.attribute."""
            OF_TILE.fail(owner="nvb.SharedTiles", name="elements in brackets", advice="take a tile by tiles.at(index)")


def _exchanged(swizzle: Swizzle, rows: Any, place: int) -> Any:
    """`swizzle(rows + place)`, where `rows` are whole rows of the pattern: only the chunk of `place` is permuted."""
    if not swizzle.bits:
        return rows + place
    source = swizzle.source_mask
    chunk = place & source >> swizzle.shift
    return rows + (place - chunk) + ((rows + (place & source) & source) >> swizzle.shift ^ chunk)


def lay_out_tiles(memory: Memory, layout: SmemLayout, count: int, name: str) -> SharedTiles:
    """`count` tiles of `layout` in dynamic shared memory, aligned to the swizzle period and for TMA."""
    align = max(layout.alignment, tma.TENSOR_ALIGNMENT)
    first = memory.lay_out(u8, layout.bytes * count, align, name, layout.bytes)
    return SharedTiles(first, layout, count)
