"""Barriers that a fix asks for: of the threads that come to their place, and never in the branch of some of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32, u32
from tests.support.runtime import broken, rules

F32 = Pointer(f32, align=16)
U32 = Pointer(u32, align=16)
Made = Callable[[str], nvb.KernelDefinition]


def histogram(wrong: str = "") -> nvb.KernelDefinition:
    """Warp 3 brings rows, three warps count them, and give the rows back: a barrier before or after is `wrong`."""

    @nvb.kernel("sm_90", threads=128)
    def counts(k, x: U32, y: U32, n: i32(minimum=1)):
        rows, bins = k.shared(u32, 192, align=128, name="rows"), k.shared(u32, 32, name="bins")
        full, empty = k.mbarrier.array(2, arrivals=1, name="full"), k.mbarrier.array(2, arrivals=96, name="empty")
        k.mbarrier.ready()
        thread = k.thread_id()
        with k.one_thread(3), k.range(n) as i:
            stage = i % 2
            k.mbarrier.wait(empty + stage, (i // 2 & 1) ^ 1)
            k.mbarrier.arrive(full + stage, expect_tx=384)
            k.bulk.load(rows + stage * 96, x + i * 96, 384, full + stage)
        with k.if_(k.warp_id() < 3):
            with k.if_(thread < 32):
                bins[thread] = 0
            if wrong != "before":
                k.barrier.sync(1, 96)
            with k.range(n) as i:
                stage = i % 2
                k.mbarrier.wait(full + stage, i // 2 & 1)
                value = rows[stage * 96 + thread]
                k.mbarrier.arrive(empty + stage)
                k.atomic.add(bins + value.to(i32), k.const(1, u32))
            if wrong != "after":
                k.barrier.sync(1, 96)
            with k.if_(thread < 32):
                y[thread] = bins[thread]

    return counts


def sorted_by_steps(wrong: str = "") -> nvb.KernelDefinition:
    """Each step compares pairs in a branch of one of the two; the barrier after the last one is `wrong`."""

    @nvb.kernel("sm_80", threads=128)
    def steps(k, x: F32, y: F32):
        row, thread = k.shared(f32, 128, name="row"), k.thread_id()
        row[thread] = x[thread]
        k.barrier.sync()
        for distance in (64, 32):
            other = thread ^ distance
            with k.if_(other > thread):
                one, two = row[thread], row[other]
                with k.if_(one < two):
                    row[thread] = two
                    row[other] = one
            if wrong != "after" or distance == 32:
                k.barrier.sync()
        y[thread] = row[thread]

    return steps


@pytest.mark.parametrize(
    ("made", "wrong", "fix"),
    [
        (histogram, "before", r"put k\.barrier\.sync\(number, 96\) between line \d+ and line \d+, a named barrier"),
        (
            histogram,
            "after",
            r"put k\.barrier\.sync\(number, 96\) before the branch of line \d+ on `tid\.x < 32`, a named",
        ),
        (
            sorted_by_steps,
            "after",
            r"put k\.barrier\.sync\(\) before the branch of line \d+ on .*, where all threads come",
        ),
    ],
)
def test_the_place_of_a_barrier_and_who_comes_there(made: Made, wrong: str, fix: str) -> None:
    """And no wait for an mbarrier on which the waiting threads arrive themselves, for those who fill."""
    (found,) = broken(made(wrong).build)
    assert found.rule_id == "shared.missing-barrier"
    assert re.match(fix, found.fix or ""), found.fix
    assert rules(made("").build) == []


def rows_of_a_role(fence: bool) -> nvb.KernelDefinition:
    """Four of five warps write a row, and one of their threads stores it."""

    @nvb.kernel("sm_90", threads=160)
    def rows(k, x: F32, y: F32, n: i32(minimum=1)):
        row, thread = k.shared(f32, 128, align=128, name="row"), k.thread_id()
        with k.if_(k.warp_id() < 4), k.range(n) as i:
            with k.one_thread(0):
                k.tma.wait_group(0, reading=True)
            k.barrier.sync(1, 128)
            row[thread] = x[i * 128 + thread]
            if fence:
                k.fence.proxy_async()
            k.barrier.sync(1, 128)
            with k.one_thread(0):
                k.bulk.store(y + i * 128, row, 512)
                k.tma.commit_group()
        with k.if_(k.warp_id() == 0), k.one_thread(0):
            k.tma.wait_group(0, reading=True)

    return rows


def test_a_fence_and_a_barrier_of_those_who_come() -> None:
    (found,) = broken(rows_of_a_role(fence=False).build)
    assert found.rule_id == "proxy.missing-fence"
    assert "k.barrier.sync()" not in (found.fix or "")
    assert rules(rows_of_a_role(fence=True).build) == []


def answered(waits: bool) -> nvb.KernelDefinition:
    """Warp 1 asks, warp 0 answers; warp 1 `waits` for the answer, or reads it at once."""

    @nvb.kernel("sm_90", threads=64)
    def turns(k, y: F32, n: i32(minimum=1)):
        question, answer = (k.shared(f32, 32, name=name) for name in ("question", "answer"))
        asked, told = (k.mbarrier.array(1, arrivals=32, name=name) for name in ("asked", "told"))
        k.mbarrier.ready()
        lane = k.lane_id()
        with k.if_(k.warp_id() == 1), k.range(n) as i:
            question[lane] = i.to(f32)
            k.mbarrier.arrive(asked)
            if waits:
                k.mbarrier.wait(told, i & 1)
            y[i * 32 + lane] = answer[lane]
        with k.if_(k.warp_id() == 0), k.range(n) as i:
            k.mbarrier.wait(asked, i & 1)
            answer[lane] = question[31 - lane]
            k.mbarrier.arrive(told)

    return turns


def test_a_read_before_anything_was_written_is_the_first_mistake() -> None:
    """What its warp overwrites in later rounds is a consequence of the wait that the read lacks."""
    (found,) = broken(answered(waits=False).build)
    assert found.rule_id == "shared.missing-barrier"
    assert "reads answer while st.shared of warp 0" in found.message
    assert (found.fix or "").startswith("let warp 1 wait for phase 0 of told, parity 0, before line ")
    assert rules(answered(waits=True).build) == []
