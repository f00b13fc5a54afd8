"""What the kernels have in common: tiles of 64 x 64 f16, their tensor maps, and the product of two of them."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32

EXTENT = 64
TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, EXTENT, EXTENT)
MATRIX = nvb.TensorMap(f16, box=(EXTENT, EXTENT))
PRODUCT = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
STEP = PRODUCT.k
WARPS_SUM = (16, 8, 4, 2, 1)
"""Lane distances of a sum over a warp."""


def multiply(k: nvb.KernelBuilder, acc: nvb.Accumulator, a: nvb.SharedTile, b: nvb.SharedTile) -> None:
    """acc += A * B^T, mma by mma; fence, commit and wait are the caller's."""
    for column in range(0, EXTENT, STEP):
        k.wgmma.mma_async(acc, a, b, PRODUCT, a_at=(0, column), b_at=(0, column))


def store_chunks(k: nvb.KernelBuilder, tile: nvb.SharedTile, acc: nvb.Accumulator) -> None:
    """The accumulator as f16 to the swizzled tile, with stmatrix: all 128 threads of the warpgroup."""
    thread = k.thread_id() % 128
    row, lane = thread // 32 * 16 + thread % 16, thread % 32
    values = acc.values()
    for group in range(EXTENT // 16):
        part = values[8 * group : 8 * group + 8]
        pairs = zip(part[::2], part[1::2], strict=True)
        words = [k.convert.pack("f16x2", low, high).bitcast(nvb.u32) for low, high in pairs]
        chunk = (2 * group + lane // 16) ^ (row % 8)
        k.mma.stmatrix(tile.address.byte_offset(row * 128 + chunk * 16, align=16), words)


def warp_sum(k: nvb.KernelBuilder, value: nvb.Value) -> nvb.Value:
    """The sum of a warp's values in each of its lanes."""
    for distance in WARPS_SUM:
        value = value + k.warp.shuffle(value, "bfly", distance)
    return value
