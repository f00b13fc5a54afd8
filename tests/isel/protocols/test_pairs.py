"""Pairs of CTAs and multicasts: who issues for both, and which CTAs of a cluster the bytes come to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u16, u32

SHAPE = nvb.InstructionDescriptor(kind="f16", m=256, n=64, a=f16, b=f16, d=f32)
REQUEST = nvb.Tcgen05Request("f16", cta_group=2)
Gate = Callable[..., object]


def said(function: Callable, target: str, cluster: int) -> set[str]:
    try:
        finished = nvb.kernel(target, threads=128, cluster=cluster)(function).build()
    except nvb.DiagnosticError as error:
        return {one.rule_id for one in error.diagnostics}
    return {one.rule_id for one in finished.diagnostics}


def product(gate: Gate, cluster: int) -> set[str]:
    """What is said of a pair's mma and commit, issued where the gate's condition holds (None: everywhere)."""

    def kernel(k, a: i32):
        done = k.mbarrier.array(1, arrivals=1, name="done")
        k.mbarrier.ready()
        with k.tcgen05.tmem(64, cta_group=2) as tmem:
            condition = gate(k, a)
            with ExitStack() as around:
                if condition is not None:
                    around.enter_context(k.if_(condition))
                around.enter_context(k.one_thread())
                k.tcgen05.mma(REQUEST, tmem, 0, 0, SHAPE, accumulate=False)
                pair = 0b111 if cluster % 2 else (0b11 << (k.cluster.rank() & 2)).to(u16)
                k.tcgen05.commit(done, cta_group=2, multicast_mask=pair)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()

    return said(kernel, "sm_100a", cluster) - {"mbarrier.no-arrival-in-peer"}  # where only one pair of two multiplies


@pytest.mark.parametrize("cluster", [1, 3])
def test_a_pair_needs_a_cluster_of_pairs(cluster):
    assert product(lambda k, a: k.cluster.rank() == 0, cluster) == {"tcgen05.pair-cluster"}


BOTH: list[Gate] = [
    lambda k, a: None,
    lambda k, a: k.warp_id() < 2,
    lambda k, a: a > 3,
    lambda k, a: k.cluster.id() > 3,
    lambda k, a: k.cluster.rank() < 2,
    lambda k, a: (k.cluster.rank() >> 1) == 0,
]
"""Conditions that the CTAs of ranks 0 and 1 have alike."""
ONE: list[Gate] = [
    lambda k, a: k.cluster.rank() == 0,
    lambda k, a: (k.cluster.rank() & 1) == 0,
    lambda k, a: k.cluster.rank() % 2 == 1,
    lambda k, a: (k.warp_id() == 0) & (k.cluster.rank() == 0),
    lambda k, a: k.block_id() % 2 == 0,
    lambda k, a: k.block_id() == a,
    lambda k, a: (k.cluster.rank() ^ a) == 0,
]
"""Conditions that only one of them has, as far as anybody knows."""


@pytest.mark.parametrize("cluster", [2, 4])
@pytest.mark.parametrize("gate", BOTH)
def test_one_cta_of_a_pair_issues(gate, cluster):
    assert product(gate, cluster) == {"tcgen05.pair-issue"}


@pytest.mark.parametrize("cluster", [2, 4])
@pytest.mark.parametrize("gate", ONE)
def test_nothing_is_said_where_one_cta_issues(gate, cluster):
    assert product(gate, cluster) == set()


def test_a_cta_that_has_left_issues_nothing():
    def kernel(k):
        done = k.mbarrier.array(1, arrivals=1, name="done")
        k.mbarrier.ready()
        with k.tcgen05.tmem(64, cta_group=2) as tmem:
            with k.loop():
                k.break_if(k.cluster.rank() == 1)
                with k.one_thread():
                    k.tcgen05.mma(REQUEST, tmem, 0, 0, SHAPE, accumulate=False)
                    k.tcgen05.commit(done, cta_group=2, multicast_mask=0b11)
                k.break_()
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()

    assert said(kernel, "sm_100a", 2) == set()


@pytest.mark.parametrize(("cluster", "rule"), [(1, "tcgen05.pair-cluster"), (2, "tcgen05.pair-issue")])
def test_a_kernel_without_pairs_hears_of_its_first_instruction(cluster, rule):
    """Each further one has the same cause: one mistake is one error."""

    @nvb.kernel("sm_100a", threads=128, cluster=cluster)
    def kernel(k):
        done = k.mbarrier.array(1, arrivals=2, name="done")
        k.mbarrier.ready()
        with k.tcgen05.tmem(64, cta_group=2) as tmem:
            with k.one_thread():
                k.tcgen05.mma(REQUEST, tmem, 0, 0, SHAPE, accumulate=False)
                k.tcgen05.mma(REQUEST, tmem, 0, 0, SHAPE)
                k.tcgen05.commit(done, cta_group=2, multicast_mask=0b11)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    assert [one.rule_id for one in caught.value.diagnostics].count(rule) == 1


# -- multicasts -----------------------------------------------------------------------------------------------------


def multicast(cluster: int, mask: int, announcing: Gate) -> set[str]:
    """What is said of a copy of CTA 0 to the CTAs of the mask, where those announce that the gate's condition holds."""

    def kernel(k, x: nvb.Pointer(u32, 16), a: i32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
        k.mbarrier.ready()
        first = k.thread_id() == 0
        with k.if_(announcing(k, a)), k.if_(first):
            k.mbarrier.arrive(full, expect_tx=512)
        with k.if_(first & (k.cluster.rank() == 0)):
            k.bulk.load(tile, x, 512, full, multicast_mask=mask)
        with k.if_(announcing(k, a)):
            k.mbarrier.wait(full, 0)
        k.cluster.sync()

    return said(kernel, "sm_90a", cluster)


@pytest.mark.parametrize(
    ("cluster", "mask", "announcing", "wrong"),
    [
        (2, 0b11, lambda k, a: k.cluster.rank() == 0, "mbarrier.unexpected-in-peer"),
        (2, 0b11, lambda k, a: k.cluster.rank() < 2, None),
        (2, 0b01, lambda k, a: k.cluster.rank() == 0, None),
        (2, 0b10, lambda k, a: k.cluster.rank() == 0, "mbarrier.unexpected-in-peer"),
        (2, 0b10, lambda k, a: k.cluster.rank() == 1, None),
        (4, 0b1011, lambda k, a: k.cluster.rank() != 2, None),
        (4, 0b1011, lambda k, a: k.cluster.rank() < 2, "mbarrier.unexpected-in-peer"),
        (4, 0b1111, lambda k, a: k.cluster.rank() != a, None),
        (4, 0b10001, lambda k, a: k.cluster.rank() == 0, "tma.multicast-mask"),
        (1, 0b11, lambda k, a: k.cluster.rank() == 0, "tma.multicast-mask"),
        (1, 0b1, lambda k, a: k.cluster.rank() == 0, None),
    ],
)
def test_multicasts_to_ctas_that_are_there_and_announce_the_bytes(cluster, mask, announcing, wrong):
    assert multicast(cluster, mask, announcing) == ({wrong} if wrong else set())
