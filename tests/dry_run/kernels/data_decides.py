"""Kernels that branch on data: sorts, schedulers that hand out work; and tensor memory that threads store to."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32, u32
from tests.dry_run.kernels.parts import COUNT, OUT, State, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "data decides"
I32 = nvb.Pointer(i32)


def _sorted():
    x = np.random.default_rng(3).integers(0, 1000, 128).astype(np.int32)
    return [Launch(1, (x, Out(np.sort(x))))]


@scene(
    STYLE,
    _sorted,
    why="Whether two elements change places is up to the data, where the barriers are is not.",
    no_last_barrier=Mistake("race", "The result is read with no barrier after the last exchange."),
    one_barrier_a_size=Mistake("race", "The barrier is in the outer loop."),
    barrier_of_a_warp=Mistake("race", "Warps meet alone, whose elements other warps exchange."),
    exchanged_one_too_far=Mistake("ring-index", "What goes up is stored an element too far, past the end at last."),
)
@nvb.kernel("sm_75", threads=64)
def bitonic(k, x: I32, y: I32, *, mistake=None):
    wrong, thread = named(mistake), k.thread_id()
    words = k.shared(i32, 128, name="words")
    words[thread] = x[thread]
    words[thread + 64] = x[thread + 64]
    size = k.var(2)
    with k.loop():
        k.break_if(size > 128)
        stride = k.var(size >> 1)
        if wrong("one_barrier_a_size"):
            k.barrier.sync()
        with k.loop():
            k.break_if(stride == 0)
            if wrong("barrier_of_a_warp"):
                k.warp.sync()
            elif not wrong("one_barrier_a_size"):
                k.barrier.sync()
            place = 2 * thread - (thread & (stride - 1))
            low, high = words[place], words[place + stride]
            with k.if_((low > high) == ((thread & (size >> 1)) == 0)):
                words[place] = high
                words[place + stride] = low
            if wrong("exchanged_one_too_far"):
                words[place + stride + 1] = words[place + stride]
            stride.set(stride >> 1)
        size.set(size << 1)
    if not wrong("no_last_barrier"):
        k.barrier.sync()
    y[thread] = words[thread]
    y[thread + 64] = words[thread + 64]


def _scheduled(*counts):
    def launch(grid, tiles):
        x = small(tiles, tiles, 128, kind=np.float32)
        return Launch(grid, (x, Out(x * 2), np.zeros(1, np.int32), tiles))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _scheduled((1, 1), (2, 7)),
    why="The loops end by a number from global memory, which all warps read from one place.",
    does_not_wait_for_the_tile=Mistake("parity", "The number is read, and given back, with no wait for the scheduler."),
    given_back_before_it_is_read=Mistake("race", "The place is given back before the number is read."),
    scheduler_does_not_wait=Mistake("refilled-early", "The scheduler does not wait until the place is given back."),
    counts_one_warp=Mistake("accounting", "The place is given back with the arrivals of one warp of four."),
)
@nvb.kernel("sm_90", threads=160)
def scheduled(k, x: OUT, y: OUT, counter: I32, tiles: COUNT, *, mistake=None):
    """One warp takes numbers of tiles from a counter, four others work on them."""
    wrong, thread = named(mistake), k.thread_id()
    number = k.shared(i32, 2, name="number")
    full = k.mbarrier.array(2, arrivals=1, name="full")
    empty = k.mbarrier.array(2, arrivals=32 if wrong("counts_one_warp") else 128, name="empty")
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 4), k.if_(thread == 128):
        write = State(k, 2, 1)
        with k.loop():
            if not wrong("scheduler_does_not_wait"):
                k.mbarrier.wait(empty + write.index, write.phase)
            tile = counter.atomic("add", 1)
            number[write.index] = tile
            k.mbarrier.arrive(full + write.index)
            k.break_if(tile >= tiles)
            write.advance()
    with k.else_():
        read = State(k, 2)
        with k.loop():
            if not wrong("does_not_wait_for_the_tile"):
                k.mbarrier.wait(full + read.index, read.phase)
            if wrong("given_back_before_it_is_read"):
                k.mbarrier.arrive(empty + read.index)
            tile = number[read.index]
            if not wrong("given_back_before_it_is_read"):
                k.mbarrier.arrive(empty + read.index)
            k.break_if(tile >= tiles)
            y[tile * 128 + thread] = x[tile * 128 + thread] * 2.0
            read.advance()


def _through():
    x = small(1, 128, 64, kind=np.float32)
    return [Launch(1, (x, Out(x)))]


@scene(
    STYLE,
    _through,
    why="No shared memory is written: tensor memory alone is.",
    half_is_stored=Mistake("tensor-memory", "Half of the columns are stored, all are loaded."),
    every_other_part_is_stored=Mistake("tensor-memory", "Eight columns of sixteen are stored, all are loaded."),
    no_wait=Mistake("tensor-memory", "The columns are loaded with no wait for the stores."),
)
@nvb.kernel("sm_100a", threads=128)
def through_tensor_memory(k, x: OUT, y: OUT, *, mistake=None):
    wrong, thread = named(mistake), k.thread_id()
    with k.tcgen05.tmem(64) as columns:
        mine = columns.lanes(k.warp_id() * 32)
        parts = range(0, 32, 16 if wrong("every_other_part_is_stored") else 8)
        with k.range(1 if wrong("half_is_stored") else 2) as half:
            for part in parts:
                words = [x[thread * 64 + half * 32 + part + index].bitcast(u32) for index in range(8)]
                k.tcgen05.st(columns.columns(half * 32 + part, 8).lanes(k.warp_id() * 32), "32x32b", words)
        if not wrong("no_wait"):
            k.tcgen05.wait_st()
        loaded = k.tcgen05.ld(mine, "32x32b", 64)
        k.tcgen05.wait_ld(loaded)
        for index, value in enumerate(loaded.values):
            y[thread * 64 + index] = value.bitcast(f32)


def _doubled(*counts):
    def launch(rows):
        x = small(rows, rows, 256, kind=np.float32)
        return Launch(1, (x, Out(x * 2), rows))

    return lambda: [launch(rows) for rows in counts]


@scene(
    STYLE,
    _doubled(1, 2, 7),
    why="The rows are worked on by a loop of their own, so that they look like tiles of a few steps.",
    fills_two_whatever_there_is=Mistake("undrained", "Two rows are loaded first, though there may be one."),
)
@nvb.kernel("sm_90a", threads=128)
def doubled_rows(k, x: OUT, y: OUT, rows: nvb.i32(minimum=1), *, mistake=None):
    wrong, thread = named(mistake), k.thread_id()
    buffers = k.shared(f32, 3 * 256, align=128, name="buffers")
    full = k.mbarrier.array(3, arrivals=1, name="full")
    k.mbarrier.ready()

    def load(row):
        k.mbarrier.arrive(full + row % 3, expect_tx=1024)
        k.bulk.load(buffers + row % 3 * 256, x + row * 256, 1024, full + row % 3)

    with k.if_(thread == 0), k.range(2 if wrong("fills_two_whatever_there_is") else k.math.min(rows, 2)) as row:
        load(row)
    with k.range(rows) as row:
        k.mbarrier.wait(full + row % 3, row // 3 & 1)
        with k.range(thread, 256, 128) as index:
            y[row * 256 + index] = buffers[row % 3 * 256 + index] * 2.0
        k.barrier.sync()
        with k.if_((thread == 0) & (row + 2 < rows)):
            load(row + 2)
