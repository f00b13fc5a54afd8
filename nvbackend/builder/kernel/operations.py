"""Every call of the builder in one class."""

from __future__ import annotations

from nvbackend.builder.tiles.mma.tiled_mma import TiledMmas


class Operations(TiledMmas):
    """The calls of all families, for the kernel builder and for attached ones alike."""
