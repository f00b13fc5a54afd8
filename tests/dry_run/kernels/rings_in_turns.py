"""Ping-pong consumers: each multiplies tiles of its own, in turns with the other."""

from __future__ import annotations

from contextlib import nullcontext

import nvbackend as nvb
from nvbackend import f16, f32
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, named, product, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "nvbackend's ring"
MMA = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def _tiles(*launches: tuple[int, int, int]):
    def launch(grid: int, tiles: int, steps: int) -> Launch:
        a, b = small(tiles, 64 * tiles, 64 * steps), small(steps, 64, 64 * steps)
        return Launch(grid, (a, b, Out(product(a, b)), tiles, steps))

    return lambda: [launch(*one) for one in launches]


def filled_ring(k, a, b, tiles, steps):
    """A ring in turns for two consumers, which the producer fills with the steps of this CTA's tiles.

    Returns the tiled MMA, the ring, and the CTA's number and how many there are.
    """
    mma = k.tiled_mma(MMA)
    ring = k.pipeline(3, consumers=2, pingpong=True, a=mma.smem_a(64), b=mma.smem_b(64))
    k.mbarrier.ready()
    block, blocks = k.block_id(), k.block_count()
    mine = k.range(block, tiles, blocks, name="tile")
    with k.producer(registers=40), mine as tile, k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (tile * 64, step * 64), stage.full)
        k.tma.load(stage.b, b, (0, step * 64), stage.full)
    return mma, ring, block, blocks


@scene(
    STYLE,
    _tiles((1, 3, 5), (2, 5, 2), (1, 1, 4), (1, 4, 1)),
    why="A stage is read by one consumer of two; which one, and in which phase, it learns from the other.",
    variants={
        "drains_at_once": "drain() with no group in flight.",
        "releases_in_its_turn": "The wait for the last group and release() are in the turn: slower, and right.",
        "empty_turns": "The second consumer has all tiles, and the first drains nothing in its turns.",
    },
    tiles_without_release=Mistake("undrained", "The last stage of a tile is not given back before the next turn."),
    released_before_the_wait=Mistake("released-early", "release() is before the wait for the last group."),
    releases_in_the_next_turn=Mistake("undrained", "release() begins the next turn, in another place of the ring."),
    skips_a_turn=Mistake("undrained", "The first consumer leaves out its second tile."),
    first_has_no_tile=Mistake("undrained", "The second consumer has all tiles, and the first takes no turn."),
    a_turn_a_step=Mistake("undrained", "Each step is a turn, and its stage is not given back before the next one."),
    two_turns_a_tile=Mistake("undrained", "The last step is a turn, and the stage before is still held."),
    leaves_a_step=Mistake("undrained", "The second consumer drains a step less than is filled."),
)
@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def tiles_in_turns(k, a: MATRIX, b: MATRIX, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """C = A B^T, tile by tile of 64 x 64."""
    wrong = named(mistake)
    mma, ring, block, blocks = filled_ring(k, a, b, tiles, steps)
    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        first, among = block + warpgroup * blocks, 2 * blocks
        if wrong("first_has_no_tile"):
            first, among = k.select(warpgroup == 0, tiles, block), blocks
        if wrong("empty_turns"):
            first, among = block, blocks
        with k.range(first, tiles, among, name="tile") as tile:
            acc.clear()
            if wrong("skips_a_turn"):
                k.continue_if((warpgroup == 0) & (tile == block + 2 * blocks))
            less = k.select(warpgroup == 1, 1, 0) if wrong("leaves_a_step") else 0
            if wrong("empty_turns"):
                less = k.select(warpgroup == 1, 0, steps)
            if wrong("a_turn_a_step"):
                with k.range(steps - 1), ring.turn(warpgroup):
                    _multiply(k, wrong, mma, ring, acc)
                less = steps - 1
            if wrong("two_turns_a_tile"):
                with ring.turn(warpgroup), k.range(steps - 1):
                    _multiply(k, wrong, mma, ring, acc)
                less = steps - 1
            with ring.turn(warpgroup):
                if wrong("releases_in_the_next_turn"):
                    ring.release()
                with k.range(steps - less):
                    _multiply(k, wrong, mma, ring, acc)
                if wrong("releases_in_its_turn"):
                    k.wgmma.wait_group(0, drains=[acc])
                    ring.release()
            if wrong("released_before_the_wait"):
                ring.release()
            k.wgmma.wait_group(0, drains=[acc])
            others = ("drains_at_once", "tiles_without_release", "releases_in_its_turn", "releases_in_the_next_turn")
            if not any(map(wrong, (*others, "released_before_the_wait"))):
                ring.release()
            with k.if_(warpgroup == 1) if wrong("empty_turns") else nullcontext():
                k.store_accumulator(acc, c + tile * 64 * 64, 64)


def _multiply(k, wrong, mma, ring, acc):
    in_flight = 0 if wrong("drains_at_once") else 1
    with ring.drain(in_flight=in_flight) as stage, k.wgmma.group(in_flight=in_flight):
        mma.accumulate(acc, stage.a, stage.b)
