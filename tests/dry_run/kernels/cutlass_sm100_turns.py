"""CUTLASS on sm_100, persistent: the last warp loads, before the others have read where the columns are."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from tests.dry_run.kernels.cutlass_sm100 import HALF, MATRIX, PART, ROWS, multiply, store
from tests.dry_run.kernels.parts import COUNT, OUT, State, named, product, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "CUTLASS sm100"
ISSUER, LOADER = 4, 5
"""Warps; 0 to 3 store."""


def _tiles(*counts):
    def launch(grid, tiles, steps):
        a, b = small(tiles, 128 * tiles, 64 * steps), small(steps, 64, 64 * steps)
        return Launch(grid, (a, b, Out(product(a, b)), tiles, steps))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _tiles((1, 1, 1), (1, 4, 2), (2, 5, 3)),
    why="The loader runs ahead of the warps that read the address of the columns in shared memory.",
    gives_back_for_all_warps=Mistake("tensor-memory", "One warp gives an accumulator back, with the arrivals of all."),
    accumulators_overlap=Mistake("tensor-memory", "The second accumulator begins in the middle of the first."),
    gives_back_before_it_has_loaded=Mistake(
        "tensor-memory", "The loads' wait comes after the accumulator is given back."
    ),
    lanes_of_the_first_warp=Mistake("tensor-memory", "All four warps load the lanes of the first."),
    reads_the_other_accumulator=Mistake("tensor-memory", "The epilogue loads the accumulator that is being written."),
    loads_one_step_more=Mistake("undrained", "The loader fills one stage more than the issuer multiplies."),
    never_overwrites=Mistake("tensor-memory", "The first product of a tile adds to what is there."),
)
@nvb.kernel("sm_100a", threads=192)
def accumulators_in_turns(k, a: MATRIX, b: PART, c: OUT, tiles: COUNT, steps: COUNT, *, mistake=None):
    stages, wrong = 3, named(mistake)
    ta, tb = k.shared_tiles(ROWS, stages, name="a"), k.shared_tiles(HALF, stages, name="b")
    full, empty = (k.mbarrier.array(stages, arrivals=1, name=name) for name in ("full", "empty"))
    done, free = k.mbarrier.array(2, arrivals=1, name="done"), k.mbarrier.array(2, arrivals=4, name="free")
    k.mbarrier.ready()
    own = lambda: k.range(k.block_id(), tiles, k.block_count(), name="tile")  # noqa: E731
    with k.tcgen05.tmem(128) as tmem:
        columns = lambda which: tmem.columns(which * (32 if wrong("accumulators_overlap") else 64), 64)  # noqa: E731
        with k.one_thread(LOADER):
            write = State(k, stages, 1)
            more = 1 if wrong("loads_one_step_more") else 0
            with own() as tile, k.range(steps + k.select(tile == 0, more, 0) if more else steps) as step:
                here = full + write.index
                k.mbarrier.wait(empty + write.index, write.phase)
                k.mbarrier.arrive(here, expect_tx=ROWS.bytes + HALF.bytes)
                k.tma.load(ta.at(write.index), a, (tile * 128, step * 64), here)
                k.tma.load(tb.at(write.index), b, (0, step * 64), here)
                write.advance()
        with k.one_thread(ISSUER):
            read, turn = State(k, stages), State(k, 2, 1)
            with own():
                k.mbarrier.wait(free + turn.index, turn.phase)
                k.tcgen05.fence_after_thread_sync()
                with k.range(steps) as step:
                    k.mbarrier.wait(full + read.index, read.phase)
                    first = True if wrong("never_overwrites") else step > 0
                    multiply(k, columns(turn.index), ta.at(read.index), tb.at(read.index), first=first)
                    k.tcgen05.commit(empty + read.index)
                    read.advance()
                k.tcgen05.commit(done + turn.index)
                turn.advance()
        with k.if_(k.warp_id() < ISSUER):
            turn = State(k, 2)
            with own() as tile:
                k.mbarrier.wait(done + turn.index, turn.phase)
                k.tcgen05.fence_after_thread_sync()
                which = 1 - turn.index if wrong("reads_the_other_accumulator") else turn.index
                lanes = 0 if wrong("lanes_of_the_first_warp") else k.warp_id() * 32
                load = k.tcgen05.ld(columns(which).lanes(lanes), "32x32b", 64)
                if wrong("gives_back_before_it_has_loaded"):
                    _give_back(k, free + turn.index)
                k.tcgen05.wait_ld(load)
                if wrong("gives_back_for_all_warps"):
                    k.mbarrier.arrive(free + turn.index, count=4, when=k.thread_id() == 0)
                elif not wrong("gives_back_before_it_has_loaded"):
                    _give_back(k, free + turn.index)
                store(c + (tile * 128 + k.thread_id()) * 64, [value.bitcast(f32) for value in load.values])
                turn.advance()


def _give_back(k, barrier):
    k.tcgen05.fence_before_thread_sync()
    k.warp.sync()
    k.mbarrier.arrive(barrier, when=k.lane_id() == 0)
