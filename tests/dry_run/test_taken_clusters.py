"""Clusters that take over the work of others: one CTA asks, and the answer comes to all of them. PTX ISA 9.7.13."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u32

ROW, CLUSTER = 64, 2
Where = Callable[[nvb.Value], nvb.Value]


def _kernel(asks: Where, announces: Where, *, multicast: bool = True) -> nvb.KernelDefinition:
    """CTAs double rows; those of the ranks that `announces` names expect the answer that those of `asks` ask for."""

    @nvb.kernel("sm_100a", threads=ROW, cluster=CLUSTER)
    def doubled(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        answer = k.shared(u32, 4, align=16, name="answer")
        asked = k.mbarrier.array(1, arrivals=1, name="asked")
        k.mbarrier.ready()
        rank, thread = k.cluster.rank(), k.thread_id()
        k.cluster.sync()
        done, block = k.var(0), k.var(k.block_id())
        with k.loop():
            with k.if_(thread == 0):
                with k.if_(announces(rank)):
                    k.mbarrier.arrive(asked, expect_tx=16)
                with k.else_():
                    k.mbarrier.arrive(asked)
                with k.if_(asks(rank)):
                    k.launch_control.try_cancel(answer, asked, multicast=multicast)
            place = block * ROW + thread
            y[place] = x[place] * 2.0
            k.mbarrier.wait(asked, done & 1)
            more, (first, _, _) = k.launch_control.canceled_cluster(answer)
            k.fence.proxy_async()
            k.cluster.sync()
            k.break_if(~more)
            block.set(first.to(i32) + rank)
            done += 1

    return doubled


def _all(rank: nvb.Value) -> nvb.Value:
    return rank >= 0


RIGHT: dict[str, Where] = {
    "the first asks": lambda rank: rank == 0,
    "the first asks, said otherwise": lambda rank: rank < 1,
    "the last asks": lambda rank: rank == CLUSTER - 1,
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_answer_to_all_comes_to_each(name: str) -> None:
    loaded = nvb.runtime.load(_kernel(RIGHT[name], _all).compile(assemble=False), device="simulator")
    x = np.arange(6 * ROW, dtype=np.float32)
    y = np.zeros_like(x)
    loaded.launch(6, x, y)
    assert (y == 2 * x).all()


@pytest.mark.parametrize(
    ("asks", "announces", "multicast", "rule"),
    [
        (lambda rank: rank == 0, lambda rank: rank == 0, True, "mbarrier.unexpected-in-peer"),
        (lambda rank: rank == 1, lambda rank: rank == 1, True, "mbarrier.unexpected-in-peer"),
        (lambda rank: rank == 0, _all, False, "mbarrier.missing-in-peer"),
        (lambda rank: rank == 1, _all, False, "mbarrier.missing-in-peer"),
        (_all, _all, True, "mbarrier.wrong-bytes"),  # each is answered twice
    ],
)
def test_each_cta_announces_the_bytes_that_come_to_it(
    asks: Where, announces: Where, multicast: bool, rule: str
) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        _kernel(asks, announces, multicast=multicast).build()
    assert [found.rule_id for found in caught.value.diagnostics] == [rule]


def _one_after_another(k: Any, first: nvb.Value, rank: nvb.Value) -> Iterator[Any]:
    block = k.var(first + rank)
    yield block
    block ^= 1
    yield block


def _set_again(k: Any, first: nvb.Value, rank: nvb.Value) -> Iterator[Any]:
    block = k.var(0)
    block.set(first + rank)
    yield block


PARTS: dict[str, tuple[Callable[..., Iterable[nvb.Value]], bool]] = {
    "its own": (lambda k, first, rank: [first + rank], True),
    "its own, by two lines": (lambda k, first, rank: [first + rank, rank + first], True),
    "both": (lambda k, first, rank: [first, first + 1], False),
    "both, its own first": (lambda k, first, rank: [first + rank, first + 1 - rank], False),
    "its own, in a variable": (_set_again, True),
    "both, in a variable": (_one_after_another, False),
    "both, by another number": (lambda k, first, rank: [first + rank, first + (rank ^ 1)], False),
}
"""The blocks that each CTA works on, of the cluster that it gets."""


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("multicast", [False, True])
def test_each_cta_that_asks_for_itself_does_the_work_of_all_ranks(part: str, multicast: bool) -> None:
    blocks, is_wrong = PARTS[part]

    @nvb.kernel("sm_100a", threads=ROW, cluster=CLUSTER)
    def doubled(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
        answer = k.shared(u32, 4, align=16, name="answer")
        asked = k.mbarrier.array(1, arrivals=1, name="asked")
        k.mbarrier.ready()
        rank, thread, done = k.cluster.rank(), k.thread_id(), k.var(0)
        k.cluster.sync()
        with k.loop():
            with k.if_(thread == 0):
                k.mbarrier.arrive(asked, expect_tx=16)
                with k.if_((rank == 0) | (not multicast)):
                    k.launch_control.try_cancel(answer, asked, multicast=multicast)
            k.mbarrier.wait(asked, done & 1)
            more, (first, _, _) = k.launch_control.canceled_cluster(answer)
            k.fence.proxy_async()
            k.cluster.sync()
            k.break_if(~more)
            for block in blocks(k, first.to(i32), rank):
                y[block * ROW + thread] = x[block * ROW + thread] * 2.0
            done += 1

    said = [one.rule_id for one in doubled.build(check=True).diagnostics]
    assert said == ["cluster.each-asks"] * (is_wrong and not multicast)
