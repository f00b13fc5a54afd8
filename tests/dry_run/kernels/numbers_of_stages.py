"""Rings with as many stages as a parameter says, and rings that threads fill themselves."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE, gemm, multiply, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "rings by hand"
MOST = 4
STAGES = nvb.i32(minimum=2, maximum=MOST)


def _steps(*counts):
    return lambda: [gemm(1, 1, steps, steps, stages) for stages, steps in counts]


@scene(
    STYLE,
    _steps((2, 1), (2, 5), (3, 7), (4, 9)),
    why="There are mbarriers and tiles for four stages, and fewer are used.",
    variants={"gives_back_the_stage_before": "A stage is given back a step later, the last one never: nobody waits."},
    phase_of_four=Mistake("parity", "The phase is that of four stages, whatever their number."),
    index_by_mask=Mistake("parity", "The index is masked, which is right for two and four stages."),
    one_stage_more=Mistake("ring-index", "The index runs to one stage more than there are."),
    producer_begins_with_phase_0=Mistake("parity", "The producer waits for a release before its first fill."),
    given_back_in_flight=Mistake("released-early", "A stage is given back with its product in flight."),
)
@nvb.kernel("sm_90a", threads=256)
def stages_of_a_parameter(
    k,
    a: MATRIX,
    b: MATRIX,
    c: OUT,
    steps: nvb.i32(minimum=1),
    stages: nvb.i32(minimum=2, maximum=MOST),
    *,
    mistake=None,
):
    wrong, thread = named(mistake), k.thread_id()
    ta, tb = (k.shared_tiles(TILE, MOST, name=name) for name in "ab")
    full, empty = (k.mbarrier.array(MOST, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()

    def where(step):
        if wrong("index_by_mask"):
            return step & (stages - 1), step // stages & 1
        if wrong("one_stage_more"):
            return step % (stages + 1), step // (stages + 1) & 1
        return step % stages, (step // MOST if wrong("phase_of_four") else step // stages) & 1

    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(steps) as step:
        stage, turn = where(step)
        k.mbarrier.wait(empty + stage, turn if wrong("producer_begins_with_phase_0") else turn ^ 1)
        k.mbarrier.arrive(full + stage, expect_tx=2 * TILE.bytes)
        k.tma.load(ta.at(stage), a, (0, step * 64), full + stage)
        k.tma.load(tb.at(stage), b, (0, step * 64), full + stage)
    with k.if_(k.warpgroup_id() == 1):
        acc = k.wgmma.accumulator(64)
        acc.clear()
        with k.range(steps) as step:
            stage, turn = where(step)
            k.mbarrier.wait(full + stage, turn)
            with k.wgmma.group(in_flight=1 if wrong("given_back_in_flight") else 0):
                multiply(k, acc, ta.at(stage), tb.at(stage))
            if wrong("gives_back_the_stage_before"):
                k.mbarrier.arrive(empty + (step + stages - 1) % stages, when=(thread == 128) & (step > 0))
            else:
                k.mbarrier.arrive(empty + stage, when=thread == 128)
        k.wgmma.wait_group(0, drains=[acc])
        k.store_accumulator(acc, c, 64)


def _rows(*counts):
    def launch(rows):
        x = small(rows, rows, 96, kind=np.float32)
        return Launch(1, (x, Out(x[:, ::-1] * 2), rows))

    return lambda: [launch(rows) for rows in counts]


@scene(
    STYLE,
    _rows(1, 2, 3, 7),
    why="Each thread arrives for itself.",
    variants={
        "one_lane_arrives": "The lanes of the warp meet, and one of them arrives for all.",
        "one_lane_gives_back": "The lanes of each reading warp meet, and one of them gives the place back.",
    },
    arrives_before_it_writes=Mistake("race", "The writers arrive before they write."),
    one_lane_of_32=Mistake("accounting", "One lane arrives where 32 are counted."),
    lanes_do_not_meet=Mistake("race", "One lane arrives for all, and the lanes have not met after their writes."),
    readers_do_not_meet=Mistake("race", "One lane gives the place back, and the lanes have not met after their reads."),
    writers_fence_alone=Mistake("race", "One lane arrives for all: each has fenced its writes, and they have not met."),
    readers_fence_alone=Mistake("race", "One lane gives the place back, and a fence of each lane is no meeting."),
    empty_counts_one_warp=Mistake("accounting", "Empty counts 32 arrivals, and 96 threads arrive."),
    one_warp_gives_back=Mistake("race", "One warp of three gives the place back for all."),
    relaxed=Mistake("cluster", "The writers arrive without a release."),
    one_thread_drops=Mistake("accounting", "A reader drops out in the first round and reads on."),
)
@nvb.kernel("sm_90", threads=128)
def filled_by_a_warp(k, x: OUT, y: OUT, rows: COUNT, *, mistake=None):
    """A warp computes rows and three warps read them, in a ring of two places."""
    wrong, thread, lane = named(mistake), k.thread_id(), k.lane_id()
    box = k.shared(f32, 2 * 96, name="box")
    alone = wrong("one_lane_arrives") or wrong("lanes_do_not_meet") or wrong("writers_fence_alone")
    back = wrong("one_lane_gives_back") or wrong("readers_do_not_meet") or wrong("readers_fence_alone")
    full = k.mbarrier.array(2, arrivals=1 if alone else 32, name="full")
    empty = k.mbarrier.array(2, arrivals=3 if back else 32 if wrong("empty_counts_one_warp") else 96, name="empty")
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 0), k.range(rows) as row:
        place = row & 1
        k.mbarrier.wait(empty + place, (row >> 1 & 1) ^ 1)
        if wrong("arrives_before_it_writes"):
            k.mbarrier.arrive(full + place)
        for part in range(0, 96, 32):
            box[place * 96 + part + lane] = x[row * 96 + part + lane] * 2.0
        if wrong("one_lane_arrives"):
            k.warp.sync()
        if wrong("writers_fence_alone"):
            k.fence.thread(scope="cta")
        if alone or wrong("one_lane_of_32"):
            k.mbarrier.arrive(full + place, when=lane == 0)
        elif wrong("relaxed"):
            k.mbarrier.arrive(full + place, qualifiers=("relaxed", "cta"))
        elif not wrong("arrives_before_it_writes"):
            k.mbarrier.arrive(full + place)
    with k.if_(k.warp_id() > 0), k.range(rows) as row:
        place, at = row & 1, thread - 32
        k.mbarrier.wait(full + place, row >> 1 & 1)
        y[row * 96 + at] = box[place * 96 + 95 - at]
        if wrong("one_lane_gives_back"):
            k.warp.sync()
        if wrong("readers_fence_alone"):
            k.fence.thread(scope="cta")
        if back:
            k.mbarrier.arrive(empty + place, when=lane == 0)
        elif wrong("one_warp_gives_back"):
            k.mbarrier.arrive(empty + place, count=3, when=at < 32)
        elif wrong("one_thread_drops"):
            leaves = (row == 0) & (at == 5)
            k.mbarrier.arrive(empty + place, drop=True, when=leaves)
            k.mbarrier.arrive(empty + place, when=~leaves)
        else:
            k.mbarrier.arrive(empty + place)


def _copied(*counts):
    def launch(stages, steps):
        x = small(steps, steps, 128, kind=np.float32)
        return Launch(1, (x, Out(x[:, ::-1].sum(0)), steps, stages))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _copied((2, 1), (4, 1), (3, 7), (4, 9)),
    why="A group is committed for each stage of the prologue and each step, also where nothing is copied.",
    commits_what_it_copies=Mistake("cp-async", "The prologue commits a group only where there is such a step."),
    waits_for_one_stage_less=Mistake("cp-async", "Of three stages two groups are left, as of four."),
)
@nvb.kernel("sm_80", threads=128)
def copied_some_stages_ahead(
    k, x: OUT, out: OUT, steps: nvb.i32(minimum=1), stages: nvb.i32(minimum=2, maximum=MOST), *, mistake=None
):
    wrong, thread, total = named(mistake), k.thread_id(), k.var(0.0, f32)
    rows = k.shared(f32, MOST * 128, name="rows")

    def fetch(step):
        k.cp_async.copy(rows + step % stages * 128 + thread, x + step * 128 + thread, 4)

    with k.range(stages - 1) as step:
        with k.if_(step < steps):
            fetch(step)
            if wrong("commits_what_it_copies"):
                k.cp_async.commit_group()
        if not wrong("commits_what_it_copies"):
            k.cp_async.commit_group()
    with k.range(steps) as step:
        with k.if_(stages == 2):
            k.cp_async.wait_group(0)
        with k.if_(stages == 3):
            k.cp_async.wait_group(2 if wrong("waits_for_one_stage_less") else 1)
        with k.if_(stages == MOST):
            k.cp_async.wait_group(2)
        k.barrier.sync()
        with k.if_(step + stages - 1 < steps):
            fetch(step + stages - 1)
        k.cp_async.commit_group()
        total += rows[step % stages * 128 + 127 - thread]
    out[thread] = total
