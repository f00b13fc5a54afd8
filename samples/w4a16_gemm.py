"""Y = X @ W^T on Hopper, X in f16 and W of 4 bits with a factor for each 128 along K: few rows of X, as in decoding.

W is multiplied as A from registers: a thread unpacks its own elements, which `pack` has put side by side. X comes by
TMA as B, and Y is transposed as it is stored. Run it as it is.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.layout import Layout
from samples.problem import Problem
from samples.problem import main as solve

TILE_N, TILE_M, TILE_K = 128, 64, 64  # rows of W, rows of X, columns of both
GROUP = 128  # columns with one factor
STAGES, CONSUMERS = 4, 2
WORDS = 4  # of 8 numbers each: a thread's part of 64 rows of a tile of W
PACKED = CONSUMERS * 128 * WORDS  # words of a tile of W
BIAS = 8  # the numbers are stored as 0 to 15
MAGIC = 0x6400  # 1024 in f16, whose last bits count ones

X = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(TILE_M, TILE_K))]
Scales = Annotated[nvb.Pointer, nvb.Pointer(f16, const=True)]
Count = Annotated[i32, nvb.Scalar(i32, minimum=1)]
Rows = Annotated[i32, nvb.Scalar(i32, minimum=TILE_N, multiple_of=TILE_N)]


def unpacked(k: nvb.KernelBuilder, word: nvb.Value, scales: list[nvb.Value]) -> list[nvb.Value]:
    """Four registers of two f16: the numbers of a word, those of the even registers times the first factor."""
    registers = []
    for register in range(4):
        offset = (word >> (4 * register)) & 0x000F000F | (MAGIC << 16 | MAGIC)
        number = k.packed.sub("f16x2", offset, k.packed.broadcast(k.const(1024 + BIAS, f16)))
        registers.append(k.packed.mul("f16x2", number, scales[register % 2]).bitcast(u32))
    return registers


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1)
def gemm(
    k: nvb.KernelBuilder,
    x: X,
    w: nvb.Pointer[u32],
    scales: Scales,
    y: nvb.Pointer[f16],
    m: Count,
    n: Rows,
    steps: Annotated[i32, nvb.Scalar(i32, minimum=2, multiple_of=2)],
) -> None:
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{TILE_M}k16", f16, f16, f32, a_in_registers=True), (CONSUMERS, 1))
    ring = k.pipeline(STAGES, CONSUMERS, x=mma.smem_b(TILE_K), w=(u32, Layout(PACKED)))
    k.mbarrier.ready()
    row, column = k.block_id("x") * TILE_N, k.block_id("y") * TILE_M
    words = w + k.block_id("x") * steps * PACKED

    with k.producer(registers=40), k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.x, x, (column, step * TILE_K), stage.full)
        k.bulk.load(stage.w.at(0), words + step * PACKED, 4 * PACKED, stage.full)

    with k.consumers(registers=232) as warpgroup:
        acc, thread = mma.accumulator(), k.thread_id() % 128
        mine = row + warpgroup * 64 + thread // 32 * 16 + thread % 32 // 4
        with k.range(steps) as step, ring.drain() as stage:
            factors = scales + step // (GROUP // TILE_K) * n + mine
            pair = [k.packed.broadcast(factors[below]) for below in (0, 8)]
            four = stage.w.at((warpgroup * 128 + thread) * WORDS).load(WORDS)
            fragments = [k.wgmma.fragment(unpacked(k, word, pair), f16) for word in four]
            with k.wgmma.group():
                mma.accumulate(acc, mma.make_fragment_A(fragments), stage.x)
            k.barrier.sync(1 + warpgroup, 128)  # all warps have read their words
        inside = k.identity_tensor((TILE_N, TILE_M), at=(row, column)).below(None, m)
        transposed = k.tensor(y, Layout((n, m), (1, n))).tile((TILE_N, TILE_M), (k.block_id("x"), k.block_id("y")))
        acc.elements(warpgroup).store(transposed, where=inside)


def pack(numbers: Any) -> Any:
    """W (N x K, 0 to 15) as the kernel reads it: by tiles of TILE_N x TILE_K, warpgroups, threads, and 16 columns."""
    import numpy as np

    n, k = numbers.shape
    # Rows are (tile, warpgroup, warp, half, row), columns (tile, word, half, pair, number): PTX ISA 9.7.15.5.1, A.
    parts = numbers.astype(np.uint32).reshape(n // TILE_N, CONSUMERS, 4, 2, 8, k // TILE_K, WORDS, 2, 4, 2)
    shifts = (
        16 * np.arange(2) + 8 * np.arange(2)[:, None, None] + 4 * np.arange(2)[:, None]
    )  # column half, row half, number
    ordered = parts.transpose(0, 5, 1, 2, 4, 8, 6, 7, 3, 9) << shifts.astype(np.uint32)
    return np.ascontiguousarray(ordered.sum((7, 8, 9), np.uint32)).reshape(-1)


def launch(loaded: nvb.runtime.LoadedKernel, x: Any, w: Any, scales: Any, y: Any) -> None:
    """Start the kernel on X (M x K), packed W, factors (K / GROUP x N) and Y (M x N), of whole tiles and groups."""
    (m, k), n = x.shape, scales.shape[1]
    loaded.launch((n // TILE_N, -(-m // TILE_M)), x, w, scales, y, m, n, k // TILE_K)


def problem(m: int, n: int, k: int) -> Problem:
    """Random numbers; a weight is rounded to f16 once, when it is multiplied with its factor."""
    import numpy as np

    random = np.random.default_rng(m + n + k)
    x = random.standard_normal((m, k), np.float32).astype(np.float16)
    numbers = random.integers(0, 16, (n, k))
    scales = random.uniform(0.01, 0.1, (k // GROUP, n)).astype(np.float16)
    weights = (numbers - BIAS).astype(np.float16) * np.repeat(scales, GROUP, 0).T
    expected = x.astype(np.float32) @ weights.astype(np.float32).T
    return Problem(gemm, launch, (x, pack(numbers), scales), expected, np.full((m, n), np.nan, np.float16), 2**-10)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="M, N and K",
        multiples=(1, TILE_N, 2 * TILE_K),
        on_the_gpu=(64, 8192, 8192),
        in_the_simulator=(40, 128, 256),
    )


if __name__ == "__main__":
    sys.exit(main())
