"""Rings of mbarriers by hand: how people count stages and phases. C = A * B^T of one 64 x 64 tile."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32, i32
from tests.corpus.parts import MATRIX, TILE, multiply

OUT = nvb.Pointer[f32]


def _ring(k, stages, released_by, producers=1):
    """Tiles of A and of B, `full` and `empty`."""
    tiles = [k.shared_tiles(TILE, stages, name=name) for name in "ab"]
    full = k.mbarrier.array(stages, arrivals=producers, name="full")
    empty = k.mbarrier.array(stages, arrivals=released_by, name="empty")
    k.mbarrier.ready()
    return *tiles, full, empty


def _load(k, full, stage, step, *sources):
    k.mbarrier.arrive(full + stage, expect_tx=len(sources) * TILE.bytes)
    for tiles, source in sources:
        k.tma.load(tiles.at(stage), source, (0, step * 64), full + stage)


@nvb.kernel("sm_90a", threads=256)
def flipped_where_the_index_wraps(k, a: MATRIX, b: MATRIX, c: OUT, steps: i32):
    stages = 4
    ta, tb, full, empty = _ring(k, stages, released_by=128)
    stage, phase = k.var(0), k.var(0)

    def advance():
        stage.set(stage + 1)
        with k.if_(stage == stages):
            stage.set(0)
            phase.set(phase ^ 1)

    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(steps) as step:
        k.mbarrier.wait(empty + stage, phase ^ 1)
        _load(k, full, stage, step, (ta, a), (tb, b))
        advance()
    with k.else_():
        acc = k.wgmma.accumulator(64)
        with k.range(steps):
            k.mbarrier.wait(full + stage, phase)
            with k.wgmma.group():
                multiply(k, acc, ta.at(stage), tb.at(stage))
            k.mbarrier.arrive(empty + stage)
            advance()
        k.store_accumulator(acc, c, 64)


@nvb.kernel("sm_90a", threads=160)
def phases_as_bits_and_a_producer_warp_more(k, a: MATRIX, b: MATRIX, c: OUT, steps: i32):
    """Bit s of `bits` is the phase of stage s; the producer is a fifth warp, whose elected thread loads."""
    stages = 4
    ta, tb, full, empty = _ring(k, stages, released_by=128)
    bits, stage = k.var(0), k.var(0)

    def advance():
        bits.set(bits ^ (k.const(1, i32) << stage))
        stage.set((stage + 1) % stages)

    with k.if_(k.warp_id() == 4), k.range(steps) as step:
        k.mbarrier.wait(empty + stage, ((bits >> stage) & 1) ^ 1)
        with k.if_(k.elect()):
            _load(k, full, stage, step, (ta, a), (tb, b))
        k.warp.sync()
        advance()
    with k.else_():
        acc = k.wgmma.accumulator(64)
        with k.range(steps):
            k.mbarrier.wait(full + stage, (bits >> stage) & 1)
            with k.wgmma.group():
                multiply(k, acc, ta.at(stage), tb.at(stage))
            k.mbarrier.arrive(empty + stage)
            advance()
        k.store_accumulator(acc, c, 64)


@nvb.kernel("sm_90a", threads=256)
def two_producers_that_wait_from_the_second_round_on(k, a: MATRIX, b: MATRIX, c: OUT, steps: i32):
    ta, tb, full, empty = _ring(k, 2, released_by=1, producers=2)
    with k.if_(k.warpgroup_id() == 1):
        for warp, source in ((4, (ta, a)), (5, (tb, b))):
            with k.one_thread(warp), k.range(steps) as step:
                with k.if_(step >= 2):
                    k.mbarrier.wait(empty + step % 2, ((step // 2) - 1) & 1)
                _load(k, full, step % 2, step, source)
    with k.else_():
        acc = k.wgmma.accumulator(64)
        with k.range(steps) as step:
            k.mbarrier.wait(full + (step & 1), (step >> 1) & 1)
            with k.wgmma.group():
                multiply(k, acc, ta.at(step & 1), tb.at(step & 1))
            k.barrier.sync(1, 128)
            with k.if_(k.thread_id() == 0):
                k.mbarrier.arrive(empty + (step & 1))
        k.store_accumulator(acc, c, 64)


@nvb.kernel("sm_90a", threads=256)
def six_steps_unrolled(k, a: MATRIX, b: MATRIX, c: OUT):
    """Every stage, step and parity a number of Python's; one group in flight."""
    stages, steps = 2, 6
    ta, tb, full, empty = _ring(k, stages, released_by=1)
    with k.if_(k.warpgroup_id() == 0), k.one_thread():
        for step in range(steps):
            if step >= stages:
                k.mbarrier.wait(empty + step % stages, step // stages - 1 & 1)
            _load(k, full, step % stages, step, (ta, a), (tb, b))
    with k.else_():
        acc = k.wgmma.accumulator(64)
        for step in range(steps):
            k.mbarrier.wait(full + step % stages, step // stages & 1)
            k.wgmma.fence()
            multiply(k, acc, ta.at(step % stages), tb.at(step % stages))
            k.wgmma.commit_group()
            if step:
                k.wgmma.wait_group(1)
                with k.if_(k.thread_id() == 128):
                    k.mbarrier.arrive(empty + (step - 1) % stages)
        k.wgmma.wait_group(0)
        k.store_accumulator(acc, c, 64)


@nvb.kernel("sm_90a", threads=128)
def everybody_in_one_warpgroup(k, a: MATRIX, b: MATRIX, c: OUT, steps: i32):
    """No roles: one thread loads a step ahead, all spin on try_wait, a barrier of the CTA gives the tiles back."""
    ta, tb = (k.shared_tiles(TILE, 2, name=name) for name in "ab")
    full = k.mbarrier.array(2, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread(), k.if_(steps > 0):
        _load(k, full, 0, k.const(0, i32), (ta, a), (tb, b))
    acc = k.wgmma.accumulator(64)
    with k.range(steps) as step:
        with k.one_thread(), k.if_(step + 1 < steps):
            _load(k, full, (step + 1) & 1, step + 1, (ta, a), (tb, b))
        with k.loop():
            k.break_if(k.mbarrier.test(full + (step & 1), parity=(step >> 1) & 1, blocking=True))
        with k.wgmma.group():
            multiply(k, acc, ta.at(step & 1), tb.at(step & 1))
        k.barrier.sync()
    k.store_accumulator(acc, c, 64)


@nvb.kernel("sm_90a", threads=256)
def rounds_of_stages(k, a: MATRIX, b: MATRIX, c: OUT, rounds: i32):
    """The round counts the phases, an inner loop the stages; the stage before is given back, the mma still running."""
    stages = 4
    ta, tb, full, empty = _ring(k, stages, released_by=128)
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(rounds) as turn, k.range(stages) as stage:
        k.mbarrier.wait(empty + stage, 1 - turn % 2)
        _load(k, full, stage, turn * stages + stage, (ta, a), (tb, b))
    with k.else_():
        acc = k.wgmma.accumulator(64)
        with k.range(rounds) as turn:
            for stage in range(stages):
                k.mbarrier.wait(full + stage, turn % 2)
                k.wgmma.fence()
                multiply(k, acc, ta.at(stage), tb.at(stage))
                k.wgmma.commit_group()
                k.wgmma.wait_group(1 if stage else 0)
                if stage:
                    k.mbarrier.arrive(empty + (stage - 1))
            k.wgmma.wait_group(0)
            k.mbarrier.arrive(empty + (stages - 1))
        k.store_accumulator(acc, c, 64)


@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def ping_pong(k, a: MATRIX, b: MATRIX, c: OUT, tiles: i32, steps: i32):
    """Two consumers that multiply in turns, ordered by named barriers: tile t of C is A's rows times B's."""
    stages = 4
    ta, tb, full, empty = _ring(k, stages, released_by=1)
    group = k.warpgroup_id()
    with k.if_(group == 0):
        k.setmaxnreg.dec(40)
        with k.one_thread():
            turn = k.var(0)
            with k.range(tiles) as tile, k.range(steps) as step:
                stage = turn % stages
                k.mbarrier.wait(empty + stage, (turn // stages & 1) ^ 1)
                k.mbarrier.arrive(full + stage, expect_tx=2 * TILE.bytes)
                k.tma.load(ta.at(stage), a, (tile * 64, step * 64), full + stage)
                k.tma.load(tb.at(stage), b, (0, step * 64), full + stage)
                turn += 1
    with k.else_():
        k.setmaxnreg.inc(232)
        me = group - 1
        acc = k.wgmma.accumulator(64)
        turn = k.var(me * steps)
        with k.if_(me == 1):
            k.barrier.arrive(1, 256)  # the first consumer may begin
        with k.range(me, tiles, 2) as tile:
            k.barrier.sync(me + 1, 256)
            acc.fill(0.0)
            with k.range(steps):
                stage = turn % stages
                k.mbarrier.wait(full + stage, turn // stages & 1)
                with k.wgmma.group():
                    multiply(k, acc, ta.at(stage), tb.at(stage))
                with k.if_(k.thread_id() % 128 == 0):
                    k.mbarrier.arrive(empty + stage)
                turn += 1
            k.barrier.arrive(2 - me, 256)
            k.store_accumulator(acc, c + tile * 4096, 64)
            turn += steps
        with k.if_(me == tiles % 2):
            k.barrier.sync(me + 1, 256)  # the last turn that was given away
