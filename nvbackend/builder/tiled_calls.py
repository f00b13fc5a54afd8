"""What tiled MMAs need of their builder: the calls that they stand on."""

from __future__ import annotations

from nvbackend.builder.mma import Mmas
from nvbackend.builder.pipeline import Pipelines
from nvbackend.builder.tcgen05 import TensorMemory
from nvbackend.builder.tiled_copy import TiledCopies


class TiledCalls(Pipelines, TensorMemory, Mmas, TiledCopies):
    """The single operations of wgmma, tcgen05 and mma.sync, and copies between memory and registers."""
