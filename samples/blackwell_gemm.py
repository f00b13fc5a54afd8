"""C = A @ B^T in f16 on Blackwell: TMA fills a ring, one thread multiplies into tensor memory, four warps store.

Run it as it is: it builds and verifies the kernel, prints what was built, multiplies random matrices (without such a
GPU in the simulator), and compares the result with NumPy.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32
from samples import program

TILE_M, TILE_N, TILE_K = 128, 256, 64
STAGES = 3
GROUP = 16  # tile rows that are walked together, so that their tiles of B stay in L2
PRODUCER, ISSUER = 4, 5  # warps; 0 to 3 have the 32 lanes each of the accumulator that only they can read
PANEL = 64  # columns of C whose f16 fill a row of the 128-byte swizzle
CHUNK = 8  # columns of a 16-byte access

A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_M, TILE_K))]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_N, TILE_K))]
C = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_M, PANEL))]

MMA = nvb.tcgen05.mma(f"m{TILE_M}n{TILE_N}k16", f16, f16, f32)


@nvb.kernel("sm_100a", threads=192, min_ctas=1)
def gemm(k: nvb.KernelBuilder, a: A, b: B, c: C, tiles_m: i32, tiles_n: i32, steps: i32) -> None:
    mma = k.tiled_mma(MMA)
    ring = k.pipeline(STAGES, consumers=1, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K))
    output = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, TILE_M, TILE_N), name="c")
    multiplied = k.mbarrier.array(1, arrivals=1, name="multiplied")
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()
    m, n = k.grouped(k.block_id(), tiles_m, tiles_n, GROUP)

    with k.tcgen05.tmem(mma.columns) as accumulator:
        with k.one_thread(PRODUCER), k.range(steps) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (m * TILE_M, step * TILE_K), stage.full)
            k.tma.load(stage.b, b, (n * TILE_N, step * TILE_K), stage.full)

        with k.one_thread(ISSUER):
            with k.range(steps) as step, ring.feed() as stage:
                mma.accumulate(accumulator, stage.a, stage.b, accumulate=step > 0)
            k.tcgen05.commit(multiplied)

        with k.if_(k.warp_id() < PRODUCER):
            k.mbarrier.wait(multiplied, 0)
            k.tcgen05.fence_after_thread_sync()
            row = k.thread_id()
            for panel in range(TILE_N // PANEL):
                columns = accumulator.columns(panel * PANEL, PANEL)
                load = k.tcgen05.ld(columns.lanes(k.warp_id() * 32), "32x32b", PANEL)
                k.tcgen05.wait_ld(load)
                values = [value.bitcast(f32).to(f16) for value in load.values]
                for column in range(0, PANEL, CHUNK):
                    output.at(row, panel * PANEL + column).store(*values[column : column + CHUNK])
            k.fence.proxy_async()
            k.barrier.sync(1, threads=128)
            with k.one_thread(0):
                k.tma.store(c, (m * TILE_M, n * TILE_N), output)
                k.tma.commit_group()
                k.tma.wait_group(reading=True)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
    """Start the kernel on A (M x K), B (N x K) and C (M x N)."""
    (m, k), n = a.shape, b.shape[0]
    tiles_m, tiles_n, steps = extents(m, n, k)
    loaded.launch(tiles_m * tiles_n, a, b, c, tiles_m, tiles_n, steps)


def extents(m: int, n: int, k: int) -> tuple[int, int, int]:
    """The kernel's last three arguments: tiles along M, tiles along N, steps along K."""
    return -(-m // TILE_M), -(-n // TILE_N), -(-k // TILE_K)


def main() -> int:
    return program.main(__doc__, gemm, launch)


if __name__ == "__main__":
    sys.exit(main())
