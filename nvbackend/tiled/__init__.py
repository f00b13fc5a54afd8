"""An MMA atom over a tile: CuTe's TiledMMA as pure layouts, for mma.sync, wgmma and tcgen05 alike.

`make_tiled_mma` lays an atom over M, N and K; a thread's slice cuts tiles of A, B and C into what each instruction has
of them. Nothing here emits code: threads may be integers or a builder's values, and so may the offsets that come out.
"""

from nvbackend.tiled.fragment import Fragment
from nvbackend.tiled.operand import Operand
from nvbackend.tiled.partition import Partition
from nvbackend.tiled.schedule import Issue, gemm
from nvbackend.tiled.split_k import Reduction, SplitK, reduction, split_k
from nvbackend.tiled.tiled_mma import ThrMMA, TiledMMA, make_tiled_mma

__all__ = [
    "Fragment",
    "Issue",
    "Operand",
    "Partition",
    "Reduction",
    "SplitK",
    "ThrMMA",
    "TiledMMA",
    "gemm",
    "make_tiled_mma",
    "reduction",
    "split_k",
]
