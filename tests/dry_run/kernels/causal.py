"""Loops that are as long as the place of the CTA in the grid is far: causal attention and prefix sums."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.kernels.parts import OUT, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "FlashAttention 2"
WIDTH = 128
STAGES = 2


def _blocks(*counts):
    def launch(count):
        x = small(count, count, WIDTH, kind=np.float32)
        return Launch(count, (x, Out(np.cumsum(x[:, ::-1], axis=0, dtype=np.float32))))

    return lambda: [launch(count) for count in counts]


@scene(
    STYLE,
    _blocks(1, 2, 7),
    why="The first CTAs make fewer steps than there are stages.",
    no_barrier_back=Mistake("refilled-early", "A stage is filled again with no barrier after it was read."),
    one_stage=Mistake("refilled-early", "There is one stage, and the next row is fetched before this one is read."),
)
@nvb.kernel("sm_80", threads=WIDTH)
def rows_before(k, x: OUT, y: OUT, *, mistake=None):
    """Row i of y is the sum of the rows of x up to i, each turned round: cp.async a row ahead."""
    wrong, thread, count = named(mistake), k.thread_id(), k.block_id() + 1
    stages = 1 if wrong("one_stage") else STAGES
    rows = k.shared(f32, stages * WIDTH, align=16, name="rows")

    def fetch(row):
        k.cp_async.copy(rows + (row % stages * WIDTH + thread), x + (row * WIDTH + thread), 4)

    total = k.var(0.0, f32)
    fetch(k.const(0, i32))
    k.cp_async.commit_group()
    with k.range(count) as row:
        with k.if_(row + 1 < count):
            fetch(row + 1)
        k.cp_async.commit_group()
        k.cp_async.wait_group(1)
        k.barrier.sync()
        total += rows[row % stages * WIDTH + (WIDTH - 1 - thread)]
        if not wrong("no_barrier_back"):
            k.barrier.sync()
    y[k.block_id() * WIDTH + thread] = total


@scene(
    STYLE,
    _blocks(1, 3, 6),
    why="A warp fetches the rows, as many as the place of its CTA says.",
    parity_never_flips=Mistake("parity", "The rows are waited for with one parity, whatever lap the ring is in."),
    given_back_by_one=Mistake("accounting", "One warp gives a stage back for which four are counted."),
    given_back_early=Mistake("released-early", "A stage is given back before it is read."),
)
@nvb.kernel("sm_90", threads=WIDTH + 32)
def rows_by_a_warp(k, x: OUT, y: OUT, *, mistake=None):
    """Row i of y is the sum of the rows of x up to i, each turned round: bulk copies of a warp of its own."""
    wrong, thread, count = named(mistake), k.thread_id(), k.block_id() + 1
    rows = k.shared(f32, STAGES * WIDTH, align=16, name="rows")
    full, empty = k.mbarrier.array(STAGES, arrivals=1, name="full"), k.mbarrier.array(STAGES, arrivals=4, name="empty")
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 4), k.if_(k.elect()), k.range(count) as row:
        stage = row % STAGES
        with k.if_(row >= STAGES):
            k.mbarrier.wait(empty + stage, row // STAGES - 1 & 1)
        k.mbarrier.arrive(full + stage, expect_tx=4 * WIDTH)
        k.bulk.load(rows + stage * WIDTH, x + row * WIDTH, 4 * WIDTH, full + stage)
    with k.if_(k.warp_id() < 4):
        total = k.var(0.0, f32)
        with k.range(count) as row:
            stage = row % STAGES
            k.mbarrier.wait(full + stage, 0 if wrong("parity_never_flips") else row // STAGES & 1)

            def give_back(stage=stage):
                k.warp.sync()
                with k.if_((k.lane_id() == 0) & ((k.warp_id() == 0) if wrong("given_back_by_one") else True)):
                    k.mbarrier.arrive(empty + stage)

            if wrong("given_back_early"):
                give_back()
            total += rows[stage * WIDTH + (WIDTH - 1 - thread)]
            if not wrong("given_back_early"):
                give_back()
        y[k.block_id() * WIDTH + thread] = total
