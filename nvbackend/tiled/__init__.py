"""An MMA atom over a tile: CuTe's TiledMMA as pure layouts, for mma.sync, wgmma and tcgen05 alike.

`make_tiled_mma` lays an atom over M, N and K; a thread's slice cuts tiles of A, B and C into what each instruction has
of them. Nothing here emits code: threads may be integers or a builder's values, and so may the offsets that come out.
A copy atom goes over a tile in the same way: `make_tiled_copy`, and `make_tiled_copy_A` for what an MMA reads.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nvbackend.tiled.copy_atom import (
    CopyAtom,
    CopyKind,
    cp_async_copy,
    ldmatrix_copy,
    stmatrix_copy,
    universal_copy,
)
from nvbackend.tiled.fragment import Fragment, Partition
from nvbackend.tiled.operand import Beside, MmaOperand
from nvbackend.tiled.schedule import Issue, gemm
from nvbackend.tiled.split_k import Reduction, SplitK, reduction, split_k
from nvbackend.tiled.tiled_copy import (
    ThrCopy,
    TiledCopy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_copy_D,
    make_tiled_copy_S,
)
from nvbackend.tiled.tiled_mma import ThrMMA, TiledMMA, make_tiled_mma
from nvbackend.tiled.vectorize import max_common_layout, max_common_vector

if TYPE_CHECKING:
    from nvbackend.tiled.tma_copy import TmaBox, TmaCopy, make_tma_copy, tma_partition

__all__ = [
    "Beside",
    "CopyAtom",
    "CopyKind",
    "Fragment",
    "Issue",
    "MmaOperand",
    "Partition",
    "Reduction",
    "SplitK",
    "ThrCopy",
    "ThrMMA",
    "TiledCopy",
    "TiledMMA",
    "TmaBox",
    "TmaCopy",
    "cp_async_copy",
    "gemm",
    "ldmatrix_copy",
    "make_tiled_copy",
    "make_tiled_copy_A",
    "make_tiled_copy_B",
    "make_tiled_copy_C",
    "make_tiled_copy_C_atom",
    "make_tiled_copy_D",
    "make_tiled_copy_S",
    "make_tiled_mma",
    "make_tma_copy",
    "max_common_layout",
    "max_common_vector",
    "reduction",
    "split_k",
    "stmatrix_copy",
    "tma_partition",
    "universal_copy",
]


def __getattr__(name: str) -> Any:
    """Copies by TMA, imported at their first use."""
    if name in ("TmaBox", "TmaCopy", "make_tma_copy", "tma_partition"):
        return getattr(importlib.import_module(f"{__name__}.tma_copy"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
