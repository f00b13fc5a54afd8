"""Kernels of one warpgroup that end in alpha * A * B + beta * C, for tests on this machine and on a GPU."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, s8, s32
from nvbackend.builder.tiles.mma.wgmma import TiledWgmma


def warpgroup_kernel(**parameters: nvb.Pointer | nvb.Scalar) -> nvb.KernelBuilder:
    """A kernel for Hopper with these parameters."""
    taken = [nvb.Parameter(name, kind) for name, kind in parameters.items()]
    return nvb.KernelBuilder("axpby", "sm_90a", threads=128, parameters=taken)


def product(k: nvb.KernelBuilder, n: int, d: nvb.ElementType = f32) -> tuple[TiledWgmma, nvb.Accumulator]:
    """One wgmma of 64 x `n`, of s8 where it sums in s32 and of f16 elsewhere, and an accumulator for it."""
    factor, k_extent = (s8, 32) if d is s32 else (f16, 16)
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{n}k{k_extent}", factor, factor, d))
    return mma, mma.accumulator()
