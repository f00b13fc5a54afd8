"""Nothing is said of the right programs that the verifier is held to, nor of right pairs of CTAs."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f16, u64
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.rules.programs.mbarrier_right import barrier_of_the_caller
from tests.rules.registry import right
from tests.support.runtime import rules

BOX = {"cluster": (32, 64), "mbarrier": (64, 64)}
PARTS = (barrier_of_the_caller,)
"""What waits for an mbarrier that nothing of theirs initialises."""
PROGRAMS = [(protocol, one) for protocol in BOX for one in right(protocol) if one not in PARTS]


@pytest.mark.parametrize(("protocol", "program"), PROGRAMS, ids=[one.name for _, one in PROGRAMS])
def test_nothing_is_said_of_a_right_program(protocol, program):
    parameters = [Parameter("a", TensorMap(f16, BOX[protocol])), Parameter("n", Scalar(nvb.i32))]
    if protocol == "cluster":
        parameters.append(Parameter("p", Pointer(u64)))
    cluster = 2 if protocol == "cluster" else 1
    k = nvb.KernelBuilder("kernel", "sm_90a", threads=256, cluster=cluster, parameters=parameters)
    program(k, *k.arguments[:2])
    assert rules(k.finish) == []


def by_a_relaxed_arrival(k, turn):
    """It follows the barrier in program order; that it publishes no memory does not matter."""
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.if_(k.warp_id() < 2):
        turn()
        k.mbarrier.arrive(done, when=k.thread_id() == 0, qualifiers=("relaxed", "cluster"))
    with k.else_():
        k.mbarrier.wait(done, 0)
        turn()


def by_a_flag(k, turn):
    flag = k.shared(nvb.i32, 1, name="flag")
    flag[0] = 0
    k.barrier.sync()
    with k.if_(k.warp_id() < 2):
        turn()
        with k.one_thread(0):
            flag.atomic("exch", 1)
    with k.else_():
        with k.loop():
            k.break_if(flag.atomic("or", 0) == 1)
        turn()


@pytest.mark.parametrize("takes", [by_a_relaxed_arrival, by_a_flag])
def test_two_pairs_of_warps_take_turns_at_one_barrier(takes):
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k):
        takes(k, lambda: k.barrier.sync(1, 64))

    assert rules(kernel.build) == []


@pytest.mark.parametrize(("mask", "brought"), [(0b01, 8192), (0b10, 8192), (0b11, 16384)])
@pytest.mark.parametrize("leader", [0, 1])
@pytest.mark.parametrize("announced", [8192, 16384])
def test_a_multicast_of_a_pair_completes_in_one_cta_of_it(mask, brought, leader, announced):
    """PTX ISA 9.7.9: each destination's bytes count in the CTA of its pair that has the parity of the barrier's CTA.

    What a parameter decides is hidden from the verifier.
    """

    @nvb.kernel("sm_100a", threads=64, cluster=2)
    def kernel(k, a: nvb.TensorMap(f16, box=(64, 64)), n: nvb.i32):
        tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
        full = k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        rank = k.cluster.rank()
        leaders = k.shared_address(k.cluster.map_to_peer(full.bytes, leader), u64, 8)
        with k.if_(rank == leader), k.one_thread():
            k.mbarrier.arrive(full, expect_tx=k.select(n == 77, n, announced))
        with k.if_(rank == 0), k.one_thread():
            k.tma.load_box(tile.address, a, (0, 0), leaders, cta_group=2, multicast_mask=mask)
        with k.if_(rank == leader):
            k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert rules(lambda: kernel.build(check=False)) == []
    assert rules(kernel.build) == ["mbarrier.wrong-bytes"] * (announced != brought)


def test_a_barrier_of_all_threads_comes_after_the_end_of_those_that_have_left():
    """It waits for those that are left (CUDA C++ Programming Guide, __syncthreads); the others have read the slot."""

    @nvb.kernel("sm_80", threads=128)
    def kernel(k, counter: nvb.Pointer(nvb.i32), count: nvb.i32):
        slot, thread = k.shared(nvb.i32, 1, name="slot"), k.thread_id()
        with k.loop():
            with k.if_(thread == 0):
                slot[0] = counter.atomic("add", 1)
            k.barrier.sync()
            work = slot[0]
            k.break_if((thread >= 32) & (thread < 64) & (work + 1 >= count))
            k.barrier.sync()
            k.break_if(work >= count)

    assert rules(kernel.build) == []


@pytest.mark.parametrize("rounds", [2, 3])
def test_a_barrier_of_all_threads_may_be_met_at_two_lines(rounds):
    """What does not show from the lines does from the rounds: one more there, and warps meet that should not."""

    @nvb.kernel("sm_80", threads=64)
    def kernel(k):
        with k.if_(k.warp_id() == 0), k.range(2):
            k.barrier.sync()
        with k.else_(), k.range(rounds):
            k.barrier.sync()
        k.barrier.sync()

    assert rules(kernel.build) == ["dry-run.barrier-rounds"] * (rounds != 2)
