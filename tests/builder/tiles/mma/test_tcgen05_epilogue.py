"""The TMA epilogue of tensor memory to a tensor of three dimensions, in the simulator, and what it refuses."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32

M, N, K = 128, 64, 64
A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(M, K))]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(N, K))]
C = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(1, M, 64))]


@nvb.kernel("sm_100a", threads=128)
def batched(k, a: A, b: B, c: C, row: i32):
    mma = k.tiled_mma(nvb.tcgen05.mma(f"m{M}n{N}k16", f16, f16, f32))
    tile_a, tile_b = k.shared_tile(mma.smem_a(K)), k.shared_tile(mma.smem_b(K))
    output = k.tma_epilogue(c, N, rows=M)
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
        reserved = output.reserve((k.block_id(), row, 0), 0)
        reserved.store(mma.load(accumulators) + 1.0)
        output.finish()


@pytest.mark.parametrize("row", [0, 72])
def test_a_batch_of_tiles_of_tensor_memory(row: int) -> None:
    random = np.random.default_rng(row)
    a, b = (random.integers(-3, 4, (count, K)).astype(np.float16) for count in (M, N))
    c = np.zeros((2, 160, N), np.float16)
    nvb.runtime.load(batched.compile(assemble=False), device="simulator").launch(2, a, b, c, row)
    right = np.zeros_like(c)
    right[:, row : row + M] = (a.astype(np.float32) @ b.astype(np.float32).T + 1)[: 160 - row]
    assert np.array_equal(c, right)


@pytest.mark.parametrize(("warpgroups", "threads"), [(2, 128), (1, 100), (1, 0), (0, 128), (1, 256)])
def test_a_group_is_of_whole_warps_that_there_are(warpgroups: int, threads: int) -> None:
    parameters = [nvb.Parameter("c", nvb.TensorMap(f16, box=(64, 64)))]
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, parameters=parameters)
    with pytest.raises(nvb.DiagnosticError, match=r"epilogue\.threads"):
        k.tma_epilogue(k.arguments[0], 64, warpgroups, threads=threads)
