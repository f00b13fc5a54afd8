"""What the protocol analyses say of small kernels whose sums, orders and races are worked out here by hand.

The numbers differ from one another wherever they may, so that none can stand in for another one unseen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, u8, u32, u64


def diagnostics(function: Callable, target: str = "sm_90a", cluster: int = 1) -> list[nvb.Diagnostic]:
    try:
        return [*nvb.kernel(target, threads=128, cluster=cluster)(function).build().diagnostics]
    except nvb.DiagnosticError as error:
        return [*error.diagnostics]


def said(function: Callable, target: str = "sm_90a", cluster: int = 1) -> list[str]:
    return sorted(one.rule_id for one in diagnostics(function, target, cluster))


def with_parameter(function: Callable, name: str, kind: Any) -> Callable:
    function.__annotations__[name] = kind
    return function


# -- sums of arrivals and bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("announcing", [1, 2, 3])
@pytest.mark.parametrize("announced", [48, 96, 144])
@pytest.mark.parametrize(("copying", "cluster", "mask"), [(1, 1, None), (3, 1, None), (1, 3, 0b111), (2, 3, 0b111)])
def test_bytes_are_those_of_all_threads_and_all_ctas(announcing, announced, copying, cluster, mask):
    """Each of the threads announces its bytes; each copy of 48 comes from every CTA that multicasts to all."""

    def kernel(k, x):
        full, tile, thread = (
            k.mbarrier.array(1, arrivals=announcing, name="full"),
            k.shared(u32, 512, align=128),
            k.thread_id(),
        )
        k.mbarrier.ready()
        with k.if_(thread < announcing):
            k.mbarrier.arrive(full, expect_tx=announced)
        with k.if_(thread < copying):
            k.bulk.load(tile + thread * 32, x, 48, full, multicast_mask=mask)
        k.mbarrier.wait(full, 0)
        k.cluster.sync()

    brought = 48 * copying * (cluster if mask else 1)
    wrong = [] if announcing * announced == brought else ["mbarrier.wrong-bytes"]
    assert said(with_parameter(kernel, "x", nvb.Pointer(u32, 16)), cluster=cluster) == wrong


@pytest.mark.parametrize("count", [1, 3, 5, 64, 96, 97, 128])
def test_arrivals_are_those_of_all_threads(count):
    """96 threads arrive once, and one of them is all that a count of 1 would be."""

    def kernel(k):
        done = k.mbarrier.array(1, arrivals=count, name="done")
        k.mbarrier.ready()
        with k.if_(k.thread_id() < 96):
            k.mbarrier.arrive(done)
        k.mbarrier.wait(done, 0)

    assert ("mbarrier.arrivals" in said(kernel)) == (count != 96)


@pytest.mark.parametrize("count", [21, 7, 3, 10])
def test_arrivals_that_count_several_times(count):
    def kernel(k):
        done = k.mbarrier.array(1, arrivals=count, name="done")
        k.mbarrier.ready()
        with k.if_(k.thread_id() < 3):
            k.mbarrier.arrive(done, count=7, state=True)
        k.mbarrier.wait(done, 0)

    assert ("mbarrier.arrivals" in said(kernel)) == (count != 21)


def test_who_leaves_a_barrier_is_missing_from_its_later_phases():
    """Two arrive in the first phase, one of them for the last time; each later phase has one arrival, and ends."""

    def kernel(k, steps: nvb.i32):
        done, phase = k.mbarrier.array(1, arrivals=2, name="done"), k.var(0)
        k.mbarrier.ready()
        with k.if_(k.thread_id() == 32):
            k.mbarrier.arrive(done, drop=True, state=True)
        with k.range(steps):
            with k.if_(k.thread_id() == 0):
                k.mbarrier.arrive(done)
            k.mbarrier.wait(done, phase)
            phase.set(phase ^ 1)

    assert said(kernel) == []


# -- the cluster's barrier --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_wait_needs_an_arrival_on_every_path(first, second):
    def kernel(k):
        with k.if_(k.thread_id() < 32):
            if first:
                k.cluster.arrive()
        with k.else_():
            if second:
                k.cluster.arrive()
        k.cluster.wait()

    assert ("cluster.wait-alone" in said(kernel, cluster=2)) == (not (first and second))


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_cluster_sync_is_relaxed_where_it_is_told_to_be(relaxed):
    def kernel(k):
        k.cluster.sync(relaxed=relaxed)

    text = nvb.kernel("sm_90a", threads=128, cluster=2)(kernel).build().compile().ptx
    assert re.findall(r"barrier\.cluster\.\S+", text) == [
        f"barrier.cluster.arrive{'.relaxed' if relaxed else ''}.aligned;",
        "barrier.cluster.wait.aligned;",
    ]


# -- races ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [False, True])
def test_each_of_several_races_is_told(together):
    """One barrier puts those right that lie around it; two with a barrier between are two mistakes."""

    def kernel(k, out: nvb.Pointer[u32]):
        one, other, thread = k.shared(u32, 128), k.shared(u32, 128), k.thread_id()
        one[thread] = 1
        if together:
            other[thread] = 1
        out[thread] = one[thread ^ 32]
        if not together:
            k.barrier.sync()
            other[thread] = 1
        out[thread] = other[thread ^ 64]

    found = [one for one in diagnostics(kernel) if one.rule_id == "shared.missing-barrier"]
    assert len(found) == (1 if together else 2)
    assert len({one.location for one in found}) == len(found)


@pytest.mark.parametrize(("distance", "is_race"), [(1, False), (31, False), (32, False), (64, True), (96, True)])
def test_a_barrier_of_half_the_threads_orders_those_alone(distance, is_race):
    """Both halves write, and the first alone meets: it may read what it wrote itself, and no more."""

    def kernel(k, out: nvb.Pointer[u32]):
        memory, thread = k.shared(u32, 128), k.thread_id()
        k.barrier.sync()
        memory[thread] = 1
        with k.if_(thread < 64):
            k.barrier.sync(1, threads=64)
            out[thread] = memory[thread ^ distance]

    assert not said(kernel) or is_race


@pytest.mark.parametrize("ordered", [False, True])
def test_a_write_that_other_warps_multiply_is_behind_a_barrier(ordered):
    def kernel(k):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
        acc, tile = mma.accumulator(), k.shared_tile(mma.smem_a(64))
        tile.address.cast(u32).byte_offset(k.thread_id() * 16, align=16).store(0, 0, 0, 0)
        k.fence.proxy_async()
        if ordered:
            k.barrier.sync()
        with k.wgmma.group():
            mma.accumulate(acc, tile, tile)

    assert said(kernel) == ([] if ordered else ["shared.missing-barrier"])


# -- proxies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("word", [0, 5, 127])
def test_a_store_sends_what_was_fenced(fenced, word):
    def kernel(k, out: nvb.Pointer(u32, 16)):
        memory = k.shared(u32, 256, align=16)
        with k.one_thread():
            memory[word] = 1
            if fenced:
                k.fence.proxy_async()
            k.bulk.store(out, memory, 512)
            k.tma.commit_group()
            k.tma.wait_group()

    assert said(kernel) == ([] if fenced else ["proxy.missing-fence"])


@pytest.mark.parametrize("fenced", [False, True])
def test_what_is_copied_to_tensor_memory_is_fenced(fenced):
    def kernel(k):
        source, done = k.shared(u8, 4096, align=1024), k.mbarrier.array(1, arrivals=1, name="done")
        k.mbarrier.ready()
        with k.tcgen05.tmem(64) as tmem:
            with k.one_thread():
                source.cast(u32)[0] = 1
                if fenced:
                    k.fence.proxy_async()
                word = k.tcgen05.smem_descriptor(source, nvb.Tcgen05SmemDescriptor(0, 16, 128))
                k.tcgen05.cp(tmem, word, "4x256b")
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()

    assert said(kernel, "sm_100a") == ([] if fenced else ["proxy.missing-fence"])


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("row", [16, 32, 48, 64, 80, 96, 112, 128, 144, 192, 240, 256])
def test_a_row_of_a_box_is_at_most_the_span_of_the_swizzle(row, swizzle):
    def kernel(k, matrix):
        tile, full = k.shared(u8, 8 * row, align=1024), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=8 * row)
            k.tma.load_box(tile, matrix, (0, 0), full)
        k.mbarrier.wait(full, 0)

    if row > swizzle:
        with pytest.raises(nvb.DiagnosticError) as caught:
            nvb.TensorMap(u8, (8, row), swizzle)
        assert [one.rule_id for one in caught.value.diagnostics] == ["tensor-map.swizzle"]
    else:
        assert said(with_parameter(kernel, "matrix", nvb.TensorMap(u8, (8, row), swizzle))) == []


# -- tensor memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("warp", [0, 1, 3])
def test_one_warp_allocates_and_gives_back(warp):
    """PTX ISA 9.7.16.7.1: the warp that allocated deallocates."""

    def kernel(k):
        with k.tcgen05.tmem(64, warp=warp):
            pass

    machine = nvb.kernel("sm_100a", threads=128)(kernel).build().machine
    warps = {
        instr.opcode: block.crew.bits
        for block in machine.blocks.values()
        for instr in block.instructions
        if instr.opcode in ("tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit") and block.crew
    }
    assert warps.keys() >= {"tcgen05.alloc", "tcgen05.dealloc"}
    assert set(warps.values()) == {0xFFFFFFFF << 32 * warp}


@pytest.mark.parametrize("copied", [False, True])
def test_a_product_adds_to_what_was_copied(copied):
    def kernel(k):
        source, done = k.shared(u8, 4096, align=1024), k.mbarrier.array(1, arrivals=1, name="done")
        k.mbarrier.ready()
        shape = nvb.InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
        with k.tcgen05.tmem(64) as tmem:
            with k.one_thread():
                if copied:
                    word = k.tcgen05.smem_descriptor(source, nvb.Tcgen05SmemDescriptor(0, 16, 128))
                    k.tcgen05.cp(tmem, word, "128x256b")
                k.tcgen05.mma(nvb.Tcgen05Request("f16"), tmem, 0, 0, shape, accumulate=True)
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()

    assert said(kernel, "sm_100a") == ([] if copied else ["tcgen05.undefined-accumulator"])


@pytest.mark.parametrize("waits", [False, True])
def test_a_wait_at_an_unknown_address_may_be_for_any_copy(waits):
    def kernel(k, x: nvb.Pointer(u32, 16), out: nvb.Pointer[u32], barrier: u32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(tile, x, 512, full)
        if waits:
            k.mbarrier.wait(k.shared_address(barrier, u64, 8), 0)
        out[k.thread_id()] = tile[k.thread_id()]

    assert ("proxy.read-before-wait" in said(kernel)) == (not waits)
