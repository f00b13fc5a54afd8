"""Rings whose loops may make fewer steps than there are stages: prologues, epilogues, groups and tails."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.kernels.parts import COUNT, OUT, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "few steps"
STEPS = i32(minimum=1)
WIDTH = 128
ROW_BYTES = 4 * WIDTH


def _sums(*counts):
    """The sum of `rows` rows, for each number of them and the kernel's arguments."""

    def launch(rows, *arguments):
        x = small(rows, rows, WIDTH, kind=np.float32)
        return Launch(1, (x, Out(x.sum(0)), *arguments))

    return lambda: [launch(*one) for one in counts]


class Rows:
    """A ring of rows, filled by bulk copies."""

    def __init__(self, k, stages, x):
        self.k, self.stages, self.x = k, stages, x
        self.rows = k.shared(f32, stages * WIDTH, align=128, name="rows")
        self.full = k.mbarrier.array(stages, arrivals=1, name="full")
        self.empty = k.mbarrier.array(stages, arrivals=1, name="empty")
        k.mbarrier.ready()

    def fill(self, row, count=None):
        """Row `row` to the stage of the step `count`."""
        k, stage = self.k, (row if count is None else count) % self.stages
        k.mbarrier.arrive(self.full + stage, expect_tx=ROW_BYTES)
        k.bulk.load(self.rows + stage * WIDTH, self.x + row * WIDTH, ROW_BYTES, self.full + stage)

    def wait(self, step):
        self.k.mbarrier.wait(self.full + step % self.stages, step // self.stages & 1)

    def wait_empty(self, step):
        self.k.mbarrier.wait(self.empty + step % self.stages, step // self.stages & 1 ^ 1)

    def read(self, step, column):
        return self.rows[step % self.stages * WIDTH + column]


@scene(
    STYLE,
    _sums((3, 3, 1), (4, 2, 2), (7, 1, 7), (14, 2, 7)),
    why="The prologue and the refill both ask whether there is such a step.",
    fills_whatever_the_count=Mistake("refilled-early", "The prologue fills two stages, also where there is one step."),
)
@nvb.kernel("sm_90a", threads=WIDTH)
def filled_ahead(k, x: OUT, out: OUT, tiles: STEPS, steps: STEPS, *, mistake=None):
    wrong, stages, thread = named(mistake), 3, k.thread_id()
    ring, total = Rows(k, stages, x), k.var(0.0, f32)
    with k.range(tiles, name="tile") as tile:
        with k.if_(thread == 0):
            for step in range(stages - 1):
                if wrong("fills_whatever_the_count"):
                    ring.fill(tile * steps + step)
                else:
                    with k.if_(step < steps):
                        ring.fill(tile * steps + step)
        with k.range(steps) as step:
            count = tile * steps + step
            with k.if_((thread == 0) & (step + stages - 1 < steps)):
                ring.fill(count + stages - 1)
            ring.wait(count)
            total += ring.read(count, thread)
            k.barrier.sync()
    out[thread] = total


@scene(
    STYLE,
    _sums((1, 1), (2, 2), (7, 7)),
    why="Nothing is asserted of the count, but the prologue asks for it, so that it may be one.",
    drains_two_stages_at_the_end=Mistake("undrained", "The epilogue drains two stages, also where one was filled."),
)
@nvb.kernel("sm_90a", threads=WIDTH)
def drained_at_the_end(k, x: OUT, out: OUT, steps: COUNT, *, mistake=None):
    wrong, stages, thread = named(mistake), 3, k.thread_id()
    ring, total, ahead = Rows(k, stages, x), k.var(0.0, f32), 2
    with k.if_(thread == 0):
        for step in range(ahead):
            ring_step = k.const(step, i32)
            with k.if_(ring_step < steps):
                ring.fill(ring_step)
    main = k.math.max(steps - ahead, 0)
    with k.range(main) as step:
        with k.if_(thread == 0):
            ring.fill(step + ahead)
        ring.wait(step)
        total += ring.read(step, thread)
        k.barrier.sync()
    for last in range(ahead):
        step = main + last
        if wrong("drains_two_stages_at_the_end"):
            ring.wait(step)
            total += ring.read(step, thread)
        else:
            with k.if_(step < steps):
                ring.wait(step)
                total += ring.read(step, thread)
    out[thread] = total


@scene(
    STYLE,
    _sums((3, 3), (4, 4), (9, 9)),
    why="The prologue and the epilogue need two steps, which nothing says and everybody knows.",
    reads_before_the_wait=Mistake("read-before-wait", "The epilogue reads the last stage without its wait."),
)
@nvb.kernel("sm_90a", threads=WIDTH)
def needs_two_steps(k, x: OUT, out: OUT, steps: COUNT, *, mistake=None):
    wrong, stages, thread = named(mistake), 3, k.thread_id()
    ring, total, ahead = Rows(k, stages, x), k.var(0.0, f32), 2
    with k.if_(thread == 0):
        for step in range(ahead):
            ring.fill(k.const(step, i32))
    with k.range(steps - ahead) as step:
        with k.if_(thread == 0):
            ring.fill(step + ahead)
        ring.wait(step)
        total += ring.read(step, thread)
        k.barrier.sync()
    for last in reversed(range(ahead)):
        if not (wrong("reads_before_the_wait") and last == 0):
            ring.wait(steps - 1 - last)
        total += ring.read(steps - 1 - last, thread)
    out[thread] = total


@scene(
    STYLE,
    _sums((1, 1), (2, 2), (3, 3), (6, 6)),
    why="A group is committed for each stage ahead, filled or not, so that the wait's number is right from the first.",
    commits_what_it_copies=Mistake("cp-async", "The prologue commits no group for a stage that it does not fill."),
)
@nvb.kernel("sm_80", threads=WIDTH)
def groups_ahead(k, x: OUT, out: OUT, steps: STEPS, *, mistake=None):
    wrong, stages, thread = named(mistake), 4, k.thread_id()
    rows, total = k.shared(f32, stages * WIDTH, align=16, name="rows"), k.var(0.0, f32)

    def copy(step):
        k.cp_async.copy(rows + (step % stages * WIDTH + thread), x + (step * WIDTH + thread), 4)

    for step in range(stages - 1):
        with k.if_(step < steps):
            copy(k.const(step, i32))
            if wrong("commits_what_it_copies"):
                k.cp_async.commit_group()
        if not wrong("commits_what_it_copies"):
            k.cp_async.commit_group()
    with k.range(steps) as step:
        k.cp_async.wait_group(stages - 2)
        k.barrier.sync()
        with k.if_(step + stages - 1 < steps):
            copy(step + stages - 1)
        k.cp_async.commit_group()
        total += rows[step % stages * WIDTH + (WIDTH - 1 - thread)]
    out[WIDTH - 1 - thread] = total


@scene(
    STYLE,
    _sums((2, 128), (4, 256), (14, 896)),
    why="n is a multiple of 128, which the annotation says, so the consumers drain whole pairs of stages.",
    second_row_is_not_given_back=Mistake("undrained", "Of each pair the first stage alone is given back."),
)
@nvb.kernel("sm_90a", threads=WIDTH + 32)
def pairs_of_rows(k, x: OUT, out: OUT, n: i32(minimum=128, multiple_of=128), *, mistake=None):
    _drain_pairs(k, named(mistake), x, out, n)


@scene(
    STYLE,
    _sums((2, 128), (4, 256), (14, 896)),
    why="n is a multiple of 128, which k.assume says.",
    second_row_is_not_given_back=Mistake("undrained", "Of each pair the first stage alone is given back."),
)
@nvb.kernel("sm_90a", threads=WIDTH + 32)
def pairs_of_rows_assumed(k, x: OUT, out: OUT, n: COUNT, *, mistake=None):
    k.assume((n % 128 == 0) & (n > 0))
    _drain_pairs(k, named(mistake), x, out, n)


def _drain_pairs(k, wrong, x, out, n):
    thread, ring = k.thread_id(), Rows(k, 3, x)
    with k.if_(k.warp_id() == 4), k.one_thread(4), k.range(0, n, 64) as start:
        ring.wait_empty(start // 64)
        ring.fill(start // 64)
    with k.if_(k.warp_id() < 4):
        total = k.var(0.0, f32)
        with k.range(0, n, 128) as start:
            for half in range(2):
                step = start // 64 + half
                ring.wait(step)
                total += ring.read(step, thread)
                k.barrier.sync(1, WIDTH)
                if not (wrong("second_row_is_not_given_back") and half):
                    k.mbarrier.arrive(ring.empty + step % 3, when=thread == 0)
        out[thread] = total


@scene(
    STYLE,
    _sums((15, 15, 1), (4, 2, 2), (15, 3, 5)),
    why="Two stages are kept back, or as many as the tile has steps, and given back at the tile's end.",
    gives_back_two_at_the_end=Mistake("accounting", "At the end of a tile two stages are given back, filled or not."),
)
@nvb.kernel("sm_90a", threads=WIDTH + 32)
def kept_back(k, x: OUT, out: OUT, tiles: STEPS, steps: STEPS, *, mistake=None):
    wrong, thread, stages = named(mistake), k.thread_id(), 4
    ring = Rows(k, stages, x)
    with k.if_(k.warp_id() == 4), k.one_thread(4), k.range(tiles * steps) as step:
        ring.wait_empty(step)
        ring.fill(step)
    with k.if_(k.warp_id() < 4):
        total = k.var(0.0, f32)
        with k.range(tiles, name="tile") as tile:
            with k.range(steps) as step:
                count = tile * steps + step
                ring.wait(count)
                total += ring.read(count, thread)
                k.barrier.sync(1, WIDTH)
                k.mbarrier.arrive(ring.empty + (count + 2) % stages, when=(thread == 0) & (step >= 2))
            kept = k.const(2, i32) if wrong("gives_back_two_at_the_end") else k.math.min(steps, 2)
            with k.range(kept) as back:
                place = ((tile + 1) * steps - kept + back + stages) % stages
                k.mbarrier.arrive(ring.empty + place, when=thread == 0)
        out[thread] = total
