"""C = A @ B^T in f16 on Hopper, where all CTAs execute the same number of steps: split-K and stream-K.

The steps of all tiles, one tile after another, are divided into equal shares, so a share may begin and end within a
tile. The CTA with the last steps of a tile adds the sums that the others have left in global memory, and stores the
tile. If each tile is a whole number of shares, this is split-K. Run it as it is.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.layout import Layout
from samples.problem import Problem, random_product
from samples.problem import main as solve

TILE_M, TILE_N, TILE_K = 128, 128, 64
STAGES, CONSUMERS = 4, 2
SPLITS, LEAST = 4, 2  # shares of a tile in split-K, and steps of a share at least

A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_M, TILE_K))]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_N, TILE_K))]
Extent = Annotated[i32, nvb.Scalar(i32, minimum=8, multiple_of=8)]
Count = Annotated[i32, nvb.Scalar(i32, minimum=1)]


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1)
def gemm(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    memory: nvb.Pointer[f32],
    flags: nvb.Pointer[u32],
    c: nvb.Pointer[f16],
    m: Count,
    n: Extent,
    tiles_m: Count,
    tiles_n: Count,
    steps: Count,
) -> None:
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_N}k16", f16, f16, f32), warpgroups=(CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K))
    k.mbarrier.ready()
    share = k.stream_k(tiles_m * tiles_n, steps)

    with (
        k.producer(registers=40),
        share.pieces() as (tile, first, end),
        k.range(first, end) as step,
        ring.fill() as stage,
    ):
        k.tma.load(stage.a, a, (tile % tiles_m * TILE_M, step * TILE_K), stage.full)
        k.tma.load(stage.b, b, (tile // tiles_m * TILE_N, step * TILE_K), stage.full)

    with k.consumers(registers=232) as warpgroup:
        acc, sums = mma.accumulator(), share.partial_sums(memory, flags, warpgroup)
        with share.pieces() as piece:
            acc.clear()
            with k.range(piece.first, piece.end), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b, warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            with sums.whole(acc, piece):
                row, column = piece.tile % tiles_m, piece.tile // tiles_m
                place = k.tensor(c, Layout((m, n), (n, 1))).tile((TILE_M, TILE_N), (row, column))
                inside = k.identity_tensor((TILE_M, TILE_N), at=(row * TILE_M, column * TILE_N)).below(m, n)
                acc.elements(warpgroup).store(place, where=inside)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, memory: Any, flags: Any, c: Any) -> None:
    """Start a CTA for each share on A (M x K), B (N x K) and C (M x N). Flags are 0 before and after."""
    (m, k), n = a.shape, b.shape[0]
    ctas = flags.shape[0] // CONSUMERS
    loaded.launch(ctas, a, b, memory, flags, c, m, n, -(-m // TILE_M), -(-n // TILE_N), -(-k // TILE_K))


def shares(form: str, m: int, n: int, k: int, multiprocessors: int = 132) -> int:
    """How many CTAs share the steps: all that run at once, or a number for each tile."""
    tiles, steps = -(-m // TILE_M) * -(-n // TILE_N), -(-k // TILE_K)
    return tiles * min(SPLITS, steps) if form == "split_k" else max(1, min(multiprocessors, tiles * steps // LEAST))


def problem(form: str, m: int, n: int, k: int) -> Problem:
    """Random matrices, and memory for what CTAs leave for each other."""
    import numpy as np

    a, b, expected, output = random_product(m, n, k)
    ctas = shares(form, m, n, k)
    memory, flags = np.zeros(ctas * TILE_M * TILE_N, np.float32), np.zeros(ctas * CONSUMERS, np.uint32)
    return Problem(gemm, launch, (a, b, memory, flags), expected, output, 2**-10)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, 8, 8),
        on_the_gpu=(512, 384, 16384),
        in_the_simulator=(136, 200, 320),
        forms=("stream_k", "split_k"),
    )


if __name__ == "__main__":
    sys.exit(main())
