"""CUTLASS on sm_100: tcgen05 into two accumulators in turns, tensor memory by hand, pairs of CTAs."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, u32, u64
from tests.dry_run.kernels.parts import COUNT, OUT, State, named, product, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "CUTLASS sm100"
ROWS = SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64)
HALF = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
MATRIX = nvb.TensorMap(f16, box=(128, 64))
PART = nvb.TensorMap(f16, box=(64, 64))
MMA, PAIR = nvb.Tcgen05Request("f16"), nvb.Tcgen05Request("f16", cta_group=2)
SHAPE = nvb.InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
PAIR_SHAPE = nvb.InstructionDescriptor(kind="f16", m=256, n=128, a=f16, b=f16, d=f32)
LOADER, ISSUER = 4, 5
"""Warps; 0 to 3 store."""


def multiply(k, d, a, b, *, first, request=MMA, shape=SHAPE):
    """D (+)= A * B^T with K of 64; D is overwritten where `first` does not hold."""
    for column in range(0, 64, 16):
        more = first if column == 0 else True
        k.tcgen05.mma(request, d, a, b, shape, a_at=(0, column), b_at=(0, column), accumulate=more)


def store(out, values):
    for place in range(0, len(values), 4):
        (out + place).store(*[value.bitcast(f32) for value in values[place : place + 4]])


def _tiles(*counts):
    def launch(grid, tiles, steps):
        a, b = small(tiles, 128 * tiles, 64 * steps), small(steps, 64, 64 * steps)
        return Launch(grid, (a, b, Out(product(a, b)), tiles, steps))

    return lambda: [launch(*one) for one in counts]


class Kernel:
    """The ring of tiles, and the mbarriers of the two accumulators."""

    def __init__(self, k, wrong, stages=2):
        self.k, self.wrong, self.stages = k, wrong, stages
        self.a, self.b = k.shared_tiles(ROWS, stages, name="a"), k.shared_tiles(HALF, stages, name="b")
        self.full, self.empty = (k.mbarrier.array(stages, arrivals=1, name=name) for name in ("full", "empty"))
        self.done = k.mbarrier.array(2, arrivals=1, name="done")
        self.free = k.mbarrier.array(2, arrivals=4 if wrong("free_counts_warps") else 128, name="free")

    def tiles(self, count):
        return self.k.range(self.k.block_id(), count, self.k.block_count(), name="tile")

    def load(self, a, b, tiles, steps):
        k, write = self.k, State(self.k, self.stages, 1)
        with self.tiles(tiles) as tile, k.range(steps) as step:
            here = self.full + write.index
            k.mbarrier.wait(self.empty + write.index, write.phase)
            k.mbarrier.arrive(here, expect_tx=ROWS.bytes + HALF.bytes)
            k.tma.load(self.a.at(write.index), a, (tile * 128, step * 64), here)
            k.tma.load(self.b.at(write.index), b, (0, step * 64), here)
            write.advance()

    def columns(self, tmem, which):
        return tmem.columns(which * (32 if self.wrong("accumulators_overlap") else 64), 64)

    def issue(self, tmem, tiles, steps):
        k, wrong, read = self.k, self.wrong, State(self.k, self.stages)
        turn = State(k, 2, 1)
        with self.tiles(tiles):
            which = turn.index
            if not wrong("overwrites_before_it_is_read"):
                k.mbarrier.wait(self.free + which, turn.phase)
                k.tcgen05.fence_after_thread_sync()
            with k.range(steps) as step:
                k.mbarrier.wait(self.full + read.index, read.phase)
                acc = self.columns(tmem, which)
                multiply(k, acc, self.a.at(read.index), self.b.at(read.index), first=step > 0)
                if wrong("stages_are_given_back_by_arrival"):
                    k.mbarrier.arrive(self.empty + read.index)
                else:
                    k.tcgen05.commit(self.empty + read.index)
                if wrong("done_before_the_last_step"):
                    with k.if_(step == k.math.max(steps - 2, k.const(0, nvb.i32))):
                        k.tcgen05.commit(self.done + which)
                read.advance()
            if wrong("done_by_arrival"):
                k.mbarrier.arrive(self.done + which)
            elif not wrong("done_before_the_last_step"):
                k.tcgen05.commit(self.done + which)
            turn.advance()

    def epilogue(self, tmem, c, tiles):
        k, wrong, turn = self.k, self.wrong, State(self.k, 2)
        with self.tiles(tiles) as tile:
            which = turn.index
            phase = tile // 2 & 1 if wrong("done_by_the_number_of_the_tile") else turn.phase
            if wrong("last_tile_does_not_wait"):
                with k.if_(tile + k.block_count() < tiles):
                    k.mbarrier.wait(self.done + which, phase)
            else:
                k.mbarrier.wait(self.done + which, phase)
            if not wrong("no_fence_after_done"):
                k.tcgen05.fence_after_thread_sync()
            lanes = (k.warp_id() ^ 1) * 32 if wrong("lanes_of_another_warp") else k.warp_id() * 32
            load = k.tcgen05.ld(self.columns(tmem, which).lanes(lanes), "32x32b", 64)
            if wrong("frees_before_the_loads_are_done"):
                k.mbarrier.arrive(self.free + which)
            k.tcgen05.wait_ld(load)
            k.tcgen05.fence_before_thread_sync()
            if not wrong("frees_before_the_loads_are_done"):
                k.mbarrier.arrive(self.free + which)
            store(c + (tile * 128 + lanes + k.lane_id()) * 64, load.values)
            turn.advance()


@scene(
    STYLE,
    _tiles((1, 1, 1), (1, 4, 2), (2, 5, 3)),
    why="The issuer begins with phase 1 of both accumulators, and is a tile ahead of the epilogue.",
    overwrites_before_it_is_read=Mistake(
        "tensor-memory", "The issuer does not wait for the epilogue: wrong from the third tile on."
    ),
    accumulators_overlap=Mistake("tensor-memory", "The second accumulator begins in the middle of the first."),
    lanes_of_another_warp=Mistake("tensor-memory", "A warp loads the lanes of its neighbour."),
    frees_before_the_loads_are_done=Mistake(
        "tensor-memory", "The accumulator is given back while the loads from it are on their way."
    ),
    no_fence_after_done=Mistake("tensor-memory", "No tcgen05 fence is between the wait and the loads."),
    last_tile_does_not_wait=Mistake("read-before-wait", "The epilogue of a CTA's last tile does not wait for it."),
    done_before_the_last_step=Mistake("read-before-wait", "The accumulator is committed before the last step."),
    done_by_arrival=Mistake("accounting", "An arrival says that the accumulator is done, which a commit has to."),
    stages_are_given_back_by_arrival=Mistake(
        "released-early", "An arrival gives the stage back while the product reads it, which a commit has to."
    ),
    done_by_the_number_of_the_tile=Mistake("parity", "The phase is that of the tile in the grid, not in the CTA."),
    free_counts_warps=Mistake("accounting", "Free counts four arrivals, and 128 threads arrive."),
)
@nvb.kernel("sm_100a", threads=192, min_ctas=1)
def two_accumulators(k, a: MATRIX, b: PART, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    parts = Kernel(k, named(mistake))
    k.mbarrier.ready()
    with k.tcgen05.tmem(128) as tmem:
        with k.one_thread(LOADER):
            parts.load(a, b, tiles, steps)
        with k.one_thread(ISSUER):
            parts.issue(tmem, tiles, steps)
        with k.if_(k.warp_id() < LOADER):
            parts.epilogue(tmem, c, tiles)


def _added(*counts):
    def launch(steps):
        a, b, begins = (
            small(steps, 128, 64 * steps),
            small(steps + 1, 64, 64 * steps),
            small(9, 128, 64, kind=np.float32),
        )
        return Launch(1, (a, b, Out(product(a, b) + begins, begins=begins), steps))

    return lambda: [launch(steps) for steps in counts]


@scene(
    STYLE,
    _added(1, 2, 5),
    why="The accumulator is written by tcgen05.st before the products add to it.",
    does_not_wait_for_its_stores=Mistake("tensor-memory", "The threads arrive before their tcgen05.st are done."),
    nobody_waits_for_the_stores=Mistake("tensor-memory", "The issuer multiplies before the accumulator is written."),
    half_is_written=Mistake("tensor-memory", "Half of the columns that the products add to are not written."),
    freed_while_others_load=Mistake("tensor-memory", "The first warp frees the columns before the others have loaded."),
    freed_before_the_product_is_done=Mistake(
        "tensor-memory", "The fourth warp does not wait for the last products, and loads."
    ),
    address_before_the_barrier=Mistake("race", "The address of the columns is read with no barrier after its write."),
    freed_by_a_warp_that_is_not_there=Mistake("tensor-memory", "The seventh warp of six frees the columns."),
    never_freed_by_one_path=Mistake("tensor-memory", "With one step alone, the columns are not freed."),
)
@nvb.kernel("sm_100a", threads=192, min_ctas=1)
def accumulator_by_hand(k, a: MATRIX, b: PART, c: OUT, steps: COUNT, *, mistake=None):
    """C += A * B^T: alloc, st, mma, ld and dealloc one by one."""
    wrong = named(mistake)
    parts, cell = Kernel(k, wrong), k.shared(u32, 1, name="cell")
    written = k.mbarrier.array(1, arrivals=128, name="written")
    k.mbarrier.ready()
    warp = k.warp_id()
    with k.if_(warp == 0):
        k.tcgen05.alloc(cell, 64)
        k.tcgen05.relinquish_alloc_permit()
    if not wrong("address_before_the_barrier"):
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
        k.tcgen05.fence_after_thread_sync()
    tmem = cell[0]
    out = c + (warp * 32 + k.lane_id()) * 64
    with k.one_thread(LOADER):
        parts.load(a, b, k.const(1, nvb.i32), steps)
    with k.one_thread(ISSUER):
        read = State(k, parts.stages)
        if not wrong("nobody_waits_for_the_stores"):
            k.mbarrier.wait(written, 0)
        k.tcgen05.fence_after_thread_sync()
        with k.range(steps):
            k.mbarrier.wait(parts.full + read.index, read.phase)
            multiply(k, tmem, parts.a.at(read.index), parts.b.at(read.index), first=True)
            k.tcgen05.commit(parts.empty + read.index)
            read.advance()
        k.tcgen05.commit(parts.done)
    with k.if_(warp < LOADER):
        _add(k, wrong, tmem + (warp * 32 << 16).to(u32), out, written, parts.done)
    if not wrong("freed_while_others_load"):
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
    frees = warp == (6 if wrong("freed_by_a_warp_that_is_not_there") else 0)
    with k.if_(frees & (steps > 1) if wrong("never_freed_by_one_path") else frees):
        k.tcgen05.dealloc(tmem, 64)


def _add(k, wrong, mine, out, written, done):
    """A warp's lanes: what C is goes in, what it becomes comes out."""
    width = 32 if wrong("half_is_written") else 64
    values = [word.bitcast(u32) for place in range(0, width, 4) for word in (out + place).load(4)]
    for first in range(0, width, 32):
        k.tcgen05.st(mine + first, "32x32b", values[first : first + 32])
    if not wrong("does_not_wait_for_its_stores"):
        k.tcgen05.wait_st()
    k.tcgen05.fence_before_thread_sync()
    k.mbarrier.arrive(written)
    if wrong("freed_before_the_product_is_done"):
        with k.if_(k.warp_id() != 3):
            k.mbarrier.wait(done, 0)
    else:
        k.mbarrier.wait(done, 0)
    k.tcgen05.fence_after_thread_sync()
    load = k.tcgen05.ld(mine, "32x32b", 64)
    k.tcgen05.wait_ld(load)
    store(out, load.values)


def _pairs(*counts):
    def launch(pairs, steps):
        a, b = small(pairs, 256 * pairs, 64 * steps), small(steps, 128, 64 * steps)
        return Launch(2 * pairs, (a, b, Out(product(a, b)), steps))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _pairs((1, 1), (1, 2), (2, 5)),
    why="Both CTAs' copies complete on the first one's mbarrier; the first commits to both.",
    variants={
        "ready_in_the_cta": "The mbarriers are ready in the CTA alone: the allocation has a barrier of the cluster.",
    },
    empty_in_the_first_alone=Mistake("accounting", "The commit gives the stage back in the first CTA alone."),
    full_counts_one=Mistake("accounting", "Full counts the first CTA's arrival alone."),
    bytes_of_the_first_alone=Mistake("accounting", "The second CTA arrives without its bytes."),
    second_loads_to_its_own=Mistake("accounting", "The second CTA's copies complete on its own mbarrier."),
    done_in_the_first_alone=Mistake("accounting", "The last commit is for the first CTA alone."),
    second_does_not_wait_for_empty=Mistake("refilled-early", "The second CTA fills its stages without waiting."),
    second_does_not_wait_for_done=Mistake("read-before-wait", "The second CTA's epilogue waits for nothing."),
    ends_before_the_last_commits=Mistake("cluster", "The second CTA may end before the last commits to its stages."),
)
@nvb.kernel("sm_100a", threads=128, cluster=2)
def pair(k, a: MATRIX, b: PART, c: OUT, steps: COUNT, *, mistake=None):
    """256 rows over two CTAs: each loads its half of A and of B, the first multiplies for both."""
    stages, wrong = 2, named(mistake)
    ta, tb = k.shared_tiles(ROWS, stages, name="a"), k.shared_tiles(HALF, stages, name="b")
    full = k.mbarrier.array(stages, arrivals=1 if wrong("full_counts_one") else 2, name="full")
    empty, done = (k.mbarrier.array(count, arrivals=1, name=name) for count, name in ((stages, "empty"), (1, "done")))
    if wrong("ready_in_the_cta"):
        k.fence.mbarrier_init()
        k.barrier.sync()
    else:
        k.mbarrier.ready()
    rank, number = k.cluster.rank(), k.cluster.id()
    both = lambda name: 0b01 if wrong(name) else 0b11  # noqa: E731
    with k.tcgen05.tmem(128, cta_group=2) as tmem:
        with k.one_thread(0):
            _load_half(k, wrong, stages, ((ta, a), (tb, b)), full, empty, steps)
        with k.one_thread(1), k.if_(rank == 0):
            with k.range(steps) as step:
                stage = step % stages
                k.mbarrier.wait(full + stage, step // stages & 1)
                multiply(k, tmem, ta.at(stage), tb.at(stage), first=step > 0, request=PAIR, shape=PAIR_SHAPE)
                k.tcgen05.commit(empty + stage, cta_group=2, multicast_mask=both("empty_in_the_first_alone"))
            k.tcgen05.commit(done, cta_group=2, multicast_mask=both("done_in_the_first_alone"))
        if wrong("second_does_not_wait_for_done"):
            with k.if_(rank == 0):
                k.mbarrier.wait(done, 0)
        else:
            k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()
        for half in (0, 64):
            load = k.tcgen05.ld(tmem.columns(half, 64).lanes(k.warp_id() * 32), "32x32b", 64)
            k.tcgen05.wait_ld(load)
            store(c + (((number * 2 + rank) * 128 + k.thread_id()) * 128 + half), load.values)


def _load_half(k, wrong, stages, sources, full, empty, steps):
    """A CTA's part of each stage; at the end every stage has come back."""
    rank, number = k.cluster.rank(), k.cluster.id()

    def wait(step):
        k.mbarrier.wait(empty + step % stages, (step // stages & 1) ^ 1)

    with k.range(steps) as step:
        stage = step % stages
        if wrong("second_does_not_wait_for_empty"):
            with k.if_(rank == 0):
                wait(step)
        else:
            wait(step)
        size = ROWS.bytes + HALF.bytes
        if wrong("bytes_of_the_first_alone"):
            size = k.select(rank == 0, k.const(size, nvb.i32), k.const(0, nvb.i32))
        k.mbarrier.arrive(full + stage, rank=0, expect_tx=size, qualifiers=("release", "cluster"))
        owner = rank if wrong("second_loads_to_its_own") else 0
        first = k.shared_address(k.cluster.map_to_peer((full + stage).bytes, owner), u64, 8)
        (ta, a), (tb, b) = sources
        k.tma.load_box(ta.at(stage).address, a, (step * 64, number * 256 + rank * 128), first, cta_group=2)
        k.tma.load_box(tb.at(stage).address, b, (step * 64, rank * 64), first, cta_group=2)
    if not wrong("ends_before_the_last_commits"):
        with k.range(steps, steps + stages) as step:
            wait(step)
