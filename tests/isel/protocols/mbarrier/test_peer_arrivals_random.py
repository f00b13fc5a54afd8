"""Arrivals in a cluster in random kernels, against sums over the CTAs that are written down a second time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import chain, combinations

import pytest

from nvbackend import Parameter, Scalar, i32, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import gather
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.machine import facts
from nvbackend.isel.protocols.mbarrier.protocol import check_mbarrier_protocol

NOBODY, WRONG = "mbarrier.no-arrival-in-peer", "mbarrier.arrivals-in-peer"
ALIKE = "mbarrier.arrivals"
"""What is said where every CTA arrives at its own barrier alone: that is judged without peers."""
FORMS = ("plain", "plain", "plain", "register", "drop", "spread", "spread", "told")


@dataclass(frozen=True)
class Arrival:
    """What the CTAs `sources` do: `threads` of each arrive `count` times, at themselves or at the CTA `target`."""

    sources: tuple[int, ...]
    target: int | None
    threads: int
    count: int
    form: str


@dataclass(frozen=True)
class Scene:
    """`counts` are what the CTAs initialise their barriers to; `waits` the ranks of each wait and its parity."""

    cluster: int
    counts: tuple[int, int]
    arrivals: tuple[Arrival, ...]
    waits: tuple[tuple[tuple[int, ...], int], ...]
    is_astray: bool


def some(draw: random.Random, cluster: int) -> tuple[int, ...]:
    """One rank, or all of them."""
    ranks = tuple(range(cluster))
    return draw.choice([ranks, *((rank,) for rank in ranks)])


def scene(draw: random.Random) -> Scene:
    cluster = draw.choice([2, 2, 3])
    arrivals = tuple(
        Arrival(
            some(draw, cluster),
            draw.choice([None, *range(cluster)]),
            draw.choice([1, 1, 2, 3]),
            draw.choice([1, 1, 2, 3]),
            draw.choice(FORMS),
        )
        for _ in range(draw.choice([0, 1, 1, 2, 2, 3]))
    )
    counts = draw.choice([1, 2, 3, 4, 5, 6, 7])
    waits = tuple((some(draw, cluster), draw.choice([0, 0, 1])) for _ in range(draw.choice([1, 2])))
    other = draw.random() < 0.15
    return Scene(cluster, (counts, counts + other), arrivals, waits, draw.random() < 0.15)


def parts(one: Scene, rank: int) -> list[int | None]:
    """What each instruction of each CTA adds to a phase of the CTA `rank`; None for what nobody knows."""
    found: list[int | None] = []
    for arrival in one.arrivals:
        sources = [
            source for source in arrival.sources if rank == (source if arrival.target is None else arrival.target)
        ]
        if arrival.form == "told":
            found += [arrival.count] if sources else []
            continue
        known = arrival.form == "plain" or (arrival.form == "spread" and arrival.threads == 1)
        found += [arrival.threads * arrival.count if known else None for _ in sources]
    return found


def mistakes(one: Scene) -> list[tuple[str, int]]:
    """What is to be said, of the first CTA of which it is certain."""
    if one.is_astray or not one.arrivals:
        return []
    for rank in range(one.cluster):
        come = parts(one, rank)
        waits = [parity for ranks, parity in one.waits if rank in ranks]
        if not come and 0 in waits:
            return [(NOBODY, rank)]
        if not come or None in come or not waits or one.counts[0] != one.counts[1]:
            continue
        known = [part for part in come if part is not None]
        taken = chain.from_iterable(combinations(known, number) for number in range(1, len(known) + 1))
        if all(sum(some_of) != one.counts[0] for some_of in taken):
            return [(WRONG, rank)]
    return []


def emitted(one: Scene) -> KernelBuilder:
    k = KernelBuilder("kernel", "sm_90a", threads=64, cluster=one.cluster, parameters=[Parameter("n", Scalar(i32))])
    (n,) = k.arguments
    spread = any(arrival.form == "spread" for arrival in one.arrivals)
    full = k.shared(u64, 4 if spread else 1, align=8, name="full")
    rank, thread = k.cluster.rank(), k.thread_id()
    for place in range(4 if spread else 1):
        with k.if_((thread == 0) & (rank == 0)):
            k.mbarrier.init(full + place, one.counts[0])
        with k.if_((thread == 0) & (rank != 0)):
            k.mbarrier.init(full + place, one.counts[1])
    k.mbarrier.ready()

    def come(ranks: tuple[int, ...]) -> object:
        return k.if_(rank == ranks[0] if len(ranks) == 1 else rank < one.cluster)

    for arrival in one.arrivals:
        with come(arrival.sources), k.if_(thread < arrival.threads):
            if arrival.form == "told":
                to = k.cluster.map_to_peer(full.bytes, rank if arrival.target is None else arrival.target)
                k.emit(mbarrier.arrive("cluster"), {"barrier": to.ir}, facts={facts.ARRIVALS: arrival.count})
                continue
            k.mbarrier.arrive(
                full + ((thread.to(i32) + n) & 3) if arrival.form == "spread" else full,
                rank=arrival.target,
                count=n if arrival.form == "register" else arrival.count,
                drop=arrival.form == "drop",
            )
    if one.is_astray:
        with k.if_(thread == 0):
            k.mbarrier.arrive(k.shared_address(n.to(u32), u64, 8, window="cta"))
    for ranks, parity in one.waits:
        with come(ranks):
            k.mbarrier.wait(full, parity)
    k.cluster.sync()
    return k


def check(seed: int) -> str:
    """Compare what is said of one scene; its own rule, or nothing."""
    one = scene(random.Random(seed))
    k = emitted(one)
    gather(k.finish)
    said = check_mbarrier_protocol(k.machine)
    told = [each for each in said if each.rule_id in (NOBODY, WRONG)]
    expected = mistakes(one)
    if any(each.rule_id == ALIKE for each in said):
        return ALIKE
    assert [(each.rule_id, each.values["rank"]) for each in told] == expected, (one, told)
    if expected and expected[0][0] == WRONG:
        assert told[0].values["total"] == sum(part or 0 for part in parts(one, expected[0][1]))
    return expected[0][0] if expected else ""


@pytest.mark.parametrize("start", range(0, 80, 20))
def test_random_arrivals(start: int) -> None:
    assert len({check(seed) for seed in range(start, start + 20)} - {ALIKE}) > 1
