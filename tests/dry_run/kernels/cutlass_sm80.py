"""CUTLASS on sm_80: cp.async in several stages, ldmatrix, mma.sync, fragments loaded a block ahead."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32
from tests.dry_run.kernels.parts import COUNT, OUT, named, product, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "cutlass sm80"
F16 = nvb.Pointer[f16]
MMA = nvb.mma.sync("m16n8k16", f16, f16, f32)
STAGE_BYTES = 64 * 64
"""A stage of one operand: 64 rows of 32 f16."""


def _steps(*counts):
    def launch(steps):
        a, b = small(steps, 64, 32 * steps), small(steps + 1, 64, 32 * steps)
        return Launch(1, (a, b, Out(product(a, b)), steps))

    return lambda: [launch(steps) for steps in counts]


class Tiles:
    """The stages of A and B, 64 x 32 each, rows of four chunks of 16 bytes that change places."""

    def __init__(self, k, stages, steps, a, b):
        self.k, self.depth, self.sources = k, steps * 32, (a, b)
        self.tiles = [k.shared(f16, stages * 64 * 32, align=128, name=name) for name in "ab"]
        self.thread = k.thread_id()
        self.lane, self.warp = self.thread % 32, self.thread // 32

    def place(self, tile, stage, row, chunk):
        return tile.byte_offset(stage * STAGE_BYTES + row * 64 + (chunk ^ (row // 2 % 4)) * 16, align=16)

    def fill(self, step, stage, operands=(0, 1), rows=(0, 32)):
        for operand in operands:
            for low in rows:
                row, chunk = self.thread // 4 + low, self.thread % 4
                source = self.sources[operand] + (row * self.depth + step * 32 + chunk * 8)
                self.k.cp_async.copy(self.place(self.tiles[operand], stage, row, chunk), source, 16, cache="cg")

    def fragments(self, stage, part):
        k, lane = self.k, self.lane
        rows = self.warp * 16 + lane % 16
        of_a = k.mma.ldmatrix(self.place(self.tiles[0], stage, rows, lane // 16 + 2 * part), 4)
        rows, chunk = lane % 8 + lane // 16 * 8, lane // 8 % 2 + 2 * part
        words = [k.mma.ldmatrix(self.place(self.tiles[1], stage, n * 16 + rows, chunk), 4) for n in range(4)]
        return of_a, [word for four in words for word in four]


class Sums:
    """A warp's 16 rows of C."""

    def __init__(self, k):
        self.k = k
        self.cells = [[k.var(0.0, f32) for _ in range(4)] for _ in range(8)]

    def multiply(self, a, b):
        for n, cells in enumerate(self.cells):
            sums = self.k.mma.sync(MMA, a, b[2 * n : 2 * n + 2], [cell.value for cell in cells])
            for cell, value in zip(cells, sums, strict=True):
                cell.set(value)

    def store(self, c, warp, lane, pitch=64):
        for n, cells in enumerate(self.cells):
            for lower in range(2):
                row, column = warp * 16 + lane // 4 + 8 * lower, n * 8 + lane % 4 * 2
                (c + (row * pitch + column)).store(*[cell.value for cell in cells[2 * lower : 2 * lower + 2]])


@scene(
    STYLE,
    _steps(1, 2, 4, 9),
    why="Empty groups are committed past the end, so that the wait's number stays right.",
    leaves_one_group_more=Mistake("cp-async", "The wait leaves as many groups as there are stages ahead."),
    no_group_past_the_end=Mistake("cp-async", "Past the end no group is committed, and the waits count too many."),
    no_barrier=Mistake("cp-async", "The other threads' copies are read, and overwritten, with no barrier of the CTA."),
    barrier_before_the_wait=Mistake("cp-async", "Each thread waits for its own copies after the barrier of the CTA."),
    fills_the_stage_that_is_read=Mistake("refilled-early", "The stage that is filled is the one that is read next."),
    fills_before_the_barrier=Mistake("refilled-early", "The stage is filled before all have read it: step by step."),
    write_wraps_one_stage_early=Mistake("ring-index", "The stage that is written wraps at one less than there are."),
    write_wraps_one_stage_late=Mistake("ring-index", "The stage that is written wraps at one more than there are."),
    prologue_a_stage_short=Mistake("unwritten", "The prologue leaves out the last stage that it has to fill."),
)
@nvb.kernel("sm_80", threads=128)
def multistage(k, a: F16, b: F16, c: OUT, steps: COUNT, *, mistake=None):
    """smem_pipe_read and smem_pipe_write, counted up and set back."""
    stages, wrong = 4, named(mistake)
    tiles, sums = Tiles(k, stages, steps, a, b), Sums(k)
    ahead = stages - 1
    for step in range(ahead):
        if not (wrong("prologue_a_stage_short") and step == ahead - 1):
            with k.if_(step < steps):
                tiles.fill(k.const(step, i32), step)
        k.cp_async.commit_group()
    read, write = k.var(0), k.var(0 if wrong("fills_the_stage_that_is_read") else ahead)
    with k.range(steps) as step:
        pending = ahead if wrong("leaves_one_group_more") else ahead - 1

        def fill():
            with k.if_(step + ahead < steps):
                tiles.fill(step + ahead, write)
                if wrong("no_group_past_the_end"):
                    k.cp_async.commit_group()
            if not wrong("no_group_past_the_end"):
                k.cp_async.commit_group()

        if wrong("fills_before_the_barrier"):
            fill()
            pending += 1
        if wrong("barrier_before_the_wait"):
            k.barrier.sync()
        k.cp_async.wait_group(pending)
        if not wrong("no_barrier") and not wrong("barrier_before_the_wait"):
            k.barrier.sync()
        if not wrong("fills_before_the_barrier"):
            fill()
        for part in range(2):
            sums.multiply(*tiles.fragments(read, part))
        write += 1
        end = stages + {"write_wraps_one_stage_early": -1, "write_wraps_one_stage_late": 1}.get(mistake, 0)
        with k.if_(write == end):
            write.set(0)
        read += 1
        with k.if_(read == stages):
            read.set(0)
    sums.store(c, tiles.warp, tiles.lane)


@scene(
    STYLE,
    _steps(1, 2, 3, 8),
    why="The next fragments are loaded before the stage is waited for again: they are in a stage that came earlier.",
    next_fragments_before_the_wait=Mistake(
        "cp-async", "The first fragments of the next stage are loaded before its copies are waited for."
    ),
    stage_a_step_behind=Mistake("refilled-early", "The stage just read is filled before the other warps have read it."),
    epilogue_in_the_ring=Mistake("race", "C is staged in the ring, with no barrier after the last fragments are read."),
    reads_the_neighbours_rows=Mistake("race", "A warp copies C out of rows that another warp has staged."),
)
@nvb.kernel("sm_80", threads=128)
def fragments_ahead(k, a: F16, b: F16, c: OUT, steps: COUNT, *, mistake=None):
    """The last block of a stage waits for the next stage and loads its first fragments, as CUTLASS's mainloop does."""
    stages, wrong = 3, named(mistake)
    tiles, sums = Tiles(k, stages, steps, a, b), Sums(k)
    for step in range(stages - 1):
        with k.if_(step < steps):
            tiles.fill(k.const(step, i32), step)
        k.cp_async.commit_group()
    k.cp_async.wait_group(stages - 2)
    k.barrier.sync()
    words = [k.var(word) for of in tiles.fragments(0, 0) for word in of]
    with k.range(steps) as step:
        stage = step % stages
        following = k.select(step + 1 < steps, (step + 1) % stages, stage)
        now = [word.value for word in words]
        second = tiles.fragments(stage, 1)
        written = (step + 3) % stages if wrong("stage_a_step_behind") else (step + 2) % stages
        with k.if_(step + stages - 1 < steps):
            tiles.fill(step + stages - 1, written)
        k.cp_async.commit_group()
        sums.multiply(now[:4], now[4:])
        if wrong("next_fragments_before_the_wait"):
            fresh = [word for of in tiles.fragments(following, 0) for word in of]
        k.cp_async.wait_group(stages - 2)
        k.barrier.sync()
        if not wrong("next_fragments_before_the_wait"):
            fresh = [word for of in tiles.fragments(following, 0) for word in of]
        sums.multiply(*second)
        for word, value in zip(words, fresh, strict=True):
            word.set(value)
    k.cp_async.wait_group(0)
    if not wrong("epilogue_in_the_ring"):
        k.barrier.sync()
    _store_in_halves(k, tiles, sums, c, tiles.warp ^ 1 if wrong("reads_the_neighbours_rows") else tiles.warp)


def _store_in_halves(k, tiles, sums, c, read):
    """C by way of the ring of A: two warps at a time stage their 16 rows of 64 f32, and copy those of warp `read`."""
    lane, warp, staged = tiles.lane, tiles.warp, tiles.tiles[0].cast(f32)
    for turn in range(2):
        with k.if_(warp // 2 == turn):
            mine, source = staged + warp % 2 * 1024, staged + read % 2 * 1024
            for n, cells in enumerate(sums.cells):
                for lower in range(2):
                    place = (lane // 4 + 8 * lower) * 64 + n * 8 + lane % 4 * 2
                    (mine + place).store(*[cell.value for cell in cells[2 * lower : 2 * lower + 2]])
            k.warp.sync()
            with k.range(16) as row:
                (c + ((read * 16 + row) * 64 + lane * 2)).store(*(source + (row * 64 + lane * 2)).load(2))
        k.barrier.sync()


@scene(
    STYLE,
    lambda: [Launch(1, (x := small(3, n, 256, kind=np.float32), Out(x[:, ::-1].copy()), n)) for n in (1, 2, 5)],
    why="The copies arrive at an mbarrier that counts the threads; noinc arrivals are counted by the initialisation.",
    increments=Mistake("accounting", "The copies' arrival raises the count that it then lowers: nobody completes it."),
    arrives_without_the_copies=Mistake("accounting", "Threads arrive themselves: nobody waits for their copies."),
    counts_half=Mistake("accounting", "The count is half of the threads that arrive."),
    parity_of_the_step=Mistake("parity", "The parity is that of the step, and not of the stage's turn."),
    no_way_back=Mistake("refilled-early", "A stage is filled again with no barrier after it was read."),
)
@nvb.kernel("sm_90", threads=256)
def copies_arrive(k, x: OUT, y: OUT, rows: COUNT, *, mistake=None):
    """y is x with each row of 256 turned round: cp.async.mbarrier.arrive.noinc in a ring of two."""
    stages, wrong = 2, named(mistake)
    buffers = k.shared(f32, stages * 256, align=16, name="rows")
    full = k.mbarrier.array(stages, arrivals=128 if wrong("counts_half") else 256, name="full")
    k.mbarrier.ready()
    thread = k.thread_id()

    def fetch(row):
        stage = row % stages
        k.cp_async.copy(buffers + (stage * 256 + thread), x + (row * 256 + thread), 4)
        if wrong("arrives_without_the_copies"):
            k.mbarrier.arrive(full + stage)
        else:
            k.cp_async.mbarrier_arrive(full + stage, no_increment=not wrong("increments"))

    fetch(k.const(0, i32))
    with k.range(rows) as row:
        stage = row % stages
        with k.if_(row + 1 < rows):
            fetch(row + 1)
        parity = row % 2 if wrong("parity_of_the_step") else row // stages % 2
        k.mbarrier.wait(full + stage, parity)
        y[row * 256 + thread] = buffers[stage * 256 + 255 - thread]
        if not wrong("no_way_back"):
            k.barrier.sync()
