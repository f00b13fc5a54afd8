"""Every call of the builder in one class: a family of operations is a base, or a base of `TiledMmas`."""

from __future__ import annotations

from nvbackend.builder.barriers import Barriers
from nvbackend.builder.caches import Caches
from nvbackend.builder.functions import Functions
from nvbackend.builder.instructions import Instructions
from nvbackend.builder.multimem import Multimem
from nvbackend.builder.tcgen05_generic import GenericTensorMemory
from nvbackend.builder.tiled_mma import TiledMmas
from nvbackend.builder.wmma import Wmmas


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
