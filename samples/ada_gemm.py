"""C = A @ B^T in fp8 on Ada: the Ampere GEMM, of which mma.sync multiplies twice the columns in as many bytes.

Run it as it is: it builds and verifies the kernel, prints what was built, and where there is a GPU multiplies random
matrices and compares them with NumPy.
"""

from __future__ import annotations

import sys
from typing import Any

import nvbackend as nvb
from nvbackend import e4m3, f32, i32
from samples import program
from samples.warp_tiles import PITCH, ROWS, STEP, THREADS, Accumulators, Ring, load_a, load_b

TILE_M, TILE_N, TILE_K = ROWS, ROWS, PITCH * 8 // e4m3.bits
STAGES = 3

A = B = nvb.Pointer(e4m3)
C = nvb.Pointer(f32)
MMA = nvb.mma("m16n8k32", e4m3, e4m3, f32)


@nvb.kernel("sm_89", threads=THREADS, min_ctas=1)
def gemm(k: nvb.KernelBuilder, a: A, b: B, c: C, n: i32, depth: i32) -> None:
    row, column = k.block_id("y") * TILE_M, k.block_id("x") * TILE_N
    ring = Ring(k, STAGES, a, b, row, column, depth)
    acc = Accumulators(k)
    with ring.drain() as stage:
        for byte in range(0, PITCH, STEP):
            acc.accumulate(MMA, load_a(k, stage.a, byte), load_b(k, stage.b, byte))
    acc.store(c, row, column, n)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
    """Start the kernel on A (M x K), B (N x K) and C (M x N), whole tiles of each."""
    (m, depth), n = a.shape, b.shape[0]
    loaded.launch((n // TILE_N, m // TILE_M), a, b, c, n, depth)


def main() -> int:
    tile = TILE_M, TILE_N, TILE_K
    return program.main(__doc__, gemm, launch, tile=tile, matrix=program.e4m3_matrix, result="float32")


if __name__ == "__main__":
    sys.exit(main())
