"""C = A @ B^T in f16 on Hopper by persistent CTAs, which take tiles from a counter in memory.

If tiles are dealt in a fixed order, a CTA that is slow or starts late keeps its share. Here the producer takes the
number of the next tile from the counter while it loads the present one, and passes it to the consumers in shared
memory. The first tile is the CTA's own number, and the CTA that takes the last one sets the counter back to 0.

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
MAILBOXES = 2

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
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_N}k16", f16, f16, f32), warpgroups=(CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K))
    output = k.tma_epilogue(c, TILE_N, CONSUMERS)
    numbers = k.shared(i32, MAILBOXES, name="numbers")
    posted = k.mbarrier.array(MAILBOXES, arrivals=1, name="posted")
    taken = k.mbarrier.array(MAILBOXES, arrivals=128 * CONSUMERS, name="taken")
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()

    tiles = tiles_m * tiles_n
    place = lambda tile: k.grouped(tile, tiles_m, tiles_n, GROUP)  # noqa: E731
    turn = k.var(0, i32)

    with k.producer(registers=40):
        tile = k.var(k.block_id(), i32)
        with k.loop():
            mailbox = turn % MAILBOXES
            k.mbarrier.wait(taken + mailbox, turn // MAILBOXES % 2 ^ 1)
            numbers[mailbox] = tile
            k.mbarrier.arrive(posted + mailbox)
            k.break_if(tile >= tiles)
            following = k.atomic.add(counter, 1) + k.block_count()
            m, n = place(tile)
            with k.range(steps) as step, ring.fill() as stage:
                k.tma.load(stage.a, a, (m * TILE_M, step * TILE_K), stage.full)
                k.tma.load(stage.b, b, (n * TILE_N, step * TILE_K), stage.full)
            with k.if_(following == tiles + k.block_count() - 1):
                counter.store(0, order="relaxed", scope="gpu")
            tile.set(following)
            turn += 1

    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        with k.loop():
            mailbox = turn % MAILBOXES
            k.mbarrier.wait(posted + mailbox, turn // MAILBOXES % 2)
            number = numbers[mailbox]
            k.mbarrier.arrive(taken + mailbox)
            k.break_if(number >= tiles)
            acc.clear()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b, warpgroup)
            m, n = place(number)
            reserved = output.reserve((m * TILE_M + warpgroup * 64, n * TILE_N), warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            reserved.store(acc)
            turn += 1
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
