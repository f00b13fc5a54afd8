"""Tiles in dynamic shared memory."""

from __future__ import annotations

from nvbackend.builder.core.memory import Memory
from nvbackend.builder.core.tile import SharedTiles
from nvbackend.intrinsics.copy import tma
from nvbackend.intrinsics.row.types import u8
from nvbackend.layout.descriptors.smem_layout import SmemLayout


def lay_out_tiles(memory: Memory, layout: SmemLayout, count: int, name: str) -> SharedTiles:
    """`count` tiles of `layout` in dynamic shared memory, aligned to the swizzle period and for TMA."""
    align = max(layout.alignment, tma.TENSOR_ALIGNMENT)
    first = memory.lay_out(u8, layout.bytes * count, align, name, layout.bytes)
    return SharedTiles(first, layout, count)
