"""QuACK: a row is reduced over a cluster, through st.async to all CTAs at once."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, u32
from tests.dry_run.kernels.parts import COUNT, OUT, named, small, warp_sum
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "QuACK"
CTAS, WARPS, BYTES = 2, 4, 4


def _rows(*counts):
    def launch(rows):
        x = small(rows, rows, CTAS, 32 * WARPS, kind=np.float32)
        return Launch(CTAS, (x.reshape(-1), rows, Out(np.repeat(x.sum((1, 2)), CTAS))))

    return lambda: [launch(rows) for rows in counts]


@scene(
    STYLE,
    _rows(1, 2, 5),
    why="A lane sends to the CTA of its own number, and bytes may come before they are announced. A warp sends the"
    " next row after it has read this one, so a place is free two rows later.",
    announces_its_own_warps=Mistake("accounting", "Each CTA announces the sums of its own warps alone."),
    sends_to_itself=Mistake("unwritten", "Every lane sends to its own CTA."),
    one_place=Mistake(
        "refilled-early", "All rows go to one place, and a peer sends the next row while this one is read."
    ),
    begins_before_the_peer=Mistake("cluster", "No barrier of the cluster is between the mbarriers and their use."),
)
@nvb.kernel("sm_90a", threads=32 * WARPS, cluster=CTAS)
def sums_of_a_cluster(k, x: OUT, rows: COUNT, out: OUT, *, mistake=None):
    wrong = named(mistake)
    places = 1 if wrong("one_place") else 2
    sums = k.shared(f32, places * CTAS * WARPS, name="sums")
    here = k.mbarrier.array(places, arrivals=1, name="here")
    if wrong("begins_before_the_peer"):
        k.fence.mbarrier_init()
        k.barrier.sync()
    else:
        k.mbarrier.ready()
    rank, thread, warp, lane = k.cluster.rank(), k.thread_id(), k.warp_id(), k.lane_id()
    with k.range(rows) as row:
        place, phase = row % places, row // places & 1
        mine = warp_sum(k, x[(row * CTAS + rank) * (32 * WARPS) + thread])
        announced = BYTES * WARPS * (1 if wrong("announces_its_own_warps") else CTAS)
        with k.if_(thread == 0):
            k.mbarrier.arrive(here + place, expect_tx=announced)
        with k.if_(lane < CTAS):
            to = rank if wrong("sends_to_itself") else lane
            cell = sums + (place * (CTAS * WARPS) + rank * WARPS + warp)
            k.async_store.store(cell, mine.bitcast(u32), here + place, rank=to)
        k.mbarrier.wait(here + place, phase)
        total = (sums + place * (CTAS * WARPS)).load(4) + (sums + (place * (CTAS * WARPS) + 4)).load(4)
        whole = total[0]
        for one in total[1:]:
            whole = whole + one
        with k.if_(thread == 0):
            out[row * CTAS + rank] = whole
        k.barrier.sync()
    k.cluster.sync()
