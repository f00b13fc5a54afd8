"""Shared memory between ordinary accesses and those that go on behind their instruction."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import InstructionDescriptor, Tcgen05Request, f16, f32, u32
from tests.rules.example import kernel
from tests.rules.setup import load_parts, tensor_memory, wgmma_parts

MATRIX = nvb.TensorMap(f16, box=(64, 64))
SQUARE = InstructionDescriptor(kind="f16", m=64, n=64, a=f16, b=f16, d=f32)


@kernel("proxy.missing-fence")
def tile_that_threads_fill(k):
    mma, acc, tile = wgmma_parts(k)
    tile.address.cast(u32).byte_offset(k.thread_id() * 16, align=16).store(0, 0, 0, 0)
    k.fence.proxy_async()  # keeps
    k.barrier.sync()
    with k.wgmma.group():
        mma.accumulate(acc, tile, tile)


@kernel("proxy.write-in-flight")
def tile_that_is_filled_again(k, matrix: MATRIX, steps: nvb.i32):
    mma, acc, _ = wgmma_parts(k)
    tile, full = load_parts(k)
    phase = k.var(0)
    with k.range(steps) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, matrix, (0, step * 64), full)
        k.mbarrier.wait(full, phase)
        phase.set(phase ^ 1)
        with k.wgmma.group(in_flight=1):  # breaks
            mma.accumulate(acc, tile, tile)  # breaks
        with k.wgmma.group(in_flight=0):  # keeps
            mma.accumulate(acc, tile, tile)  # keeps
        k.barrier.sync()
    k.wgmma.wait_group(0, drains=[acc])


@kernel("proxy.refill")
def tile_that_slower_warps_still_multiply(k, matrix: MATRIX, steps: nvb.i32):
    mma, acc, _ = wgmma_parts(k)
    tile, full = load_parts(k)
    phase = k.var(0)
    with k.range(steps) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, matrix, (0, step * 64), full)
        k.mbarrier.wait(full, phase)
        phase.set(phase ^ 1)
        with k.wgmma.group(in_flight=0):
            mma.accumulate(acc, tile, tile)
        k.barrier.sync()  # keeps
    k.wgmma.wait_group(0, drains=[acc])


@kernel("proxy.read-before-wait")
def tile_that_may_not_have_come(k, matrix: MATRIX, out: nvb.Pointer[u32]):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 0), full)
    k.barrier.sync()  # breaks
    k.mbarrier.wait(full, 0)  # keeps
    out[k.thread_id()] = tile.address.cast(u32)[k.thread_id()]


@kernel("async-copy.read-before-wait")
def copy_of_a_group_that_is_left(k, x: nvb.Pointer[u32], out: nvb.Pointer[u32]):
    buffer = k.shared(u32, 128)
    k.cp_async.copy(buffer + k.thread_id(), x + k.thread_id(), 4)
    k.cp_async.commit_group()
    k.cp_async.wait_group(1)  # breaks
    k.cp_async.wait_group(0)  # keeps
    out[k.thread_id()] = buffer[k.thread_id()]


@kernel("proxy.store-not-committed")
def store_in_an_open_group(k, matrix: MATRIX):
    tile, _ = load_parts(k)
    with k.one_thread():
        k.tma.store(matrix, (0, 0), tile)
        k.tma.commit_group()  # keeps
        k.tma.wait_group(reading=True)


@kernel("proxy.store-not-waited")
def store_that_outlives_its_kernel(k, matrix: MATRIX):
    tile, _ = load_parts(k)
    with k.one_thread():
        k.tma.store(matrix, (0, 0), tile)
        k.tma.commit_group()
        k.tma.wait_group(reading=True)  # keeps


@kernel("proxy.refill-in-flight", "sm_100a")
def tile_that_tensor_cores_still_read(k, matrix: MATRIX):
    tile, full = load_parts(k)
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with tensor_memory(k, 64) as tmem:
        with k.one_thread():
            k.tcgen05.mma(Tcgen05Request("f16"), tmem, tile, tile, SQUARE, accumulate=False)
            k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)  # keeps
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, matrix, (0, 0), full)
        k.mbarrier.wait(done, 0)
        k.mbarrier.wait(full, 0)


@kernel("async.other-threads")
def groups_of_another_warp(k, matrix: MATRIX):
    (tile, _), thread = load_parts(k), k.thread_id()
    with k.if_(thread == 0):
        k.tma.store(matrix, (0, 0), tile)
        k.tma.commit_group()  # keeps
        k.tma.wait_group()  # keeps
    with k.if_(thread == 32):
        k.tma.commit_group()
        k.tma.wait_group()


@kernel("proxy.waited-by-others")
def multiply_in_threads_that_do_not_wait(k, matrix: MATRIX):
    mma, acc, tile = wgmma_parts(k)
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 0), full)
        k.mbarrier.wait(full, 0)  # breaks
    k.mbarrier.wait(full, 0)  # keeps
    with k.wgmma.group():
        mma.accumulate(acc, tile, tile)
