"""Rings of loops whose length is a number in memory, or a quotient of parameters: they come round all the same.

The lengths that a kernel is for, multiples of some number or small ones, are its author's to promise.
"""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.support.runtime import rules

ROWS, MOST = 16, 4
X, LENGTHS, OUT = nvb.Pointer(f32, align=128), nvb.Pointer(i32, align=16), nvb.Pointer[f32]
POSITIVE, STAGES = i32(minimum=1), i32(minimum=2, maximum=MOST)
WRONG = {
    "phase of four": {"mbarrier.parity-counter"},
    "read before the wait": {"proxy.read-before-wait"},
    "given back early": {"proxy.refill"},
}


def split(*, in_memory: bool, parts: bool, splits: bool, wrong: str = "") -> nvb.KernelDefinition:
    """The rows of a sequence, or of one of so many `splits` of it, in a ring; the last copy is of a part of a stage."""

    @nvb.kernel("sm_90", threads=96)
    def kernel(k, x: X, lengths: LENGTHS, out: OUT, n: POSITIVE, s: POSITIVE, stages: STAGES):
        box = k.shared(f32, MOST * ROWS * 32, align=128, name="box")
        full, empty = k.mbarrier.array(MOST, arrivals=1, name="full"), k.mbarrier.array(MOST, arrivals=2, name="empty")
        k.mbarrier.ready()
        last = lengths[k.block_id()] if in_memory else n
        first = k.const(0, i32)
        if splits:
            each, part = (last + s - 1) // s, k.block_id("y")
            first, last = k.math.min(part * each, last), k.math.min((part + 1) * each, last)
        steps, laps = (last - first + ROWS - 1) // ROWS, MOST if wrong == "phase of four" else stages

        def rows(step):
            return k.math.min(last - first - step * ROWS, ROWS) if parts else k.const(ROWS, i32)

        with k.one_thread(2), k.range(steps) as step:
            stage, count = step % stages, rows(step)
            k.mbarrier.wait(empty + stage, (step // laps & 1) ^ 1)
            k.mbarrier.arrive(full + stage, expect_tx=count * 128)
            k.bulk.load(box + stage * (ROWS * 32), x + (first + step * ROWS) * 32, count * 128, full + stage)
        with k.if_(k.warp_id() < 2):
            lane, total = k.lane_id(), k.var(0.0)
            with k.range(steps) as step:
                stage = step % stages
                if wrong != "read before the wait":
                    k.mbarrier.wait(full + stage, step // laps & 1)
                if wrong == "given back early":
                    k.mbarrier.arrive(empty + stage, when=lane == 0)
                with k.range(k.warp_id(), rows(step), 2) as row:
                    total += box[stage * (ROWS * 32) + row * 32 + lane]
                if wrong == "read before the wait":
                    k.mbarrier.wait(full + stage, step // laps & 1)
                k.warp.sync()
                if wrong != "given back early":
                    k.mbarrier.arrive(empty + stage, when=lane == 0)
            k.atomic.add(out + lane, total)

    return kernel


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("in_memory", [False, True])
def test_mistakes_of_a_ring_are_found(in_memory: bool, parts: bool, splits: bool) -> None:
    asked = {"in_memory": in_memory, "parts": parts, "splits": splits}
    assert list(split(**asked).build().diagnostics) == []
    for wrong, named in WRONG.items():
        assert set(rules(split(**asked, wrong=wrong).build)) == named, wrong


def loaded(k: nvb.KernelBuilder, stages: int):
    """A ring of rows: how a step is loaded, and how it is read."""
    box = k.shared(f32, stages * 32, align=128, name="box")
    full, empty = (k.mbarrier.array(stages, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()

    def load(step, x):
        stage = step % stages
        k.mbarrier.wait(empty + stage, (step // stages & 1) ^ 1)
        k.mbarrier.arrive(full + stage, expect_tx=128)
        k.bulk.load(box + stage * 32, x + step * 32, 128, full + stage)

    def read(step, y):
        stage = step % stages
        k.mbarrier.wait(full + stage, step // stages & 1)
        y[step * 32 + k.lane_id()] = box[stage * 32 + k.lane_id()]
        k.warp.sync()
        k.mbarrier.arrive(empty + stage, when=k.lane_id() == 0)

    return load, read


def several_steps(who: str, form: str, of: int, length: str, wrong: str = "") -> nvb.KernelDefinition:
    """One side takes `of` steps in a round, the other one."""

    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: X, lengths: LENGTHS, y: OUT):
        load, read = loaded(k, 3)
        at = k.block_id()
        n = lengths[at + 1] - lengths[at] if length == "difference" else lengths[at]

        def steps(one, several):
            if not several:
                with k.range(n) as i:
                    one(i)
                return
            with k.range(n // of) if form == "quotient" else k.range(0, n, of) as i:
                for part in range(of - 1 if wrong else of):
                    one((i * of if form == "quotient" else i) + part)

        with k.one_thread(1):
            steps(lambda step: load(step, x), who == "producer")
        with k.if_(k.warp_id() == 0):
            steps(lambda step: read(step, y), who == "consumer")

    return kernel


@pytest.mark.parametrize("of", [2, 3, 4, 5, 7, 8, 11])
@pytest.mark.parametrize("length", ["number", "difference"])
@pytest.mark.parametrize("form", ["quotient", "step"])
@pytest.mark.parametrize("who", ["producer", "consumer"])
def test_lengths_that_are_multiples(who: str, form: str, length: str, of: int) -> None:
    """It is right for a multiple of as many steps as a round takes; with a step too few in a round it never is."""
    assert list(several_steps(who, form, of, length).build().diagnostics) == []
    assert rules(several_steps(who, form, of, length, wrong="a step too few").build)


@pytest.mark.parametrize("of", [3, 4, 5, 16])
def test_lengths_that_the_producer_rounds_down(of: int) -> None:
    """The consumer rounds them up, so they are any lengths: it waits for a step that never comes."""

    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: X, lengths: LENGTHS, y: OUT):
        load, read = loaded(k, 3)
        n = lengths[k.block_id()]
        with k.one_thread(1), k.range(n // of) as step:
            load(step, x)
        with k.if_(k.warp_id() == 0), k.range((n + of - 1) // of) as step:
            read(step, y)

    assert rules(kernel.build) == ["mbarrier.deadlock"]


@pytest.mark.parametrize("kept", ["barriers", "rows"])
def test_lengths_that_are_small(kept: str) -> None:
    """Eight mbarriers, each used once; or room for sixteen rows, behind a ring of two."""

    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: X, lengths: LENGTHS, y: OUT):
        n = lengths[k.block_id()]
        if kept == "barriers":
            box, full = k.shared(f32, 8 * 32, align=128), k.mbarrier.array(8, arrivals=1, name="full")
            k.mbarrier.ready()
            with k.one_thread(1), k.range(n) as step:
                k.mbarrier.arrive(full + step, expect_tx=128)
                k.bulk.load(box + step * 32, x + step * 32, 128, full + step)
            with k.if_(k.warp_id() == 0), k.range(n) as step:
                k.mbarrier.wait(full + step, 0)
                y[step * 32 + k.lane_id()] = box[step * 32 + k.lane_id()]
            return
        load, read = loaded(k, 2)
        rows = k.shared(f32, 16 * 32)
        with k.one_thread(1), k.range(n) as step:
            load(step, x)
        with k.if_(k.warp_id() == 0):
            with k.range(n) as step:
                read(step, rows)
            with k.range(n) as step:
                y[step * 32 + k.lane_id()] = rows[step * 32 + k.lane_id()]

    assert list(kernel.build().diagnostics) == []


BEGINS = {"": set(), "one row too few": {"dry-run.fill-left"}, "given back twice": {"mbarrier.deadlock"}}


@pytest.mark.parametrize("wrong", [*BEGINS, "stages by the row"])
def test_rows_from_one_number_in_memory_to_the_next(wrong: str) -> None:
    """The counter of the producer begins at a number in memory: its stages are counted from there."""

    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: X, offsets: LENGTHS, y: OUT, stages: STAGES):
        box = k.shared(f32, MOST * 32, align=128, name="box")
        full, empty = (k.mbarrier.array(MOST, arrivals=1, name=name) for name in ("full", "empty"))
        k.mbarrier.ready()
        begin, end = offsets[k.block_id()], offsets[k.block_id() + 1]
        with k.one_thread(1), k.range(begin, end) as row:
            step = row if wrong == "stages by the row" else row - begin
            k.mbarrier.wait(empty + step % stages, (step // stages & 1) ^ 1)
            k.mbarrier.arrive(full + step % stages, expect_tx=128)
            k.bulk.load(box + step % stages * 32, x + row * 32, 128, full + step % stages)
        with k.if_(k.warp_id() == 0), k.range(end - begin - (1 if wrong == "one row too few" else 0)) as step:
            k.mbarrier.wait(full + step % stages, step // stages & 1)
            y[(begin + step) * 32 + k.lane_id()] = box[step % stages * 32 + k.lane_id()]
            k.warp.sync()
            for _ in range(2 if wrong == "given back twice" else 1):
                k.mbarrier.arrive(empty + step % stages, when=k.lane_id() == 0)

    found = set(rules(kernel.build))
    assert found == BEGINS.get(wrong, found), found
    assert found or not wrong


@pytest.mark.parametrize("by", ["offsets", "batches", "a last page"])
def test_lengths_that_are_other_numbers(by: str) -> None:
    @nvb.kernel("sm_90", threads=64)
    def kernel(k, x: X, table: LENGTHS, y: OUT, batch: i32(minimum=1)):
        load, read = loaded(k, 2)

        def steps(one):
            if by == "offsets":
                with k.range(table[k.block_id() + 1] - table[k.block_id()]) as step:
                    one(step)
            elif by == "batches":
                done = k.var(0)
                with k.range(batch) as number:
                    n = table[number]
                    with k.range(n) as step:
                        one(done + step)
                    done += n
            else:
                step = k.var(0)
                with k.loop():
                    k.break_if(table[step] < 0)
                    one(step.value)
                    step += 1

        with k.one_thread(1):
            steps(lambda step: load(step, x))
        with k.if_(k.warp_id() == 0):
            steps(lambda step: read(step, y))

    assert list(kernel.build().diagnostics) == []
