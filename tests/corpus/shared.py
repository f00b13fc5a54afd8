"""Ordinary shared memory and barriers of threads: transposes, reductions, scans, sorts, cp.async, named barriers."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from tests.corpus.parts import warp_sum

F32, I32, U32 = nvb.Pointer(f32), nvb.Pointer(i32), nvb.Pointer(u32)
PITCH = 33
"""A row of a 32 x 32 tile whose columns are in different banks."""


@nvb.kernel("sm_80", threads=256)
def transpose(k, x: F32, y: F32, rows: i32, count: i32):
    """y (32 * count x rows) from x (32 x 32 * count), a tile a round, two barriers."""
    tile = k.shared(f32, 32 * PITCH, name="tile")
    across, down = k.thread_id() % 32, k.thread_id() // 32
    with k.range(count) as block:
        for row in range(0, 32, 8):
            tile[(down + row) * PITCH + across] = x[(down + row) * (count * 32) + block * 32 + across]
        k.barrier.sync()
        for row in range(0, 32, 8):
            y[(block * 32 + down + row) * rows + across] = tile[across * PITCH + down + row]
        k.barrier.sync()


@nvb.kernel("sm_80", threads=256)
def transpose_with_two_buffers(k, x: F32, y: F32, rows: i32, count: i32):
    """The same with one barrier a round: who is two rounds ahead has passed the barrier between."""
    tiles = k.shared(f32, 2 * 1024, name="tiles")
    across, down = k.thread_id() % 32, k.thread_id() // 32
    with k.range(count) as block:
        tile = tiles + (block & 1) * 1024
        for row in range(0, 32, 8):
            tile[(down + row) * 32 + (across ^ (down + row))] = x[(down + row) * (count * 32) + block * 32 + across]
        k.barrier.sync()
        for row in range(0, 32, 8):
            y[(block * 32 + down + row) * rows + across] = tile[across * 32 + ((down + row) ^ across)]


@nvb.kernel("sm_80", threads=128)
def transpose_warp_by_warp(k, x: F32, y: F32):
    """Four tiles of 32 x 32, each of one warp, which waits for nobody else."""
    tile = k.shared(f32, 4 * 32 * PITCH, name="tile")
    lane, warp = k.thread_id() % 32, k.thread_id() // 32
    mine = tile + warp * (32 * PITCH)
    with k.range(32) as row:
        mine[row * PITCH + lane] = x[(warp * 32 + row) * 32 + lane]
    k.warp.sync()
    with k.range(32) as row:
        y[(warp * 32 + row) * 32 + lane] = mine[lane * PITCH + row]


@nvb.kernel("sm_80", threads=128)
def normalised_rows(k, x: F32, y: F32, columns: i32):
    """Each row less its mean, over its deviation: two sums over the CTA through the same four words."""
    parts = k.shared(f32, 4, name="parts")
    thread = k.thread_id()
    given, out = x + k.block_id() * columns, y + k.block_id() * columns

    def total(value):
        value = warp_sum(k, value)
        k.barrier.sync()
        with k.if_(thread % 32 == 0):
            parts[thread // 32] = value
        k.barrier.sync()
        return parts[0] + parts[1] + parts[2] + parts[3]

    summed = k.var(0.0, f32)
    with k.range(thread, columns, 128) as column:
        summed += given[column]
    mean = total(summed.value) / columns.to(f32)
    squares = k.var(0.0, f32)
    with k.range(thread, columns, 128) as column:
        off = given[column] - mean
        squares += off * off
    factor = k.math.rsqrt(total(squares.value) / columns.to(f32))
    with k.range(thread, columns, 128) as column:
        out[column] = (given[column] - mean) * factor


@nvb.kernel("sm_80", threads=256)
def sum_in_a_tree(k, x: F32, y: F32):
    """Halving, in a loop that a variable counts; one atomic a CTA."""
    words = k.shared(f32, 256, name="words")
    thread = k.thread_id()
    words[thread] = x[k.block_id() * 256 + thread]
    k.barrier.sync()
    half = k.var(128)
    with k.loop():
        k.break_if(half == 0)
        with k.if_(thread < half):
            words[thread] = words[thread] + words[thread + half]
        k.barrier.sync()
        half.set(half >> 1)
    with k.if_(thread == 0):
        y.atomic("add", words[0])


@nvb.kernel("sm_80", threads=128)
def running_sum(k, x: I32, y: I32):
    """Hillis and Steele: from one half of the buffer to the other and back."""
    words = k.shared(i32, 256, name="words")
    thread, source = k.thread_id(), 0
    words[thread] = x[thread]
    k.barrier.sync()
    for distance in (1, 2, 4, 8, 16, 32, 64):
        value = k.var(words[source + thread])
        with k.if_(thread >= distance):
            value += words[source + thread - distance]
        words[128 - source + thread] = value
        k.barrier.sync()
        source = 128 - source
    y[thread] = words[source + thread]


@nvb.kernel("sm_80", threads=128)
def bitonic_sort(k, x: I32):
    words = k.shared(i32, 256, name="words")
    thread = k.thread_id()
    for half in (0, 128):
        words[thread + half] = x[thread + half]
    for size in (2, 4, 8, 16, 32, 64, 128, 256):
        distance = size // 2
        while distance:
            k.barrier.sync()
            place = 2 * thread - (thread & (distance - 1))
            low, high = words[place], words[place + distance]
            swap = (low > high) == ((place & size) == 0)
            words[place] = k.select(swap, high, low)
            words[place + distance] = k.select(swap, low, high)
            distance //= 2
    k.barrier.sync()
    for half in (0, 128):
        x[thread + half] = words[thread + half]


@nvb.kernel("sm_80", threads=256)
def histogram(k, x: U32, y: U32, count: i32):
    bins = k.shared(u32, 256, name="bins")
    thread = k.thread_id()
    bins[thread] = 0
    k.barrier.sync()
    with k.range(k.block_id() * 256 + thread, count, k.block_count() * 256) as index:
        (bins + (x[index] & 255)).atomic("add", 1)
    k.barrier.sync()
    (y + thread).atomic("add", bins[thread])


@nvb.kernel("sm_80", threads=256)
def counted_by_all_threads(k, x: U32, y: U32, count: i32):
    """y[0] is how many of the first elements are odd, y[1] how many there are."""
    counts = k.shared(u32, 2, name="counts")
    thread = k.thread_id()
    with k.if_(thread < 2):
        counts[thread] = 0
    k.barrier.sync()
    with k.if_(thread < count):
        counts.atomic("add", x[thread] & 1)
        (counts + 1).atomic("add", 1)
    k.barrier.sync()
    with k.if_(thread < 2):
        y[thread] = counts[thread]


@nvb.kernel("sm_80", threads=128)
def handed_over_by_named_barriers(k, x: F32, y: F32, count: i32):
    """Two warps fill, two empty: bar.arrive and bar.sync of two buffers. y is x, each 64 of it turned round."""
    buffers = k.shared(f32, 128, name="buffers")
    thread = k.thread_id()
    with k.if_(thread < 64), k.range(count) as step:
        with k.if_(step >= 2):
            k.barrier.sync(3 + step % 2, 128)
        buffers[step % 2 * 64 + thread] = x[step * 64 + thread]
        k.barrier.arrive(1 + step % 2, 128)
    with k.else_(), k.range(count) as step:
        k.barrier.sync(1 + step % 2, 128)
        y[step * 64 + thread - 64] = buffers[step % 2 * 64 + 127 - thread]
        with k.if_(step + 2 < count):
            k.barrier.arrive(3 + step % 2, 128)


@nvb.kernel("sm_80", threads=128)
def work_from_a_counter(k, counter: I32, x: F32, count: i32):
    """One thread asks for work, the others learn of it; the loop ends for all of them together."""
    slot = k.shared(i32, 1, name="slot")
    thread = k.thread_id()
    with k.loop():
        with k.if_(thread == 0):
            slot[0] = counter.atomic("add", 1)
        k.barrier.sync()
        work = slot[0]
        k.barrier.sync()
        k.break_if(work >= count)
        x[work * 128 + thread] = x[work * 128 + thread] + 1.0


@nvb.kernel("sm_80", threads=128)
def cp_async_and_fragments(k, a: nvb.Pointer[f16], b: nvb.Pointer[f16], c: F32, steps: i32):
    """C (64 x 64) = A * B^T, 32 along K a step: three stages of cp.async, the next fragments loaded before the mma."""
    stages, depth = 3, steps * 32
    tiles = [k.shared(f16, stages * 64 * 32, align=128, name=name) for name in "ab"]
    thread = k.thread_id()
    lane, warp = thread % 32, thread // 32

    def place(tile, stage, row, chunk):
        return tile.byte_offset(stage * 4096 + row * 64 + (chunk ^ (row // 2 % 4)) * 16, align=16)

    def fill(step):
        for source, tile in zip((a, b), tiles, strict=True):
            for row in (thread // 4, thread // 4 + 32):
                first = source + (row * depth + step * 32 + thread % 4 * 8)
                k.cp_async.copy(place(tile, step % stages, row, thread % 4), first, 16, cache="cg")

    def fragments(stage, part):
        rows = warp * 16 + lane % 16
        of_a = k.mma.ldmatrix(place(tiles[0], stage, rows, lane // 16 + 2 * part), 4)
        rows = lane % 8 + lane // 16 * 8
        chunk = lane // 8 % 2 + 2 * part
        return of_a, [
            word for n in range(4) for word in k.mma.ldmatrix(place(tiles[1], stage, n * 16 + rows, chunk), 4)
        ]

    for step in range(stages - 1):
        with k.if_(step < steps):
            fill(k.const(step, i32))
        k.cp_async.commit_group()
    mma = nvb.mma.sync("m16n8k16", f16, f16, f32)
    acc = [[k.var(0.0, f32) for _ in range(4)] for _ in range(8)]
    with k.range(steps) as step:
        k.cp_async.wait_group(stages - 2)
        k.barrier.sync()
        with k.if_(step + (stages - 1) < steps):
            fill(step + (stages - 1))
        k.cp_async.commit_group()
        now = fragments(step % stages, 0)
        for later in (fragments(step % stages, 1), None):
            for n, cells in enumerate(acc):
                found = k.mma.sync(mma, now[0], now[1][2 * n : 2 * n + 2], [cell.value for cell in cells])
                for cell, value in zip(cells, found, strict=True):
                    cell.set(value)
            now = later
    for n, cells in enumerate(acc):
        for lower in range(2):
            row, column = warp * 16 + lane // 4 + 8 * lower, n * 8 + lane % 4 * 2
            (c + (row * 64 + column)).store(*[cell.value for cell in cells[2 * lower : 2 * lower + 2]])
