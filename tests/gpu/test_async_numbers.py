"""Asynchronous copies, reductions and barriers on a GPU, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.intrinsics.row.types import f16, f32, s32, u32
from nvbackend.signature import Parameter
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES

ROWS, COLUMNS = 16, 32


def random_words(count, seed=1):
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint64).astype(np.uint32)


@pytest.mark.parametrize("cache", ["ca", "cg"])
def test_copies_of_16_bytes_arrive_and_a_short_one_is_filled_with_zeros(cache):
    def body(k, source, out):
        lane = k.thread_id()
        shared, short = k.shared(u32, 128, align=128), k.shared(u32, 64, align=128)
        k.cp_async.copy(
            shared.byte_offset(lane * 16, align=16), source.byte_offset(lane * 16, align=16), 16, cache=cache
        )
        k.cp_async.copy(short.byte_offset(lane * 8, align=8), source.byte_offset(lane * 8, align=8), 8, read_bytes=4)
        k.cp_async.commit_group()
        k.cp_async.wait_group(0)
        k.barrier.sync()
        for turn in range(4):
            out[turn * 32 + lane] = shared[turn * 32 + lane]
        for turn in range(2):
            out[128 + turn * 32 + lane] = short[turn * 32 + lane]

    values = random_words(128)
    found = words(body, values, 192)
    assert np.array_equal(found[:128], values)
    assert np.array_equal(found[128:], np.where(np.arange(64) % 2 == 0, values[:64], 0))


def test_a_barrier_waits_for_copies_of_every_thread():
    def body(k, source, out):
        lane = k.thread_id()
        shared = k.shared(u32, 32, align=128)
        barrier = k.mbarrier.array(1, 32)
        k.mbarrier.ready()
        k.cp_async.copy(shared + lane, source + lane, 4)
        k.cp_async.mbarrier_arrive(barrier, no_increment=True)
        k.mbarrier.wait(barrier, 0)
        out[lane] = shared[31 - lane]

    values = random_words(32)
    assert np.array_equal(words(body, values, 32), values[::-1])


def test_the_states_of_a_phase():
    def body(k, source, out):
        barrier = k.mbarrier.array(1, 3)
        k.mbarrier.ready()
        with k.if_(k.thread_id() == 0):
            first = k.mbarrier.arrive(barrier, state=True)
            second = k.mbarrier.arrive(barrier, count=1, state=True)
            out[0] = k.mbarrier.pending_count(first)
            out[1] = k.mbarrier.pending_count(second)
            out[2] = k.select(k.mbarrier.test(barrier, state=second), 1, 0).to(u32)
            k.mbarrier.arrive(barrier, qualifiers=("release", "cluster"), state=True)
            out[3] = k.select(k.mbarrier.test(barrier, state=first, qualifiers=("acquire", "cluster")), 1, 0).to(u32)
            out[4] = k.select(k.mbarrier.test(barrier, parity=0, blocking=True, sleep=1000), 1, 0).to(u32)

    # A state is that before its arrival: 3 and 2 arrivals pending, no phase done; then the phase of parity 0 is.
    assert list(words(body, np.zeros(1, np.uint32), 5)) == [3, 2, 0, 1, 1]


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("counted", [None, 64])
def test_a_reducing_barrier_counts_threads(counted, aligned):
    def body(k, source, out):
        thread = k.thread_id()
        holds = source[thread] == 1
        how = {"threads": counted, "aligned": aligned}
        out[thread] = k.barrier.reduce("popc", holds, **how)
        out[64 + thread] = k.select(k.barrier.reduce("and", holds, **how), 1, 0).to(u32)
        out[128 + thread] = k.select(k.barrier.reduce("or", holds, **how), 1, 0).to(u32)

    given = (np.arange(64) % 3 == 0).astype(np.uint32)
    count, every, some = words(body, given, 192, threads=64).reshape(3, 64)
    assert set(count) == {given.sum()}
    assert set(every) == {0}
    assert set(some) == {1}


@pytest.mark.parametrize(("operation", "element"), [("add", f16), ("add", f32), ("max", f16)], ids=str)
def test_a_box_is_combined_with_a_tensor(operation, element):
    from numba import cuda

    kind = element.numpy_dtype()
    box = (4, 16)

    def body(k, source, out, tensor):
        tile = k.shared(element, box[0] * box[1], align=128)
        words_of_tile, count = tile.cast(u32), box[0] * box[1] * element.bits // 32
        lane = k.thread_id()
        for start in range(0, count, 32):
            words_of_tile[start + lane] = source[start + lane]
        k.fence.proxy_async()
        k.barrier.sync()
        with k.if_(lane == 0):
            k.tma.reduce_box(tensor, (8, 4), tile, operation)
            k.tma.commit_group()
            k.tma.wait_group()

    random = np.random.default_rng(2)
    matrix, patch = (random.integers(-8, 8, shape).astype(kind) for shape in ((ROWS, COLUMNS), box))
    device = cuda.to_device(matrix)
    words(body, patch, 1, (Parameter("tensor", nvb.TensorMap(element, box=box, swizzle=0)), device))
    wanted = matrix.copy()
    place = wanted[4:8, 8:24]
    place[:] = place + patch if operation == "add" else np.maximum(place, patch)
    assert np.array_equal(device.copy_to_host(), wanted)


@pytest.mark.parametrize("space", ["cluster", "cta"])
def test_a_box_is_loaded_and_stored_somewhere_else(space):
    from numba import cuda

    box = (4, 16)

    def body(k, source, out, tensor, target):
        tile = k.shared(f32, box[0] * box[1], align=128)
        barrier = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        lane = k.thread_id()
        with k.if_(lane == 0):
            k.mbarrier.arrive(barrier, expect_tx=box[0] * box[1] * 4)
            policy = k.cache.policy("L2::evict_first")
            k.tma.load_box(tile, tensor, (8, 4), barrier, space=space, cache_policy=policy)
        k.mbarrier.wait(barrier, 0)
        with k.if_(lane == 0):
            k.tma.store_box(target, (0, 12), tile)
            k.tma.commit_group()
            k.tma.wait_group()

    random = np.random.default_rng(3)
    matrix = random.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    source, target = cuda.to_device(matrix), cuda.to_device(np.zeros_like(matrix))
    kind = nvb.TensorMap(f32, box=box, swizzle=0)
    words(body, np.zeros(1, np.uint32), 1, (Parameter("tensor", kind), source), (Parameter("target", kind), target))
    wanted = np.zeros_like(matrix)
    wanted[12:16, :16] = matrix[4:8, 8:24]
    assert np.array_equal(target.copy_to_host(), wanted)


@pytest.mark.parametrize(("operation", "element"), [("add", f32), ("min", s32), ("xor", u32)], ids=str)
def test_bytes_in_a_row_are_combined_with_global_memory(operation, element):
    def body(k, source, out):
        shared = k.shared(u32, 64, align=128)
        lane = k.thread_id()
        for start in (0, 32):
            shared[start + lane] = source[start + lane]
            out[start + lane] = source[64 + start + lane]
        k.fence.thread("sc", "gpu")
        k.fence.proxy_async(None)
        k.barrier.sync()
        with k.if_(lane == 0):
            k.bulk.reduce(out, shared, 256, operation, "b32" if operation == "xor" else element)
            k.tma.commit_group()
            k.tma.wait_group()

    kind = element.numpy_dtype()
    given = np.random.default_rng(4).integers(0, 1 << 20, 128).astype(kind)
    function = {"add": np.add, "min": np.minimum, "xor": np.bitwise_xor}[operation]
    assert np.array_equal(words(body, given, 64).view(kind), function(given[64:], given[:64]))


def test_values_reach_the_other_cta_of_a_cluster():
    def body(k, source, out):
        shared = k.shared(u32, 64, align=128)
        barrier = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        lane, rank = k.thread_id(), k.cluster.rank()
        with k.if_(lane == 0):
            k.mbarrier.arrive(barrier, expect_tx=64 * 4)
        k.cluster.sync()
        pair = [source[rank * 64 + lane * 2], source[rank * 64 + lane * 2 + 1]]
        k.async_store.store(shared + lane * 2, pair, barrier, 1 - rank)
        k.mbarrier.wait(barrier, 0)
        for turn in (0, 1):
            out[rank * 64 + turn * 32 + lane] = shared[turn * 32 + lane]
        k.cluster.sync()

    values = random_words(128, seed=6)
    found = words(body, values, 128, cluster=2)
    assert np.array_equal(found, np.concatenate([values[64:], values[:64]]))


def test_a_value_is_combined_in_the_other_cta_of_a_cluster():
    def body(k, source, out):
        shared = k.shared(u32, 1, align=16)
        barrier = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        lane, rank = k.thread_id(), k.cluster.rank()
        with k.if_(lane == 0):
            shared[0] = 1000 * (rank + 1).to(u32)
            k.mbarrier.arrive(barrier, expect_tx=32 * 4)
        k.cluster.sync()
        k.async_store.reduce(shared, "add", source[rank * 32 + lane], barrier, 1 - rank)
        k.mbarrier.wait(barrier, 0)
        with k.if_(lane == 0):
            out[rank] = shared[0]
        k.cluster.sync()

    values = random_words(64, seed=7) >> 8
    assert list(words(body, values, 2, cluster=2)) == [1000 + values[32:].sum(), 2000 + values[:32].sum()]
