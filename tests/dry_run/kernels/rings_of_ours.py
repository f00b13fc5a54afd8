"""nvbackend's own ring and roles, where the mistake is in what is written around them."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TALL_MATRIX, gemm, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "nvbackend's ring"
MMA = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


@scene(
    STYLE,
    lambda: [gemm(2, 5, 3, 5, 3, tile=128), gemm(1, 1, 1, 1, 1, tile=128), gemm(1, 2, 6, 2, 6, tile=128)],
    why="drain(in_flight=1) keeps the newest stage, release() gives it back at the end of the tile.",
    variants={
        "drains_at_once": "drain() with no group in flight.",
        "tiles_without_release": "The last stage of a tile is given back in the first step of the next one.",
    },
    drain_gives_back_in_flight=Mistake("released-early", "drain() gives the stage back, the group is left in flight."),
    waits_in_the_next_step=Mistake("released-early", "drain() ends before the wait, which is in the next step."),
    leaves_two_groups=Mistake("released-early", "Two groups are left, and the ring holds back one stage."),
    released_before_the_wait=Mistake("released-early", "release() is before the wait for the last group."),
    skips_steps=Mistake("undrained", "A consumer continues before the drain, in the third step of each tile."),
    leaves_a_step_early=Mistake("undrained", "The second consumer leaves the last tile's loop a step early."),
    consumers_work_on_fewer_tiles=Mistake("undrained", "The consumers leave out the last tile."),
    second_operand_left_out=Mistake("accounting", "B is not loaded in the last step, and its bytes are announced."),
)
@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def ring_of_roles(k, a: TALL_MATRIX, b: MATRIX, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    wrong = named(mistake)
    mma = k.tiled_mma(MMA, warpgroups=(2, 1))
    ring = k.pipeline(3, consumers=2, a=mma.smem_a(64), b=mma.smem_b(64))
    k.mbarrier.ready()
    mine = lambda end: k.range(k.block_id(), end, k.block_count(), name="tile")  # noqa: E731
    with k.producer(registers=40), mine(tiles) as tile, k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (tile * 128, step * 64), stage.full)
        if wrong("second_operand_left_out"):
            with k.if_(step + 1 < steps):
                k.tma.load(stage.b, b, (0, step * 64), stage.full)
        else:
            k.tma.load(stage.b, b, (0, step * 64), stage.full)
    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        with mine(tiles - 1 if wrong("consumers_work_on_fewer_tiles") else tiles) as tile:
            acc.clear()
            with k.range(steps) as step:
                if wrong("skips_steps"):
                    k.continue_if(step == 2)
                if wrong("leaves_a_step_early"):
                    last = (tile + k.block_count() >= tiles) & (step + 1 == steps)
                    k.break_if((warpgroup == 1) & last & (step > 0))
                _multiply(k, wrong, mma, ring, acc, warpgroup)
            if wrong("released_before_the_wait"):
                ring.release()
            k.wgmma.wait_group(0, drains=[acc])
            at_once = ("drains_at_once", "drain_gives_back_in_flight", "waits_in_the_next_step")
            if not any(map(wrong, (*at_once, "released_before_the_wait", "tiles_without_release"))):
                ring.release()
            k.store_accumulator(acc, c + (tile * 128 + warpgroup * 64) * 64, 64)


def _multiply(k, wrong, mma, ring, acc, warpgroup):
    """A step: the stage before is given back."""
    if wrong("drains_at_once"):
        with ring.drain() as stage, k.wgmma.group(in_flight=0):
            mma.accumulate(acc, stage.a, stage.b, warpgroup)
    elif wrong("drain_gives_back_in_flight"):
        with ring.drain() as stage, k.wgmma.group(in_flight=1):
            mma.accumulate(acc, stage.a, stage.b, warpgroup)
    elif wrong("waits_in_the_next_step"):
        k.wgmma.wait_group(0)
        with ring.drain() as stage:
            k.wgmma.fence()
            mma.accumulate(acc, stage.a, stage.b, warpgroup)
            k.wgmma.commit_group()
    else:
        left = 2 if wrong("leaves_two_groups") else 1
        with ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=left):
            mma.accumulate(acc, stage.a, stage.b, warpgroup)


def _rows(*counts):
    def launch(rows):
        x = small(rows, rows, 512, kind=np.float32)
        return Launch(1, (x, Out(x[:, ::-1].copy()), rows))

    return lambda: [launch(rows) for rows in counts]


@scene(
    STYLE,
    _rows(1, 3, 7),
    why="The consumers read with ordinary loads, and drain's one arrival comes after a barrier of their own.",
    reads_after_the_drain=Mistake("released-early", "The row is read after the stage has been given back."),
    no_barrier_in_the_drain=Mistake(
        "released-early", "The stage is given back by one thread, before others have read."
    ),
    copies_half_of_the_row=Mistake("accounting", "Half of the announced bytes are copied."),
    fills_one_more=Mistake("undrained", "One row more is filled than is drained, where the ring is full."),
)
@nvb.kernel("sm_90a", threads=256)
def rows_through_a_ring(k, x: OUT, y: OUT, rows: COUNT, *, mistake=None):
    """y is x with each row of 512 turned round: bulk copies."""
    wrong = named(mistake)
    ring = k.pipeline(2, consumers=1, row=(f32, nvb.layout.make_layout(512)))
    k.mbarrier.ready()
    more = 3 if wrong("fills_one_more") else 0
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(rows + more) as row, ring.fill() as stage:
        size = 1024 if wrong("copies_half_of_the_row") else 2048
        k.bulk.load(stage.row.at(0), x + k.math.min(row, rows - 1) * 512, size, stage.full)
    with k.else_(), k.range(rows) as row:
        thread = k.thread_id() - 128

        def turn(stage):
            for part in range(4):
                place = part * 128 + thread
                y[row * 512 + 511 - place] = stage.row.at(place)[0]

        with ring.drain() as stage:
            if not wrong("reads_after_the_drain"):
                turn(stage)
            if not wrong("no_barrier_in_the_drain"):
                k.barrier.sync(1, 128)
        if wrong("reads_after_the_drain"):
            turn(stage)
