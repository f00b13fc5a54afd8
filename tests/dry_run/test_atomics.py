"""The rows of k.atomic in the dry run: what they order, what they race with, and places that data decides."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import i32, u32
from tests.dry_run.refusals import refusals

DATA = nvb.Pointer[i32]


@nvb.kernel("sm_80", threads=128)
def bins_of_a_block(k, x: DATA, out: DATA, *, clears, meets):
    bins, thread = k.shared(i32, 128), k.thread_id()
    if clears:
        bins[thread] = 0
    k.barrier.sync()
    k.atomic.reduce(bins + (x[thread] & 127), "add", 1)
    if meets:
        k.barrier.sync()
    out[thread] = bins[127 - thread]


@pytest.mark.parametrize(
    ("clears", "meets", "rules"),
    [(True, True, []), (True, False, []), (False, True, ["dry-run.unwritten"])],  # a warp may read what it counted
)
def test_bins(clears, meets, rules) -> None:
    assert refusals(bins_of_a_block, clears=clears, meets=meets) == rules


@nvb.kernel("sm_80", threads=128)
def bins_of_threads(k, out: DATA, *, meets, order):
    bins, thread = k.shared(i32, 128), k.thread_id()
    bins[thread] = 0
    k.barrier.sync()
    k.atomic.reduce(bins + (thread & 63), "add", 1, order=order)
    if meets:
        k.barrier.sync()
    out[thread] = bins[127 - thread]


@pytest.mark.parametrize("order", ["relaxed", "release"])
def test_bins_that_are_known(order) -> None:
    assert refusals(bins_of_threads, meets=True, order=order) == []
    assert refusals(bins_of_threads, meets=False, order=order) == ["shared.missing-barrier"]


@nvb.kernel("sm_80", threads=64)
def scattered(k, x: DATA, out: DATA):
    words, thread = k.shared(i32, 64), k.thread_id()
    k.atomic.exchange(words + (x[thread] & 63), 1)
    k.barrier.sync()
    out[thread] = words[thread]


@nvb.kernel("sm_80", threads=128)
def locked(k, out: DATA):
    lock, total, lane = k.shared(i32, 1), k.shared(i32, 1), k.lane_id()
    with k.if_(k.thread_id() == 0):
        lock[0] = 0
        total[0] = 0
    k.barrier.sync()
    with k.if_(lane == 0):
        with k.loop():
            k.break_if(k.atomic.cas(lock, 0, 1, order="acquire", scope="cta") == 0)
        total[0] = total[0] + 1
        k.atomic.exchange(lock, 0, order="release", scope="cta")
    k.barrier.sync()
    out[k.thread_id()] = total[0]


@nvb.kernel("sm_80", threads=64)
def flagged(k, out: DATA):
    flag, words, thread = k.shared(i32, 1), k.shared(i32, 32), k.thread_id()
    with k.if_(thread == 0):
        flag[0] = 0
    k.barrier.sync()
    with k.if_(thread < 32):
        words[thread] = thread
        k.warp.sync()
        with k.if_(thread == 0):
            k.atomic.reduce(flag, "or", 1, order="release", scope="cta")
    with k.else_():
        with k.loop():
            k.break_if(k.atomic.or_(flag, 0, order="acquire", scope="cta") == 1)
        out[thread] = words[thread - 32]


@nvb.kernel("sm_90", threads=64, cluster=2)
def peers(k, out: DATA):
    words, thread = k.shared(i32, 64), k.thread_id()
    words[thread] = 0
    k.cluster.sync()
    k.atomic.add(k.cluster.map_shared_rank(words + thread, k.cluster.peer_rank()), 1)
    k.cluster.sync()
    out[thread] = words[thread]


@nvb.kernel("sm_80", threads=64)
def tickets(k, counter: nvb.Pointer[u32], out: DATA):
    """Each CTA takes tiles until there are none."""
    tile = k.shared(u32, 1)
    with k.loop():
        with k.if_(k.thread_id() == 0):
            tile[0] = k.atomic.add(counter, 1)
        k.barrier.sync()
        mine = tile[0]
        k.break_if(mine >= 16)
        out[mine * 64 + k.thread_id().to(u32)] = 1
        k.barrier.sync()


@pytest.mark.parametrize("kernel", [scattered, locked, flagged, peers, tickets], ids=lambda kernel: kernel.__name__)
def test_nothing_is_said_about_what_is_right(kernel) -> None:
    assert refusals(kernel) == []


@nvb.kernel("sm_90", threads=64, cluster=2)
def before_the_peer_has_cleared(k, out: DATA, *, meets):
    words, thread = k.shared(i32, 64), k.thread_id()
    if meets:
        k.cluster.sync()
    k.atomic.add(k.cluster.map_shared_rank(words + thread, k.cluster.peer_rank()), 1)
    words[thread] = 0
    k.cluster.sync()
    out[thread] = words[thread]


def test_a_peer_is_written_to_before_it_has_started() -> None:
    assert refusals(before_the_peer_has_cleared, meets=False) == ["cluster.access-before-start"]
    assert refusals(before_the_peer_has_cleared, meets=True) == ["cluster.missing-barrier"]
