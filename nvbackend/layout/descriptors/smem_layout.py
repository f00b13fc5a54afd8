"""Operand tiles in shared memory: the eight canonical layouts, K-major or MN-major, with one of four swizzles.

The contiguous dimension (K in a K-major tile, M or N in an MN-major one) is cut into panels as wide as a row of the
swizzle pattern: 16 bytes without swizzle, else 32, 64 or 128. A panel holds all indices of the other, strided
dimension, a row each, and the panels lie one after another. One TMA copy whose inner extent is the panel's width fills
one panel. Where an element lies is what the layout says (`SmemLayout.layout`).

PTX ISA 9.7.15.5.1.2 (shared memory matrix layout), 9.7.15.5.1.2.1 (strides); all eight measured on an H200.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from nvbackend.diagnostics import Diagnostic, raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma.wgmma import K_BITS
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.smem_descriptor import (
    ADDRESS_MASK,
    CORE_ROWS,
    UNIT,
    Major,
    SmemDescriptor,
    SwizzleMode,
    tile_element_faults,
)
from nvbackend.layout.algebra.composition import composition
from nvbackend.layout.algebra.simplify import upcast
from nvbackend.layout.algebra.swizzle import BYTE_BITS, ComposedLayout
from nvbackend.layout.algebra.tiling import Order, tile_to_shape
from nvbackend.layout.descriptors.operand import CHUNK_BITS, FORMS, Stride
from nvbackend.layout.descriptors.padding import held_bits, padded, unpadded
from nvbackend.layout.descriptors.rules import (
    ALIGNMENT,
    ARRAY,
    BOUNDS,
    COLUMNS,
    ORIGIN,
    ROWS,
    SIZE,
    STEP,
    STRADDLE,
)
from nvbackend.layout.descriptors.tile_atoms import gmma_atom

if TYPE_CHECKING:
    import numpy
    import numpy.typing

TMA_BOX_LIMIT = 256
"""The most elements of a dimension that one TMA copy moves (CUDA driver API, cuTensorMapEncodeTiled)."""


@dataclass(frozen=True, slots=True)
class BoxCopy:
    """One TMA copy of a tile: it fills `byte_offset` on from the tile's start with the box at element (row, column)."""

    panel: int
    byte_offset: int
    row: int
    column: int


@user_facing
@dataclass(frozen=True, slots=True)
class SmemLayout:
    """An operand tile of `rows` (M or N) by `columns` (K) elements in one of the canonical layouts.

    A sparse A is described as stored, with half the columns. A sub-byte element is addressed by the byte that holds it.
    Elements of 4 bits lie side by side, as tcgen05's kinds mxf4 and mxf4nvf4 read them; `padded` ones of 4 or 6 bits as
    f8f6f4 and mxf8f6f4 do, 16 of them and padding in 16 bytes. wgmma reads neither. Raises, all together,
    layout.element, layout.major, layout.rows and layout.columns; call.argument for other kinds.
    """

    major: Major
    swizzle: SwizzleMode
    element: ElementType
    rows: int
    columns: int
    padded: bool = False

    def __post_init__(self) -> None:
        kinds = (Major, SwizzleMode, ElementType, int, int, bool)
        values = (self.major, self.swizzle, self.element, self.rows, self.columns, self.padded)
        if not all(map(isinstance, values, kinds)):
            raise TypeError("the boundary says which")  # any other object would pass for the other major
        raise_all(self._faults())

    def _faults(self) -> Iterator[Diagnostic]:
        if faults := list(tile_element_faults(self.major, self.element, padded=self.padded)):
            yield from faults
            return
        for rule, axis, extent in ((ROWS, 0, self.rows), (COLUMNS, 1, self.columns)):
            step = self._extent_step(self.swizzle)[axis]
            if extent > 0 and extent % step == 0:
                continue
            fitting = [
                f", or {mode} swizzle"
                for mode in SwizzleMode
                if extent > 0 and extent % self._extent_step(mode)[axis] == 0
            ]
            yield rule.diagnose(
                major=self.major,
                element=self.element,
                swizzle=self.swizzle,
                given=extent,
                step=step,
                nearest=max(step, -(-extent // step) * step),
                other="".join(fitting),
            )
        size, most = self._bytes_for(self.rows * self.columns), ADDRESS_MASK + 1
        if size > most:
            yield SIZE.diagnose(rows=self.rows, columns=self.columns, element=self.element, bytes=size, most=most)

    def _extent_step(self, swizzle: SwizzleMode) -> tuple[int, int]:
        """What rows and columns must be multiples of under `swizzle`: whole panels, core matrices and MMA K steps."""
        panel = self._elements_in(swizzle.bytes)
        mma_k = K_BITS // self.bits
        if self.major is Major.K:
            return CORE_ROWS, math.lcm(panel, mma_k)
        return panel, math.lcm(CORE_ROWS, mma_k)

    @property
    def bits(self) -> int:
        """The bits that an element takes in the tile: its own, or a byte where it is padded."""
        return BYTE_BITS if self.padded else self.element.bits

    def _bytes_for(self, count: int) -> int:
        """The bytes that `count` neighbours of the contiguous dimension take, rounded up to a whole byte."""
        return -(-count * self.bits // BYTE_BITS)

    def _byte_of(self, index: Any) -> Any:
        """The byte in which the element with an `index` of `layout` begins: a number's, or a builder's value's."""
        if self.bits >= BYTE_BITS and not self.padded:
            return index * (self.bits // BYTE_BITS)
        if not self.padded:
            return index * self.bits // BYTE_BITS if isinstance(index, int) else index // (BYTE_BITS // self.bits)
        place = index % UNIT
        return index - place + place * self.element.bits // BYTE_BITS

    def _elements_in(self, bytes: int) -> int:
        return bytes * BYTE_BITS // self.bits

    @property
    def layout(self) -> ComposedLayout:
        """(M or N, K) to elements, CuTe's sA or sB: atoms over the strided dimension, then panels.

        That of `SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64)` is
        `Sw<3,4,3> o smem_ptr o ((_8,_16),(_64,_1)):((_64,_512),(_1,_0))`.
        """
        return _layout(self)

    def first_rows(self, rows: int | None) -> ComposedLayout:
        """`layout` of the first `rows` rows, None for all. Raises layout-algebra.composition for half core matrices."""
        if rows is None:
            return self.layout
        return self.layout.with_layout(lambda inner: composition(inner, (rows, self.columns)))

    @property
    def _contiguous(self) -> int:
        """The elements of the contiguous dimension."""
        return self.columns if self.major is Major.K else self.rows

    @property
    def _strided(self) -> int:
        """The elements of the strided dimension: rows of a panel."""
        return self.rows if self.major is Major.K else self.columns

    @property
    def panel_extent(self) -> int:
        """Elements of the contiguous dimension in a panel."""
        return self._elements_in(self.swizzle.bytes)

    @property
    def _chunk_extent(self) -> int:
        """Elements of the contiguous dimension in 16 bytes, which no swizzle parts."""
        return self._elements_in(UNIT)

    @property
    def panel_box(self) -> tuple[int, int]:
        """A panel as a tensor map's box, outermost dimension first: strided extent, contiguous extent, in elements."""
        return self._strided, self.panel_extent

    @property
    def pitch(self) -> int:
        """Bytes from one index of the strided dimension to the next, within a panel."""
        return self.swizzle.bytes

    @property
    def panels(self) -> int:
        """How many panels follow one another."""
        return self._contiguous // self.panel_extent

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel: all of the strided dimension, one row of the swizzle pattern wide."""
        return self._strided * self.pitch

    @property
    def bytes(self) -> int:
        """Bytes of the tile, a multiple of `alignment`, so that tiles can follow each other."""
        return self.panels * self.panel_bytes

    @property
    def alignment(self) -> int:
        """What the tile's address must be a multiple of, in bytes: the swizzle's period, 16 for none."""
        return self.swizzle.period

    def _linear(self, row: int, column: int) -> int:
        """The byte, before the swizzle, that holds an element."""
        byte: int = self._byte_of(self.layout.layout_b(row, column))
        return byte

    def _oriented(self, row: int, column: int) -> tuple[int, int]:
        return (row, column) if self.major is Major.K else (column, row)

    def offset(self, row: int, column: int) -> int:
        """The byte, counted from the tile's start, in which element (row, column) begins. Raises layout.bounds."""
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            BOUNDS.fail(row=row, column=column, rows=self.rows, columns=self.columns)
        return self.swizzle.apply(self._linear(row, column))

    def _stride(self, of: Stride) -> int:
        """What the form of this majorness and swizzle has in one of the descriptor's offsets, in bytes."""
        form = next(form for form in FORMS if (form.major, form.gmma) == (self.major, self.swizzle))
        return {form.along: self.panel_bytes, form.across: form.lines * self.pitch}.get(of, UNIT)

    @property
    def leading_byte_offset(self) -> int:
        """LBO in bytes: from panel to panel, or from one 8 k to the next without swizzle in an MN-major tile.

        A swizzled K-major operand does not use it; PTX ISA gives it 1 unit there.
        """
        return self._stride(Stride.LBO)

    @property
    def stride_byte_offset(self) -> int:
        """SBO in bytes: from eight rows of a panel to the next eight, or from panel to panel (MN-major, no swizzle)."""
        return self._stride(Stride.SBO)

    def descriptor(self, start_address: int = 0) -> SmemDescriptor:
        """The descriptor of the tile at shared address `start_address`, in bytes.

        Raises layout.alignment where the address is not a multiple of `alignment` (the base offset of a shifted
        pattern is not supported), and descriptor.range where an address or stride does not fit.
        """
        if rest := start_address % self.alignment:
            below = start_address - rest
            ALIGNMENT.fail(
                swizzle=self.swizzle,
                given=start_address,
                alignment=self.alignment,
                below=below,
                above=below + self.alignment,
            )
        return SmemDescriptor(
            start_address, self.leading_byte_offset, self.stride_byte_offset, base_offset=0, swizzle=self.swizzle
        )

    def origin(self, row: int, column: int, *, rows: int | None = None, columns: int | None = None) -> int:
        """Bytes to advance the tile's descriptor by for an operand that starts at element (row, column).

        With `rows` and `columns`, what the instruction reads from there on, it is also checked that the descriptor's
        strides lead through it. Raises layout.bounds, layout.origin, layout.straddle.
        """
        last = (row + (rows or 1) - 1, column + (columns or 1) - 1)
        for corner in ((row, column), last):
            if not (0 <= corner[0] < self.rows and 0 <= corner[1] < self.columns):
                BOUNDS.fail(row=corner[0], column=corner[1], rows=self.rows, columns=self.columns)
        row_step, column_step = self._oriented(CORE_ROWS, self._chunk_extent)
        if row % row_step or column % column_step:
            ORIGIN.fail(row=row, column=column, row_step=row_step, column_step=column_step, layout=self._name)
        self._check_straddle(self._oriented(row, column)[1], (columns if self.major is Major.K else rows) or 1)
        return self._linear(row, column)

    def reach(self, row: int, column: int, rows: int, columns: int) -> int:
        """Bytes from the `origin` of an operand of `rows` by `columns` to where what it reads ends, gaps included."""
        lines, wide = self._oriented(rows, columns)
        strided, contiguous = self._oriented(row, column)
        last_panel = (contiguous + wide - 1) // self.panel_extent
        return last_panel * self.panel_bytes + (strided + lines) * self.pitch - self._linear(row, column)

    def _check_straddle(self, start: int, extent: int) -> None:
        """Strides lead out of a panel only along M or N, from its beginning; without swizzle from everywhere."""
        place = start % self.panel_extent
        whole_panels = self.major is Major.MN and place == 0
        if self.swizzle.mask and place + extent > self.panel_extent and not whole_panels:
            axis = "columns" if self.major is Major.K else "rows"
            STRADDLE.fail(axis=axis, first=start, last=start + extent - 1, panel=self.panel_extent, layout=self._name)

    def k_steps(self, k: int) -> tuple[int, ...]:
        """The `origin` of every K step of an instruction that reads `k` columns.

        Raises layout.step where the tile is not a whole number of steps, and what `origin` raises.
        """
        self._check_steps("columns", self.columns, k)
        return tuple(self.origin(0, column, columns=k) for column in range(0, self.columns, k))

    def row_steps(self, rows: int) -> tuple[int, ...]:
        """The `origin` of every M or N step of an instruction that reads `rows` rows. Raises as `k_steps` does."""
        self._check_steps("rows", self.rows, rows)
        return tuple(self.origin(row, 0, rows=rows) for row in range(0, self.rows, rows))

    def k_step_bytes(self, k: int) -> int:
        """Bytes from one K step of `k` columns to the next; 0 where the tile is a single one.

        Raises layout.step where the distance is not always the same, which is so from one panel of a K-major tile to
        the next; and what `k_steps` raises.
        """
        return self._constant("columns", k, self.k_steps(k))

    def row_step_bytes(self, rows: int) -> int:
        """Bytes from one M or N step of `rows` rows to the next; 0 where the tile is one. Raises as `k_step_bytes`."""
        return self._constant("rows", rows, self.row_steps(rows))

    def _check_steps(self, axis: str, extent: int, step: int) -> None:
        if step <= 0 or extent % step:
            problem = f"{extent} {axis} are not a whole number of them"
            STEP.fail(step=step, axis=axis, layout=self._name, problem=problem, advice=f"use a divisor of {extent}")

    def _constant(self, axis: str, step: int, steps: tuple[int, ...]) -> int:
        strides = {after - before for before, after in itertools.pairwise(steps)}
        if len(strides) > 1:
            STEP.fail(
                step=step,
                axis=axis,
                layout=self._name,
                problem=f"they start at bytes {', '.join(map(str, steps))}, which is not a constant stride",
                advice=f"ask for the origin of each one, or make the tile {self.panel_extent} {axis} wide",
            )
        return strides.pop() if strides else 0

    @property
    def _name(self) -> str:
        padded = "padded " if self.padded else ""
        return f"{self.major} tile of {self.rows} x {self.columns} {padded}{self.element} with {self.swizzle} swizzle"

    @property
    def tma_box(self) -> tuple[int, int]:
        """The box of the tensor map that fills the tile, in elements and as the map takes it: contiguous extent last.

        That is `panel_box`, or an even part of it where a panel is longer than a box can be.
        """
        extents = range(CORE_ROWS, TMA_BOX_LIMIT + 1, CORE_ROWS)
        return max(extent for extent in extents if self._strided % extent == 0), self.panel_extent

    @property
    def tma_copies(self) -> tuple[BoxCopy, ...]:
        """The copies of `tma_box` that fill the tile, in the order of their addresses."""
        part, across = self.tma_box
        starts = (
            (panel, *self._oriented(strided, panel * across))
            for panel in range(self.panels)
            for strided in range(0, self._strided, part)
        )
        return tuple(BoxCopy(panel, self._linear(row, column), row, column) for panel, row, column in starts)

    def arrange(self, matrix: numpy.ndarray[Any, Any]) -> numpy.typing.NDArray[numpy.uint8]:
        """The tile's bytes when it holds `matrix`, of shape (rows, columns) with the element's size an item.

        Elements of 1 or 4 bits come packed, so their matrix has fewer columns; of 6 bits each has a byte. Raises
        layout.array.
        """
        import numpy

        self._check_array("a matrix", matrix.shape, matrix.dtype.itemsize, self._matrix_shape, self._item_bytes)
        stored = numpy.ascontiguousarray(matrix if self.major is Major.K else matrix.T)
        image = numpy.empty((self.bytes // UNIT, UNIT), numpy.uint8)
        chunks = stored.view(numpy.uint8)
        image[self._chunks()] = padded(chunks, self.element.bits) if self.padded else chunks.reshape(-1, UNIT)
        return image.reshape(-1)

    def gather(self, image: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        """The matrix that a tile's bytes hold: the inverse of `arrange`, in the element's NumPy storage type.

        `image` is one-dimensional, of `bytes` items of one byte. Raises layout.array.
        """
        import numpy

        self._check_array("an image", image.shape, image.dtype.itemsize, (self.bytes,), 1)
        chunks = numpy.ascontiguousarray(image).view(numpy.uint8).reshape(-1, UNIT)
        held = chunks[self._chunks()]
        plain = unpadded(held, self.element.bits) if self.padded else held.reshape(-1)
        stored = plain.view(self.element.numpy_dtype())
        rows, columns = self._matrix_shape
        return stored.reshape(rows, columns) if self.major is Major.K else stored.reshape(columns, rows).T

    @property
    def _item_bytes(self) -> int:
        return self.element.bytes_for(1)

    @property
    def _matrix_shape(self) -> tuple[int, int]:
        held = self.columns * held_bits(self.element.bits) // BYTE_BITS
        return self.rows, held // self._item_bytes

    def _chunks(self) -> list[int]:
        """For each 16-byte chunk of the stored matrix, in its order, the chunk of the tile it lies in."""
        chunks = upcast(self.layout, CHUNK_BITS // self.bits)
        along = self._contiguous // self._elements_in(UNIT)
        return [chunks(*self._oriented(line, chunk)) for line in range(self._strided) for chunk in range(along)]

    def _check_array(
        self, what: str, shape: tuple[int, ...], item: int, wanted: tuple[int, ...], wanted_item: int
    ) -> None:
        if shape != wanted or item != wanted_item:
            ARRAY.fail(what=what, shape=shape, item=item, wanted=wanted, wanted_item=wanted_item, layout=self._name)


@cache
def _layout(tile: SmemLayout) -> ComposedLayout:
    order: Order = "left" if tile.major is Major.K else "right"
    return tile_to_shape(gmma_atom(tile.major, tile.swizzle, tile.bits), (tile.rows, tile.columns), order)
