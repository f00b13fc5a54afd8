"""CUTLASS on sm_90: pipelines of mbarriers by hand, warp-specialised and persistent, cooperative and in turns."""

from __future__ import annotations

import nvbackend as nvb
from tests.dry_run.kernels.parts import (
    COUNT,
    MATRIX,
    OUT,
    TALL,
    TALL_MATRIX,
    TILE,
    State,
    gemm,
    multiply,
    named,
    store_chunks,
)
from tests.dry_run.registry import Mistake, scene

STYLE = "cutlass sm90"


@scene(
    STYLE,
    lambda: [gemm(2, 5, 4, 5, 4, tile=128), gemm(1, 1, 1, 1, 1, tile=128), gemm(1, 2, 7, 2, 7, tile=128)],
    why="The producer begins with phase 1; a stage is given back one step late; its state runs on from tile to tile.",
    releases_what_it_multiplies=Mistake(
        "released-early", "The stage that is given back is the one that the group in flight still reads."
    ),
    leaves_two_in_flight=Mistake("released-early", "The wait leaves two groups, and the older stage is given back."),
    releases_early_in_the_last_tile=Mistake(
        "released-early", "The second consumer gives back the newest stage, in its last tile only."
    ),
    consumer_begins_anew=Mistake("parity", "The consumers' stage and phase restart with each tile."),
    producer_begins_anew=Mistake("parity", "The producer's stage and phase restart with each tile."),
    consumers_wrap_one_stage_early=Mistake("parity", "The consumers' stage wraps after two of three."),
    empty_counts_one_consumer=Mistake("accounting", "Empty completes with the first of two consumers."),
    bytes_of_one_operand=Mistake("accounting", "The bytes of A alone are announced; those of B come too."),
    keeps_the_last_stage=Mistake("undrained", "The last stage of a tile is not given back."),
    producer_a_tile_short=Mistake("undrained", "The producer leaves out the last tile of all."),
    one_consumer_does_not_wait=Mistake("read-before-wait", "The second consumer multiplies without waiting for full."),
    index_by_mask=Mistake("ring-index", "The stage is counted by a mask, and three stages are no power of two."),
)
@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def cooperative_persistent(k, a: TALL_MATRIX, b: MATRIX, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    stages, wrong = 3, named(mistake)
    ta, tb = k.shared_tiles(TALL, stages, name="a"), k.shared_tiles(TILE, stages, name="b")
    full = k.mbarrier.array(stages, arrivals=1, name="full")
    empty = k.mbarrier.array(stages, arrivals=1 if wrong("empty_counts_one_consumer") else 2, name="empty")
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(40)
        with k.one_thread():
            write = _state(k, wrong, stages, 1)
            end = tiles - 1 if wrong("producer_a_tile_short") else tiles
            with k.range(k.block_id(), end, k.block_count(), name="tile") as tile:
                if wrong("producer_begins_anew"):
                    write = _state(k, wrong, stages, 1)
                with k.range(steps) as step:
                    k.mbarrier.wait(empty + write.index, write.phase)
                    here = full + write.index
                    k.mbarrier.arrive(here, expect_tx=TALL.bytes + TILE.bytes * (not wrong("bytes_of_one_operand")))
                    k.tma.load(ta.at(write.index), a, (tile * 128, step * 64), here)
                    k.tma.load(tb.at(write.index), b, (0, step * 64), here)
                    write.advance()
    with k.else_():
        k.setmaxnreg.inc(232)
        _cooperate(k, wrong, stages, (ta, tb, full, empty), c, tiles, steps)


def _state(k, wrong, stages, phase=0):
    """A producer's state begins with phase 1."""
    made = State(k, stages, phase, wraps_at=2 if wrong("consumers_wrap_one_stage_early") and not phase else None)
    if wrong("index_by_mask"):
        made.advance = lambda: made.count_by_mask(stages)
    return made


def _cooperate(k, wrong, stages, ring, c, tiles, steps):
    """A consumer: 64 rows of each tile, the stage before is given back while a group is in flight."""
    ta, tb, full, empty = ring
    me, first = k.warpgroup_id() - 1, k.thread_id() % 128 == 0
    acc = k.wgmma.accumulator(64)
    read, release = (_state(k, wrong, stages) for _ in range(2))

    def begin():
        if wrong("one_consumer_does_not_wait"):
            with k.if_(me == 0):
                k.mbarrier.wait(full + read.index, read.phase)
        else:
            k.mbarrier.wait(full + read.index, read.phase)
        k.wgmma.fence()
        multiply(k, acc, ta.at(read.index).rows_from(me, 64), tb.at(read.index))
        k.wgmma.commit_group()

    with k.range(k.block_id(), tiles, k.block_count(), name="tile") as tile:
        if wrong("consumer_begins_anew"):
            read, release = (_state(k, wrong, stages) for _ in range(2))
        early = wrong("releases_what_it_multiplies")
        if wrong("releases_early_in_the_last_tile"):
            early = (me == 1) & (tile + k.block_count() >= tiles)
        acc.clear()
        begin()
        if early is not False:
            k.mbarrier.arrive(empty + read.index, when=first & early)
        read.advance()
        with k.range(steps - 1):
            begin()
            k.wgmma.wait_group(2 if wrong("leaves_two_in_flight") else 1)
            given = release.index if early is False else k.select(early, read.index, release.index)
            k.mbarrier.arrive(empty + given, when=first)
            read.advance()
            release.advance()
        k.wgmma.wait_group(0)
        if early is not True and not wrong("keeps_the_last_stage"):
            k.mbarrier.arrive(empty + release.index, when=first if early is False else first & ~early)
        release.advance()
        k.store_accumulator(acc, c + (tile * 128 + me * 64) * 64, 64)


@scene(
    STYLE,
    lambda: [gemm(*one, half=True) for one in ((1, 3, 3, 3, 3), (2, 5, 2, 5, 2), (1, 1, 1, 1, 1))],
    why="The first consumer's order begins with phase 1.",
    both_begin_with_phase_0=Mistake("parity", "No consumer may begin: both wait for the other's first turn."),
    passes_the_turn_to_itself=Mistake("parity", "A consumer arrives at its own order, and the other never has a turn."),
    forgets_the_others_tile=Mistake("parity", "A consumer does not count the stages of the other one's tile."),
    skips_one_step_of_the_other=Mistake("parity", "It counts one stage too few of the other one's tile."),
    passes_the_buffer_on_before_it_is_read=Mistake(
        "bulk-group", "The other consumer may write the staging buffer while the store still reads it."
    ),
    no_fence_before_the_store=Mistake("proxy-fence", "The store reads what the generic proxy wrote, with no fence."),
    no_barrier_before_the_store=Mistake("race", "One thread stores before the others have written the buffer."),
    order_counts_one_warp=Mistake("accounting", "The order counts 32 arrivals and 128 threads arrive."),
)
@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def ordered_turns(k, a: MATRIX, b: MATRIX, c: MATRIX, tiles: COUNT, steps: COUNT, *, mistake=None):
    """Ping-pong by mbarriers of order; both consumers store through one buffer, whose turns are ordered as well."""
    stages, wrong = 4, named(mistake)
    ta, tb = (k.shared_tiles(TILE, stages, name=name) for name in "ab")
    staging = k.shared_tile(TILE, name="staging")
    full, empty = (k.mbarrier.array(stages, arrivals=1, name=name) for name in ("full", "empty"))
    order = k.mbarrier.array(2, arrivals=32 if wrong("order_counts_one_warp") else 128, name="order")
    store_order = k.mbarrier.array(2, arrivals=128, name="store_order")
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread():
        write = State(k, stages, 1)
        with k.range(k.block_id(), tiles, k.block_count()) as tile, k.range(steps) as step:
            k.mbarrier.wait(empty + write.index, write.phase)
            k.mbarrier.arrive(full + write.index, expect_tx=2 * TILE.bytes)
            k.tma.load(ta.at(write.index), a, (tile * 64, step * 64), full + write.index)
            k.tma.load(tb.at(write.index), b, (0, step * 64), full + write.index)
            write.advance()
    with k.else_():
        _in_turns(k, wrong, (ta, tb, full, empty), (order, store_order), (staging, c), tiles, steps)


def _in_turns(k, wrong, ring, orders, output, tiles, steps):
    """A consumer: every second tile of the CTA, whole."""
    (ta, tb, full, empty), (order, store_order), (staging, c) = ring, orders, output
    me, first = k.warpgroup_id() - 1, k.thread_id() % 128 == 0
    acc = k.wgmma.accumulator(64)
    read = State(k, 4)

    def skip(count):
        with k.range(count):
            read.advance()

    with k.if_(me == 1):
        skip(steps)
    turn = k.var(0 if wrong("both_begin_with_phase_0") else 1 - me)
    other = me if wrong("passes_the_turn_to_itself") else 1 - me
    with k.range(k.block_id() + me * k.block_count(), tiles, 2 * k.block_count()) as tile:
        k.mbarrier.wait(order + me, turn)
        acc.clear()
        with k.range(steps):
            k.mbarrier.wait(full + read.index, read.phase)
            with k.wgmma.group():
                multiply(k, acc, ta.at(read.index), tb.at(read.index))
            k.mbarrier.arrive(empty + read.index, when=first)
            read.advance()
        k.mbarrier.arrive(order + other)
        k.mbarrier.wait(store_order + me, turn)
        store_chunks(k, staging, acc)
        if not wrong("no_fence_before_the_store"):
            k.fence.proxy_async()
        if not wrong("no_barrier_before_the_store"):
            k.barrier.sync(1 + me, 128)
        with k.if_(first):
            k.tma.store(c, (tile * 64, 0), staging)
            k.tma.commit_group()
            if not wrong("passes_the_buffer_on_before_it_is_read"):
                k.tma.wait_group(reading=True)
        k.barrier.sync(1 + me, 128)
        k.mbarrier.arrive(store_order + (1 - me))
        turn ^= 1
        if not wrong("forgets_the_others_tile"):
            skip(steps - 1 if wrong("skips_one_step_of_the_other") else steps)
    with k.if_(first):
        k.tma.wait_group()
