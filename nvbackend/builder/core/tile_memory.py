"""Tiles in dynamic shared memory."""

from __future__ import annotations

from nvbackend.builder.core.threads import Threads
from nvbackend.builder.core.tile import SharedTile, SharedTiles
from nvbackend.builder.scopes.naming import name_or
from nvbackend.intrinsics.copy import tma
from nvbackend.intrinsics.row.types import u8
from nvbackend.intrinsics.words.smem_layout import SmemLayout


class TileMemory(Threads):
    """The calls that lay tiles out in shared memory."""

    def shared_tiles(self, layout: SmemLayout, count: int = 1, *, name: str | None = None) -> SharedTiles:
        """`count` tiles of `layout` in dynamic shared memory, aligned to the swizzle period and for TMA."""
        align = max(layout.alignment, tma.TENSOR_ALIGNMENT)
        name = name_or(name, "shared_tiles", "tile")
        first = self._shared(u8, layout.bytes * count, align, name, layout.bytes)
        return SharedTiles(first, layout, count)

    def shared_tile(self, layout: SmemLayout, *, name: str | None = None) -> SharedTile:
        """One tile of `layout` in dynamic shared memory."""
        return self.shared_tiles(layout, name=name_or(name, "shared_tile", "tile")).at(0)
