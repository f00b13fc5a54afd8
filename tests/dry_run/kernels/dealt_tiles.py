"""Tiles that are dealt to consumers: with an odd number of them one consumer has a tile more than the other."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, State, named, product, small
from tests.dry_run.kernels.rings_in_turns import filled_ring
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "dealt tiles"
BOTH_MEET = Mistake("named-barrier", "Both consumers meet after each tile, and one of an odd number has no other.")
EVERY_TILE = Mistake("undrained", "Each consumer takes every tile of the CTA, not its own.")


def _products(*launches):
    def launch(grid, tiles, steps):
        a, b = small(tiles, 64 * tiles, 64 * steps), small(steps, 64, 64 * steps)
        return Launch(grid, (a, b, Out(product(a, b)), tiles, steps))

    return lambda: [launch(*one) for one in launches]


@scene(
    STYLE,
    _products((1, 3, 5), (2, 5, 2), (1, 4, 4)),
    why="A consumer that has a tile less than the other ends earlier, and nothing waits for it.",
    turn_of_the_other=Mistake("undrained", "Each consumer takes the turns of the other one."),
    tiles_of_the_other=Mistake("undrained", "Each consumer begins with the first tile of the other one."),
    both_meet=BOTH_MEET,
    every_tile=EVERY_TILE,
    second_takes_all=Mistake("undrained", "The second consumer takes every tile, the first one its own."),
    turn_at_the_end=Mistake("undrained", "The second consumer takes one turn more: with an odd number it has that."),
)
@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def tiles_of_two(k, a: MATRIX, b: MATRIX, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """C = A B^T, tile by tile of 64 x 64: nvbackend's ring in turns."""
    wrong = named(mistake)
    mma, ring, block, blocks = filled_ring(k, a, b, tiles, steps)
    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        first, among = block + (1 - warpgroup if wrong("tiles_of_the_other") else warpgroup) * blocks, 2 * blocks
        if wrong("every_tile"):
            first, among = block, blocks
        if wrong("second_takes_all"):
            first, among = (k.select(warpgroup == 0, one, all_) for one, all_ in ((first, block), (among, blocks)))
        with k.range(first, tiles, among, name="tile") as tile:
            acc.clear()
            turn = ring.turn(1 - warpgroup if wrong("turn_of_the_other") else warpgroup)
            with turn, k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            if wrong("both_meet"):
                k.barrier.sync(3, 256)
            k.store_accumulator(acc, c + tile * 64 * 64, 64)
        if wrong("turn_at_the_end"):
            with k.if_(warpgroup == 1), ring.turn(warpgroup):
                pass


WARP = 32


def _sums(*launches):
    def launch(grid, tiles, steps):
        x = small(tiles + steps, tiles, steps, WARP, kind=np.float32)
        return Launch(grid, (x, Out(x.sum(1)), tiles, steps))

    return lambda: [launch(*one) for one in launches]


class Stages:
    """Rows of 32 floats in a ring that one thread fills for all consumers."""

    def __init__(self, k, x, name=""):
        self.k, self.x, self.count = k, x, 3
        self.rows = k.shared(f32, self.count * WARP, align=128, name=name + "rows")
        self.full, self.empty = (
            k.mbarrier.array(self.count, arrivals=1, name=name + each) for each in ("full", "empty")
        )

    def fill(self, state, row):
        k, here = self.k, self.full + state.index
        k.mbarrier.wait(self.empty + state.index, state.phase)
        k.mbarrier.arrive(here, expect_tx=4 * WARP)
        k.bulk.load(self.rows + state.index * WARP, self.x + row * WARP, 4 * WARP, here)
        state.advance()

    def drain(self, state, total):
        k = self.k
        k.mbarrier.wait(self.full + state.index, state.phase)
        total += self.rows[state.index * WARP + k.lane_id()]
        k.warp.sync()
        k.mbarrier.arrive(self.empty + state.index, when=k.lane_id() == 0)
        state.advance()

    def fill_all(self, first, tiles, by, steps):
        write = State(self.k, self.count, 1)
        with self.k.range(first, tiles, by, name="tile") as tile, self.k.range(steps) as step:
            self.fill(write, tile * steps + step)


@scene(
    STYLE,
    _sums((1, 7, 3), (2, 5, 2), (1, 3, 4), (1, 1, 1)),
    why="Three consumers in an order that goes round; the last round may be of one or two of them.",
    all_meet=Mistake("named-barrier", "The three consumers meet after each tile."),
    order_begins_with_the_last=Mistake("undrained", "The tiles are dealt from the last consumer on, the order is not."),
    every_tile=EVERY_TILE,
)
@nvb.kernel("sm_90a", threads=4 * WARP)
def tiles_of_three(k, x: OUT, y: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """CUTLASS's OrderedSequenceBarrier among three warps."""
    wrong, consumers = named(mistake), 3
    ring = Stages(k, x)
    order = k.mbarrier.array(consumers, arrivals=1, name="order")
    k.mbarrier.ready()
    block, blocks = k.block_id(), k.block_count()
    with k.if_(k.warp_id() == 0), k.one_thread():
        ring.fill_all(block, tiles, blocks, steps)
    with k.if_(k.warp_id() > 0):
        me, read, turn = k.warp_id() - 1, State(k, ring.count), k.var(0)
        dealt = consumers - 1 - me if wrong("order_begins_with_the_last") else me
        first, among = block + dealt * blocks, consumers * blocks
        if wrong("every_tile"):
            first, among = block, blocks

        def skip(count):
            with k.range(count):
                read.advance()

        skip(steps * me)
        with k.range(first, tiles, among, name="tile") as tile:
            total = k.var(0.0)
            k.mbarrier.wait(order + me, turn ^ k.select(me == 0, 1, 0))
            turn ^= 1
            with k.range(steps):
                ring.drain(read, total)
            k.mbarrier.arrive(order + (me + 1) % consumers, when=k.lane_id() == 0)
            if wrong("all_meet"):
                k.barrier.sync(1, consumers * WARP)
            y[tile * WARP + k.lane_id()] = total
            skip(steps * (consumers - 1))


@scene(
    STYLE,
    _sums((1, 3, 3), (2, 5, 2), (1, 4, 4), (1, 1, 1)),
    why="The consumer that has no last tile still takes and gives its turn.",
    variants={"counts_its_tiles": "Each consumer computes how many tiles it has, and goes through these."},
    no_empty_turn=Mistake("named-barrier", "The consumer without a last tile takes no turn, and the other awaits it."),
    both_meet=BOTH_MEET,
)
@nvb.kernel("sm_90a", threads=2 * WARP)
def turns_by_barriers(k, x: OUT, y: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """FlashAttention 3's turns: consumer w waits at barrier 1 + w, the second one gives the first turn."""
    wrong, me, lane = named(mistake), k.warp_id(), k.lane_id()
    words, total = k.shared(f32, WARP, name="words"), k.var(0.0)
    block, blocks = k.block_id(), k.block_count()
    first, among = block + me * blocks, 2 * blocks
    with k.if_(me == 1):
        k.barrier.arrive(1, 64)

    def take():
        k.barrier.sync(1 + me, 64)

    def give():
        k.barrier.arrive(2 - me, 64)

    def of(tile):
        total.set(0.0)
        take()
        with k.range(steps) as step:
            words[WARP - 1 - lane] = x[(tile * steps + step) * WARP + WARP - 1 - lane]
            k.warp.sync()
            total.set(total + words[lane])
            k.warp.sync()
        give()
        if wrong("both_meet"):
            k.barrier.sync(3, 64)
        y[tile * WARP + lane] = total

    if wrong("counts_its_tiles"):
        with k.range(0, (tiles - first + among - 1) // among, name="tile") as number:
            of(first + number * among)
    else:
        with k.range(first, tiles, among, name="tile") as tile:
            of(tile)
    if not wrong("no_empty_turn"):
        with k.if_((me == 1) & ((tiles - block + blocks - 1) // blocks % 2 == 1)):
            take()
            give()
    with k.if_(me == 0):
        take()


@scene(
    STYLE,
    _sums((1, 3, 3), (2, 5, 2), (1, 4, 4), (1, 1, 1)),
    why="Each consumer has a ring of its own, and a thread that fills it.",
    both_meet=BOTH_MEET,
    every_tile=EVERY_TILE,
)
@nvb.kernel("sm_90a", threads=4 * WARP)
def tiles_by_a_loop(k, x: OUT, y: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """ThunderKittens' task loop: it is left where no task is left."""
    wrong = named(mistake)
    rings = [Stages(k, x, name) for name in ("first_", "second_")]
    k.mbarrier.ready()
    block, blocks = k.block_id(), k.block_count()
    for me, ring in enumerate(rings):
        with k.if_(k.warp_id() == 2 + me), k.one_thread(2 + me):
            ring.fill_all(block + me * blocks, tiles, 2 * blocks, steps)
        with k.if_(k.warp_id() == me):
            task, read = k.var(block if wrong("every_tile") else block + me * blocks), State(k, ring.count)
            with k.loop():
                k.break_if(task >= tiles)
                total = k.var(0.0)
                with k.range(steps):
                    ring.drain(read, total)
                if wrong("both_meet"):
                    k.barrier.sync(1, 64)
                y[task * WARP + k.lane_id()] = total
                task += blocks if wrong("every_tile") else 2 * blocks
