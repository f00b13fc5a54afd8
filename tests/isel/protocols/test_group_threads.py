"""Commits and waits of other threads than those that issued: found at their lines, and no right program accused."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.support.runtime import broken

RULE = "async.other-threads"
LAYOUT = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)


def builder(target="sm_90a"):
    parameters = [Parameter("a", TensorMap(f16, (64, 64))), Parameter("p", Pointer(u32)), Parameter("n", Scalar(i32))]
    return KernelBuilder("kernel", target, threads=256, parameters=parameters)


def found(program, target="sm_90a"):
    k = builder(target)
    program(k, *k.arguments)
    try:
        diagnostics = k.finish().diagnostics
    except nvb.DiagnosticError as error:
        diagnostics = error.diagnostics
    return [one for one in diagnostics if one.rule_id == RULE]


# -- bulk stores ----------------------------------------------------------------------------------------------------


def stored(issue, commit, wait):
    """A store, its commit and its wait, each in the threads of a condition over the thread's index."""

    def program(k, a, p, n):
        tile, thread = k.shared_tile(LAYOUT), k.thread_id()
        with k.if_(issue(thread)):
            k.tma.store(a, (0, 0), tile)
        with k.if_(commit(thread)):
            k.tma.commit_group()
        with k.if_(wait(thread)):
            k.tma.wait_group()

    return program


def first(thread):
    return thread == 0


def of_warp_1(thread):
    return thread == 32


def of_warp_0(thread):
    return thread < 32


def test_a_store_is_committed_and_waited_for_by_the_thread_that_issued_it():
    assert found(stored(first, first, first)) == []
    assert found(stored(first, of_warp_0, of_warp_0)) == []


@pytest.mark.parametrize(
    ("commit", "wait", "opcode"), [(of_warp_1, first, "commit_group"), (first, of_warp_1, "wait_group")]
)
def test_a_store_that_another_thread_commits_or_waits_for(commit, wait, opcode):
    (one,) = found(stored(first, commit, wait))
    text = str(one)
    assert f"the cp.async.bulk.{opcode} is executed by thread 32" in text
    assert "by thread 0: " in text


def test_what_one_lane_elected_did_may_have_been_any():
    def program(k, a, p, n):
        tile = k.shared_tile(LAYOUT)
        with k.one_thread():
            k.tma.store(a, (0, 0), tile)
        with k.if_(k.thread_id() == 5):
            k.tma.commit_group()
            k.tma.wait_group()

    assert found(program) == []


def test_under_a_condition_that_nobody_knows():
    def program(k, a, p, n):
        tile = k.shared_tile(LAYOUT)
        with k.if_(k.thread_id() == n):
            k.tma.store(a, (0, 0), tile)
        with k.if_(k.thread_id() == 5):
            k.tma.commit_group()
            k.tma.wait_group()

    assert found(program) == []


def test_a_commit_in_the_next_round_counts():
    def program(k, a, p, n):
        tile, thread = k.shared_tile(LAYOUT), k.thread_id()
        with k.range(n):
            with k.if_(thread == 0):
                k.tma.commit_group()
                k.tma.wait_group()
            with k.if_(thread == 0):
                k.tma.store(a, (0, 0), tile)
            with k.if_(thread == 64):
                k.tma.commit_group()
                k.tma.wait_group()

    assert found(program) == []


def test_a_commit_that_comes_before_does_not():
    def program(k, a, p, n):
        tile, thread = k.shared_tile(LAYOUT), k.thread_id()
        with k.if_(thread == 0):
            k.tma.commit_group()
            k.tma.wait_group()
        with k.if_(thread == 0):
            k.tma.store(a, (0, 0), tile)
        with k.if_(thread == 64):
            k.tma.commit_group()
            k.tma.wait_group()

    assert len(found(program)) == 1


# -- wgmma ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("group", "wrong"), [(0, False), (1, True)])
def test_a_warpgroup_commits_its_own_multiplies(group, wrong):
    def program(k, a, p, n):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
        acc, tile = mma.accumulator(), k.shared_tile(mma.smem_a(64))
        with k.if_(k.warpgroup_id() == 0):
            k.wgmma.fence()
            mma.accumulate(acc, tile, tile)
        with k.if_(k.warpgroup_id() == group):
            k.wgmma.commit_group()
        with k.if_(k.warpgroup_id() == 0):
            k.wgmma.wait_group(0)

    assert len(found(program)) == wrong


# -- tcgen05 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("thread", "wrong"), [(0, False), (32, True)])
def test_a_thread_commits_its_own_multiplies_of_tcgen05(thread, wrong):
    def program(k, a, p, n):
        done = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.if_(k.thread_id() == 0):
            k.tcgen05.cp(k.const(0, u32), k.const(0, nvb.u64), "128x256b")
        with k.if_(k.thread_id() == thread):
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)

    assert len(found(program, "sm_100a")) == wrong


# -- cp.async -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pending", [0, None], ids=["wait_group", "wait_all"])
@pytest.mark.parametrize(("threads", "wrong"), [(256, False), (255, True), (128, True)])
def test_each_thread_waits_for_its_own_copies(pending, threads, wrong):
    def program(k, a, p, n):
        memory, thread = k.shared(u32, 256), k.thread_id()
        k.cp_async.copy(memory + thread, p + thread, 4)
        k.cp_async.commit_group()
        with k.if_(thread < threads):
            k.cp_async.wait_group(pending)
        k.barrier.sync()
        p[thread] = memory[255 - thread]

    assert len(found(program)) == wrong


def test_a_copy_that_others_close_a_group_for():
    def program(k, a, p, n):
        memory, thread = k.shared(u32, 256), k.thread_id()
        with k.if_(thread < 64):
            k.cp_async.copy(memory + thread, p + thread, 4)
        with k.if_(thread >= 64):
            k.cp_async.commit_group()
        k.cp_async.wait_group(0)
        k.barrier.sync()
        p[thread] = memory[thread % 64]

    (one,) = found(program)
    assert "the cp.async.commit_group is executed by threads 64 to 255" in str(one)
    assert "by threads 0 to 63" in str(one)


def test_threads_that_copy_nothing_need_not_wait():
    def program(k, a, p, n):
        memory, thread = k.shared(u32, 256), k.thread_id()
        with k.if_(thread < 64):
            k.cp_async.copy(memory + thread, p + thread, 4)
            k.cp_async.commit_group()
        with k.if_(thread < 128):
            k.cp_async.wait_group(0)
        k.barrier.sync()
        p[thread] = memory[thread % 64]

    assert found(program) == []


def test_copies_that_arrive_on_an_mbarrier():
    def program(k, a, p, n):
        memory, thread, full = k.shared(u32, 256), k.thread_id(), k.mbarrier.array(1, arrivals=256)
        k.mbarrier.ready()
        k.cp_async.copy(memory + thread, p + thread, 4)
        k.cp_async.mbarrier_arrive(full, no_increment=True)
        k.mbarrier.wait(full, 0)
        with k.if_(thread < 128):
            k.cp_async.commit_group()
            k.cp_async.wait_group(0)

    assert found(program) == []


@pytest.mark.parametrize("others", [False, True])
def test_threads_are_told_apart_where_a_number_decides_as_well(others: bool) -> None:
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, n: i32, x: nvb.Pointer(f32, align=16)):
        row, thread = k.shared(f32, 512, align=16), k.thread_id()
        with k.if_((n > 3) & (thread < 64)):
            k.cp_async.copy(row + thread * 4, x + thread * 4, 16)
        with k.if_((n > 3) & (thread >= 64 if others else thread < 64)):
            k.cp_async.commit_group()
            k.cp_async.wait_group(0)

    assert [one.rule_id for one in broken(kernel.build)] == ["async.other-threads"] * others
