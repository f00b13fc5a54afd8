"""C = A @ B^T in f16 on Hopper by persistent CTAs, which take tiles from a counter in memory.

If tiles are dealt in a fixed order, a CTA that is slow or starts late keeps its share. Here the producer draws the
number of the next tile while it loads the present one, and the consumers take what it has drawn.

Run it as it is: it multiplies random matrices (on a machine without a GPU in the simulator) and compares with NumPy.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32
from samples.problem import Problem, random_product
from samples.problem import main as solve

TILE_M, TILE_N, TILE_K = 128, 128, 64
STAGES, CONSUMERS = 5, 2
GROUP = 16  # tile rows that are walked together, so that their tiles of B stay in L2

Operand = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_M, TILE_K))]
Result = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1)
def gemm(
    k: nvb.KernelBuilder,
    a: Operand,
    b: Operand,
    c: Result,
    counter: Annotated[nvb.Pointer, nvb.Pointer(i32)],
    tiles_m: i32,
    tiles_n: i32,
    steps: i32,
) -> None:
    count = tiles_m * tiles_n
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_N}k16", f16, f16, f32), warpgroups=(CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K))
    output = k.tma_epilogue(c, TILE_N, CONSUMERS)
    tiles = k.dynamic_tiles(counter, count, CONSUMERS)
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()

    place = lambda tile: k.grouped(tile, tiles_m, tiles_n, GROUP)  # noqa: E731

    with k.producer(registers=40), tiles.draw() as tile:
        m, n = place(tile)
        with k.range(steps) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (m * TILE_M, step * TILE_K), stage.full)
            k.tma.load(stage.b, b, (n * TILE_N, step * TILE_K), stage.full)

    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        with tiles.take() as tile:
            acc.clear()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b, warpgroup)
            m, n = place(tile)
            reserved = output.reserve((m * TILE_M + warpgroup * 64, n * TILE_N), warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            reserved.store(acc)
        output.finish()


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, counter: Any, c: Any) -> None:
    """Start the kernel on A (M x K), B (N x K), a counter that is 0, and C (M x N); K and N are multiples of 8."""
    (m, depth), n = a.shape, b.shape[0]
    tiles = -(-m // TILE_M), -(-n // TILE_N)
    grid = min(tiles[0] * tiles[1], loaded.device.limits.multiprocessors)
    loaded.launch(grid, a, b, c, counter, *tiles, -(-depth // TILE_K))


def problem(m: int, n: int, depth: int) -> Problem:
    """Random matrices."""
    import numpy as np

    a, b, expected, output = random_product(m, n, depth)
    return Problem(gemm, launch, (a, b, np.zeros(1, np.int32)), expected, output, 2**-10)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, 8, 8),
        on_the_gpu=(4096, 4096, 4096),
        in_the_simulator=(300, 520, 256),
    )


if __name__ == "__main__":
    sys.exit(main())
