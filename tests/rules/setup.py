"""What several examples begin with, so that each shows one idea."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager

import nvbackend as nvb
from nvbackend import Accumulator, Address, SharedTile, TiledWgmma, Value, f16, f32, u32

HOPPER = nvb.Target.parse("sm_90a")
BLACKWELL = nvb.Target.parse("sm_100a")


def wgmma_parts(k: nvb.KernelBuilder) -> tuple[TiledWgmma, Accumulator, SharedTile]:
    """An mma of one warpgroup, its accumulator, and a tile that serves as both operands."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    return mma, mma.accumulator(), k.shared_tile(mma.smem_a(64))


def load_parts(k: nvb.KernelBuilder) -> tuple[SharedTile, Address]:
    """A tile of 64 x 64 f16, and the mbarrier that a load into it completes on, ready for all threads."""
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    return tile, full


@contextmanager
def tensor_memory(k: nvb.KernelBuilder, columns: int) -> Iterator[Value]:
    """`columns` columns of tensor memory, their address for all threads inside, freed at its end."""
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, columns)
        k.tcgen05.relinquish_alloc_permit()
    k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()
    k.tcgen05.fence_after_thread_sync()
    tmem = cell[0]
    yield tmem
    k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()
    k.tcgen05.fence_after_thread_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(tmem, columns)


@contextmanager
def issuing(k: nvb.KernelBuilder) -> Iterator[None]:
    """One thread issues tcgen05.mma inside; all threads wait until they are done."""
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.one_thread():
        yield
        k.tcgen05.commit(done)
    k.mbarrier.wait(done, 0)
    k.tcgen05.fence_after_thread_sync()


def empty(target: str = "sm_90a") -> nvb.KernelBuilder:
    """A kernel of one warp that does nothing."""
    return nvb.KernelBuilder("empty", target, threads=32, parameters=[])


@contextmanager
def scratch() -> Iterator[None]:
    """A folder of its own as the current one, removed afterwards."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        yield
