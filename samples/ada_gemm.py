"""C = A @ B^T in fp8 on Ada: the Ampere GEMM, where mma.sync multiplies twice as many columns in the same bytes.

Run it as it is: it builds and verifies the kernel, prints what was built, multiplies random matrices (without such a
GPU in the simulator), and compares the result with NumPy.
"""

from __future__ import annotations

import sys
from typing import Any

import nvbackend as nvb
from nvbackend import e4m3, f32, i32
from nvbackend.tiled import make_tiled_mma
from samples import program
from samples.warp_tiles import ROWS, THREADS, WARPS, Rows, columns, place_of_c, swizzled

TILE_K, STAGES = columns(e4m3), 3
MMA = make_tiled_mma("SM89_16x8x32_F32E4M3E4M3F32_TN", WARPS, (32, 64, 32))


@nvb.kernel("sm_89", threads=THREADS, min_ctas=1)
def gemm(
    k: nvb.KernelBuilder, a: nvb.Pointer[e4m3], b: nvb.Pointer[e4m3], c: nvb.Pointer[f32], m: i32, n8: i32, depth16: i32
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
    with ring.steps((depth + TILE_K - 1) // TILE_K, fetch) as (_, stage):
        mma.accumulate(acc, stage.a, stage.b)
    tile, inside = place_of_c(k, c, row, column, m, n)
    mma.store(acc, tile, where=inside)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
    """Start the kernel on A (M x K), B (N x K) and C (M x N), where N is a multiple of 8 and K of 16."""
    (m, depth), n = a.shape, b.shape[0]
    loaded.launch((-(-n // ROWS), -(-m // ROWS)), a, b, c, m, n // 8, depth // 16)


def main() -> int:
    tile = 1, 8, 16
    return program.main(__doc__, gemm, launch, tile=tile, matrix=program.e4m3_matrix, result="float32")


if __name__ == "__main__":
    sys.exit(main())
