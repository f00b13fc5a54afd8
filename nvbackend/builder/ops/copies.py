"""Mbarriers, and the copies that complete on them: TMA loads and stores of tensor tiles."""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.ops.threads import Threads
from nvbackend.builder.ops.tile import SharedTile, SharedTiles
from nvbackend.builder.scopes.naming import name_or
from nvbackend.intrinsics.copy import tensormap, tma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, u8
from nvbackend.intrinsics.words.smem_layout import SmemLayout
from nvbackend.isel.machine import facts
from nvbackend.signature import TensorMap

MBARRIER_BYTES = 8


class Copies(Threads):
    """Mbarrier and TMA calls (PTX ISA 9.7.13.15 and 9.7.9.27.1)."""

    def shared_tiles(self, layout: SmemLayout, count: int = 1, *, name: str | None = None) -> SharedTiles:
        """`count` tiles of `layout` in dynamic shared memory, aligned to the swizzle period and for TMA."""
        align = max(layout.alignment, tma.TENSOR_ALIGNMENT)
        name = name_or(name, "shared_tiles", "tile")
        first = self._shared(u8, layout.bytes * count, align, name, layout.bytes)
        return SharedTiles(first, layout, count)

    def shared_tile(self, layout: SmemLayout, *, name: str | None = None) -> SharedTile:
        """One tile of `layout` in dynamic shared memory."""
        return self.shared_tiles(layout, name=name_or(name, "shared_tile", "tile")).at(0)


def _extent(kind: TensorMap, mode: str, place: str) -> dict[str, int]:
    """The bytes of a box in shared memory, at the operand `place`; nothing where the map does not say them."""
    if mode in _FOUR_ROWS:
        rows, columns = kind.box
        return {place: _FOUR_ROWS[mode] * kind.element.bytes_for(columns)} if rows == 1 else {}
    return {} if mode == _FIXED_PIXELS else {place: kind.bytes}


_FOUR_ROWS = {"tile::gather4": 4, "tile::scatter4": 4}
"""Modes that copy so many boxes of a row."""
_FIXED_PIXELS = "im2col::w::128"
"""It copies 128 pixels, whatever the map says."""


def _reduced_element(row: Row, element: ElementType) -> dict[str, int]:
    name = tensormap.ELEMENT_TYPE_OF.get(element.name)
    if name is None or row.axes["direction"] != "reduce":
        return {}
    return {facts.ELEMENT: tensormap.ELEMENT_TYPES.index(name)}


def _values(given: Operands) -> Iterator[ir.Value]:
    """The LLVM values among operands."""
    for one in given.values():
        yield from (each for each in (one if isinstance(one, list) else [one]) if isinstance(each, ir.Value))
