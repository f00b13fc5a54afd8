"""C = A @ B^T on GeForce Blackwell, in block-scaled fp8: each 32 elements along K share a factor, a power of two.

Run it as it is: it builds and verifies the kernel, prints what was built, multiplies random matrices (without such a
GPU in the simulator), and compares the result with NumPy.
"""

from __future__ import annotations

import sys
from typing import Any

import nvbackend as nvb
from nvbackend import e4m3, f32, i32, ue8m0
from nvbackend.layout import Layout
from nvbackend.tiled import make_tiled_mma
from samples import program
from samples.warp_tiles import ROWS, THREADS, WARPS, Rows, columns, place_of_c, swizzled

TILE_K, STAGES = columns(e4m3), 3
BLOCK = 32  # elements along K that share a factor
BLOCKS = TILE_K // BLOCK

Bytes = nvb.Pointer[e4m3]
Scales = nvb.Pointer[ue8m0]
Result = nvb.Pointer[f32]
ATOM = "SM120_16x8x32_TN_VS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, 32>"
MMA = make_tiled_mma(ATOM, WARPS, (32, 64, 32))


def factors(
    k: nvb.KernelBuilder, scales: nvb.Address, block: nvb.Value, step: nvb.Value, steps: nvb.Value, count: nvb.Value
) -> tuple[nvb.Tensor, nvb.Inside]:
    """The factors of a tile: those of `ROWS` rows, of which there are `count`, at `step` along K."""
    across = steps * BLOCKS
    whole = k.tensor(scales, Layout((count, across), (across, 1)))
    at = k.identity_tensor((ROWS, BLOCKS), at=(block * ROWS, step * BLOCKS))
    return whole.tile((ROWS, BLOCKS), (block, step)), at.below(count, None)


@nvb.kernel("sm_120a", threads=THREADS, min_ctas=1)
def gemm(
    k: nvb.KernelBuilder, a: Bytes, b: Bytes, scale_a: Scales, scale_b: Scales, c: Result, m: i32, n8: i32, depth16: i32
) -> None:
    n, depth = n8 * 8, depth16 * 16
    row, column = k.block_id("y"), k.block_id("x")
    rows_a, rows_b = Rows(k, a, row, m, depth), Rows(k, b, column, n, depth)
    mma = k.tiled_mma(MMA, tile=(ROWS, ROWS))
    acc = mma.accumulator()

    def fetch(step: nvb.Value, stage: nvb.Stage[nvb.Tensor]) -> None:
        rows_a.fetch(step, stage.a)
        rows_b.fetch(step, stage.b)

    ring = k.pipeline(STAGES, copies="cp.async", a=(e4m3, swizzled(e4m3)), b=(e4m3, swizzled(e4m3)))
    steps = (depth + TILE_K - 1) // TILE_K
    with ring.steps(steps, fetch) as (step, stage):
        of_a, inside_a = factors(k, scale_a, row, step, steps, m)
        of_b, inside_b = factors(k, scale_b, column, step, steps, n)
        scales_a, scales_b = mma.load_scales_a(of_a, where=inside_a), mma.load_scales_b(of_b, where=inside_b)
        mma.accumulate(acc, stage.a, stage.b, scales_a=scales_a, scales_b=scales_b)
    tile, inside = place_of_c(k, c, row, column, m, n)
    mma.store(acc, tile, where=inside)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
    """Start the kernel on A (M x K) and B (N x K), each with its factors, and C; N a multiple of 8 and K of 16.

    A row has factors for whole tiles along K, multiples of 128 elements.
    """
    (m, depth), n = a[0].shape, b[0].shape[0]
    grid = -(-n // ROWS), -(-m // ROWS)
    loaded.launch(grid, a[0], b[0], a[1], b[1], c, m, n // 8, depth // 16)


def scaled_matrix(random: Any, rows: int, depth: int) -> program.Matrix:
    """Random fp8 with factors from 1/8 to 8: those of ue8m0 are exponents, 127 more than they say."""
    import numpy as np

    codes, values = program.e4m3_matrix(random, rows, depth)
    factors = random.integers(127 - 3, 127 + 4, (rows, -(-depth // TILE_K) * BLOCKS), np.uint8)
    exponents = np.repeat(factors.astype(np.int32) - 127, BLOCK, axis=1)[:, :depth]
    return (codes, factors), np.ldexp(values, exponents)


def main() -> int:
    tile = 1, 8, 16
    return program.main(__doc__, gemm, launch, tile=tile, matrix=scaled_matrix, result="float32")


if __name__ == "__main__":
    sys.exit(main())
