"""Arrays that hold as much as a parameter says, whose author launches with what fits: nothing in the kernel says so.

And memory that is carved by hand, where only offsets keep mbarriers and data apart.
"""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32, u8, u64
from tests.dry_run.kernels.parts import COUNT, OUT, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "promised sizes"


def _centred(*counts):
    def launch(rows, count):
        x = small(rows, rows, count, kind=np.float32)
        return Launch(rows, (x, Out(x - x.sum(axis=1, keepdims=True)), count))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _centred((2, 256), (3, 200)),
    why="A row of at most 256 elements is kept in shared memory; what lies behind it is another array.",
    no_barrier=Mistake("race", "The row is read with no barrier after it is written."),
    sums_without_barrier=Mistake("race", "The sums of the warps are read with no barrier."),
)
@nvb.kernel("sm_80", threads=128)
def kept_row(k, x: OUT, y: OUT, count: COUNT, *, mistake=None):
    """y is each element less the sum of its row."""
    wrong, thread = named(mistake), k.thread_id()
    row, sums = k.shared(f32, 256, name="row"), k.shared(f32, 4, name="sums")
    first = k.block_id() * count
    with k.range(thread, count, 128) as i:
        row[i] = x[first + i]
    if not wrong("no_barrier"):
        k.barrier.sync()
    total = k.var(0.0, f32)
    with k.range(thread, count, 128) as i:
        total += row[count - 1 - i]
    for distance in (16, 8, 4, 2, 1):
        total += k.warp.shuffle(total, "bfly", distance)
    with k.if_(k.lane_id() == 0):
        sums[k.warp_id()] = total
    if not wrong("sums_without_barrier"):
        k.barrier.sync()
    whole = sums[0] + sums[1] + sums[2] + sums[3]
    with k.range(thread, count, 128) as i:
        y[first + i] = row[i] - whole


def _mirrored(*counts):
    def launch(steps):
        x = small(steps, steps, 128, kind=np.float32)
        return Launch(1, (x, Out(x[:, ::-1].copy()), steps))

    return lambda: [launch(steps) for steps in counts]


@scene(
    STYLE,
    _mirrored(4, 3, 1),
    why="Each of at most four chunks has a buffer and an mbarrier of its own, so nothing is used twice.",
    no_wait=Mistake("read-before-wait", "The chunks are read with no wait for their bytes."),
)
@nvb.kernel("sm_90", threads=128)
def all_at_once(k, x: OUT, y: OUT, steps: COUNT, *, mistake=None):
    """y is x with each chunk mirrored."""
    wrong, thread = named(mistake), k.thread_id()
    chunks = k.shared(f32, 4 * 128, name="chunks", align=128)
    full = k.mbarrier.array(4, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.if_(thread == 0), k.range(steps) as step:
        k.mbarrier.arrive(full + step, expect_tx=512)
        k.bulk.load(chunks + step * 128, x + step * 128, 512, full + step)
    with k.range(steps) as step:
        if not wrong("no_wait"):
            k.mbarrier.wait(full + step, 0)
        y[step * 128 + thread] = chunks[step * 128 + 127 - thread]


def _rolled(*shifts):
    def launch(shift):
        x = small(shift, 128, kind=np.float32)
        return Launch(1, (x, Out(np.roll(x[::-1], -shift)), shift))

    return lambda: [launch(shift) for shift in shifts]


@scene(
    STYLE,
    _rolled(0, 5, 127),
    why="The shift is less than a row, so that one subtraction brings each index back.",
    no_barrier=Mistake("race", "The row is read with no barrier after it is written."),
)
@nvb.kernel("sm_80", threads=128)
def rolled(k, x: OUT, y: OUT, shift: i32, *, mistake=None):
    """y is x mirrored, and moved by some places."""
    wrong, thread = named(mistake), k.thread_id()
    row = k.shared(f32, 128, name="row")
    row[thread] = x[thread]
    if not wrong("no_barrier"):
        k.barrier.sync()
    index = k.var(thread + shift)
    with k.if_(index >= 128):
        index -= 128
    y[thread] = row[127 - index]


@scene(
    STYLE,
    _mirrored(8, 3, 1),
    why="The last array lies behind the ring, and nothing but the ring's index keeps them apart.",
    mask=Mistake("ring-index", "The index of three buffers is a mask, which reaches the array behind them."),
    remainder=Mistake("ring-index", "The remainder is that of four buffers, and there are three."),
    wraps_late=Mistake("ring-index", "The counter begins again one buffer late."),
)
@nvb.kernel("sm_80", threads=128)
def ring_and_tail(k, x: OUT, y: OUT, steps: COUNT, *, mistake=None):
    """y is x with each chunk mirrored."""
    wrong, thread = named(mistake), k.thread_id()
    ring, tail = k.shared(f32, 3 * 128, name="ring"), k.shared(f32, 256, name="tail")
    tail[thread] = 1.0
    tail[thread + 128] = 1.0
    counter = k.var(0)
    with k.range(steps) as step:
        slot = step & 3 if wrong("mask") else step % 4 if wrong("remainder") else counter.value
        ring[slot * 128 + thread] = x[step * 128 + thread]
        k.barrier.sync()
        y[step * 128 + thread] = ring[slot * 128 + 127 - thread] * tail[127 - thread] * tail[255 - thread]
        last = 3 if wrong("wraps_late") else 2
        counter.set(k.select(counter == last, 0, counter + 1))


def _some(*counts):
    def launch(active):
        x = small(active, 128, kind=np.float32)
        return Launch(1, (x, Out(np.concatenate([x[:active][::-1], np.zeros(128 - active, np.float32)])), active))

    return lambda: [launch(active) for active in counts]


@scene(
    STYLE,
    _some(64, 96, 128),
    why="Whole warps take part, as many as a parameter says, and it is at most the threads of the CTA.",
)
@nvb.kernel("sm_80", threads=128)
def some_warps(k, x: OUT, y: OUT, active: i32, *, mistake=None):
    """y is the first elements of x mirrored."""
    del mistake
    thread, row = k.thread_id(), k.shared(f32, 128, name="row")
    with k.if_(thread // 32 < active // 32):
        row[thread] = x[thread]
        k.barrier.sync(1, active, aligned=False)
        y[thread] = row[active - 1 - thread]


@scene(
    STYLE,
    _mirrored(5, 1),
    why="One piece of memory holds the mbarrier and, behind it, the chunk.",
    chunk_begins_at_the_mbarrier=Mistake("ring-index", "The chunk lies where the mbarrier is."),
    stores_from_the_start=Mistake("ring-index", "Threads store from the start of the memory, where the mbarrier is."),
)
@nvb.kernel("sm_90", threads=128)
def carved(k, x: OUT, y: OUT, steps: COUNT, *, mistake=None):
    """y is x with each chunk mirrored."""
    wrong, thread = named(mistake), k.thread_id()
    memory = k.shared(u8, 128 + 2 * 512, name="memory", align=128)
    full = memory.cast(u64)
    chunk = memory.byte_offset(0 if wrong("chunk_begins_at_the_mbarrier") else 128, align=16).cast(f32)
    mirrored = memory.byte_offset(0 if wrong("stores_from_the_start") else 128 + 512, align=16).cast(f32)
    with k.if_(thread == 0):
        k.mbarrier.init(full, 1)
    k.mbarrier.ready()
    with k.range(steps) as step:
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(chunk, x + step * 128, 512, full)
        k.mbarrier.wait(full, step & 1)
        mirrored[127 - thread] = chunk[thread]
        k.barrier.sync()
        y[step * 128 + thread] = mirrored[thread]
        k.barrier.sync()


@scene(
    STYLE,
    _mirrored(9, 3, 1),
    why="The stages are used again: the step's remainder is their index, and its quotient decides the parity.",
    fills_at_the_step=Mistake("ring-index", "The barrier of a fill is that of the step, with no remainder."),
    rows_at_the_step=Mistake("ring-index", "The stage is that of the step, and the barriers are those of a ring."),
    no_remainder=Mistake("ring-index", "Barriers and stages are those of the step; the parity is that of a ring."),
)
@nvb.kernel("sm_90", threads=128)
def ring_of_steps(k, x: OUT, y: OUT, steps: COUNT, *, mistake=None):
    """y is x with each chunk mirrored."""
    wrong, thread = named(mistake), k.thread_id()
    chunks = k.shared(f32, 3 * 128, name="chunks", align=128)
    full = k.mbarrier.array(3, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.range(steps) as step:
        at, parity = step if wrong("no_remainder") else step % 3, step // 3 & 1
        row = chunks + (step if wrong("rows_at_the_step") or wrong("no_remainder") else at) * 128
        with k.if_(thread == 0):
            filled = full + (step if wrong("fills_at_the_step") else at)
            k.mbarrier.arrive(filled, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, filled)
        k.mbarrier.wait(full + at, parity)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


def _mirrored_tiles(*counts):
    def launch(tiles, steps):
        x = small(tiles * steps, tiles * steps, 128, kind=np.float32)
        return Launch(1, (x, Out(x[:, ::-1].copy()), tiles, steps))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _mirrored_tiles((3, 4), (5, 2), (1, 1)),
    why="Each of at most four chunks has a barrier of its own in every tile: its parity is that of the tile.",
    no_barrier=Mistake("refilled-early", "The next tile is filled while slower threads still read this one."),
    variants={"counter": "One variable is the parity, and flips after each tile."},
)
@nvb.kernel("sm_90", threads=128)
def tiles_at_once(k, x: OUT, y: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """y is x with each chunk mirrored."""
    wrong, thread = named(mistake), k.thread_id()
    chunks = k.shared(f32, 4 * 128, name="chunks", align=128)
    full = k.mbarrier.array(4, arrivals=1, name="full")
    k.mbarrier.ready()
    turn = k.var(0)
    with k.range(tiles) as tile:
        place = tile * steps
        with k.if_(thread == 0), k.range(steps) as step:
            k.mbarrier.arrive(full + step, expect_tx=512)
            k.bulk.load(chunks + step * 128, x + (place + step) * 128, 512, full + step)
        with k.range(steps) as step:
            k.mbarrier.wait(full + step, turn.value if wrong("counter") else tile & 1)
            y[(place + step) * 128 + thread] = chunks[step * 128 + 127 - thread]
        if not wrong("no_barrier"):
            k.barrier.sync()
        turn ^= 1
