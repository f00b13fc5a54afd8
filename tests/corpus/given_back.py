"""Threads that have read give their stage back at several mbarriers, and one of them goes on alone before they meet."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32, i32

F32 = nvb.Pointer(f32, align=16)
THREADS, STAGES = 128, 2


@nvb.kernel("sm_90a", threads=THREADS, cluster=4)
def sums_of_a_cluster(k, x: F32, y: F32, rounds: i32(minimum=1)):
    """y[round] is the sum of four rows: the first CTA adds what each stores to it, and gives all their slots back."""
    ranks, thread, rank = 4, k.thread_id(), k.cluster.rank()
    slots = k.shared(f32, STAGES * ranks * THREADS, align=16, name="slots")
    full = k.mbarrier.array(STAGES, arrivals=1, name="full")
    empty = k.mbarrier.array(STAGES, arrivals=THREADS, name="empty")
    k.mbarrier.ready()
    with k.range(rounds, name="turn") as turn:
        stage = turn % STAGES
        k.mbarrier.wait(empty + stage, turn // STAGES % 2 ^ 1)
        with k.if_((rank == 0) & (thread == 0)):
            k.mbarrier.arrive(full + stage, expect_tx=ranks * THREADS * 4)
        place = slots + ((stage * ranks + rank) * THREADS + thread)
        k.async_store.store(place, x[(turn * ranks + rank) * THREADS + thread], full + stage, 0)
        with k.if_(rank == 0):
            k.mbarrier.wait(full + stage, turn // STAGES % 2)
            total = k.var(0.0)
            for other in range(ranks):
                total += slots[(stage * ranks + other) * THREADS + thread]
            y[turn * THREADS + thread] = total
            for other in range(ranks):
                k.mbarrier.arrive(empty + stage, rank=other)
    k.cluster.sync()


@nvb.kernel("sm_90", threads=THREADS + 64)
def products_of_two_rings(k, x: F32, z: F32, y: F32, rows: i32(minimum=1)):
    """Two warps fill a ring each; the readers give both stages back at once, and one of them counts the rows."""
    thread, warp = k.thread_id(), k.warp_id()
    full, empty, tiles = [], [], []
    for name in ("x", "z"):
        tiles.append(k.shared(f32, STAGES * THREADS, align=128, name=name))
        full.append(k.mbarrier.array(STAGES, arrivals=1, name=f"{name}_full"))
        empty.append(k.mbarrier.array(STAGES, arrivals=THREADS, name=f"{name}_empty"))
    counted = k.mbarrier.array(1, arrivals=1, name="counted")
    k.mbarrier.ready()
    for ring, source in enumerate((x, z)):
        with k.if_(warp == 4 + ring), k.if_(k.lane_id() == 0), k.range(rows, name="row") as row:
            stage = row % STAGES
            k.mbarrier.wait(empty[ring] + stage, row // STAGES % 2 ^ 1)
            k.mbarrier.arrive(full[ring] + stage, expect_tx=4 * THREADS)
            k.bulk.load(tiles[ring] + stage * THREADS, source + row * THREADS, 4 * THREADS, full[ring] + stage)
    with k.if_(warp < 4), k.range(rows, name="row") as row:
        stage = row % STAGES
        for ring in range(2):
            k.mbarrier.wait(full[ring] + stage, row // STAGES % 2)
        with k.if_(thread == 0):
            k.mbarrier.arrive(counted)
        there = stage * THREADS + THREADS - 1 - thread
        y[row * THREADS + thread] = tiles[0][there] * tiles[1][there]
        for ring in range(2):
            k.mbarrier.arrive(empty[ring] + stage)
