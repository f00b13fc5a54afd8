"""Bytes and arrivals in clusters: what is said of a kernel, against what becomes of it in an interpreter of its code.

The interpreter counts the phases of each CTA's mbarriers: a kernel is wrong where threads hang or bytes are left over.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Parameter, Pointer, f16, f32, i32, u16, u32, u64
from nvbackend.builder.core.variables import select
from nvbackend.builder.values.values import as_value
from tests.support.cluster_interpreter import Cluster
from tests.support.cta_interpreter import Recorded

JUDGED = ("mbarrier.", "tma.multicast-mask")
OfRank = tuple[str, Callable[[Any], Any]]
"""What is computed from the rank of a CTA, with its text: of the builder's value as of Python's number."""


def conditions(cluster: int) -> list[OfRank]:
    """Which CTAs do something."""
    found: list[OfRank] = [("True", lambda rank: True)]
    for number in range(cluster):
        found += [
            (f"rank == {number}", lambda rank, number=number: rank == number),
            (f"rank <= {number}", lambda rank, number=number: rank <= number),
            (f"rank != {number}", lambda rank, number=number: rank != number),
        ]
    return [*found, ("rank % 2 == 0", lambda rank: rank % 2 == 0), ("rank & 1", lambda rank: (rank & 1) == 1)]


def masks(cluster: int, draw: random.Random) -> list[OfRank]:
    """Masks, as constants and as what is computed from the rank."""
    one, other, everyone = draw.randrange(1, 1 << cluster), draw.randrange(1, 1 << cluster), (1 << cluster) - 1
    return [
        ("none", lambda rank: None),
        (f"{one:#b}", lambda rank: one),
        (f"{everyone:#b}", lambda rank: everyone),
        ("1 << rank", lambda rank: 1 << rank),
        ("3 << (rank & 2)", lambda rank: 3 << (rank & 2)),
        ("all others", lambda rank: everyone ^ (1 << rank)),
        ("all up to rank", lambda rank: (2 << rank) - 1),
        (f"{one:#b} if rank else {other:#b}", lambda rank: chosen(rank, one, other)),
    ]


def chosen(rank: Any, one: int, other: int) -> Any:
    """A choice by the rank."""
    if isinstance(rank, int):
        return one if rank != 0 else other
    return select(rank._k, rank != 0, as_value(rank._k, one, i32), other)


@dataclass
class Scene:
    """What the CTAs of a cluster announce to one another and copy, in some rounds."""

    cluster: int
    rounds: int
    announcing: list[tuple[OfRank, int]]
    copies: list[tuple[OfRank, int, int, OfRank]]

    def __str__(self) -> str:
        announced = "; ".join(f"{bytes_of} if {who[0]}" for who, bytes_of in self.announcing)
        copied = "; ".join(f"{n} x {size} to {mask[0]} if {who[0]}" for who, n, size, mask in self.copies)
        return f"{self.cluster} CTAs, {self.rounds} rounds: announced {announced}, copied {copied}"


def scene(draw: random.Random) -> Scene:
    """A random scene; every second one is made right as far as a formula goes that was written for it."""
    cluster, rounds = draw.choice([2, 2, 3, 4]), draw.choice([0, 1, 2])
    who = conditions(cluster)
    copies = [
        (draw.choice(who), draw.choice([1, 1, 1, 2]), draw.choice([16, 32, 48]), draw.choice(masks(cluster, draw)))
        for _ in range(draw.choice([1, 1, 2, 3]))
    ]
    announcing = [(draw.choice(who), draw.choice([16, 32, 48, 64, 96])) for _ in range(draw.choice([1, 2]))]
    if draw.random() < 0.6:
        announcing = [
            (one, bytes_of) for one, bytes_of in zip(who[1 : 3 * cluster : 3], brought(cluster, copies), strict=True)
        ]
        if draw.random() < 0.3:
            place = draw.randrange(cluster)
            announcing[place] = announcing[place][0], announcing[place][1] + draw.choice([16, -16])
        announcing = [(one, bytes_of) for one, bytes_of in announcing if bytes_of > 0]
    return Scene(cluster, rounds, announcing, copies)


def brought(cluster: int, copies: list[tuple[OfRank, int, int, OfRank]]) -> list[int]:
    """The bytes that each CTA gets in a round, by Python's own arithmetic."""
    found = [0] * cluster
    for rank in range(cluster):
        for who, times, size, mask in copies:
            if who[1](rank):
                given = mask[1](rank)
                reached = 1 << rank if given is None else given
                for peer in range(cluster):
                    found[peer] += times * size * (reached >> peer & 1)
    return found


def emitted(one: Scene) -> Recorded:
    """Its kernel, which is not finished yet: thread 0 announces and the first threads copy, and all threads wait."""
    k = Recorded("scene", "sm_90a", threads=32, cluster=one.cluster, parameters=[Parameter("x", Pointer(u32, 16))])
    x, full = k.arguments[0], k.mbarrier.array(1, arrivals=1, name="full")
    tiles = [k.shared(u32, 64, align=128) for _ in one.copies]
    k.mbarrier.ready()
    rank, thread = k.cluster.rank(), k.thread_id()

    def where(condition: Any, threads: Any) -> Any:
        return k.if_(threads if condition is True else threads & condition)

    def mask_of(number: Any) -> Any:
        return number if number is None or isinstance(number, int) else number.to(u16)

    def one_round(parity: Any) -> None:
        for who, bytes_of in one.announcing:
            with where(who[1](rank), thread == 0):
                k.mbarrier.expect_tx(full, bytes_of)
        with k.if_(thread == 0):
            k.mbarrier.arrive(full)
        for (who, times, size, mask), tile in zip(one.copies, tiles, strict=True):
            with where(who[1](rank), thread < times):
                k.bulk.load(tile + thread * 16, x, size, full, multicast_mask=mask_of(mask[1](rank)))
        k.mbarrier.wait(full, parity)
        k.cluster.sync()

    if one.rounds == 0:
        one_round(0)
    else:
        phase = k.var(0)
        with k.range(one.rounds):
            one_round(phase)
            phase.set(phase ^ 1)
    return k


def is_right(k: Recorded, seed: int) -> bool:
    """Whether the kernel comes to its end, and no bytes are left over then."""
    run = Cluster(k, {"x": np.arange(64, dtype=np.uint32)}, seed)
    try:
        run.run()
    except AssertionError:
        return False
    return all(not barrier.bytes for cta in run.ctas for barrier in cta.mbarriers.values())


def said(k: Recorded) -> list[str]:
    try:
        k.finish()
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


def check(seed: int) -> bool:
    """Whether a random scene is right, once what is said of it agrees with what becomes of it."""
    draw = random.Random(seed)
    one = scene(draw)
    k = emitted(one)
    found = said(k)
    right = is_right(k, seed)
    assert all(rule.startswith(JUDGED) for rule in found), (str(one), found)
    assert bool(found) != right, (str(one), found)
    return right


@pytest.mark.sampled(2)
@pytest.mark.parametrize("start", range(0, 120, 20))
def test_a_kernel_is_refused_exactly_where_it_hangs_or_overflows(start):
    right = [check(seed) for seed in range(start, start + 20)]
    assert 0 < sum(right) < len(right)


@pytest.mark.exhaustive(seconds=150)
def test_thousands_are_refused_exactly_where_they_hang_or_overflow():
    assert 0 < sum(check(seed) for seed in range(1000, 4000)) < 3000


# -- pairs, arrivals and ranks of single threads ----------------------------------------------------------------------

TILE = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
MATRIX = nvb.TensorMap(f16, box=(64, 64))


def of(function: Callable[..., None], target: str = "sm_90a", cluster: int = 2) -> list[nvb.Diagnostic]:
    try:
        return [*nvb.kernel(target, threads=64, cluster=cluster)(function).build().diagnostics]
    except nvb.DiagnosticError as error:
        return [*error.diagnostics]


def rules_of(function: Callable[..., None], target: str = "sm_90a", cluster: int = 2) -> list[str]:
    return [one.rule_id for one in of(function, target, cluster)]


@pytest.mark.parametrize("announced", [4096, 8192, 12288, 16384, 32768])
@pytest.mark.parametrize("by_both", [True, False])
def test_the_leader_of_a_pair_announces_what_both_bring(announced, by_both):
    """Both copies of 8192 bytes complete on the leader's barrier, in each round."""

    def kernel(k, a: MATRIX, steps: i32):
        tiles, full = k.shared_tiles(TILE, 2), k.mbarrier.array(2, arrivals=2 if by_both else 1, name="full")
        k.mbarrier.ready()
        rank = k.cluster.rank()
        with k.one_thread(0), k.range(steps) as step:
            stage = step % 2
            if by_both:
                k.mbarrier.arrive(full + stage, rank=0, expect_tx=announced, qualifiers=("release", "cluster"))
            else:
                with k.if_(rank == 0):
                    k.mbarrier.arrive(full + stage, expect_tx=announced)
            leaders = k.shared_address(k.cluster.map_to_peer((full + stage).bytes, 0), u64, 8)
            k.tma.load_box(tiles.at(stage).address, a, (step * 64, rank * 64), leaders, cta_group=2)
        with k.one_thread(1), k.if_(rank == 0), k.range(steps) as step:
            k.mbarrier.wait(full + step % 2, step // 2 & 1)
        k.cluster.sync()

    found = of(kernel, "sm_100a")
    total = announced * (2 if by_both else 1)
    assert [one.rule_id for one in found] == ([] if total == 2 * 8192 else ["mbarrier.wrong-in-peer"])
    for one in found:
        assert f"rank 0 announces {total} bytes" in one.message
        assert "bring it 16384" in one.message


@pytest.mark.parametrize("mask", [None, 0b01, 0b10, 0b11])
def test_a_commit_reaches_the_ctas_of_its_mask(mask):
    """Without a mask it arrives in the CTA that issues it, and both wait."""

    def kernel(k):
        shape = nvb.InstructionDescriptor(kind="f16", m=256, n=64, a=f16, b=f16, d=f32)
        done = k.mbarrier.array(1, arrivals=1, name="done")
        k.mbarrier.ready()
        with k.tcgen05.tmem(64, cta_group=2) as tmem:
            with k.if_(k.cluster.rank() == 0), k.one_thread():
                k.tcgen05.mma(nvb.Tcgen05Request("f16", cta_group=2), tmem, 0, 0, shape, accumulate=False)
                k.tcgen05.commit(done, cta_group=2, multicast_mask=mask)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()

    found = of(kernel, "sm_100a")
    without = {None: 1, 0b01: 1, 0b10: 0, 0b11: None}[mask]
    assert [one.rule_id for one in found] == ([] if without is None else ["mbarrier.no-arrival-in-peer"])
    assert all(f"the CTA of rank {without} waits" in one.message for one in found)


@pytest.mark.parametrize("cluster", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("arriving", [1, 2])
def test_arrivals_come_from_every_cta(cluster, count, arriving):
    """Thread t of each CTA arrives at the CTA of rank t. A part of them may be those of a phase."""

    def kernel(k):
        done = k.mbarrier.array(1, arrivals=count, name="done")
        k.mbarrier.ready()
        for _ in range(arriving):
            k.mbarrier.arrive(done, rank=k.thread_id(), when=k.thread_id() < cluster)
        k.mbarrier.wait(done, 0)
        k.cluster.sync()

    too_few = count > cluster * arriving
    assert rules_of(kernel, cluster=cluster) == (["mbarrier.arrivals-in-peer"] if too_few else [])


@pytest.mark.parametrize("coming", [1, 2, 3, 64])
@pytest.mark.parametrize("access", ["load", "store", "arrive"])
def test_ranks_of_single_threads_are_those_of_the_cluster(access, coming):
    """Every thread computes an address, and those that access one must have that of a CTA that is there."""

    def kernel(k, out: Pointer[u32]):
        own, done, thread = k.shared(u32, 64), k.mbarrier.array(1, arrivals=2, name="done"), k.thread_id()
        k.mbarrier.ready()
        peers = k.cluster.map_shared_rank(own, thread)
        if access == "arrive":
            k.mbarrier.arrive(done, rank=thread, when=thread < coming)
            k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=thread == 0)
        else:
            with k.if_(thread < coming):
                if access == "load":
                    out[thread] = peers[0]
                else:
                    peers[thread] = thread.to(u32)
        k.cluster.sync()

    found = of(kernel)
    assert [one.rule_id for one in found] == (["cluster.rank"] if coming > 2 else [])
    assert all("rank 2, in thread 2 of the CTA of rank 0" in one.message for one in found)


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        (lambda k, n: n.to(u16), []),
        (lambda k, n: (1 << (k.cluster.rank() ^ n)).to(u16), []),
        (lambda k, n: (1 << k.cluster.rank()).to(u16), []),
        (lambda k, n: (2 << k.cluster.rank()).to(u16), ["tma.multicast-mask"]),
        (lambda k, n: k.select(k.cluster.rank() == 0, k.const(3, u16), 4), ["tma.multicast-mask"]),
    ],
)
def test_masks_are_judged_by_rank_and_not_by_run_time_data(mask, found):
    """A mask that is computed from the rank is another number in each CTA; one that data decides is not known."""

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 64, align=128)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=64)
            k.bulk.load(tile, x, 64, full, multicast_mask=mask(k, n))
        k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert [one for one in rules_of(kernel) if one.startswith("tma")] == found
    assert found or rules_of(kernel) == []


@pytest.mark.parametrize(("mask", "brought"), [(0b01, (8192, 0)), (0b10, (8192, 0)), (0b11, (16384, 0))])
@pytest.mark.parametrize("leader", [0, 1])
@pytest.mark.parametrize("announced", [8192, 16384])
def test_a_multicast_of_a_pair_completes_in_one_cta_of_it(mask, brought, leader, announced):
    """PTX ISA 9.7.9: each destination's bytes count in the CTA of its pair that has the parity of the barrier's CTA."""

    def kernel(k, a: MATRIX):
        tile, full = k.shared_tile(TILE), k.mbarrier.array(1, arrivals=1, name="full")
        k.mbarrier.ready()
        rank = k.cluster.rank()
        leaders = k.shared_address(k.cluster.map_to_peer(full.bytes, leader), u64, 8)
        with k.if_(rank == leader), k.one_thread():
            k.mbarrier.arrive(full, expect_tx=announced)
        with k.if_(rank == 0), k.one_thread():
            k.tma.load_box(tile.address, a, (0, 0), leaders, cta_group=2, multicast_mask=mask)
        with k.if_(rank == leader):
            k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert rules_of(kernel, "sm_100a") == ([] if announced == brought[0] else ["mbarrier.wrong-in-peer"])


@pytest.mark.parametrize(
    ("rounds", "found"),
    [
        (lambda k, n: n, ["mbarrier.wrong-in-peer"]),
        (lambda k, n: n + k.cluster.id(), ["mbarrier.wrong-in-peer"]),
        (lambda k, n: n + k.cluster.rank(), []),
        (lambda k, n: k.block_id(), []),
        (lambda k, n: n + k.thread_id(), []),
    ],
)
@pytest.mark.parametrize("another", [False, True])
def test_rounds_are_compared_where_all_ctas_run_as_many(rounds, found, another):
    """Each round of both CTAs announces 64 bytes in CTA 0, and brings it 32 of each round of CTA 1 alone.

    `another` loop, which each CTA runs as often as its rank says, has nothing to do with it.
    """

    def kernel(k, x: Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 64, align=128)
        k.mbarrier.ready()
        rank, phase = k.cluster.rank(), k.var(0)
        if another:
            with k.range(rank + k.thread_id()):
                k.fence.thread()
        with k.range(rounds(k, n)):
            with k.if_(k.thread_id() == 0):
                with k.if_(rank == 0):
                    k.mbarrier.arrive(full, expect_tx=64)
                with k.else_():
                    k.bulk.load(tile, x, 32, full, multicast_mask=0b01)
            with k.if_(rank == 0):
                k.mbarrier.wait(full, phase)
            phase.set(phase ^ 1)
        k.cluster.sync()

    assert [one for one in rules_of(kernel) if one.startswith("mbarrier")] == found


@pytest.mark.parametrize("waiting", [True, False])
def test_bytes_that_nobody_waits_for_may_stay_away(waiting):
    """Both CTAs announce, and the copy is for one: the other hangs if it waits."""

    def kernel(k, x: Pointer(u32, 16)):
        full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 64, align=128)
        k.mbarrier.ready()
        first = k.thread_id() == 0
        with k.if_(first):
            k.mbarrier.arrive(full, expect_tx=64)
        with k.if_(first & (k.cluster.rank() == 0)):
            k.bulk.load(tile, x, 64, full)
        with k.if_((k.cluster.rank() == 0) | waiting):
            k.mbarrier.wait(full, 0)
        k.cluster.sync()

    assert rules_of(kernel) == (["mbarrier.missing-in-peer"] if waiting else [])
