"""Which threads a wait for wgmma speaks for: their own warpgroup, however many warps a CTA has beside it."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, f16, f32
from nvbackend.simulator import Simulator

ROUNDS = 3


@functools.cache
def _kernel(threads: int) -> nvb.CompiledKernel:
    """Each round a warpgroup writes A, multiplies it, and waits."""

    @nvb.kernel("sm_90a", threads=threads)
    def kernel(k, a: nvb.Pointer[f16], out: nvb.Pointer[f32]):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
        tile_a, tile_b = k.shared_tile(mma.smem_a(64), name="a"), k.shared_tile(mma.smem_b(64), name="b")
        with k.if_(k.warp_id() < 4):
            acc, t = mma.accumulator(), k.thread_id()
            with k.range(32) as column:
                tile_b.at(t // 2, t % 2 * 32 + column)[0] = 1.0
            with k.range(ROUNDS):
                with k.range(32) as column:
                    tile_a.at(t // 2, t % 2 * 32 + column)[0] = a[(t // 2) * 64 + t % 2 * 32 + column]
                k.fence.proxy_async()
                k.barrier.sync(1, 128)
                with k.wgmma.group():
                    mma.accumulate(acc, tile_a, tile_b)
            k.store_accumulator(acc, out + k.block_id() * 4096, stride=64)

    return kernel.compile(assemble=False)


@pytest.mark.parametrize("grid", [1, 2, 3])
@pytest.mark.parametrize("threads", [128, 160, 192, 224, 256])
def test_a_warpgroup_waits_for_its_own_products(threads: int, grid: int) -> None:
    a, out = np.full((64, 64), 0.5, np.float16), np.zeros((grid, 64, 64), np.float32)
    nvb.runtime.load(_kernel(threads), device="simulator").launch(grid, a, out)
    assert (out == ROUNDS * 32).all()


@pytest.mark.parametrize("threads", [128, 160, 224])
def test_without_its_wait_the_next_write_is_told(threads: int) -> None:
    text = _kernel(threads).ptx
    (wait,) = re.findall(r"^.*wgmma\.wait_group.*$", text, re.M)
    after_the_rounds = re.search(r"^.*st\.global.*$", text, re.M)[0]
    text = text.replace(wait, "").replace(after_the_rounds, f"{wait}\n{after_the_rounds}")
    loaded = Simulator().load(text)
    a, out = np.zeros((64, 64), np.float16), np.zeros((2, 64, 64), np.float32)
    with pytest.raises(nvb.DiagnosticError, match=r"proxy\.write-in-flight"):
        loaded.launch("kernel", grid=(2, 1, 1), block=(threads, 1, 1), args=[a, out], shared=2 * 64 * 128 + 1024)


@functools.cache
def _rows(crossed: bool, major: Major) -> nvb.CompiledKernel:
    """Each warp writes 16 rows of A, its own or those of another warp, and waits for its own lanes alone."""

    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, a: nvb.Pointer[f16], out: nvb.Pointer[f32]):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
        tile_a, tile_b = k.shared_tile(mma.smem_a(64, major=major), name="a"), k.shared_tile(mma.smem_b(64), name="b")
        acc, t = mma.accumulator(), k.thread_id()
        with k.range(32) as column:
            tile_b.at(t // 2, t % 2 * 32 + column)[0] = 1.0
        k.fence.proxy_async()
        k.barrier.sync()
        row = t // 2 ^ 16 * crossed
        with k.range(32) as column:
            tile_a.at(row, t % 2 * 32 + column)[0] = a[row * 64 + t % 2 * 32 + column]
        k.fence.proxy_async()
        k.warp.sync()
        with k.wgmma.group():
            mma.accumulate(acc, tile_a, tile_b)
        k.store_accumulator(acc, out, stride=64)

    return kernel.build(check=False).compile(assemble=False)


@pytest.mark.parametrize("major", [Major.K, Major.MN])
def test_each_warp_multiplies_its_own_rows_of_a(major: Major) -> None:
    """FlashAttention-3 stages P so: no barrier of the warpgroup, "since each warp is using its own P values"."""
    a, out = np.full((64, 64), 0.5, np.float16), np.zeros((64, 64), np.float32)
    nvb.runtime.load(_rows(False, major), device="simulator").launch(1, a, out)
    assert (out == 32).all()
    with pytest.raises(nvb.DiagnosticError, match=r"shared\.missing-barrier"):
        nvb.runtime.load(_rows(True, major), device="simulator").launch(1, a, out)
