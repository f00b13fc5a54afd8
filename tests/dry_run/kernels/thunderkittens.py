"""ThunderKittens: semaphores whose phases are bits of one word, tic and toc, stores by groups."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.kernels.parts import (
    COUNT,
    MATRIX,
    OUT,
    TALL,
    TALL_MATRIX,
    TILE,
    chunk_of,
    gemm,
    multiply,
    named,
    small,
)
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "ThunderKittens"
CHUNKS = nvb.Pointer(f32, align=128)
CONSUMERS_BEGIN, BOTH_BEGIN = 0, -(1 << 16)
"""Phase bits: those of the producer's waits, in the upper half, begin set."""


class Phases:
    """`semaphore_bitfield`: bit `ring` of a half is the phase that is waited for next."""

    def __init__(self, k, begins):
        self.k, self.bits = k, k.var(begins)

    def get(self, half, ring):
        return (self.bits >> (ring + 16 * half)) & 1

    def update(self, half, ring):
        self.bits.set(self.bits ^ (self.k.const(1, i32) << (ring + 16 * half)))


@scene(
    STYLE,
    lambda: [gemm(2, 5, 3, 5, 3, tile=128), gemm(1, 1, 1, 1, 1, tile=128), gemm(1, 2, 9, 2, 9, tile=128)],
    why="Lane 0 of each warp gives a stage back; the producer's phase bits begin set.",
    releases_the_next_stage=Mistake(
        "parity", "A stage is given back in the step before its own: twice, maybe, before the producer waits once."
    ),
    updates_the_other_half=Mistake("parity", "The producer waits by the upper half of the bits and flips the lower."),
    bits_begin_clear=Mistake("parity", "The producer waits for a first release of empty stages."),
    updates_the_next_stage=Mistake("parity", "A consumer flips the bit of the stage after the one it waited for."),
    counts_warpgroups=Mistake("accounting", "Finished counts two warpgroups, and eight warps arrive."),
    one_warpgroup_arrives_with_all_lanes=Mistake("accounting", "All lanes of the second warpgroup arrive."),
    releases_before_the_wait=Mistake("released-early", "Each warp gives its stage back before its product is done."),
    leaves_after_an_odd_tile=Mistake("undrained", "A consumer leaves before the last stage of the last tile."),
)
@nvb.kernel("sm_90a", threads=384, min_ctas=1)
def phase_bits(k, a: TALL_MATRIX, b: MATRIX, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """The LCF template: load, compute, finish."""
    stages, wrong = 3, named(mistake)
    ta, tb = k.shared_tiles(TALL, stages, name="a"), k.shared_tiles(TILE, stages, name="b")
    arrived = k.mbarrier.array(stages, arrivals=1, name="arrived")
    finished = k.mbarrier.array(stages, arrivals=2 if wrong("counts_warpgroups") else 8, name="finished")
    k.mbarrier.ready()
    phases = Phases(k, CONSUMERS_BEGIN if wrong("bits_begin_clear") else BOTH_BEGIN)
    ring = k.var(0)
    mine = lambda: k.range(k.block_id(), tiles, k.block_count(), name="tile")  # noqa: E731
    with k.if_(k.warpgroup_id() == 2), k.one_thread(8), mine() as tile, k.range(steps) as step:
        k.mbarrier.wait(finished + ring, phases.get(1, ring))
        phases.update(0 if wrong("updates_the_other_half") else 1, ring)
        k.mbarrier.arrive(arrived + ring, expect_tx=TALL.bytes + TILE.bytes)
        k.tma.load(ta.at(ring), a, (tile * 128, step * 64), arrived + ring)
        k.tma.load(tb.at(ring), b, (0, step * 64), arrived + ring)
        ring.set((ring + 1) % stages)
    with k.if_(k.warpgroup_id() < 2):
        me, acc, lane = k.warpgroup_id(), k.wgmma.accumulator(64), k.lane_id()
        arrives = (lane == 0) | (me == 1) if wrong("one_warpgroup_arrives_with_all_lanes") else lane == 0
        with mine() as tile:
            acc.clear()
            with k.range(steps) as step:
                k.mbarrier.wait(arrived + ring, phases.get(0, ring))
                phases.update(0, (ring + 1) % stages if wrong("updates_the_next_stage") else ring)
                if wrong("leaves_after_an_odd_tile"):
                    k.break_if((tile & 1 == 0) & (step + 1 == steps))
                k.wgmma.fence()
                multiply(k, acc, ta.at(ring).rows_from(me, 64), tb.at(ring))
                k.wgmma.commit_group()
                if not wrong("releases_before_the_wait"):
                    k.wgmma.wait_group(0)
                given = (ring + 1) % stages if wrong("releases_the_next_stage") else ring
                k.mbarrier.arrive(finished + given, when=arrives)
                if wrong("releases_before_the_wait"):
                    k.wgmma.wait_group(0)
                ring.set((ring + 1) % stages)
            k.store_accumulator(acc, c + (tile * 128 + me * 64) * 64, 64)


@scene(
    STYLE,
    lambda: [gemm(1, 1, steps, steps, tile=128) for steps in (1, 2, 3, 6)],
    why="Nobody gives stages back: a barrier of the CTA is between the last product of a stage and its next load.",
    loads_into_tic=Mistake("refilled-early", "The next tiles are loaded where the present ones are multiplied."),
    no_barrier=Mistake("refilled-early", "A thread loads while the other warpgroup's product still reads the stage."),
    barrier_before_the_product=Mistake("refilled-early", "The barrier comes before the product, and not after it."),
    flips_every_time=Mistake("parity", "The phase flips with each step, and each semaphore has every second one."),
    never_flips=Mistake("parity", "Both semaphores are waited for with phase 0 in each step."),
    waits_for_toc=Mistake(
        "read-before-wait", "The semaphore of the next stage is waited for before this is multiplied."
    ),
)
@nvb.kernel("sm_90a", threads=256)
def tic_toc(k, a: TALL_MATRIX, b: MATRIX, c: OUT, steps: COUNT, *, mistake=None):
    wrong = named(mistake)
    ta, tb = k.shared_tiles(TALL, 2, name="a"), k.shared_tiles(TILE, 2, name="b")
    arrived = k.mbarrier.array(2, arrivals=1, name="arrived")
    k.mbarrier.ready()
    me = k.warpgroup_id()

    def load(stage, step):
        k.mbarrier.arrive(arrived + stage, expect_tx=TALL.bytes + TILE.bytes)
        k.tma.load(ta.at(stage), a, (0, step * 64), arrived + stage)
        k.tma.load(tb.at(stage), b, (0, step * 64), arrived + stage)

    with k.if_(k.thread_id() == 0):
        load(k.const(0, i32), k.const(0, i32))
    acc, tic, phase = k.wgmma.accumulator(64), k.var(0), k.var(0)
    with k.range(steps) as step:
        toc = tic ^ 1
        with k.if_((k.thread_id() == 0) & (step + 1 < steps)):
            load(tic.value if wrong("loads_into_tic") else toc, step + 1)
        waited = k.select(step + 1 < steps, toc, tic) if wrong("waits_for_toc") else tic
        k.mbarrier.wait(arrived + waited, phase)
        if wrong("barrier_before_the_product"):
            k.barrier.sync()
        with k.wgmma.group():
            multiply(k, acc, ta.at(tic).rows_from(me, 64), tb.at(tic))
        if not wrong("no_barrier") and not wrong("barrier_before_the_product"):
            k.barrier.sync()
        if wrong("flips_every_time"):
            phase ^= 1
        elif not wrong("never_flips"):
            phase.set(phase ^ tic)
        tic ^= 1
    k.store_accumulator(acc, c + me * 4096, 64)


def _doubled(*counts):
    def launch(tiles):
        x = small(tiles, 64 * tiles, 64)
        return Launch(1, (x, Out(x * np.float16(2)), tiles))

    return lambda: [launch(tiles) for tiles in counts]


@scene(
    STYLE,
    _doubled(1, 2, 3, 6),
    why="A buffer is written again while the store of the other one still reads: the wait leaves one group.",
    waits_for_none=Mistake("bulk-group", "The wait leaves two groups, so the buffer's own."),
    waits_after_the_barrier=Mistake("bulk-group", "The other threads write before the storing one has waited."),
    commits_every_second_store=Mistake("bulk-group", "Two stores are one group, and the wait leaves it."),
    stores_by_turns=Mistake(
        "bulk-group", "Two threads store in turns, each leaves its newest group: the buffer's own."
    ),
    one_buffer=Mistake("bulk-group", "All tiles go through one buffer, and the wait leaves one group."),
    no_fence=Mistake("proxy-fence", "What the threads wrote is stored without a fence."),
    fence_after_the_barrier_in_all_but_one=Mistake(
        "proxy-fence", "The fence comes after the barrier, in all threads but the storing one."
    ),
    loads_again_before_all_have_read=Mistake(
        "refilled-early", "The next tile is loaded before all have read this one."
    ),
)
@nvb.kernel("sm_90a", threads=128)
def stores_in_groups(k, x: MATRIX, y: MATRIX, tiles: COUNT, *, mistake=None):
    """y = 2 x: the next tile is loaded, two buffers are stored."""
    wrong = named(mistake)
    given, out = k.shared_tiles(TILE, 2, name="given"), k.shared_tiles(TILE, 2, name="out")
    arrived = k.mbarrier.array(2, arrivals=1, name="arrived")
    k.mbarrier.ready()
    thread = k.thread_id()

    def load(tile, stage):
        k.mbarrier.arrive(arrived + stage, expect_tx=TILE.bytes)
        k.tma.load(given.at(stage), x, (tile * 64, 0), arrived + stage)

    with k.if_(thread == 0):
        load(k.const(0, i32), k.const(0, i32))
    with k.range(tiles, name="tile") as tile:
        stage = tile & 1
        kept = k.const(0, i32) if wrong("one_buffer") else stage
        storing = thread == (stage if wrong("stores_by_turns") else 0)
        with k.if_((thread == 0) & (tile + 1 < tiles)):
            load(tile + 1, stage if wrong("loads_again_before_all_have_read") else stage ^ 1)
        k.mbarrier.wait(arrived + stage, tile >> 1 & 1)
        if wrong("waits_after_the_barrier"):
            k.barrier.sync()
        with k.if_(storing):
            k.tma.wait_group(2 if wrong("waits_for_none") else 1, reading=True)
        if not wrong("waits_after_the_barrier"):
            k.barrier.sync()
        for pair in range(4):
            place = thread % 64, thread // 64 + 2 * pair
            values = chunk_of(given.at(stage), *place).load(8)
            chunk_of(out.at(kept), *place).store(*[value + value for value in values])
        late = wrong("fence_after_the_barrier_in_all_but_one")
        if not wrong("no_fence") and not late:
            k.fence.proxy_async()
        k.barrier.sync()
        if late:
            with k.if_(~storing):
                k.fence.proxy_async()
        with k.if_(storing):
            k.tma.store(y, (tile * 64, 0), out.at(kept))
            if wrong("commits_every_second_store"):
                with k.if_((stage == 1) | (tile + 1 == tiles)):
                    k.tma.commit_group()
            else:
                k.tma.commit_group()
    with k.if_(thread < 2 if wrong("stores_by_turns") else thread == 0):
        k.tma.wait_group()


def _reversed(*counts):
    def launch(tiles):
        x = small(tiles, tiles, 128, kind=np.float32)
        return Launch(1, (x, Out((x * 2)[:, ::-1]), tiles))

    return lambda: [launch(tiles) for tiles in counts]


@scene(
    STYLE,
    _reversed(1, 2, 5),
    why="What was read alone needs no fence before the next load; what was written needs one, by any thread.",
    variants={
        "producer_fences": "The thread that loads fences, after it has waited for the stage.",
        "one_warp_fences": "One warp of four fences, for all that have written before the barrier in front of it.",
        "written_elsewhere": "The consumers write to memory that no copy fills, without a fence.",
    },
    no_fence=Mistake("proxy-fence", "The consumers write into the stage, and give it back without a fence."),
    fence_before_the_write=Mistake("proxy-fence", "The fence comes before the write into the stage."),
)
@nvb.kernel("sm_90", threads=160)
def scratch_in_a_stage(k, x: CHUNKS, y: CHUNKS, tiles: COUNT, *, mistake=None):
    """The LCF template, with a stage as the scratch of those who compute: y = 2 x, each tile backwards."""
    wrong, thread = named(mistake), k.thread_id()
    stages = k.shared(f32, 256, align=128, name="stages")
    scratch = k.shared(f32, 256, align=128, name="scratch") if wrong("written_elsewhere") else stages
    arrived = k.mbarrier.array(2, arrivals=1, name="arrived")
    finished = k.mbarrier.array(2, arrivals=128, name="finished")
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 4), k.if_(thread == 128), k.range(tiles, name="tile") as tile:
        stage = tile % 2
        k.mbarrier.wait(finished + stage, tile // 2 % 2 ^ 1)
        if wrong("producer_fences"):
            k.fence.proxy_async()
        k.mbarrier.arrive(arrived + stage, expect_tx=512)
        k.bulk.load(stages + stage * 128, x + tile * 128, 512, arrived + stage)
    with k.if_(k.warp_id() < 4), k.range(tiles, name="tile") as tile:
        stage = tile % 2
        k.mbarrier.wait(arrived + stage, tile // 2 % 2)
        value = stages[stage * 128 + thread]
        if wrong("fence_before_the_write"):
            k.fence.proxy_async()
        scratch[stage * 128 + thread] = value * 2.0
        k.barrier.sync(1, 128)
        y[tile * 128 + thread] = scratch[stage * 128 + 127 - thread]
        if wrong("one_warp_fences"):
            with k.if_(k.warp_id() == 0):
                k.fence.proxy_async()
        elif not any(map(wrong, ("no_fence", "fence_before_the_write", "producer_fences", "written_elsewhere"))):
            k.fence.proxy_async()
        k.mbarrier.arrive(finished + stage)
        if wrong("written_elsewhere"):
            k.barrier.sync(1, 128)
