"""C = A @ B^T in f16 on Hopper: TMA fills a ring, one warpgroup produces, two multiply with WGMMA, TMA stores.

Run it as it is: it builds and verifies the kernel, prints what was built, multiplies random matrices (on a machine
without a GPU in the simulator), and compares them with NumPy.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32
from samples import program

TILE_M, TILE_N, TILE_K = 128, 256, 64
CLUSTER, STAGES, CONSUMERS = 2, 3, 2
GROUP = 16  # tile rows that are walked together, so that their tiles of B stay in L2

A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_M, TILE_K))]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_N // CLUSTER, TILE_K))]
C = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), cluster=CLUSTER, min_ctas=1)
def gemm(k: nvb.KernelBuilder, a: A, b: B, c: C, tiles_m: i32, tiles_n: i32, steps: i32) -> None:
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n256k16", f16, f16, f32), warpgroups=(CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K), multicast=True)
    output = k.tma_epilogue(c, TILE_N, CONSUMERS)
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()

    pairs = tiles_m // CLUSTER  # a cluster works on two tiles, one above the other, that share their tile of B
    tiles = lambda: k.range(k.cluster.id(), pairs * tiles_n, k.cluster.count(), name="tile")  # noqa: E731
    place = lambda tile: k.grouped(tile, pairs, tiles_n, GROUP // CLUSTER)  # noqa: E731

    with k.producer(registers=40):
        with tiles() as tile:
            m, n = place(tile)
            with k.range(steps) as step, ring.fill() as stage:
                row = (m * CLUSTER + k.cluster.rank()) * TILE_M
                k.tma.load(stage.a, a, (row, step * TILE_K), stage.full)
                k.tma.load(stage.b, b, (n * TILE_N, step * TILE_K), stage.full, multicast=True)
        ring.finish()

    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        with tiles() as tile:
            acc.clear()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b, warpgroup)
            m, n = place(tile)
            row = (m * CLUSTER + k.cluster.rank()) * TILE_M + warpgroup * 64
            reserved = output.reserve((row, n * TILE_N), warpgroup)  # while the last mma run
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            reserved.store(acc)
        output.finish()


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
    """Start the kernel on A (M x K), B (N x K) and C (M x N)."""
    (m, k), n = a.shape, b.shape[0]
    loaded.launch(grid(m, n, loaded.device.limits.multiprocessors), a, b, c, *extents(m, n, k))


def grid(m: int, n: int, multiprocessors: int) -> int:
    """CTAs to launch: one an SM, in whole clusters, and no more than there are tiles."""
    tiles = -(-m // (TILE_M * CLUSTER)) * CLUSTER * -(-n // TILE_N)
    return min(tiles, multiprocessors // CLUSTER * CLUSTER)


def extents(m: int, n: int, k: int) -> tuple[int, int, int]:
    """The kernel's last three arguments: tiles along M (whole clusters), tiles along N, steps along K."""
    return -(-m // (TILE_M * CLUSTER)) * CLUSTER, -(-n // TILE_N), -(-k // TILE_K)


def main() -> int:
    return program.main(__doc__, gemm, launch)


if __name__ == "__main__":
    sys.exit(main())
