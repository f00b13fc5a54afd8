"""CUTLASS on sm_100, scaled by block: tcgen05.cp brings the factors of a stage to tensor memory."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, e4m3, f32, i32, u32, u64, ue8m0
from tests.dry_run.kernels.parts import COUNT, OUT, State, named
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "CUTLASS sm100"
DEPTH, BLOCK = 128, 32
STEPS = DEPTH // BLOCK
ROWS, COLUMNS = (SmemLayout(Major.K, SwizzleMode.B128, e4m3, rows, DEPTH) for rows in (128, 64))
A, B = nvb.TensorMap(e4m3, box=(128, DEPTH)), nvb.TensorMap(e4m3, box=(64, DEPTH))
WORDS = 128
"""Words of the factors of a step: a byte for each of 128 rows and four blocks."""
FACTORS = nvb.TensorMap(u32, box=(1, WORDS), swizzle=0)
FACTOR_ROWS = nvb.Tcgen05SmemDescriptor(0, 128, 128)
FACTORS_A, FACTORS_B = 128, 136
"""Columns of tensor memory; those before have the accumulators."""
LOADER, ISSUER = 4, 5
CODES = np.array([0xC0, 0xB8, 0, 0x38, 0x40], np.uint8)
"""-2 to 2 in e4m3."""


def _matrix(seed, rows, depth):
    """Its codes, its factors as tcgen05.cp reads them, 128 rows after 128 rows, and its values."""
    random = np.random.default_rng(seed)
    numbers = random.integers(-2, 3, (rows, depth))
    factors = random.integers(126, 129, (rows, depth // BLOCK), np.uint8)
    steps, tiles = depth // DEPTH, -(-rows // 128)
    image = np.zeros((tiles, steps, 32, 4, STEPS), np.uint8)
    for row, of_row in enumerate(factors):
        image[row // 128, :, row % 32, row % 128 // 32] = of_row.reshape(steps, STEPS)
    values = numbers * 2.0 ** (np.repeat(factors, BLOCK, axis=1) - 127.0)
    return CODES[numbers + 2], image.reshape(tiles * steps, -1).view(np.uint32), values


def _launch(grid, rows, columns, steps, *counts):
    a, factors_a, left = _matrix(steps, rows, DEPTH * steps)
    b, factors_b, right = _matrix(steps + 7, columns, DEPTH * steps)
    return Launch(grid, (a, b, factors_a, factors_b, Out((left @ right.T).astype(np.float32)), *counts, steps))


def request(shape, step, **options):
    """The product of a step along K, whose factors are one byte of each word."""
    scaled = {"kind": "mxf8f6f4", "scale": ue8m0, "scale_vec": 1, "scale_a_id": step, "scale_b_id": step}
    return nvb.tcgen05.mma(shape, e4m3, e4m3, f32, **scaled, **options)


def store(out, values):
    for place in range(0, len(values), 4):
        (out + place).store(*[value.bitcast(f32) for value in values[place : place + 4]])


class Factors:
    """The stages of the factors of A and B, and their columns of tensor memory."""

    def __init__(self, k, stages, wrong):
        self.k, self.wrong = k, wrong
        self.near = [k.shared(u32, stages * WORDS, align=128, name=name) for name in ("factors_a", "factors_b")]

    def at(self, operand, stage):
        return self.near[operand] + (0 if self.wrong("one_stage_of_factors") else stage * WORDS)

    def columns(self, tmem):
        first = 62 if self.wrong("factors_in_the_accumulator") else FACTORS_A
        return tmem.columns(first, 4), tmem.columns(FACTORS_B, 4)

    def copy(self, tmem, stage, operands=(0, 1), **group):
        for operand in operands:
            near = self.k.tcgen05.smem_descriptor(self.at(operand, stage), FACTOR_ROWS)
            self.k.tcgen05.cp(self.columns(tmem)[operand], near, "32x128b", "warpx4", **group)

    def multiply(self, shape, tmem, acc, a, b, *, first, **group):
        """D (+)= A * B^T with K of a step; D is overwritten where `first` holds."""
        scale_a, scale_b = self.columns(tmem)
        for part in range(STEPS):
            at, more = (0, BLOCK * part), ~first if part == 0 else True
            own = {"a_at": at, "b_at": at, "accumulate": more, "scale_a": scale_a, "scale_b": scale_b}
            self.k.tcgen05.mma(request(shape, part, **group), acc, a, b, **own)


@scene(
    STYLE,
    lambda: [_launch(1, 128 * tiles, 64, steps, tiles) for tiles, steps in ((1, 1), (2, 3), (3, 2))],
    why="The copies of the factors and the products come one after the other: the thread waits for none of them.",
    factors_after_the_products=Mistake("tensor-memory", "The factors are copied after the products that read them."),
    no_factors_of_b=Mistake("tensor-memory", "The factors of B are not copied to tensor memory."),
    factors_in_the_accumulator=Mistake("tensor-memory", "The factors of A lie in the first accumulator."),
    bytes_of_the_factors_left_out=Mistake("accounting", "The phase does not count the bytes of the factors."),
    one_stage_of_factors=Mistake("refilled-early", "All stages share the factors of one, which the next fill changes."),
    given_back_by_arrival=Mistake("released-early", "An arrival gives the stage back while the copies read it."),
    given_back_before_the_factors=Mistake(
        "released-early", "The commit that gives the stage back comes before the copies of its factors."
    ),
    overwrites_before_it_is_read=Mistake("tensor-memory", "The issuer does not wait for the epilogue."),
    no_fence_after_done=Mistake("tensor-memory", "No tcgen05 fence is between the wait and the loads."),
    lanes_of_another_warp=Mistake("tensor-memory", "A warp loads the lanes of its neighbour."),
)
@nvb.kernel("sm_100a", threads=192, min_ctas=1)
def factors_by_copy(k, a: A, b: B, fa: FACTORS, fb: FACTORS, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    """Two accumulators in turns, and a ring whose stages have the factors, too."""
    wrong, stages = named(mistake), 2
    tiles_a, tiles_b = k.shared_tiles(ROWS, stages, name="a"), k.shared_tiles(COLUMNS, stages, name="b")
    factors = Factors(k, stages, wrong)
    full, empty = (k.mbarrier.array(stages, arrivals=1, name=name) for name in ("full", "empty"))
    done, free = k.mbarrier.array(2, arrivals=1, name="done"), k.mbarrier.array(2, arrivals=128, name="free")
    k.mbarrier.ready()
    size = ROWS.bytes + COLUMNS.bytes + (0 if wrong("bytes_of_the_factors_left_out") else 2 * 4 * WORDS)
    with k.tcgen05.tmem(256) as tmem:
        with k.one_thread(LOADER):
            write = State(k, stages, 1)
            with k.range(tiles) as tile, k.range(steps) as step:
                stage, here = write.index.value, full + write.index
                k.mbarrier.wait(empty + stage, write.phase)
                k.mbarrier.arrive(here, expect_tx=size)
                k.tma.load(tiles_a.at(stage), a, (tile * 128, step * DEPTH), here)
                k.tma.load(tiles_b.at(stage), b, (0, step * DEPTH), here)
                k.tma.load_box(factors.at(0, stage), fa, (0, tile * steps + step), here)
                k.tma.load_box(factors.at(1, stage), fb, (0, step), here)
                write.advance()
        with k.one_thread(ISSUER):
            read, turn = State(k, stages), State(k, 2, 1)
            with k.range(tiles):
                if not wrong("overwrites_before_it_is_read"):
                    k.mbarrier.wait(free + turn.index, turn.phase)
                    k.tcgen05.fence_after_thread_sync()
                acc = tmem.columns(turn.index * 64, 64)
                with k.range(steps) as step:
                    stage = read.index.value
                    k.mbarrier.wait(full + stage, read.phase)
                    if wrong("given_back_before_the_factors"):
                        k.tcgen05.commit(empty + stage)
                    if not wrong("factors_after_the_products"):
                        factors.copy(tmem, stage, (0,) if wrong("no_factors_of_b") else (0, 1))
                    operands = tmem, acc, tiles_a.at(stage), tiles_b.at(stage)
                    factors.multiply("m128n64k32", *operands, first=step == 0)
                    if wrong("factors_after_the_products"):
                        factors.copy(tmem, stage)
                    if wrong("given_back_by_arrival"):
                        k.mbarrier.arrive(empty + stage)
                    elif not wrong("given_back_before_the_factors"):
                        k.tcgen05.commit(empty + stage)
                    read.advance()
                k.tcgen05.commit(done + turn.index)
                turn.advance()
        with k.if_(k.warp_id() < LOADER):
            _store_in_turns(k, wrong, tmem, c, tiles, done, free)


def _store_in_turns(k, wrong, tmem, c, tiles, done, free):
    turn = State(k, 2)
    with k.range(tiles) as tile:
        k.mbarrier.wait(done + turn.index, turn.phase)
        if not wrong("no_fence_after_done"):
            k.tcgen05.fence_after_thread_sync()
        warp = k.warp_id() ^ 1 if wrong("lanes_of_another_warp") else k.warp_id()
        load = k.tcgen05.ld(tmem.columns(turn.index * 64, 64).lanes(warp * 32), "32x32b", 64)
        k.tcgen05.wait_ld(load)
        k.tcgen05.fence_before_thread_sync()
        k.mbarrier.arrive(free + turn.index)
        store(c + (tile * 128 + k.thread_id()) * 64, load.values)
        turn.advance()


@scene(
    STYLE,
    lambda: [_launch(2, 256, 128, steps) for steps in (1, 3)],
    why="Each CTA of the pair has the factors of its rows of A, and those of all columns of B.",
    factors_of_one_cta=Mistake("tensor-memory", "The factors are copied to the tensor memory of the first CTA alone."),
    bytes_of_the_factors_left_out=Mistake("accounting", "The phase does not count the bytes of the factors."),
    factors_on_the_own_barrier=Mistake("accounting", "The factors complete on the mbarrier of the CTA that loads."),
    one_stage_of_factors=Mistake("refilled-early", "All stages share the factors of one, which the next fill changes."),
    given_back_before_the_factors=Mistake(
        "released-early", "The commit that gives the stages back comes before the copies of their factors."
    ),
    given_back_in_one_cta=Mistake("undrained", "The commits give the stages of the first CTA back, not of the other."),
    no_factors_of_a=Mistake("tensor-memory", "The factors of A are not copied to tensor memory."),
    factors_of_b_in_one_cta=Mistake("unwritten", "The first CTA alone loads the factors of B, and both copy them."),
)
@nvb.kernel("sm_100a", threads=192, cluster=2, min_ctas=1)
def factors_of_a_pair(k, a: A, b: B, fa: FACTORS, fb: FACTORS, c: OUT, steps: COUNT, *, mistake=None):
    """A tile of 256 x 128 by two CTAs: the copies of the factors are those of the pair, as its products are."""
    wrong, stages = named(mistake), 2
    tiles_a, tiles_b = k.shared_tiles(ROWS, stages, name="a"), k.shared_tiles(COLUMNS, stages, name="b")
    factors = Factors(k, stages, wrong)
    full, empty = (k.mbarrier.array(stages, arrivals=n, name=name) for n, name in ((2, "full"), (1, "empty")))
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    rank, both = k.cluster.rank(), {"cta_group": 2, "multicast_mask": 3}
    loads_b = rank == 0 if wrong("factors_of_b_in_one_cta") else rank >= 0
    of_factors = 0 if wrong("bytes_of_the_factors_left_out") else k.select(loads_b, k.const(8 * WORDS, i32), 4 * WORDS)
    with k.tcgen05.tmem(256, cta_group=2) as tmem:
        with k.one_thread(LOADER):
            write = State(k, stages, 1)
            with k.range(steps) as step:
                stage = write.index.value
                k.mbarrier.wait(empty + stage, write.phase)
                size = ROWS.bytes + COLUMNS.bytes + of_factors
                k.mbarrier.arrive(full + stage, rank=0, expect_tx=size, qualifiers=("release", "cluster"))
                first = k.shared_address(k.cluster.map_to_peer((full + stage).bytes, 0), u64, 8)
                k.tma.load_box(tiles_a.at(stage).address, a, (step * DEPTH, rank * 128), first, cta_group=2)
                k.tma.load_box(tiles_b.at(stage).address, b, (step * DEPTH, rank * 64), first, cta_group=2)
                there = full + stage if wrong("factors_on_the_own_barrier") else first
                k.tma.load_box(factors.at(0, stage), fa, (0, rank * steps + step), there, cta_group=2)
                with k.if_(loads_b):
                    k.tma.load_box(factors.at(1, stage), fb, (0, step), there, cta_group=2)
                write.advance()
            with k.range(stages):  # the last commits arrive before the CTA ends
                k.mbarrier.wait(empty + write.index, write.phase)
                write.advance()
        with k.one_thread(ISSUER), k.if_(rank == 0):
            read = State(k, stages)
            with k.range(steps) as step:
                stage = read.index.value
                k.mbarrier.wait(full + stage, read.phase)
                if wrong("given_back_before_the_factors"):
                    k.tcgen05.commit(empty + stage, **both)
                group = {} if wrong("factors_of_one_cta") else {"cta_group": 2}
                factors.copy(tmem, stage, (1,) if wrong("no_factors_of_a") else (0, 1), **group)
                operands = tmem, tmem.columns(0, 128), tiles_a.at(stage), tiles_b.at(stage)
                factors.multiply("m256n128k32", *operands, first=step == 0, cta_group=2)
                if wrong("given_back_in_one_cta"):
                    k.tcgen05.commit(empty + stage, cta_group=2)
                elif not wrong("given_back_before_the_factors"):
                    k.tcgen05.commit(empty + stage, **both)
                read.advance()
            k.tcgen05.commit(done, **both)
        with k.if_(k.warp_id() < LOADER):
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            for half in range(0, 128, 64):
                load = k.tcgen05.ld(tmem.columns(half, 64).lanes(k.warp_id() * 32), "32x32b", 64)
                k.tcgen05.wait_ld(load)
                store(c + (rank * 128 + k.thread_id()) * 128 + half, load.values)
