"""What several examples begin with, so that each shows one idea."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.builder.accumulator import Accumulator
from nvbackend.builder.tile import SharedTile
from nvbackend.builder.tiled_mma import TiledMma


def wgmma_parts(k: nvb.KernelBuilder) -> tuple[TiledMma, Accumulator, SharedTile]:
    """An mma of one warpgroup, its accumulator, and a tile that serves as both operands."""
    mma = k.tiled_mma(nvb.wgmma("m64n64k16", f16, f16, f32))
    return mma, mma.accumulator(), k.shared_tile(mma.smem_a(64))
