"""C = A @ B^T on Hopper from e4m3 with block scales: 1 x 128 elements of A, or 128 x 128 of B, share a factor.

The instruction cannot apply such scales, and it adds e4m3 products with fewer bits than f32 has. So each step of 128
columns is a separate product, which the warpgroup scales and adds to sums in f32. While one warpgroup scales, the
others multiply. The scales come through the ring, too: if the warpgroups loaded them, they would have to wait.

For few rows of A there is another kernel, `samples.block_scaled_few_rows`. Run this file as it is: it multiplies random
matrices (on a machine without a GPU in the simulator) and compares with NumPy.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import e4m3, f16, f32, i32
from nvbackend.layout import Layout
from samples.block_scaled_few_rows import FewRows, forms
from samples.block_scales import ALIGNED, BLOCK, SCALES_B, ScalesB, scaled
from samples.problem import Problem
from samples.problem import main as solve

TILE_N = 128
STAGES, REGISTERS = {2: 5, 3: 4}, {2: 232, 3: 160}  # by the number of consumers
START, STEP = 2.2, {2: 0.484, 3: 0.641}  # microseconds of a launch without its steps, and of a step (H200)
GROUP = 16  # tile rows that are walked together, so that their tiles of B stay in L2


def map_of_a(consumers: int) -> nvb.TensorMap:
    return nvb.TensorMap(e4m3, box=(64 * consumers, BLOCK))


def map_of_scales_a(consumers: int) -> nvb.TensorMap:
    return nvb.TensorMap(f32, box=(1, 64 * consumers), swizzle=0)


A = Annotated[nvb.TensorMap, map_of_a]
B = Annotated[nvb.TensorMap, nvb.TensorMap(e4m3, box=(TILE_N, BLOCK))]
Result = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]
ScalesA = Annotated[nvb.TensorMap, map_of_scales_a]


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), min_ctas=1)
def gemm(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    c: Result,
    scales_a: ScalesA,
    scales_b: ScalesB,
    tiles_m: i32,
    tiles_n: i32,
    steps: i32,
    *,
    consumers: int = 3,
) -> None:
    """A's scales are steps x M, so that those of a step lie together; B's are steps x N / 128."""
    rows = 64 * consumers
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_N}k32", e4m3, e4m3, f32), warpgroups=(consumers, 1))
    of_a, of_b = (f32, Layout(rows)), (f32, Layout(SCALES_B))
    a_tile, b_tile = mma.smem_a(BLOCK), mma.smem_b(BLOCK)
    ring = k.pipeline(STAGES[consumers], consumers, released_by="thread", a=a_tile, b=b_tile, of_a=of_a, of_b=of_b)
    output = k.tma_epilogue(c, TILE_N, consumers)
    k.tma.prefetch_maps(a, b, c)
    k.mbarrier.ready()

    tiles = lambda: k.range(k.block_id(), tiles_m * tiles_n, k.block_count(), name="tile")  # noqa: E731
    place = lambda tile: k.grouped(tile, tiles_m, tiles_n, GROUP)  # noqa: E731

    with k.producer(registers=32):
        k.griddepcontrol("launch_dependents")
        k.griddepcontrol("wait")
        with tiles() as tile:
            row, column = place(tile)
            with k.range(steps) as step, ring.fill() as stage:
                k.tma.load(stage.a, a, (row * rows, step * BLOCK), stage.full)
                k.tma.load(stage.b, b, (column * TILE_N, step * BLOCK), stage.full)
                k.tma.load_box(stage.of_a.at(0), scales_a, (row * rows, step), stage.full)
                k.tma.load_box(stage.of_b.at(0), scales_b, (column // ALIGNED * ALIGNED, step), stage.full)

    with k.consumers(registers=REGISTERS[consumers]) as warpgroup:
        product, sums = mma.accumulator("product"), mma.accumulator("sums")
        with tiles() as tile:
            row, column = place(tile)
            sums.fill(0.0)
            with k.range(steps):
                with ring.drain() as stage:
                    factors = sums.rows(lambda at: stage.of_a[at], warpgroup) * stage.of_b[column % ALIGNED]
                    product.clear()
                    with k.wgmma.group(in_flight=0):
                        mma.accumulate(product, stage.a, stage.b, warpgroup)
                total, scaled = sums.elements(warpgroup), product.elements(warpgroup)
                sums.set(total.map(lambda old, x, factor: k.math.fma(x, factor, old), scaled, factors))
            output.reserve((row * rows + warpgroup * 64, column * TILE_N), warpgroup).store(sums)
        output.finish()


@dataclass(frozen=True)
class Large:
    """The kernel for many rows: of three consumers tiles are larger and need fewer bytes, of two more CTAs work."""

    consumers: int = 3

    @property
    def label(self) -> str:
        """The tile, in words."""
        return f"{64 * self.consumers} x {TILE_N}"

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return gemm.with_(consumers=self.consumers)

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Tiles along M and N."""
        return -(-m // (64 * self.consumers)), -(-n // TILE_N)

    def microseconds(self, m: int, n: int, depth: int, multiprocessors: int) -> float:
        """About how long a launch takes."""
        tiles_m, tiles_n = self.tiles(m, n)
        return START + -(-tiles_m * tiles_n // multiprocessors) * -(-depth // BLOCK) * STEP[self.consumers]

    def launch_of(self, m: int, n: int, depth: int, multiprocessors: int) -> tuple[int, tuple[int, ...]]:
        """The grid, and the arguments after the matrices."""
        tiles_m, tiles_n = self.tiles(m, n)
        return min(tiles_m * tiles_n, multiprocessors), (tiles_m, tiles_n, -(-depth // BLOCK))


Choice = Large | FewRows


def choose(m: int, n: int, depth: int, multiprocessors: int = 132) -> Choice:
    """The kernel that takes least time."""
    every: list[Choice] = [*map(Large, STEP), *forms(m)]
    return min(every, key=lambda one: one.microseconds(m, n, depth, multiprocessors))


def launch(
    loaded: nvb.runtime.LoadedKernel, a: Any, scales_a: Any, b: Any, scales_b: Any, c: Any, choice: Choice
) -> None:
    """Start the kernel on A (M x K) and B (N x K) with their scales, and C (M x N).

    N is a multiple of 8, K of 16, and the rows of scales are multiples of 16 bytes.
    """
    (m, depth), n = a.shape, b.shape[0]
    grid, last = choice.launch_of(m, n, depth, loaded.device.limits.multiprocessors)
    loaded.launch(grid, a, b, c, scales_a, scales_b, *last)


def problem_for(choice: Choice, m: int, n: int, depth: int) -> Problem:
    """Random matrices for one of the kernels."""
    import numpy as np

    random = np.random.default_rng(m + n + depth)
    a, scales_a, a_values = scaled(random, m, depth, 1)
    b, scales_b, b_values = scaled(random, n, depth, BLOCK)
    start, inputs = partial(launch, choice=choice), (a, scales_a, b, scales_b)
    output = np.full((m, n), np.nan, np.float16)
    return Problem(choice.kernel, start, inputs, a_values @ b_values.T, output, 2**-10, choice.label)


def problem(m: int, n: int, depth: int) -> Problem:
    """Random matrices for the kernel that is chosen."""
    return problem_for(choose(m, n, depth), m, n, depth)


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
