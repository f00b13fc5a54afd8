"""C = A @ B[g]^T in f16 on Hopper for groups of rows of A: the experts of a mixture, one launch for all of them.

Group g has the rows starts[g] to starts[g + 1] of A and C, any number of them, and its own B. The tiles of all groups
form one sequence, from which the CTAs take tiles in turn. So a small group costs no launch, and leaves no CTA idle.

Run it as it is: it multiplies random groups (on a machine without a GPU in the simulator) and compares with NumPy.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.layout import Layout
from samples.problem import Problem
from samples.problem import main as solve

TILE_M, TILE_N, TILE_K = 128, 128, 64
STAGES, CONSUMERS = 5, 2

A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_M, TILE_K))]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(1, TILE_N, TILE_K))]
Starts = Annotated[nvb.Pointer, nvb.Pointer(i32, const=True)]


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1)
def gemm(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    c: Annotated[nvb.Pointer, nvb.Pointer(f16)],
    starts: Starts,
    groups: i32,
    n8: i32,
    steps: i32,
) -> None:
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_N}k16", f16, f16, f32), warpgroups=(CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K))
    k.tma.prefetch_maps(a, b)
    k.mbarrier.ready()
    n = n8 * 8
    tiles_n = (n + TILE_N - 1) // TILE_N

    @contextlib.contextmanager
    def tiles() -> Iterator[tuple[nvb.Value, nvb.Value, nvb.Value, nvb.Value]]:
        """This CTA's tiles: group, first row, rows that are left in the group, first column."""
        turn = k.var(k.block_id(), i32)  # which tile of the group is this CTA's next
        with k.range(groups) as group:
            start, end = starts[group], starts[group + 1]
            count = (end - start + TILE_M - 1) // TILE_M * tiles_n
            with k.range(turn.value, count, k.block_count()) as tile:
                row = start + tile // tiles_n * TILE_M
                yield group, row, end - row, tile % tiles_n * TILE_N
            over = k.math.max(count - turn, 0) + k.block_count() - 1
            turn.set(turn + over // k.block_count() * k.block_count() - count)

    with k.producer(registers=40), tiles() as (group, row, _, column), k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (row, step * TILE_K), stage.full)
        k.tma.load(stage.b, b, (group, column, step * TILE_K), stage.full)

    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        with tiles() as (_, row, rows, column):
            acc.clear()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b, warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            # The rows after the group's are another group's: TMA would write them, stores with bounds do not.
            tile = k.tensor(c + (row * n + column), Layout((TILE_M, TILE_N), (n, 1)), multiple_of=8)
            inside = k.identity_tensor((TILE_M, TILE_N)).below(rows, n - column)
            acc.elements(warpgroup).store(tile, where=inside)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, starts: Any, c: Any) -> None:
    """Start the kernel on A (M x K), B (groups x N x K), the starts, and C; N and K are multiples of 8."""
    (m, depth), (groups, n, _) = a.shape, b.shape
    most = (m // TILE_M + groups) * -(-n // TILE_N)  # tiles, if every group ends in a part of one
    grid = min(most, loaded.device.limits.multiprocessors)
    loaded.launch(grid, a, b, c, starts, groups, n // 8, -(-depth // TILE_K))


def problem(groups: int, m: int, n: int, depth: int) -> Problem:
    """M random rows, shared out at random; the second group has none."""
    import numpy as np

    random = np.random.default_rng(groups + m)
    starts = np.array([0, *np.sort(random.integers(0, m + 1, groups - 1)), m], np.int32)
    starts[2:-1][:1] = starts[1]
    a = random.standard_normal((m, depth), np.float32).astype(np.float16)
    b = random.standard_normal((groups, n, depth), np.float32).astype(np.float16)
    parts = [
        a[start:end].astype(np.float32) @ of.astype(np.float32).T
        for start, end, of in zip(starts, starts[1:], b, strict=False)
    ]
    output = np.full((m, n), np.nan, np.float16)
    return Problem(gemm, launch, (a, b, starts), np.concatenate(parts), output, 2**-10)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="groups, M, N and K",
        multiples=(1, 1, 8, 8),
        on_the_gpu=(16, 8192, 4096, 4096),
        in_the_simulator=(4, 500, 264, 200),
    )


if __name__ == "__main__":
    sys.exit(main())
