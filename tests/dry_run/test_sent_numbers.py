"""Loops that end by a number which one CTA of a cluster sends to the others: all of them make the same rounds."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.refusals import refusals

FLOATS = nvb.Pointer(f32, align=16)


def from_a_count(k, words, i, n):
    return k.select(i + 1 < n, k.const(1, i32), k.const(0, i32))


def from_memory(k, words, i, n):
    return words[i]


@nvb.kernel("sm_90", threads=64, cluster=2)
def told_to_go_on(k, words: nvb.Pointer[i32], y: FLOATS, n: i32(minimum=1), *, more, count, meets):
    """Rank 0 tells both CTAs whether there is another round; they may meet before it tells them again."""
    told, come = k.shared(i32, 4, align=16, name="told"), k.mbarrier.array(1, arrivals=1, name="come")
    k.mbarrier.ready()
    rank, thread, i = k.cluster.rank(), k.thread_id(), k.var(0)
    k.cluster.sync()
    with k.loop():
        with k.if_(thread == 0):
            k.mbarrier.arrive(come, expect_tx=4 * count)
        with k.if_((rank == 0) & (thread == 0)):
            word = more(k, words, i, n)
            for to in range(2):
                k.async_store.store(told, [word, i.value][:count] if count > 1 else word, come, to)
        k.mbarrier.wait(come, i & 1)
        go = told[0]
        y[(i * 2 + rank) * 64 + thread] = 1.0
        if meets:
            k.cluster.sync()
        k.break_if(go == 0)
        i += 1
    k.cluster.sync()


@pytest.mark.parametrize("more", [from_a_count, from_memory])
@pytest.mark.parametrize("count", [1, 2])
def test_ctas_meet_before_they_are_told_again(more, count) -> None:
    assert refusals(told_to_go_on, more=more, count=count, meets=True) == []
    assert refusals(told_to_go_on, more=more, count=count, meets=False) in (["dry-run.overrun"], ["proxy.refill"])
