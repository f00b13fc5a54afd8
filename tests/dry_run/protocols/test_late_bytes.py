"""Bytes that are announced without an arrival: some arrival of the phase must come after them."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.refusals import refusals

STAGES, WIDTH = 2, 64
FLOATS = nvb.Pointer(f32, align=16)


def ring(feed, arrivals):
    """A warpgroup fills a ring: one of its threads copies; `feed` announces the bytes, copies, and arrives."""

    @nvb.kernel("sm_90", threads=192)
    def kernel(k, x: FLOATS, out: FLOATS, steps: i32(minimum=1)):
        rows = k.shared(f32, STAGES * WIDTH, align=128, name="rows")
        full = k.mbarrier.array(STAGES, arrivals=arrivals, name="full")
        empty = k.mbarrier.array(STAGES, arrivals=64, name="empty")
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.if_(thread < 128), k.range(steps) as step:
            slot = step % STAGES
            k.mbarrier.wait(empty + slot, step // STAGES & 1 ^ 1)
            feed(k, full + slot, lambda: k.bulk.load(rows + slot * WIDTH, x + step * WIDTH, 4 * WIDTH, full + slot))
        with k.else_(), k.range(steps) as step:
            slot = step % STAGES
            k.mbarrier.wait(full + slot, step // STAGES & 1)
            out[step * WIDTH + thread - 128] = rows[slot * WIDTH + thread - 128]
            k.mbarrier.arrive(empty + slot)

    return kernel


def announced_then_all_arrive(k, full, copy):
    with k.if_(k.thread_id() == 0):
        k.mbarrier.expect_tx(full, 4 * WIDTH)
        copy()
    k.mbarrier.arrive(full)


def all_arrive_then_announced(k, full, copy):
    k.mbarrier.arrive(full)
    with k.if_(k.thread_id() == 0):
        k.mbarrier.expect_tx(full, 4 * WIDTH)
        copy()


def announced_before_a_barrier(k, full, copy):
    """Another warp arrives, and only after all have met."""
    with k.if_(k.thread_id() == 0):
        k.mbarrier.expect_tx(full, 4 * WIDTH)
        copy()
    k.barrier.sync(1, 128)
    k.mbarrier.arrive(full, when=k.thread_id() == 96)


def another_warp_arrives(k, full, copy):
    with k.if_(k.thread_id() == 0):
        k.mbarrier.expect_tx(full, 4 * WIDTH)
        copy()
    k.mbarrier.arrive(full, when=k.thread_id() == 96)


def in_two_parts(k, full, copy):
    """The first part keeps the phase open: its copy comes after both."""
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=3 * WIDTH)
        k.mbarrier.expect_tx(full, WIDTH)
        copy()
    k.mbarrier.arrive(full, when=k.thread_id() != 0)


@pytest.mark.parametrize(
    ("feed", "arrivals"), [(announced_then_all_arrive, 128), (announced_before_a_barrier, 1), (in_two_parts, 128)]
)
def test_in_time(feed, arrivals):
    assert refusals(ring(feed, arrivals)) == []


@pytest.mark.parametrize(("feed", "arrivals"), [(all_arrive_then_announced, 128), (another_warp_arrives, 1)])
def test_too_late(feed, arrivals):
    assert refusals(ring(feed, arrivals)) == ["mbarrier.late-bytes"]
