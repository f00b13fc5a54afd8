"""A message names the mistake, not what the mistake leads to first, and its fix mends the kernel."""

from __future__ import annotations

from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32, u32
from tests.support.runtime import broken, rules

F32 = Pointer(f32, align=16)
READERS = 64


def ring(again: str = "never", count: int = 2, rounds: int = 0) -> nvb.KernelDefinition:
    """Two stages that warp 2 fills. Warps 0 and 1 give each back once, and some `again`; they make more `rounds`."""

    @nvb.kernel("sm_90", threads=READERS + 32)
    def stages(k, x: F32, y: Pointer(f32), n: i32(minimum=1)):
        box = k.shared(f32, 2 * READERS, align=128, name="box")
        full, empty = k.mbarrier.array(2, arrivals=1, name="full"), k.mbarrier.array(2, arrivals=count, name="empty")
        k.mbarrier.ready()
        thread, first = k.thread_id(), k.lane_id() == 0
        with k.one_thread(2), k.range(n) as i:
            stage = i % 2
            k.mbarrier.wait(empty + stage, (i // 2 & 1) ^ 1)
            k.mbarrier.arrive(full + stage, expect_tx=4 * READERS)
            k.bulk.load(box + stage * READERS, x + i * READERS, 4 * READERS, full + stage)
        with k.if_(thread < READERS), k.range(n + rounds) as i:
            stage = i % 2
            k.mbarrier.wait(full + stage, i // 2 & 1)
            y[i * READERS + thread] = box[stage * READERS + thread]
            k.warp.sync()
            k.mbarrier.arrive(empty + stage, when=first)
            if again == "one":
                k.mbarrier.arrive(empty + stage, when=thread == 0)
            if again == "both, once":
                k.mbarrier.arrive(empty + stage, when=first & (i == 2))

    return stages


def said(kernel: nvb.KernelDefinition) -> nvb.Diagnostic:
    (found,) = broken(kernel.build)
    return found


@pytest.mark.parametrize(
    ("again", "come", "also"), [("one", 3, ", or initialise empty[0] to 3"), ("both, once", 4, "")]
)
def test_an_arrival_too_many_in_a_round(again: str, come: int, also: str) -> None:
    """It ends the phase before the other warp has read: its read and the next copy are a consequence."""
    found = said(ring(again))
    assert found.rule_id == "mbarrier.arrivals"
    assert f"empty[0] counts 2 arrivals a phase, and {come} come in this round: warp 0 arrives in line" in found.message
    assert found.fix.startswith("leave the arrival of line ") and found.fix.endswith(f" out{also}")
    assert rules(ring().build) == []


def test_the_larger_count_of_its_fix() -> None:
    assert rules(ring("one", count=3).build) == []


def test_rounds_that_end_whole_phases_may_be_meant() -> None:
    """3 arrivals in each round, and a phase counts 1: which of the two is wrong nobody knows."""
    assert "come in this round" not in said(ring("one", count=1)).message


def test_rounds_that_nobody_fills_any_more() -> None:
    found = said(ring(rounds=1))
    assert found.rule_id == "mbarrier.deadlock"
    assert found.fix.startswith("make as many rounds in line ") and "parity" not in found.fix
    assert "warp 2 has ended after 5 steps, and warps 0 and 1 begin another" in found.fix
    assert "; 5 steps were filled in line " in found.message and " by warp 2, which has ended; " in found.message


def test_a_stage_that_nobody_gives_to_begin_with() -> None:
    """Readers give the stages before the loop, all but the last: its producer is not to wait for another parity."""

    def begun(given: int) -> nvb.KernelDefinition:
        @nvb.kernel("sm_90", threads=READERS + 32)
        def rows(k, x: F32, y: Pointer(f32), n: i32(minimum=1)):
            box = k.shared(f32, 3 * READERS, align=128, name="box")
            full, empty = k.mbarrier.array(3, arrivals=1, name="full"), k.mbarrier.array(3, arrivals=2, name="empty")
            k.mbarrier.ready()
            thread, first = k.thread_id(), k.lane_id() == 0
            with k.one_thread(2), k.range(n) as i:
                k.mbarrier.wait(empty + i % 3, i // 3 & 1)
                k.mbarrier.arrive(full + i % 3, expect_tx=4 * READERS)
                k.bulk.load(box + i % 3 * READERS, x + i * READERS, 4 * READERS, full + i % 3)
            with k.if_(thread < READERS):
                for stage in range(given):
                    k.mbarrier.arrive(empty + stage, when=first)
                with k.range(n) as i:
                    k.mbarrier.wait(full + i % 3, i // 3 & 1)
                    y[i * READERS + thread] = box[i % 3 * READERS + thread]
                    k.warp.sync()
                    k.mbarrier.arrive(empty + i % 3, when=first & (i + 3 < n))

        return rows

    found = said(begun(2))
    assert found.rule_id == "mbarrier.deadlock"
    assert found.fix.startswith("let warps 0 and 1 arrive on empty[2] too, as on empty[0] in line ")
    assert rules(begun(3).build) == []


def test_a_thread_that_fills_a_ring_and_drains_it() -> None:
    """It walks through the stages once for both, so it waits for the stage after the one that it has filled."""

    def moved(filler: int) -> nvb.KernelDefinition:
        @nvb.kernel("sm_90a", threads=160)
        def rows(k, x: F32, y: Pointer(f32), n: i32(minimum=1)):
            ring = k.pipeline(3, consumers=1, row=(f32, 128))
            k.mbarrier.ready()
            with k.if_((k.warp_id() < 4) | (k.warp_id() == filler)), k.range(n) as i:
                with k.one_thread(filler), ring.fill() as stage:
                    k.bulk.load(stage.row, x + i * 128, 512, stage.full)
                with k.if_(k.warp_id() < 4), ring.drain() as stage:
                    y[i * 128 + k.thread_id()] = stage.row[k.thread_id()]

        return rows

    found = said(moved(0))
    assert found.rule_id == "mbarrier.deadlock"
    assert found.fix.startswith("let warp 0 wait for full[0], on which it arrives in line ")
    assert found.fix.endswith("fill it in another warp, or use ring.steps(count, fetch)")
    assert rules(moved(4).build) != ["mbarrier.deadlock"]


def test_bytes_that_are_announced_after_the_wait() -> None:
    """From the second round on. Their wait is the cause, not that of the producer, who gets the stage back by it."""

    def announced(late: bool) -> nvb.KernelDefinition:
        @nvb.kernel("sm_90", threads=READERS + 32)
        def rows(k, x: F32, y: Pointer(f32), n: i32(minimum=1)):
            box = k.shared(f32, READERS, align=128, name="box")
            full, empty = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=2, name="empty")
            k.mbarrier.ready()
            thread = k.thread_id()
            k.mbarrier.arrive(full, expect_tx=4 * READERS, when=thread == 0)
            with k.one_thread(2), k.range(n) as i:
                k.mbarrier.wait(empty, (i & 1) ^ 1)
                k.bulk.load(box, x + i * READERS, 4 * READERS, full)
            with k.if_(thread < READERS), k.range(n) as i:
                if late:
                    k.mbarrier.wait(full, i & 1)
                k.mbarrier.arrive(full, expect_tx=4 * READERS, when=(thread == 0) & (i > 0))
                if not late:
                    k.mbarrier.wait(full, i & 1)
                y[i * READERS + thread] = box[thread]
                k.warp.sync()
                k.mbarrier.arrive(empty, when=k.lane_id() == 0)

        return rows

    found = said(announced(late=True))
    assert found.rule_id == "mbarrier.deadlock"
    assert "its copies have brought 256 bytes that nothing has announced" in found.message
    assert found.fix.startswith("announce these bytes before line ")
    assert rules(announced(late=False).build) == []


def answers(meets: bool) -> nvb.KernelDefinition:
    @nvb.kernel("sm_100a", threads=64)
    def clusters(k, x: F32, y: F32):
        answer = k.shared(u32, 4, align=16, name="answer")
        asked, taken = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("asked", "taken"))
        k.mbarrier.ready()
        lane, block = k.lane_id(), k.var(k.block_id())
        asks, turn = k.var(0, name="asks"), k.var(0, name="turn")
        with k.if_(k.warp_id() == 1), k.loop():
            k.mbarrier.wait(taken, (asks & 1) ^ 1)
            with k.if_(k.elect()):
                k.mbarrier.arrive(asked, expect_tx=16)
                k.launch_control.try_cancel(answer, asked)
            k.mbarrier.wait(asked, asks & 1)
            more, _ = k.launch_control.canceled_cluster(answer)
            k.warp.sync()
            k.break_if(~more)
            asks += 1
        with k.else_(), k.loop():
            y[block * 32 + lane] = x[block * 32 + lane]
            k.mbarrier.wait(asked, turn & 1)
            more, (first, _, _) = k.launch_control.canceled_cluster(answer)
            k.fence.proxy_async()
            if meets:
                k.warp.sync()
            k.mbarrier.arrive(taken, when=lane == 0)
            k.break_if(~more)
            block.set(first.to(i32))
            turn += 1

    return clusters


def test_an_answer_that_lane_0_gives_back_for_its_warp() -> None:
    """All lanes read it in several loads: that is no second read, which would lack a wait."""
    found = said(answers(meets=False))
    assert found.rule_id == "proxy.refill"
    assert found.fix.startswith("put k.warp.sync() before line")
    assert rules(answers(meets=True).build) == []


def test_a_copy_after_a_loop_is_of_no_later_round() -> None:
    @nvb.kernel("sm_90", threads=64)
    def row(k, x: Pointer(f32), y: F32, n: i32(minimum=4)):
        words, thread = k.shared(f32, 256, align=128, name="words"), k.thread_id()
        with k.range(thread, n, 64) as i:
            words[i] = x[i]
        k.fence.proxy_async()
        with k.if_(thread == 0):
            k.bulk.store(y, words, n * 4)
            k.tma.commit_group()
            k.tma.wait_group(0, reading=True)

    found = said(row)
    assert found.rule_id == "shared.missing-barrier"
    assert "of a later round" not in found.fix


@pytest.mark.parametrize("grouped", [False, True])
def test_copies_that_arrive_on_an_mbarrier_are_waited_for_there(grouped: bool) -> None:
    """Where they are in no group, a wait for groups would be another way to hand them over."""

    def copied(waits: bool) -> nvb.KernelDefinition:
        @nvb.kernel("sm_80", threads=32)
        def rows(k, x: F32, y: F32, n: i32(minimum=1)):
            box, lane = k.shared(f32, 2 * 128, align=16, name="box"), k.lane_id()
            come = k.mbarrier.array(2, arrivals=32, name="come")
            k.mbarrier.ready()
            with k.range(n) as i:
                stage: Any = i % 2
                k.cp_async.copy(box + stage * 128 + lane * 4, x + i * 128 + lane * 4, 16)
                k.cp_async.mbarrier_arrive(come + stage, no_increment=True)
                if grouped:
                    k.cp_async.commit_group()
                with k.loop():
                    k.break_if(k.mbarrier.test(come + stage, parity=i // 2 & 1) if waits else lane >= 0)
                (y + i * 128 + lane * 4).store(*(box + stage * 128 + (31 - lane) * 4).load(4))

        return rows

    assert rules(copied(waits=True).build) == []
    found = said(copied(waits=False))
    assert found.rule_id == "async-copy.read-before-wait"
    assert ("for the phase of mbarrier come in which the cp.async.mbarrier" in found.fix) is not grouped
