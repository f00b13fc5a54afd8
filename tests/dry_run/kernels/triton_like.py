"""What Triton makes of tl.dot in a loop: no roles, indices by select, stages guarded by barriers of the CTA."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE, gemm, multiply, named, small, warp_sum
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "Triton"
F32 = nvb.Pointer(f32)


@scene(
    STYLE,
    lambda: [gemm(1, 3, 4, 3, 4), gemm(1, 1, 1, 1, 1), gemm(2, 5, 2, 5, 2)],
    why="There is no empty mbarrier: warp_group_dot_wait and a barrier of the CTA are before each load.",
    leaves_two=Mistake("refilled-early", "warp_group_dot_wait leaves two products: the stage's own too."),
    loads_one_stage_ahead=Mistake("refilled-early", "The load goes to the stage whose product was just issued."),
    loads_before_the_wait=Mistake("refilled-early", "The load is issued before its stage's product is waited for."),
    phase_by_the_insertion=Mistake("parity", "The phase flips where the index of the loads wraps."),
    extraction_begins_anew=Mistake("parity", "The index of the reads begins at 0 with each tile, and that of the loads "
                                             "goes on."),
    announces_past_the_end=Mistake("accounting", "Bytes are announced past the last step, where nothing is loaded."),
    prologue_loads_one_step=Mistake("undrained", "The prologue loads one step of two, and the loop goes on from two."),
)  # fmt: skip
@nvb.kernel("sm_90a", threads=128)
def dot_pipelined(k, a: MATRIX, b: MATRIX, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """Three stages, loads two steps ahead."""
    wrong, stages, ahead = named(mistake), 3, 2
    ta, tb = (k.shared_tiles(TILE, stages, name=name) for name in "ab")
    full = k.mbarrier.array(stages, arrivals=1, name="full")
    k.mbarrier.ready()
    thread, acc = k.thread_id(), k.wgmma.accumulator(64)
    insert, extract, phase = k.var(0), k.var(0), k.var(0)
    after = lambda index: k.select(index + 1 >= stages, k.const(0, i32), index + 1)  # noqa: E731

    def load(tile, step, stage):
        with k.if_((thread == 0) & (step < steps)):
            k.mbarrier.arrive(full + stage, expect_tx=2 * TILE.bytes)
            k.tma.load(ta.at(stage), a, (tile * 64, step * 64), full + stage)
            k.tma.load(tb.at(stage), b, (0, step * 64), full + stage)
        if wrong("announces_past_the_end"):
            with k.if_((thread == 0) & (step >= steps)):
                k.mbarrier.arrive(full + stage, expect_tx=2 * TILE.bytes)
        with k.if_(step < steps):
            insert.set(after(insert))

    with k.range(k.block_id(), tiles, k.block_count(), name="tile") as tile:
        if wrong("extraction_begins_anew"):
            extract.set(0)
        for step in range(1 if wrong("prologue_loads_one_step") else ahead):
            load(tile, k.const(step, i32), insert.value)
        acc.clear()
        with k.range(steps) as step:
            k.mbarrier.wait(full + extract, phase)
            k.wgmma.fence()
            multiply(k, acc, ta.at(extract), tb.at(extract))
            k.wgmma.commit_group()
            stage = k.select(insert == 0, k.const(stages - 1, i32), insert - 1)
            target = stage if wrong("loads_one_stage_ahead") else insert.value
            if wrong("loads_before_the_wait"):
                load(tile, step + ahead, target)
            k.wgmma.wait_group(2 if wrong("leaves_two") else 1)
            k.barrier.sync()
            if not wrong("loads_before_the_wait"):
                load(tile, step + ahead, target)
            wraps = insert == 0 if wrong("phase_by_the_insertion") else extract == stages - 1
            phase.set(k.select(wraps, phase ^ 1, phase))
            extract.set(after(extract))
        k.wgmma.wait_group(0)
        k.barrier.sync()
        k.store_accumulator(acc, c + tile * 4096, 64)


def _rows(*counts):
    def launch(rows):
        x = small(rows, rows, 128, kind=np.float32)
        return Launch(1, (x, Out(np.broadcast_to(x.sum(axis=1, keepdims=True), x.shape).copy()), rows))

    return lambda: [launch(rows) for rows in counts]


@scene(
    STYLE,
    _rows(1, 2, 3, 6),
    why="One barrier a row is enough: who writes a buffer again has passed the barrier after the reads of it.",
    one_buffer=Mistake("race", "The warps' sums are written over those of the row before, which others still read."),
    changes_buffers_every_second_row=Mistake("race", "A buffer serves two rows, one after the other."),
    barrier_every_second_row=Mistake("race", "There is a barrier in every second row only."),
    reads_before_the_barrier=Mistake("race", "The first half of the sums is read before the barrier."),
    one_sum_left_out=Mistake("unwritten", "The last warp writes its sum only from the second row on."),
)
@nvb.kernel("sm_80", threads=128)
def row_sums(k, x: F32, y: F32, rows: COUNT, *, mistake=None):
    """tl.sum: a sum of each warp, and of the four of them through shared memory."""
    wrong = named(mistake)
    parts = k.shared(f32, 8, name="parts")
    thread = k.thread_id()
    with k.range(rows) as row:
        total = warp_sum(k, x[row * 128 + thread])
        buffer = row & 1
        if wrong("one_buffer"):
            buffer = k.const(0, i32)
        if wrong("changes_buffers_every_second_row"):
            buffer = row >> 1 & 1
        writes = thread % 32 == 0
        if wrong("one_sum_left_out"):
            writes = writes & ((row > 0) | (thread != 96))
        with k.if_(writes):
            parts[buffer * 4 + thread // 32] = total
        early = [parts[buffer * 4 + warp] for warp in range(2)] if wrong("reads_before_the_barrier") else []
        if wrong("barrier_every_second_row"):
            with k.if_(row & 1 == 0):
                k.barrier.sync()
        else:
            k.barrier.sync()
        sums = [*early, *(parts[buffer * 4 + warp] for warp in range(len(early), 4))]
        y[row * 128 + thread] = sums[0] + sums[1] + sums[2] + sums[3]
