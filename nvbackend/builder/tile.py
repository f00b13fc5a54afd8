"""Operand tiles in shared memory: an address and the layout that the tensor core will read it by."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from nvbackend.builder.memory import Address
from nvbackend.builder.values import Operand
from nvbackend.intrinsics.smem_layout import SmemLayout


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile of shared memory in a canonical layout. A whole tile starts at a multiple of `layout.alignment`."""

    address: Address
    layout: SmemLayout

    def rows_from(self, block: Operand, rows: int) -> SharedTile:
        """The same tile seen from row `block * rows` on, which must be whole core matrices."""
        if isinstance(block, int) and block == 0:
            return self
        return dataclasses.replace(self, address=self.address.byte_offset(block * self.layout.row_step_bytes(rows)))


@dataclass(frozen=True, slots=True)
class SharedTiles:
    """Equal tiles one after another, such as the stages of a ring."""

    first: Address
    layout: SmemLayout
    count: int

    def at(self, index: Operand) -> SharedTile:
        """The tile with this index."""
        return SharedTile(self.first.byte_offset(index * self.layout.bytes, align=self.first.align), self.layout)
