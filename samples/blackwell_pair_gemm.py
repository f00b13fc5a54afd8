"""C = A @ B^T in f16 by pairs of CTAs on Blackwell: each loads half of A and of B, the first one multiplies for both.

The tile of a pair is 256 x 256; each CTA has 128 rows of it in its tensor memory. Each CTA has half of B in shared
memory, so a pair loads each byte of B once. Run it as it is: it builds and verifies the kernel, prints what was built,
multiplies random matrices (without such a GPU in the simulator), and compares the result with NumPy.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32, u64
from samples.problem import Problem, random_product
from samples.problem import main as solve

PAIR = 2  # CTAs
TILE_M, TILE_N, TILE_K = 256, 256, 64  # of the pair
ROWS, PART = TILE_M // PAIR, TILE_N // PAIR  # of A and of B that a CTA loads
STAGES = 4
GROUP = 8  # tile rows that are walked together, so that their tiles of B stay in L2
PRODUCER, ISSUER = 4, 5  # warps; 0 to 3 have the 32 lanes each of the accumulator that only they can read
PANEL = 64  # columns of C whose f16 fill a row of the 128-byte swizzle
CHUNK = 8  # columns of a 16-byte access

A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(ROWS, TILE_K))]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(PART, TILE_K))]
C = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(ROWS, PANEL))]
Positive = Annotated[i32, nvb.Scalar(i32, minimum=1)]

MMA = nvb.tcgen05.mma(f"m{TILE_M}n{TILE_N}k16", f16, f16, f32, cta_group=PAIR)


@nvb.kernel("sm_100a", threads=192, cluster=PAIR, min_ctas=1)
def gemm(k: nvb.KernelBuilder, a: A, b: B, c: C, tiles_m: Positive, tiles_n: Positive, steps: Positive) -> None:
    mma = k.tiled_mma(MMA)
    tiles_a, tiles_b = (k.shared_tiles(part, STAGES) for part in (mma.smem_a(TILE_K), mma.smem_b(TILE_K)))
    full = k.mbarrier.array(STAGES, arrivals=PAIR, name="full")  # that of the first CTA is for both
    empty = k.mbarrier.array(STAGES, arrivals=1, name="empty")
    multiplied = k.mbarrier.array(1, arrivals=1, name="multiplied")
    output = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, ROWS, TILE_N), name="c")
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()
    rank = k.cluster.rank()
    m, n = k.grouped(k.cluster.id(), tiles_m, tiles_n, GROUP)
    row, row_b, both = m * TILE_M + rank * ROWS, n * TILE_N + rank * PART, (1 << PAIR) - 1

    def wait_until_empty(step: nvb.Value) -> None:
        k.mbarrier.wait(empty + step % STAGES, (step // STAGES & 1) ^ 1)

    with k.tcgen05.tmem(mma.columns, cta_group=PAIR) as accumulator:
        with k.one_thread(PRODUCER):
            with k.range(steps) as step:
                stage = step % STAGES
                wait_until_empty(step)
                size = tiles_a.layout.bytes + tiles_b.layout.bytes
                k.mbarrier.arrive(full + stage, rank=0, expect_tx=size, qualifiers=("release", "cluster"))
                first = k.shared_address(k.cluster.map_to_peer((full + stage).bytes, 0), u64, 8)
                k.tma.load_box(tiles_a.at(stage).address, a, (step * TILE_K, row), first, cta_group=PAIR)
                k.tma.load_box(tiles_b.at(stage).address, b, (step * TILE_K, row_b), first, cta_group=PAIR)
            with k.range(steps, steps + STAGES) as step:  # the last commits arrive before the CTA ends
                wait_until_empty(step)

        with k.one_thread(ISSUER), k.if_(rank == 0):
            with k.range(steps) as step:
                stage = step % STAGES
                k.mbarrier.wait(full + stage, step // STAGES & 1)
                mma.accumulate(accumulator, tiles_a.at(stage), tiles_b.at(stage), accumulate=step > 0)
                k.tcgen05.commit(empty + stage, cta_group=PAIR, multicast_mask=both)
            k.tcgen05.commit(multiplied, cta_group=PAIR, multicast_mask=both)

        with k.if_(k.warp_id() < PRODUCER):
            k.mbarrier.wait(multiplied, 0)
            k.tcgen05.fence_after_thread_sync()
            for panel in range(0, TILE_N, PANEL):
                load = k.tcgen05.ld(accumulator.columns(panel, PANEL).lanes(k.warp_id() * 32), "32x32b", PANEL)
                k.tcgen05.wait_ld(load)
                values = [value.bitcast(f32).to(f16) for value in load.values]
                for column in range(0, PANEL, CHUNK):
                    output.at(k.thread_id(), panel + column).store(*values[column : column + CHUNK])
            k.fence.proxy_async()
            k.barrier.sync(1, threads=ROWS)
            with k.one_thread(0):
                k.tma.store(c, (row, n * TILE_N), output)
                k.tma.commit_group()
                k.tma.wait_group(reading=True)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
    """Start the kernel on A (M x K), B (N x K) and C (M x N)."""
    (m, depth), n = a.shape, b.shape[0]
    tiles_m, tiles_n = -(-m // TILE_M), -(-n // TILE_N)
    loaded.launch(PAIR * tiles_m * tiles_n, a, b, c, tiles_m, tiles_n, -(-depth // TILE_K))


def problem(m: int, n: int, depth: int) -> Problem:
    """Random matrices, and their product."""
    a, b, product, c = random_product(m, n, depth)
    return Problem(gemm, launch, (a, b), product, c, 2**-10)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, 8, 8),
        on_the_gpu=(4096, 4096, 4096),
        in_the_simulator=(300, 264, 328),
    )


if __name__ == "__main__":
    sys.exit(main())
