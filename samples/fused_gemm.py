"""D = gelu(A @ B^T + bias) in f16 on Hopper: the epilogue adds the bias of a column and applies the activation in f32.

The multiply is that of hopper_gemm, without a cluster: TMA fills a ring, two warpgroups multiply, TMA stores. Run it as
it is.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32
from samples.problem import Problem, random_product
from samples.problem import main as solve

TILE_M, TILE_N, TILE_K = 128, 256, 64
STAGES, CONSUMERS = 3, 2

A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_M, TILE_K))]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_N, TILE_K))]
D = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]
Bias = Annotated[nvb.Pointer, nvb.Pointer(f32, const=True)]


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1, math=nvb.MathPolicy(contract=True, ftz=True))
def gemm(k: nvb.KernelBuilder, a: A, b: B, bias: Bias, d: D, n: i32, tiles_m: i32, tiles_n: i32, steps: i32) -> None:
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_N}k16", f16, f16, f32), warpgroups=(CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, a=mma.smem_a(TILE_K), b=mma.smem_b(TILE_K))
    output = k.tma_epilogue(d, TILE_N, CONSUMERS)
    k.tma.prefetch_maps(a, b, d)
    k.mbarrier.ready()

    tiles = lambda: k.range(k.block_id(), tiles_m * tiles_n, k.block_count(), name="tile")  # noqa: E731
    place = lambda tile: (tile % tiles_m * TILE_M, tile // tiles_m * TILE_N)  # noqa: E731

    with k.producer(registers=40), tiles() as tile:
        row, column = place(tile)
        with k.range(steps) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (row, step * TILE_K), stage.full)
            k.tma.load(stage.b, b, (column, step * TILE_K), stage.full)

    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        with tiles() as tile:
            acc.clear()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b, warpgroup)
            row, column = place(tile)
            reserved = output.reserve((row + warpgroup * 64, column), warpgroup)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            biases = acc.columns(lambda at: (bias + column + at).load(where=column + at < n)[0], warpgroup)
            biased = acc.elements(warpgroup) + biases
            reserved.store(biased.map(lambda x: k.math.gelu(x, approx=True)))
        output.finish()


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, bias: Any, d: Any) -> None:
    """Start the kernel on A (M x K), B (N x K), N biases and D (M x N)."""
    (m, k), n = a.shape, b.shape[0]
    tiles_m, tiles_n, steps = -(-m // TILE_M), -(-n // TILE_N), -(-k // TILE_K)
    grid = min(tiles_m * tiles_n, loaded.device.limits.multiprocessors)
    loaded.launch(grid, a, b, bias, d, n, tiles_m, tiles_n, steps)


def problem(m: int, n: int, k: int) -> Problem:
    """Random matrices, and gelu by its usual approximation with tanh."""
    import numpy as np

    a, b, product, output = random_product(m, n, k)
    bias = (np.random.default_rng(n).standard_normal(n, np.float32) * np.sqrt(k)).astype(np.float32)
    x = product + bias
    expected = x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x.astype(np.float64) ** 3)))
    return Problem(gemm, launch, (a, b, bias), expected, output, 2**-10)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, 8, 8),
        on_the_gpu=(4096, 4096, 4096),
        in_the_simulator=(200, 304, 72),
    )


if __name__ == "__main__":
    sys.exit(main())
