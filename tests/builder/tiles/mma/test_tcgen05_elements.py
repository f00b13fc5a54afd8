"""Accumulators of tensor memory as elements with coordinates, run in the simulator, against NumPy."""

from __future__ import annotations

from typing import Annotated

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.layout import Layout

M, N, K = 128, 64, 64
A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(M, K))]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(N, K))]
PANELS = ((0, 48), (48, 16))


@nvb.kernel("sm_100a", threads=128)
def product(k, a: A, b: B, bias: nvb.Pointer[f32], c: nvb.Pointer[f16], most: nvb.Pointer[f32], rows: i32):
    mma = k.tiled_mma(nvb.tcgen05.mma(f"m{M}n{N}k16", f16, f16, f32))
    tile_a, tile_b = k.shared_tile(mma.smem_a(K)), k.shared_tile(mma.smem_b(K))
    full, done = k.mbarrier.array(1, arrivals=1), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(mma.columns) as accumulators:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile_a.layout.bytes + tile_b.layout.bytes)
            k.tma.load(tile_a, a, (0, 0), full)
            k.tma.load(tile_b, b, (0, 0), full)
        k.mbarrier.wait(full, 0)
        with k.one_thread():
            mma.accumulate(accumulators, tile_a, tile_b, accumulate=False)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()
        for panel, (first, width) in enumerate(PANELS):
            x = mma.load(accumulators, first, width)
            x = x + x.columns(lambda column, first=first: bias[first + column])
            part = k.tensor(c + first, Layout((M, width), (N, 1)))
            x.store(part, where=k.identity_tensor((M, width)).below(rows, None))
            highest = x.reduce_rows("max")
            with k.if_(highest.owned()):  # each row is one thread's alone
                for row, value in highest.items():
                    most[row * len(PANELS) + panel] = value


def test_elements_are_rows_of_tensor_memory() -> None:
    random = np.random.default_rng(4)
    a, b = (random.integers(-3, 4, (count, K)).astype(np.float16) for count in (M, N))
    bias = random.integers(-3, 4, N).astype(np.float32)
    c, most = np.full((M, N), 7, np.float16), np.zeros((M, 2), np.float32)
    loaded = nvb.runtime.load(product.compile(assemble=False), device="simulator")
    loaded.launch(1, a, b, bias, c, most, 100)
    right = a.astype(np.float32) @ b.astype(np.float32).T + bias
    assert np.array_equal(c[:100], right[:100])
    assert (c[100:] == 7).all()
    assert np.array_equal(most, np.stack([right[:, at : at + width].max(1) for at, width in PANELS], 1))
