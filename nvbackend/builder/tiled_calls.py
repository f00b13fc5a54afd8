"""What tiled MMAs need of their builder: the calls that they stand on."""

from __future__ import annotations

from nvbackend.builder.copy_ring import CopyRings
from nvbackend.builder.mma import Mmas
from nvbackend.builder.pipeline import Pipelines
from nvbackend.builder.tcgen05 import TensorMemory


class TiledCalls(Pipelines, TensorMemory, Mmas, CopyRings):
    """The single operations of wgmma, tcgen05 and mma.sync, and copies between memory and registers."""
