"""What tiled MMAs need of their builder: the calls that they stand on."""

from __future__ import annotations

from nvbackend.builder.tiles.copy_ring import CopyRings
from nvbackend.builder.tiles.pipeline import Pipelines


class TiledCalls(Pipelines, CopyRings):
    """The single operations of wgmma, tcgen05 and mma.sync, and copies between memory and registers."""
