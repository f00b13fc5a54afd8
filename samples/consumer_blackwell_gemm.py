"""C = A @ B^T on GeForce Blackwell, in fp8 scaled by blocks: each 32 elements along K have a factor, a power of two.

Run it as it is: it builds and verifies the kernel, prints what was built, and where there is such a GPU multiplies
random matrices and compares them with NumPy.
"""

from __future__ import annotations

import sys
from typing import Any

import nvbackend as nvb
from nvbackend import e4m3, f32, i32, i64, u32, ue8m0
from nvbackend.builder.memory import Address
from nvbackend.builder.values import Value
from samples import program
from samples.warp_tiles import (
    MMA_M,
    MMA_N,
    PITCH,
    ROWS,
    STEP,
    THREADS,
    WARP_M,
    WARP_N,
    WARPS_N,
    Accumulators,
    Ring,
    load_a,
    load_b,
)

TILE_M, TILE_N, TILE_K = ROWS, ROWS, PITCH * 8 // e4m3.bits
STAGES = 3
BLOCK = 32  # elements along K that share a factor

A = B = nvb.Pointer(e4m3)
SCALES = nvb.Pointer(ue8m0)
C = nvb.Pointer(f32)


def mma(block: int) -> nvb.MmaRequest:
    """The mma whose factors are byte `block` of the registers of the first threads of each quad."""
    at = (block, 0)
    kind = "mxf8f6f4"
    return nvb.mma("m16n8k32", e4m3, e4m3, f32, kind=kind, scale=ue8m0, scale_vec=1, scale_a_at=at, scale_b_at=at)


def load_scales(scales: Address, row: Value, block: Value, depth: Value) -> Value:
    """The four factors of a row of `depth` elements from `block` on, in one register."""
    return scales.byte_offset((row * (depth // BLOCK) + block).to(i64), align=4).cast(u32).load()[0]


@nvb.kernel("sm_120a", threads=THREADS, min_ctas=1)
def gemm(k: nvb.KernelBuilder, a: A, b: B, scale_a: SCALES, scale_b: SCALES, c: C, n: i32, depth: i32) -> None:
    row, column = k.block_id("y") * TILE_M, k.block_id("x") * TILE_N
    ring = Ring(k, STAGES, a, b, row, column, depth)
    acc = Accumulators(k)
    lane, warp = k.lane_id(), k.warp_id()
    row_a = row + warp // WARPS_N * WARP_M + lane % 2 * 8 + lane // 4  # of two threads of a quad, a row each
    row_b = column + warp % WARPS_N * WARP_N + lane // 4
    with ring.drain() as stage:
        first = stage.step * (TILE_K // BLOCK)
        scales_a = [load_scales(scale_a, row_a + m, first, depth) for m in range(0, WARP_M, MMA_M)]
        scales_b = [load_scales(scale_b, row_b + n, first, depth) for n in range(0, WARP_N, MMA_N)]
        for block, byte in enumerate(range(0, PITCH, STEP)):
            fragments = load_a(k, stage.a, byte), load_b(k, stage.b, byte)
            acc.accumulate(mma(block), *fragments, (scales_a, scales_b))
    acc.store(c, row, column, n)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
    """Start the kernel on A (M x K) and B (N x K), each with its factors (K / 32 a row), and C: whole tiles."""
    (m, depth), n = a[0].shape, b[0].shape[0]
    loaded.launch((n // TILE_N, m // TILE_M), a[0], b[0], a[1], b[1], c, n, depth)


def scaled_matrix(random: Any, rows: int, columns: int) -> program.Matrix:
    """Random fp8 with factors from 1/8 to 8: those of ue8m0 are exponents, 127 more than they say."""
    import numpy as np

    codes, values = program.e4m3_matrix(random, rows, columns)
    factors = random.integers(127 - 3, 127 + 4, (rows, columns // BLOCK), np.uint8)
    return (codes, factors), np.ldexp(values, np.repeat(factors.astype(np.int32) - 127, BLOCK, axis=1))


def main() -> int:
    tile = TILE_M, TILE_N, TILE_K
    return program.main(__doc__, gemm, launch, tile=tile, matrix=scaled_matrix, result="float32")


if __name__ == "__main__":
    sys.exit(main())
