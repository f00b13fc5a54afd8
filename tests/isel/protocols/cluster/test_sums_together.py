"""Bytes of mbarriers where nothing shows whose they are, against sums over the CTAs and threads of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f16, i32, u32, u64
from nvbackend.signature import Pointer

OfRank = tuple[str, Callable[[Any], Any]]
"""Which CTAs do something: its name, and a choice by the builder's rank as by Python's."""


def of(function: Callable[..., None], cluster: int = 2, target: str = "sm_90a") -> list[nvb.Diagnostic]:
    try:
        return [*nvb.kernel(target, threads=64, cluster=cluster)(function).build().diagnostics]
    except nvb.DiagnosticError as error:
        return [*error.diagnostics]


def rules_of(function: Callable[..., None], cluster: int = 2) -> list[str]:
    return [one.rule_id for one in of(function, cluster)]


EVERYWHERE: OfRank = ("True", lambda rank: True)
RANK_0: OfRank = ("rank == 0", lambda rank: rank == 0)
RANK_1: OfRank = ("rank == 1", lambda rank: rank == 1)


@pytest.mark.parametrize("is_initialised", [True, False])
def test_what_is_no_barrier_yet_is_the_one_mistake(is_initialised):
    """Who arrives there is asked of barriers alone."""

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full = k.shared(u64, 1, align=8, name="full")
        if is_initialised:
            with k.if_(k.thread_id() == 0):
                k.mbarrier.init(full, 1)
        k.mbarrier.ready()
        with k.if_((k.thread_id() == 0) & (k.cluster.rank() == 0)):
            k.mbarrier.arrive(full)
        k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert rules_of(kernel) == ["mbarrier.no-arrival-in-peer" if is_initialised else "mbarrier.uninitialised"]


@pytest.mark.parametrize("cluster", [2, 3])
@pytest.mark.parametrize("announcing", [EVERYWHERE, RANK_0], ids=lambda one: one[0])
@pytest.mark.parametrize("copying", [EVERYWHERE, RANK_1], ids=lambda one: one[0])
@pytest.mark.parametrize(
    ("announced", "threads", "known"), [(64, 1, True), (64, 2, True), (128, 2, True), (32, 1, False)]
)
def test_sums_of_a_cluster(cluster, announcing, copying, announced, threads, known):
    """A CTA that data choose is announced to; `threads` copies of 64 bytes complete in each CTA that copies."""

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
        k.mbarrier.ready()
        rank, thread = k.cluster.rank(), k.thread_id()
        with k.if_(thread == 0 if announcing is EVERYWHERE else (thread == 0) & announcing[1](rank)):
            k.mbarrier.arrive(full, rank=n, expect_tx=announced)
        with k.if_(thread < threads if copying is EVERYWHERE else (thread < threads) & copying[1](rank)):
            size = 64 if known else n & 48
            k.bulk.load(tile + thread * 16, x, size, full)
        k.mbarrier.wait(full, 0)
        k.cluster.sync()

    ranks = range(cluster)
    expected = sum(announced for rank in ranks if announcing[1](rank))
    brought = sum(64 * threads for rank in ranks if copying[1](rank))
    found = of(kernel, cluster=cluster)
    assert [one.rule_id for one in found] == ["mbarrier.wrong-bytes"] * (known and expected != brought)
    for one in found:
        together = expected % cluster or brought % cluster
        numbers = (expected, brought) if together else (expected // cluster, brought // cluster)
        assert str(numbers[0]) in one.message
        assert str(numbers[1]) in one.message
        assert ("together" in one.message) is bool(together)


@pytest.mark.parametrize("waits", [(), ("some",), ("all",), ("some", "all"), ("all", "some")], ids=" ".join)
def test_sums_of_a_cluster_matter_where_a_thread_certainly_waits(waits):
    """Both CTAs announce 64 bytes to one that data choose and get 32; which threads wait with `some` is unknown."""

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 64, align=128)
        k.mbarrier.ready()
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(full, rank=n, expect_tx=64)
            k.bulk.load(tile, x, 32, full)
        for each in waits:
            with k.if_(k.thread_id() < n if each == "some" else k.thread_id() < 64):
                k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert [one for one in rules_of(kernel) if "bytes" in one] == ["mbarrier.wrong-bytes"] * ("all" in waits)


@pytest.mark.parametrize("mask", [0b01, 0b10, 0b11])
@pytest.mark.parametrize("copying", [EVERYWHERE, RANK_1], ids=lambda one: one[0])
@pytest.mark.parametrize("announced", [32, 64, 128])
def test_sums_of_multicasts(mask, copying, announced):
    """Every CTA announces to one that data choose; a copy brings 64 bytes to each CTA of its mask."""

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, rank=n, expect_tx=announced)
        with k.if_((thread == 0) & (True if copying is EVERYWHERE else k.cluster.rank() == 1)):
            k.bulk.load(tile, x, 64, full, multicast_mask=mask)
        k.mbarrier.wait(full, 0)
        k.cluster.sync()

    brought = 64 * mask.bit_count() * sum(copying[1](rank) for rank in range(2))
    assert ("mbarrier.wrong-bytes" in rules_of(kernel)) is (brought != 2 * announced)


@pytest.mark.parametrize(
    ("rounds", "is_even"),
    [
        (lambda k, n: n, True),
        (lambda k, n: n + k.cluster.id(), True),
        (lambda k, n: n + k.cluster.rank(), False),
        (lambda k, n: n + k.block_id(), False),
    ],
)
def test_sums_of_a_cluster_in_rounds(rounds, is_even):
    """Each round announces 64 bytes and brings 32. CTAs that run other numbers of rounds may even that out."""

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 64, align=128)
        k.mbarrier.ready()
        phase = k.var(0)
        with k.range(rounds(k, n)):
            with k.if_(k.thread_id() == 0):
                k.mbarrier.arrive(full, rank=n, expect_tx=64)
                k.bulk.load(tile, x, 32, full)
            k.mbarrier.wait(full, phase)
            phase.set(phase ^ 1)
        k.cluster.sync()

    assert [one for one in rules_of(kernel) if one.startswith("mbarrier")] == ["mbarrier.wrong-bytes"] * is_even


@pytest.mark.parametrize(("brought", "wrong"), [(32, True), (64, False)])
def test_what_no_thread_executes_brings_nothing(brought, wrong):
    """A copy whose size only the data know hides nothing where no thread comes to it."""

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, rank=n, expect_tx=64)
            k.bulk.load(tile, x, brought, full)
        with k.if_(thread >= 64):
            k.bulk.load(tile + 64, x, n & 48, full)
        k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert rules_of(kernel) == ["mbarrier.wrong-bytes"] * wrong


@pytest.mark.parametrize("first", [0, 1, 31, 32])
def test_a_rank_of_an_elected_lane_is_that_of_each_it_may_be(first):
    """elect.sync chooses any lane, and those from `first` on name a CTA outside the cluster."""

    def kernel(k):
        done = k.mbarrier.array(1, arrivals=2, name="done")
        k.mbarrier.ready()
        with k.if_(k.warp_id() == 0), k.if_(k.elect()):
            k.mbarrier.arrive(done, rank=k.select(k.lane_id() >= first, 2, 1))
        k.cluster.sync()

    assert ("cluster.rank" in rules_of(kernel)) is (first == 0)


@pytest.mark.parametrize("brought", [32, 64, 96])
@pytest.mark.parametrize("waiting", [False, True])
def test_too_few_bytes_matter_to_who_waits(brought, waiting):
    """Both CTAs announce 64 bytes and CTA 0 gets them. CTA 1 hangs with less if it waits, and overflows with more."""

    def kernel(k, x: Pointer(u32, 16)):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 64, align=128)
        k.mbarrier.ready()
        rank, first = k.cluster.rank(), k.thread_id() == 0
        with k.if_(first):
            k.mbarrier.arrive(full, expect_tx=64)
        with k.if_(first & (rank == 0)):
            k.bulk.load(tile, x, 64, full)
        with k.if_(first & (rank == 1)):
            k.bulk.load(tile, x, brought, full)
        with k.if_((rank == 0) | waiting):
            k.mbarrier.wait(full, 0)
        k.cluster.sync()

    wrong = brought > 64 or (brought < 64 and waiting)
    assert rules_of(kernel) == ["mbarrier.wrong-in-peer"] * wrong


@pytest.mark.parametrize("chosen", [lambda k, n: k.thread_id() & 1, lambda k, n: k.warp_id() & 1, lambda k, n: n & 1])
@pytest.mark.parametrize("threads", [1, 2, 64])
@pytest.mark.parametrize("brought", [32, 64])
def test_threads_that_may_each_have_an_mbarrier_of_their_own(chosen, threads, brought):
    """Of two mbarriers that are chosen at run time one thread uses one, and several may use both."""

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(2, arrivals=threads, name="full"), k.shared(u32, 16 * 64, align=128)
        k.mbarrier.ready()
        thread = k.thread_id()
        own = full + chosen(k, n)
        with k.if_(thread >= 64 - threads):
            k.mbarrier.arrive(own, expect_tx=64)
            k.bulk.load(tile + thread * 16, x, brought, own)

    several = {chosen_by(chosen, thread) for thread in range(64 - threads, 64)}
    wrong = brought != 64 and len(several) == 1
    assert [one for one in rules_of(kernel, cluster=1) if "bytes" in one] == ["mbarrier.wrong-bytes"] * wrong


class Python:
    """What the choices above ask of a kernel, as numbers of one thread."""

    def __init__(self, thread: int) -> None:
        self.thread_id, self.warp_id = (lambda: thread), (lambda: thread // 32)


def chosen_by(chosen: Callable[..., int], thread: int) -> int:
    return chosen(Python(thread), 5)


MATRIX = nvb.TensorMap(f16, box=(64, 64))
TILE = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)


@pytest.mark.parametrize("barrier", range(4))
@pytest.mark.parametrize("group", [None, 2])
def test_the_advice_for_a_barrier_of_another_cta(barrier, group):
    """cta_group=2 takes a barrier of the pair that the bytes go to: of ranks 2k and 2k + 1 (PTX ISA 9.7.16.3)."""

    def kernel(k, a: MATRIX):
        tile, full = k.shared_tile(TILE), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        other = k.shared_address(k.cluster.map_to_peer(full.bytes, barrier), u64, 8)
        with k.if_((k.cluster.rank() == 2) & (k.thread_id() == 0)):
            k.mbarrier.arrive(full, expect_tx=8192)
            k.tma.load_box(tile.address, a, (0, 0), other, cta_group=group)
        k.cluster.sync()

    fixes = [one.fix for one in of(kernel, 4, "sm_100a") if one.rule_id == "tma.barrier-cta"]
    assert len(fixes) == (barrier != 2 if group is None else barrier < 2)
    for fix in fixes:
        assert ("cta_group=2" in fix) is (group is None and barrier == 3)
        assert ("of its pair" in fix) is (group == 2)
