"""Every call of the builder in one class: a family of operations is a base."""

from __future__ import annotations

from nvbackend.builder.async_operations import AsyncOperations
from nvbackend.builder.barriers import Barriers
from nvbackend.builder.caches import Caches
from nvbackend.builder.functions import Functions
from nvbackend.builder.instructions import Instructions
from nvbackend.builder.mma import Mmas
from nvbackend.builder.multimem import Multimem
from nvbackend.builder.pipeline import Pipelines
from nvbackend.builder.tcgen05 import TensorMemory
from nvbackend.builder.tcgen05_generic import GenericTensorMemory
from nvbackend.builder.tensor_copies import TensorCopies
from nvbackend.builder.tiled_copy import TiledCopies
from nvbackend.builder.warp_operations import WarpOperations
from nvbackend.builder.wmma import Wmmas


class Operations(
    Pipelines,
    TensorMemory,
    Mmas,
    Wmmas,
    TensorCopies,
    TiledCopies,
    WarpOperations,
    AsyncOperations,
    Barriers,
    Caches,
    Functions,
    Multimem,
    GenericTensorMemory,
    Instructions,
):
    """The calls of all families, for the kernel builder and for attached ones alike."""
