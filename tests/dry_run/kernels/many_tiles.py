"""Tiles over a grid: steps of the grid's size, clusters taken over from the launch, grids of more dimensions."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32, u32
from tests.dry_run.kernels.few_steps import ROW_BYTES, WIDTH
from tests.dry_run.kernels.parts import COUNT, OUT, named, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "many tiles"


def _turned(*counts):
    """Rows, each turned round; of each launch the grid, the rows and the kernel's arguments."""

    def launch(grid, rows, *arguments):
        x = small(rows, rows, WIDTH, kind=np.float32)
        return Launch(grid, (x, Out(x[:, ::-1].copy()), *arguments))

    return lambda: [launch(*one) for one in counts]


class Tokens:
    """A ring of rows, with the stage and phase that a count of rows has."""

    def __init__(self, k, stages, x, y):
        self.k, self.stages, self.x, self.y = k, stages, x, y
        self.rows = k.shared(f32, stages * WIDTH, align=128, name="rows")
        self.full = k.mbarrier.array(stages, arrivals=1, name="full")
        self.empty = k.mbarrier.array(stages, arrivals=1, name="empty")
        k.mbarrier.ready()

    def fill(self, row, count, waits=None):
        k, stage = self.k, count % self.stages
        phase = count // self.stages & 1 ^ 1
        if waits is None:
            k.mbarrier.wait(self.empty + stage, phase)
        else:
            with k.if_(waits):
                k.mbarrier.wait(self.empty + stage, phase)
        k.mbarrier.arrive(self.full + stage, expect_tx=ROW_BYTES)
        k.bulk.load(self.rows + stage * WIDTH, self.x + row * WIDTH, ROW_BYTES, self.full + stage)

    def drain(self, row, count, phase=None, waits=None):
        k, stage, thread = self.k, count % self.stages, self.k.thread_id()
        phase = count // self.stages & 1 if phase is None else phase
        if waits is None:
            k.mbarrier.wait(self.full + stage, phase)
        else:
            with k.if_(waits):
                k.mbarrier.wait(self.full + stage, phase)
        self.y[row * WIDTH + thread] = self.rows[stage * WIDTH + (WIDTH - 1 - thread)]
        k.barrier.sync(1, WIDTH)
        k.mbarrier.arrive(self.empty + stage, when=thread == 0)


@scene(
    STYLE,
    _turned((2, 7, 7), (3, 7, 7), (1, 1, 1)),
    why="Each CTA counts its own tiles, whatever their numbers are.",
    phase_of_the_tiles_number=Mistake("parity", "The phase is the lowest bit of the tile's number."),
    counts_the_tiles_of_all=Mistake("parity", "The producer counts its own tiles, the consumers those of the grid."),
    second_cta_leaves_tiles_out=Mistake("undrained", "The consumers of later CTAs leave their first two tiles out."),
    first_cta_alone_waits=Mistake("refilled-early", "The producers of later CTAs do not wait for a stage."),
)
@nvb.kernel("sm_90a", threads=WIDTH + 32)
def rows_of_the_grid(k, x: OUT, y: OUT, tiles: COUNT, *, mistake=None):
    wrong = named(mistake)
    ring, count, block = Tokens(k, 1, x, y), k.var(0), k.block_id()
    with k.if_(k.warp_id() == 4), k.one_thread(4), k.range(block, tiles, k.block_count(), name="tile") as tile:
        ring.fill(tile, count.value, block == 0 if wrong("first_cta_alone_waits") else None)
        count += 1
    with k.if_(k.warp_id() < 4):
        first = block + k.block_count() * k.select(block > 0, 2, 0) if wrong("second_cta_leaves_tiles_out") else block
        with k.range(first, tiles, k.block_count(), name="tile") as tile:
            if wrong("phase_of_the_tiles_number"):
                ring.drain(tile, count.value, phase=tile & 1)
            else:
                ring.drain(tile, tile if wrong("counts_the_tiles_of_all") else count.value)
            count += 1


@scene(
    STYLE,
    _turned((4, 4), (1, 1)),
    why="The answer is read by all before the first thread asks again, and its phase turns with each tile.",
    phase_of_the_answer_is_fixed=Mistake("parity", "Each tile waits for the first answer's phase."),
    phase_of_the_row_is_fixed=Mistake("parity", "Each tile waits for the first row's phase."),
    row_is_not_waited_for=Mistake("read-before-wait", "The row of a tile that was taken over is not waited for."),
    answer_is_not_announced=Mistake("accounting", "The answer's 16 bytes are not announced."),
    answer_is_not_waited_for=Mistake("read-before-wait", "The answer is read without the wait for it."),
    asks_before_all_have_read=Mistake("refilled-early", "The first thread asks again before all have read the answer."),
    asks_once=Mistake("undrained", "Later tiles wait for an answer that nobody asked for."),
)
@nvb.kernel("sm_100a", threads=WIDTH)
def taken_over(k, x: OUT, y: OUT, *, mistake=None):
    wrong, thread = named(mistake), k.thread_id()
    answer = k.shared(u32, 4, align=16, name="answer")
    row = k.shared(f32, WIDTH, align=128, name="row")
    asked, full = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("asked", "full"))
    k.mbarrier.ready()
    block, phase = k.var(k.block_id()), k.var(0)

    def ask():
        k.mbarrier.arrive(asked, **({} if wrong("answer_is_not_announced") else {"expect_tx": 16}))
        k.launch_control.try_cancel(answer, asked)

    if wrong("asks_once"):
        with k.if_(thread == 0):
            ask()
    with k.loop():
        with k.if_(thread == 0):
            if not wrong("asks_once"):
                ask()
            k.mbarrier.arrive(full, expect_tx=ROW_BYTES)
            k.bulk.load(row, x + block * WIDTH, ROW_BYTES, full)
        if wrong("row_is_not_waited_for"):
            with k.if_(block == k.block_id()):
                k.mbarrier.wait(full, phase)
        else:
            k.mbarrier.wait(full, 0 if wrong("phase_of_the_row_is_fixed") else phase)
        y[block * WIDTH + thread] = row[WIDTH - 1 - thread]
        if wrong("asks_before_all_have_read"):
            k.barrier.sync()
        if not wrong("answer_is_not_waited_for"):
            k.mbarrier.wait(asked, 0 if wrong("phase_of_the_answer_is_fixed") else phase)
        phase ^= 1
        more, (first, _, _) = k.launch_control.canceled_cluster(answer)
        k.fence.proxy_async()
        if not wrong("asks_before_all_have_read"):
            k.barrier.sync()
        k.break_if(~more)
        block.set(first.to(i32))


@scene(
    STYLE,
    _turned(((1, 2), 8, 4), ((1, 2, 2), 16, 4), ((2, 2, 1), 16, 4)),
    why="What a CTA does depends on its place in a grid of three dimensions.",
    later_rows_are_not_waited_for=Mistake("read-before-wait", "Where blockIdx.y is not 0 nobody waits for a stage."),
    later_layers_fill_less=Mistake("undrained", "Where blockIdx.z is not 0 the last stage is not filled."),
    phase_by_the_row=Mistake("parity", "The phase that is waited for is turned round where blockIdx.y is odd."),
)
@nvb.kernel("sm_90a", threads=WIDTH + 32)
def rows_of_a_box(k, x: OUT, y: OUT, rows: COUNT, *, mistake=None):
    """Each CTA turns `rows` rows; those of a grid of x, y and z follow each other."""
    wrong, below, behind = named(mistake), k.block_id("y"), k.block_id("z")
    place = (behind * k.block_count("y") + below) * k.block_count() + k.block_id()
    ring, first = Tokens(k, 2, x, y), place * rows
    filled = rows - k.select(behind > 0, 1, 0) if wrong("later_layers_fill_less") else rows
    with k.if_(k.warp_id() == 4), k.one_thread(4), k.range(filled) as row:
        ring.fill(first + row, row)
    with k.if_(k.warp_id() < 4), k.range(rows) as row:
        phase = (row // 2 + below) & 1 if wrong("phase_by_the_row") else None
        ring.drain(first + row, row, phase, below == 0 if wrong("later_rows_are_not_waited_for") else None)
