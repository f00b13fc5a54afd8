"""C = A @ B^T in f16 on Turing: tiles in shared memory with padded rows, multiplied by WMMA.

Run it as it is: it builds and verifies the kernel, prints what was built, multiplies random matrices (without such a
GPU in the simulator), and compares the result with NumPy.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32, i64, u32
from samples import program

TILE_M, TILE_N, TILE_K = 128, 128, 32
WARPS_M, WARPS_N = 2, 4
WARP_M, WARP_N = TILE_M // WARPS_M, TILE_N // WARPS_N
THREADS = 32 * WARPS_M * WARPS_N
MMA, SIDE = "m16n16k16", 16
CHUNK = 8  # elements of a 16-byte access
PITCH = TILE_K + CHUNK  # elements from a row to the next in shared memory: the padding moves each to other banks

C = Annotated[nvb.Pointer, nvb.Pointer(f32, align=32)]


def my_chunks(k: nvb.KernelBuilder, rows: int) -> list[tuple[nvb.Value, nvb.Value]]:
    """Row and column of each 16 bytes that this thread copies of a tile."""
    chunks = TILE_K // CHUNK
    row, column = k.thread_id() // chunks, k.thread_id() % chunks * CHUNK
    return [(first + row, column) for first in range(0, rows, THREADS // chunks)]


def index(row: nvb.Value, column: nvb.Value, pitch: nvb.Value) -> nvb.Value:
    """The index of an element of a matrix of `pitch` elements a row, in 64 bits: it may pass 2^31."""
    return row.to(i64) * pitch.to(i64) + column.to(i64)


def fetch(k: nvb.KernelBuilder, source: nvb.Address, rows: int, pitch: nvb.Value) -> list[list[nvb.Value]]:
    """This thread's part of a tile that begins at `source`, in registers; `pitch` elements a row."""
    places = [source.byte_offset(index(row, column, pitch) * 2, align=16) for row, column in my_chunks(k, rows)]
    return [place.cast(u32).load(4) for place in places]


def stage(k: nvb.KernelBuilder, tile: nvb.Address, rows: int, fetched: list[list[nvb.Value]]) -> None:
    """Write what was fetched to shared memory."""
    for (row, column), values in zip(my_chunks(k, rows), fetched, strict=True):
        tile.byte_offset((row * PITCH + column) * 2, align=16).cast(u32).store(*values)


def place(matrix: nvb.Address, at: nvb.Value) -> nvb.Address:
    """The address of element number `at`, which a 16 x 16 fragment begins at."""
    return matrix.byte_offset(at.to(i64) * (matrix.element.bits // 8), align=32)


@nvb.kernel("sm_75", threads=THREADS, min_ctas=1)
def gemm(k: nvb.KernelBuilder, a: nvb.Pointer[f16], b: nvb.Pointer[f16], c: C, width: i32, depth: i32) -> None:
    tile_a, tile_b = (k.shared(f16, rows * PITCH, align=32, name=name) for rows, name in ((TILE_M, "a"), (TILE_N, "b")))
    row, column = k.block_id("y") * TILE_M, k.block_id("x") * TILE_N
    mine_m, mine_n = k.warp_id() // WARPS_N * WARP_M, k.warp_id() % WARPS_N * WARP_N
    acc = {
        (m, n): k.wmma.accumulator(MMA, f32, name=f"acc.{m}.{n}")
        for m in range(0, WARP_M, SIDE)
        for n in range(0, WARP_N, SIDE)
    }
    with k.range(0, depth, TILE_K) as at:
        next_a = fetch(k, place(a, index(row, at, depth)), TILE_M, depth)
        next_b = fetch(k, place(b, index(column, at, depth)), TILE_N, depth)
        k.barrier.sync()  # every warp has multiplied the tiles before
        stage(k, tile_a, TILE_M, next_a)
        stage(k, tile_b, TILE_N, next_b)
        k.barrier.sync()
        for depth_at in range(0, TILE_K, SIDE):
            frags_a = {
                m: k.wmma.load(
                    "a", MMA, f16, place(tile_a, (mine_m + m) * PITCH + depth_at), layout="row", stride=PITCH
                )
                for m in range(0, WARP_M, SIDE)
            }
            frags_b = {
                n: k.wmma.load(
                    "b", MMA, f16, place(tile_b, (mine_n + n) * PITCH + depth_at), layout="col", stride=PITCH
                )
                for n in range(0, WARP_N, SIDE)
            }
            for (m, n), part in acc.items():
                part.set(k.wmma.mma(frags_a[m], frags_b[n], part))
    for (m, n), part in acc.items():
        k.wmma.store(place(c, index(row + mine_m + m, column + mine_n + n, width)), part, stride=width)


def launch(loaded: nvb.runtime.LoadedKernel, a: Any, b: Any, c: Any) -> None:
    """Start the kernel on A (M x K), B (N x K) and C (M x N), whole tiles of each."""
    (m, depth), n = a.shape, b.shape[0]
    loaded.launch((n // TILE_N, m // TILE_M), a, b, c, n, depth)


def main() -> int:
    return program.main(__doc__, gemm, launch, tile=(TILE_M, TILE_N, TILE_K), result="float32")


if __name__ == "__main__":
    sys.exit(main())
