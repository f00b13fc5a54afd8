"""Every call of the builder in one class: a family of operations is a base, or a base of `TiledMmas`."""

from __future__ import annotations

from nvbackend.builder.ops.barriers import Barriers
from nvbackend.builder.ops.caches import Caches
from nvbackend.builder.ops.functions import Functions
from nvbackend.builder.ops.instructions import Instructions
from nvbackend.builder.ops.matrix.tcgen05_generic import GenericTensorMemory
from nvbackend.builder.ops.matrix.wmma import Wmmas
from nvbackend.builder.ops.multimem import Multimem
from nvbackend.builder.tiles.mma.tiled_mma import TiledMmas


class Operations(
    TiledMmas,
    Wmmas,
    Barriers,
    Caches,
    Functions,
    Multimem,
    GenericTensorMemory,
    Instructions,
):
    """The calls of all families, for the kernel builder and for attached ones alike."""
