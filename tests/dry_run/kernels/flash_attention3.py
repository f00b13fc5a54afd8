"""FlashAttention 3: two consumers that take turns by named barriers, rings of keys and of values. O = (Q K^T) V."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32, u32
from tests.dry_run.kernels.parts import (
    COUNT,
    MATRIX,
    OUT,
    TALL,
    TALL_MATRIX,
    TILE,
    State,
    multiply,
    named,
    product,
    small,
    store_chunks,
)
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "FlashAttention 3"
VALUES = SmemLayout(Major.MN, SwizzleMode.B128, f16, 64, 64)
WEIGHTED = nvb.WgmmaRequest(n=64, k=16, d=f32, a=f16, b=f16, a_in_registers=True, trans_b=1)
STAGES = 2


def _attention(tiles, blocks):
    q, keys, values = small(tiles, 128 * tiles, 64), small(blocks, 64 * blocks, 64), small(blocks + 9, 64 * blocks, 64)
    scores = product(q, keys).astype(np.float16)
    return Launch(1, (q, keys, values, Out(scores.astype(np.float32) @ values.astype(np.float32)), tiles, blocks))


class Rings:
    """Q, the stages of keys and of values, and their mbarriers."""

    def __init__(self, k, wrong):
        self.k, self.wrong = k, wrong
        self.q = k.shared_tile(TALL, name="q")
        self.keys, self.values = (k.shared_tiles(of, STAGES, name=name) for of, name in ((TILE, "k"), (VALUES, "v")))
        self.q_full = k.mbarrier.array(1, arrivals=1, name="q_full")
        self.q_empty = k.mbarrier.array(1, arrivals=1 if wrong("q_waits_for_one_consumer") else 2, name="q_empty")
        self.k_full, self.v_full = (k.mbarrier.array(STAGES, arrivals=1, name=name) for name in ("k_full", "v_full"))
        self.k_empty, self.v_empty = (
            k.mbarrier.array(STAGES, arrivals=2, name=name) for name in ("k_empty", "v_empty")
        )
        k.mbarrier.ready()

    def load(self, q, keys, values, tiles, blocks):
        """The producer's thread: the keys of a block before the values of the one before it."""
        k, wrong = self.k, self.wrong
        of_keys, of_values, turn = State(k, STAGES, 1), State(k, STAGES, 1), k.var(1)

        def load_keys(block):
            here = self.k_full + of_keys.index
            k.mbarrier.wait(self.k_empty + of_keys.index, of_keys.phase)
            k.mbarrier.arrive(here, expect_tx=TILE.bytes)
            k.tma.load(self.keys.at(of_keys.index), keys, (block * 64, 0), here)
            of_keys.advance()

        with k.range(tiles, name="tile") as tile:
            k.mbarrier.wait(self.q_empty, turn)
            turn ^= 1
            k.mbarrier.arrive(self.q_full, expect_tx=TALL.bytes)
            k.tma.load(self.q, q, (tile * 128, 0), self.q_full)
            at_once = wrong("values_order_the_keys")
            if not at_once:
                load_keys(k.const(0, i32))
            with k.range(blocks, name="block") as block:
                if at_once:
                    load_keys(block)
                else:
                    with k.if_(block + 1 < blocks):
                        load_keys(block + 1)
                k.mbarrier.wait(self.v_empty + of_values.index, of_values.phase)
                k.mbarrier.arrive(self.v_full + of_values.index, expect_tx=VALUES.bytes)
                here = (self.k_full if wrong("values_arrive_at_the_keys") else self.v_full) + of_values.index
                k.tma.load(self.values.at(of_values.index), values, (0, block * 64), here)
                of_values.advance()


class Consumer:
    """64 queries of each tile, in turns with the other consumer."""

    def __init__(self, k, wrong, rings):
        self.k, self.wrong, self.rings = k, wrong, rings
        self.me, self.first = k.warpgroup_id() - 1, k.thread_id() % 128 == 0
        self.scores, self.acc = (k.wgmma.accumulator(64, name=name) for name in ("scores", "o"))
        self.words = [k.var(k.const(0, u32), name="p") for _ in range(16)]
        self.of_keys, self.of_values = State(k, STAGES), State(k, STAGES)

    def begin_turns(self):
        if self.wrong("both_wait_for_the_first_turn"):
            return
        if self.wrong("both_give_the_first_turn"):
            self.k.barrier.arrive(2 - self.me, 256)
        else:
            with self.k.if_(self.me == 1):
                self.k.barrier.arrive(1, 256)

    def end_turns(self):
        """The last turn that was given away is taken."""
        with self.k.if_(self.me == 0):
            self.k.barrier.sync(1, 256)

    def take_turn(self):
        mine = 1 if self.wrong("one_barrier_for_both_turns") else 1 + self.me
        self.k.barrier.sync(mine, 128 if self.wrong("waits_for_its_own_threads") else 256)

    def give_turn(self):
        other = 1 + self.me if self.wrong("gives_the_turn_to_itself") else 2 - self.me
        self.k.barrier.arrive(1 if self.wrong("one_barrier_for_both_turns") else other, 256)

    def multiply_keys(self):
        k, stage = self.k, self.of_keys
        k.mbarrier.wait(self.rings.k_full + stage.index, stage.phase)
        self.take_turn()
        self.scores.clear()
        k.wgmma.fence()
        multiply(k, self.scores, self.rings.q.rows_from(self.me, 64), self.rings.keys.at(stage.index))
        k.wgmma.commit_group()

    def multiply_values(self):
        k, stage = self.k, self.of_values
        waits = self.of_keys if self.wrong("waits_for_values_by_the_keys") else stage
        k.mbarrier.wait(self.rings.v_full + waits.index, waits.phase)
        fragments = [k.wgmma.fragment(self.words[4 * step : 4 * step + 4], f16) for step in range(4)]
        k.wgmma.fence()
        for step, fragment in enumerate(fragments):
            k.wgmma.mma_async(self.acc, fragment, self.rings.values.at(stage.index), WEIGHTED, b_at=(0, 16 * step))
        k.wgmma.commit_group()

    def release_keys(self):
        self.k.mbarrier.arrive(self.rings.k_empty + self.of_keys.index, when=self.first)
        self.of_keys.advance()

    def release_values(self):
        self.k.mbarrier.arrive(self.rings.v_empty + self.of_values.index, when=self.first)
        self.of_values.advance()

    def keep(self):
        values = self.scores.values()
        for word, low, high in zip(self.words, values[::2], values[1::2], strict=True):
            word.set(self.k.convert.pack("f16x2", low, high).bitcast(nvb.u32))

    def blocks(self, count):
        """All blocks of keys: the next scores while the last weights multiply."""
        k, wrong = self.k, self.wrong
        self.multiply_keys()
        self.give_turn()
        k.wgmma.wait_group(0)
        self.release_keys()
        self.keep()
        self.acc.clear()
        with k.range(1, count):
            self.multiply_keys()
            self.multiply_values()
            self.give_turn()
            early = wrong("releases_keys_in_flight") or wrong("values_order_the_keys")
            if early:
                self.release_keys()
            k.wgmma.wait_group(1)
            if wrong("releases_values_in_flight"):
                self.release_values()
            if not early:
                self.release_keys()
            k.wgmma.wait_group(0)
            if not wrong("releases_values_in_flight"):
                self.release_values()
            self.keep()
        self.multiply_values()
        k.wgmma.wait_group(0)
        self.release_values()


@scene(
    STYLE,
    lambda: [_attention(2, 4), _attention(1, 1), _attention(3, 2)],
    why="The second consumer arrives at the first one's barrier before anything; the last turn is taken at the end.",
    variants={
        "second_waits_for_q_once": "The first consumer gives the turn after it has waited for Q.",
        "values_order_the_keys": "Keys are given back before any wait, and loaded again after later values.",
    },
    both_wait_for_the_first_turn=Mistake("named-barrier", "Nobody gives the first turn."),
    both_give_the_first_turn=Mistake("named-barrier", "Both consumers give the other the first turn: no turns at all."),
    waits_for_its_own_threads=Mistake("named-barrier", "The turn is waited for with 128 threads and given with 256."),
    gives_the_turn_to_itself=Mistake("named-barrier", "A consumer arrives at the barrier that it waits at."),
    one_barrier_for_both_turns=Mistake("named-barrier", "Both turns are one barrier."),
    waits_for_values_by_the_keys=Mistake("parity", "Values are waited for by the state of the keys, a block ahead."),
    releases_values_in_flight=Mistake("released-early", "Values are given back after wait_group(1), still multiplied."),
    releases_keys_in_flight=Mistake("released-early", "Keys are given back before any wait."),
    values_arrive_at_the_keys=Mistake("accounting", "The bytes of the values complete on the keys' barrier."),
    q_waits_for_one_consumer=Mistake("refilled-early", "Q is loaded again when the first consumer has read it."),
    q_waited_for_once=Mistake("read-before-wait", "The first consumer waits for Q of its first tile only."),
)
@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def turns_by_named_barriers(
    k, q: TALL_MATRIX, keys: MATRIX, values: MATRIX, o: OUT, tiles: COUNT, blocks: COUNT, *, mistake=None
):
    wrong = named(mistake)
    rings = Rings(k, wrong)
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(24)
        with k.one_thread():
            rings.load(q, keys, values, tiles, blocks)
    with k.else_():
        k.setmaxnreg.inc(240)
        mine, turn = Consumer(k, wrong, rings), k.var(0)
        mine.begin_turns()
        with k.range(tiles, name="tile") as tile:
            if wrong("q_waited_for_once") or wrong("second_waits_for_q_once"):
                always = 1 if wrong("q_waited_for_once") else 0
                with k.if_((mine.me == always) | (tile == 0)):
                    k.mbarrier.wait(rings.q_full, turn)
            else:
                k.mbarrier.wait(rings.q_full, turn)
            mine.blocks(blocks)
            releases = mine.first & (mine.me == 0) if wrong("q_waits_for_one_consumer") else mine.first
            k.mbarrier.arrive(rings.q_empty, when=releases)
            k.store_accumulator(mine.acc, o + (tile * 128 + mine.me * 64) * 64, 64)
            turn ^= 1
        mine.end_turns()


WRITTEN, FREE = 3, 4
"""Named barriers: the tile of C is staged; the store has read it."""


def _tiles(*counts):
    def launch(tiles):
        a, b = small(tiles, 64 * tiles, 64), small(tiles + 1, 64, 64)
        return Launch(1, (a, b, Out(product(a, b).astype(np.float16)), tiles))

    return lambda: [launch(tiles) for tiles in counts]


@scene(
    STYLE,
    _tiles(1, 2, 5),
    why="128 threads arrive and go on, the warp that stores waits: the counts are the sum. The first tile waits for no "
    "store.",
    counts_the_writers_alone=Mistake("named-barrier", "The writers count 128 threads, the warp that stores 160."),
    counts_the_whole_cta=Mistake("named-barrier", "The barrier waits for 256 threads, and 160 come."),
    waits_for_the_buffer_at_first=Mistake("named-barrier", "The writers wait for a store before there is one."),
    one_barrier_both_ways=Mistake("named-barrier", "Written and free are one barrier: the writers meet themselves."),
    frees_before_the_store_has_read=Mistake("bulk-group", "The buffer is given back while the store reads it."),
    another_lane_waits=Mistake("bulk-group", "Lane 1 waits for the bulk group of lane 0."),
    no_fence=Mistake("proxy-fence", "The writers do not fence the async proxy before they arrive."),
    ends_before_the_last_store=Mistake("bulk-group", "The warp ends while its last store may still read the buffer."),
)
@nvb.kernel("sm_90a", threads=256)
def stored_by_another_warp(k, a: MATRIX, b: MATRIX, c: MATRIX, tiles: COUNT, *, mistake=None):
    """The epilogue of FA3: a warpgroup stages C, a warp of the producer's stores it."""
    wrong = named(mistake)
    ta, tb, out = (k.shared_tile(TILE, name=name) for name in ("a", "b", "out"))
    full, empty = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "empty"))
    k.mbarrier.ready()
    both = 256 if wrong("counts_the_whole_cta") else 160
    free = WRITTEN if wrong("one_barrier_both_ways") else FREE
    with k.if_(k.warp_id() == 4), k.one_thread(4), k.range(tiles) as tile:
        k.mbarrier.wait(empty, tile & 1 ^ 1)
        k.mbarrier.arrive(full, expect_tx=2 * TILE.bytes)
        k.tma.load(ta, a, (tile * 64, 0), full)
        k.tma.load(tb, b, (0, 0), full)
    with k.if_(k.warp_id() == 5):
        lane = k.lane_id()
        with k.range(tiles) as tile:
            k.barrier.sync(WRITTEN, both)
            with k.if_(lane == 0):
                k.tma.store(c, (tile * 64, 0), out)
                k.tma.commit_group()
            waits = lane == (1 if wrong("another_lane_waits") else 0)
            if wrong("ends_before_the_last_store"):
                waits = waits & (tile + 1 < tiles)
            if not wrong("frees_before_the_store_has_read"):
                with k.if_(waits):
                    k.tma.wait_group(reading=True)
            k.warp.sync()
            with k.if_(tile + 1 < tiles):
                k.barrier.arrive(free, both)
    with k.if_(k.warpgroup_id() == 0):
        acc, first = k.wgmma.accumulator(64), k.thread_id() == 0
        with k.range(tiles) as tile:
            k.mbarrier.wait(full, tile & 1)
            acc.clear()
            with k.wgmma.group():
                multiply(k, acc, ta, tb)
            k.mbarrier.arrive(empty, when=first)
            with k.if_(tile >= (0 if wrong("waits_for_the_buffer_at_first") else 1)):
                k.barrier.sync(free, both)
            store_chunks(k, out, acc)
            if not wrong("no_fence"):
                k.fence.proxy_async()
            k.barrier.arrive(WRITTEN, 128 if wrong("counts_the_writers_alone") else both)
