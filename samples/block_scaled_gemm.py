"""C = A @ B^T on Hopper from e4m3 with a scale for each block: 1 x 128 elements of A, 128 x 128 of B share a factor.

The tensor core has no place for such scales, and it sums e4m3 products in fewer bits than f32 has. So each step of 128
columns is a product of its own, and the warpgroup adds it, scaled, to sums in f32. While one warpgroup scales, the
other one multiplies.

Run it as it is: it multiplies random matrices (on a machine without a GPU in the simulator) and compares with NumPy.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import e4m3, f16, f32, i32
from samples.problem import Problem
from samples.problem import main as solve
from samples.program import e4m3_matrix

TILE_M, TILE_N, BLOCK = 128, 128, 128
STAGES, CONSUMERS = 5, 2
GROUP = 16  # tile rows that are walked together, so that their tiles of B stay in L2

Operand = Annotated[nvb.TensorMap, nvb.TensorMap(e4m3, box=(TILE_M, BLOCK))]
Result = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]
Scales = Annotated[nvb.Pointer, nvb.Pointer(f32, const=True)]


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1)
def gemm(
    k: nvb.KernelBuilder,
    a: Operand,
    b: Operand,
    c: Result,
    scales_a: Scales,
    scales_b: Scales,
    m: i32,
    n: i32,
    steps: i32,
) -> None:
    """A's scales are steps x M, so that a warp reads those of a step together; B's are steps x N / 128."""
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_N}k32", e4m3, e4m3, f32), warpgroups=(CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, a=mma.smem_a(BLOCK), b=mma.smem_b(BLOCK))
    output = k.tma_epilogue(c, TILE_N, CONSUMERS)
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()

    tiles_m, tiles_n = (m + TILE_M - 1) // TILE_M, (n + TILE_N - 1) // TILE_N
    tiles = lambda: k.range(k.block_id(), tiles_m * tiles_n, k.block_count(), name="tile")  # noqa: E731
    place = lambda tile: k.grouped(tile, tiles_m, tiles_n, GROUP)  # noqa: E731

    with k.producer(registers=40), tiles() as tile:
        row, column = place(tile)
        with k.range(steps) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (row * TILE_M, step * BLOCK), stage.full)
            k.tma.load(stage.b, b, (column * TILE_N, step * BLOCK), stage.full)

    with k.consumers(registers=232) as warpgroup:
        product, sums = mma.accumulator("product"), mma.accumulator("sums")
        with tiles() as tile:
            row, column = place(tile)
            sums.fill(0.0)
            with k.range(steps) as step:
                last = m - 1 - row * TILE_M  # rows past the end of A are 0, whatever scales them
                factors = sums.rows(lambda at: scales_a[step * m + row * TILE_M + k.math.min(at, last)], warpgroup)
                factors = factors * scales_b[step * tiles_n + column]
                with ring.drain() as stage:
                    product.clear()
                    with k.wgmma.group(in_flight=0):
                        mma.accumulate(product, stage.a, stage.b, warpgroup)
                total, scaled = sums.elements(warpgroup), product.elements(warpgroup)
                sums.set(total.map(lambda old, x, factor: k.math.fma(x, factor, old), scaled, factors))
            output.reserve((row * TILE_M + warpgroup * 64, column * TILE_N), warpgroup).store(sums)
        output.finish()


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, scales_a: Any, b: Any, scales_b: Any, c: Any) -> None:
    """Start the kernel on A (M x K) and B (N x K) with their scales, and C (M x N); N is a multiple of 8, K of 16."""
    (m, depth), n = a.shape, b.shape[0]
    tiles = -(-m // TILE_M) * -(-n // TILE_N)
    grid = min(tiles, loaded.device.limits.multiprocessors)
    loaded.launch(grid, a, b, c, scales_a, scales_b, m, n, -(-depth // BLOCK))


def scaled(random: Any, rows: int, columns: int, rows_a_block: int) -> tuple[Any, Any, Any]:
    """A random matrix: bytes of e4m3, the factors of blocks of so many rows and 128 columns, and the values in f32."""
    import numpy as np

    codes, values = e4m3_matrix(random, rows, columns)
    blocks = -(-columns // BLOCK), -(-rows // rows_a_block)
    scales = random.uniform(0.25, 4, blocks).astype(np.float32)
    return codes, scales, values * scales.repeat(BLOCK, 0).repeat(rows_a_block, 1)[:columns, :rows].T


def problem(m: int, n: int, depth: int) -> Problem:
    """Random matrices."""
    import numpy as np

    random = np.random.default_rng(m + n + depth)
    a, scales_a, a_values = scaled(random, m, depth, 1)
    b, scales_b, b_values = scaled(random, n, depth, BLOCK)
    output = np.full((m, n), np.nan, np.float16)
    return Problem(gemm, launch, (a, scales_a, b, scales_b), a_values @ b_values.T, output, 2**-10)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, 8, 16),
        on_the_gpu=(4096, 4096, 4096),
        in_the_simulator=(300, 264, 400),
    )


if __name__ == "__main__":
    sys.exit(main())
