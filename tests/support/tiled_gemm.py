"""A GEMM written with tiled copies: C = A B^T of f16, from global memory to global memory."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, i32
from nvbackend.layout import ComposedLayout, Layout, Swizzle
from nvbackend.tiled import (
    cp_async_copy,
    ldmatrix_copy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_mma,
    stmatrix_copy,
    universal_copy,
)

TILE = 64
INSTRUCTION = nvb.mma.sync("m16n8k16", f16, f16, f16)
MMA = make_tiled_mma("SM80_16x8x16_F16F16F16F16_TN", (2, 2, 1), (32, 32, 16))
SWIZZLED = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((TILE, TILE), (TILE, 1)))
FILL = make_tiled_copy(cp_async_copy(f16, cache="cg"), Layout((16, 8), (8, 1)), Layout((1, 8)))
DRAIN = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
LOAD_A, LOAD_B = make_tiled_copy_A(ldmatrix_copy(f16), MMA), make_tiled_copy_B(ldmatrix_copy(f16), MMA)
STORE = make_tiled_copy_C(stmatrix_copy(f16), MMA)
Matrix = nvb.Pointer[f16]


@nvb.kernel("sm_90a", threads=128)
def gemm(k, a: Matrix, b: Matrix, c: Matrix, m: i32, n8: i32, depth8: i32) -> None:
    """Of A (m x depth8 * 8), B (n8 * 8 x depth8 * 8) and C (m x n8 * 8); tiles may end past the matrices."""
    thread, row, column = k.thread_id(), k.block_id("x"), k.block_id("y")
    n, depth = n8 * 8, depth8 * 8
    shape = Layout((1 << 20, 1 << 20)).shape
    tiles = [k.tensor(k.shared(f16, TILE * TILE, align=1024, name=name), SWIZZLED) for name in "ab"]
    matrices = [k.tensor(one, Layout(shape, (depth, 1))) for one in (a, b)]
    fill, mma = FILL.get_slice(thread), MMA.get_slice(thread)
    acc = k.register_tensor(f16, mma.partition_shape_C((TILE, TILE)), name="acc")
    parts = [k.register_tensor(f16, each((TILE, TILE))) for each in (mma.partition_shape_A, mma.partition_shape_B)]
    with k.range((depth + TILE - 1) // TILE) as step:
        for matrix, tile, block, rows in zip(matrices, tiles, (row, column), (m, n), strict=True):
            at = k.identity_tensor((TILE, TILE), at=(block * TILE, step * TILE)).partition(fill.partition_S)
            source = matrix.tile((TILE, TILE), (block, step)).partition(fill.partition_S)
            k.copy(FILL, source, tile.partition(fill.partition_D), where=at.below(rows, depth))
        k.cp_async.commit_group()
        k.cp_async.wait_group(0)
        k.barrier.sync()
        for copy, tile, part in zip((LOAD_A, LOAD_B), tiles, parts, strict=True):
            mine = copy.get_slice(thread)
            k.copy(copy, tile.partition(mine.partition_S), part.retile(mine.retile_D))
        for one in range(acc.shape[1] * acc.shape[2] * 4):
            i, j, at_k = one % 2, one // 2 % 4, one // 8
            own = acc[None, i, j]
            operands = parts[0][None, i, at_k].registers(), parts[1][None, j, at_k].registers(), own.registers()
            own.set_registers(k.mma.sync(INSTRUCTION, *operands))
        k.barrier.sync()
    store, drain = STORE.get_slice(thread), DRAIN.get_slice(thread)
    k.copy(STORE, acc.retile(store.retile_S), tiles[0].partition(store.partition_D))
    k.barrier.sync()
    at = k.identity_tensor((TILE, TILE), at=(row * TILE, column * TILE)).partition(drain.partition_D)
    rows = k.tensor(c, Layout(shape, (n, 1))).tile((TILE, TILE), (row, column))
    source = tiles[0].partition(drain.partition_S)
    k.copy(DRAIN, source, rows.partition(drain.partition_D), where=at.below(m, n))
