"""TMA epilogues of mma.sync and wgmma to tensors of two to five dimensions, and of tiles past their ends."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, e4m3, f16, f32, i32, runtime
from nvbackend.layout import Layout
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES
M, N, K = 64, 128, 32
STRIDED = {2: 0, 3: 1, 4: 1, 5: 0}
"""By the rank of the tensor, the dimension of the tile's rows; columns are innermost."""
SHAPES = {2: (72, 144), 3: (3, 72, 144), 4: (2, 72, 3, 144), 5: (72, 2, 1, 3, 144)}
"""Larger than a tile by 8 rows and 16 columns."""


def box(rank: int, stored: nvb.ElementType) -> tuple[int, ...]:
    extents = [1] * rank
    extents[STRIDED[rank]], extents[-1] = M, 128 * 8 // stored.bits
    return tuple(extents)


def by_warps(k, a, b):
    """The elements of A B^T by mma.sync, and what they are stored as: a tile of all 128 threads."""
    how = {"atom_layout": (2, 2, 1), "tile": (M, N)}
    mma = k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN", **how)
    acc = mma.accumulator()
    tiles = (k.tensor(source, Layout((rows, K), (K, 1))) for source, rows in ((a, M), (b, N)))
    mma.gemm(acc, mma.load_a(next(tiles)), mma.load_b(next(tiles)))
    return acc.elements() * 2.0


def by_a_warpgroup(k, a, b):
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{N}k16", f16, f16, f32))
    span = nvb.SwizzleMode.B32
    tiles = [k.shared_tile(layout) for layout in (mma.smem_a(K, swizzle=span), mma.smem_b(K, swizzle=span))]
    for tile, source in zip(tiles, (a, b), strict=True):
        to = k.tensor(tile.address.cast(f16), tile.layout.layout)
        rows = k.tensor(source, Layout((tile.layout.rows, K), (K, 1)))
        with k.range(k.thread_id(), tile.layout.rows * K, k.threads) as index:
            to[index // K, index % K] = rows[index // K, index % K]
    k.fence.proxy_async()
    k.barrier.sync()
    acc = mma.accumulator()
    with k.wgmma.group():
        mma.accumulate(acc, *tiles)
    return acc.elements() * 2.0


def kernel(multiply, rank: int, stored: nvb.ElementType) -> nvb.KernelDefinition:
    """2 A B^T to the tile whose first row and column are given, in the last matrix of a tensor."""

    def body(k, a, b, c, row, column):
        output = k.tma_epilogue(c, N)
        others = [extent - 1 for at, extent in enumerate(SHAPES[rank][:-1]) if at != STRIDED[rank]]
        output.reserve((*others, row, column), 0).store(multiply(k, a, b))
        output.finish()

    body.__annotations__ = {"a": nvb.Pointer[f16], "b": nvb.Pointer[f16], "row": i32, "column": i32}
    body.__annotations__ |= {"c": nvb.TensorMap(stored, box=box(rank, stored))}
    return nvb.kernel("sm_90a", threads=128)(body)


def storage(stored: nvb.ElementType) -> np.dtype:
    import ml_dtypes

    kinds = {f16: np.float16, f32: np.float32, bf16: ml_dtypes.bfloat16, e4m3: ml_dtypes.float8_e4m3fn}
    return np.dtype(kinds[stored])


CASES = [
    (by_warps, 2, f32), (by_warps, 3, f16), (by_warps, 4, bf16), (by_warps, 5, e4m3),
    (by_a_warpgroup, 3, f16), (by_a_warpgroup, 4, f32), (by_a_warpgroup, 5, bf16), (by_a_warpgroup, 2, e4m3),
]  # fmt: skip


@pytest.mark.parametrize(("multiply", "rank", "stored"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
def test_a_tile_goes_to_its_matrix(multiply, rank, stored, device):
    from numba import cuda

    random = np.random.default_rng(rank)
    a, b = (random.integers(-1, 2, (count, K)).astype(np.float16) for count in (M, N))
    right = (2 * a.astype(np.float32) @ b.astype(np.float32).T).astype(storage(stored))
    loaded = runtime.load(kernel(multiply, rank, stored).compile())
    inputs = [cuda.to_device(one) for one in (a, b)]
    bits = f"u{storage(stored).itemsize}"
    for row, column in ((0, 0), (48, 64)):
        start = np.zeros(SHAPES[rank], storage(stored))
        raw = start if storage(stored).kind == "f" and storage(stored).itemsize > 1 else start.view(np.uint8)
        c = cuda.to_device(start.view(bits) if stored in (bf16, e4m3) else raw)
        loaded.launch(1, *inputs, c, row, column)
        loaded.synchronize()
        place = [extent - 1 for extent in SHAPES[rank][:-1]]
        place[STRIDED[rank]] = slice(row, row + M)
        matrix = start[tuple(place)][:, column:]
        start[tuple(place)][:, column:][:M, :N] = right[: matrix.shape[0], : matrix.shape[1]]
        assert np.array_equal(c.copy_to_host().view(bits), start.view(bits))
