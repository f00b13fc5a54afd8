"""Clusters on sm_90: a multicast ring by hand, sums through the peers' shared memory, a ring between CTAs."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32, u16
from tests.dry_run.kernels.parts import COUNT, MATRIX, OUT, TILE, multiply, named, product, small
from tests.dry_run.registry import Launch, Mistake, Out, scene

STYLE = "CUTLASS sm90 clusters"
HALF = nvb.TensorMap(f16, box=(32, 64))


def _multicast(*counts):
    def launch(rows, steps):
        a, b = small(rows, 64 * rows, 64 * steps), small(steps, 64, 64 * steps)
        return Launch((rows + 1) // 2 * 2, (a, b, Out(product(a, b)), rows, steps))

    return lambda: [launch(*one) for one in counts]


@scene(
    STYLE,
    _multicast((2, 1), (3, 4), (4, 7)),
    why="A CTA without rows of its own takes part to the end: the peer's copies go to it, and it loads half of B.",
    variants={"ends_by_its_last_stages": "No barrier of the cluster is at the end: the producer waits for each stage."},
    gives_back_in_its_own_cta=Mistake(
        "refilled-early", "Each CTA's consumers give a stage back in their own CTA alone."
    ),
    empty_counts_one_cta=Mistake("accounting", "Empty counts one arrival, and both CTAs' consumers arrive."),
    second_gives_back_early=Mistake("released-early", "In the second CTA the stage is given back before the product."),
    announces_its_own_half=Mistake("accounting", "Each CTA announces A and its own half of B, and gets both halves."),
    multicasts_to_itself=Mistake("accounting", "Each half of B goes to the CTA that loads it."),
    second_half_in_the_first_place=Mistake("unwritten", "Both halves of B go to the first 32 rows of its tile."),
    ends_before_the_peer=Mistake("cluster", "A CTA ends while its peer may still arrive in it."),
    begins_before_the_peer=Mistake("cluster", "No barrier of the cluster is between the mbarriers and their use."),
    leaves_without_rows=Mistake("cluster", "A CTA without rows of its own leaves at once."),
    loads_nothing_without_rows=Mistake("undrained", "A CTA without rows loads nothing, nor its half of B."),
)
@nvb.kernel("sm_90a", threads=256, cluster=2)
def multicast(k, a: MATRIX, b: HALF, c: OUT, rows: COUNT, steps: COUNT, *, mistake=None):
    stages, wrong = 3, named(mistake)
    ta, tb = (k.shared_tiles(TILE, stages, name=name) for name in "ab")
    full = k.mbarrier.array(stages, arrivals=1, name="full")
    alone = wrong("empty_counts_one_cta") or wrong("gives_back_in_its_own_cta")
    empty = k.mbarrier.array(stages, arrivals=1 if alone else 2, name="empty")
    if wrong("begins_before_the_peer"):
        k.fence.mbarrier_init()
        k.barrier.sync()
    else:
        k.mbarrier.ready()
    rank, cta = k.cluster.rank(), k.block_id()
    if wrong("leaves_without_rows"):
        k.return_if(cta >= rows)
    with k.if_(k.warpgroup_id() == 0), k.one_thread():
        loaded = k.select(cta < rows, steps, k.const(0, i32)) if wrong("loads_nothing_without_rows") else steps
        with k.range(loaded) as step:
            stage = step % stages
            k.mbarrier.wait(empty + stage, (step // stages & 1) ^ 1)
            own_half = wrong("announces_its_own_half")
            k.mbarrier.arrive(full + stage, expect_tx=TILE.bytes * 3 // 2 if own_half else TILE.bytes * 2)
            k.tma.load(ta.at(stage), a, (cta * 64, step * 64), full + stage)
            place = k.const(0, i32) if wrong("second_half_in_the_first_place") else rank
            half = tb.at(stage).address.byte_offset(place * (TILE.bytes // 2))
            mask = (k.const(1, i32) << rank).to(u16) if wrong("multicasts_to_itself") else 0b11
            k.tma.load_box(half, b, (step * 64, rank * 32), full + stage, multicast_mask=mask)
        if wrong("ends_by_its_last_stages"):
            with k.range(steps, steps + stages) as step:
                k.mbarrier.wait(empty + step % stages, (step // stages & 1) ^ 1)
    with k.else_():
        _consume(k, wrong, stages, (ta, tb, full, empty), c, rows, steps)
    if not wrong("ends_before_the_peer") and not wrong("ends_by_its_last_stages"):
        k.cluster.sync()


def _consume(k, wrong, stages, ring, c, rows, steps):
    (ta, tb, full, empty), rank, cta = ring, k.cluster.rank(), k.block_id()
    acc, thread = k.wgmma.accumulator(64), k.thread_id() % 128

    def release(stage, when):
        if wrong("gives_back_in_its_own_cta"):
            k.mbarrier.arrive(empty + stage, when=when & (thread == 0))
        else:
            k.mbarrier.arrive(empty + stage, rank=thread, when=when & (thread < 2))

    with k.range(steps) as step:
        stage = step % stages
        early = (rank == 1) if wrong("second_gives_back_early") else rank < 0
        k.mbarrier.wait(full + stage, step // stages & 1)
        if wrong("second_gives_back_early"):
            release(stage, early)
        with k.wgmma.group():
            multiply(k, acc, ta.at(stage), tb.at(stage))
        release(stage, ~early)
    with k.if_(cta < rows):
        k.store_accumulator(acc, c + cta * 4096, 64)


def _sums(*counts):
    def launch(rounds):
        x = small(rounds, rounds, 2, 128, kind=np.float32)
        total = x.sum(axis=1, keepdims=True)
        return Launch(2, (x, Out(np.broadcast_to(total, x.shape).copy()), rounds))

    return lambda: [launch(rounds) for rounds in counts]


@scene(
    STYLE,
    _sums(1, 2, 5),
    why="Each round has two barriers of the cluster, the last one's second is that before the end.",
    variants={"barrier_in_two_parts": "The arrival, which releases, and the wait are apart, with other work between."},
    reads_before_the_barrier=Mistake("cluster", "The peer's sums are read with no barrier after they are written."),
    barrier_of_the_cta=Mistake("cluster", "A barrier of the CTA is where one of the cluster has to be."),
    relaxed_arrival=Mistake("cluster", "The arrival orders nothing, so that the peer may read what was there before."),
    writes_again_before_the_peer_has_read=Mistake("cluster", "The next round's sums are written while the peer reads."),
    ends_while_the_peer_reads=Mistake("cluster", "After the last round, a CTA ends while its peer still reads."),
    skips_the_barrier_in_the_last_round=Mistake("cluster", "In the last round the peer's sums are read at once."),
)
@nvb.kernel("sm_90a", threads=128, cluster=2)
def sums_of_both(k, x: OUT, y: OUT, rounds: COUNT, *, mistake=None):
    """y[round, 0] = y[round, 1] = x[round, 0] + x[round, 1]."""
    wrong, thread, rank = named(mistake), k.thread_id(), k.cluster.rank()
    mine = k.shared(f32, 128, align=16, name="mine")
    theirs = k.cluster.map_shared_rank(mine, rank ^ 1)
    with k.range(rounds) as turn:
        place = (turn * 2 + rank) * 128 + thread
        value = x[place]
        mine[thread] = value
        if wrong("barrier_of_the_cta"):
            k.barrier.sync()
        elif wrong("relaxed_arrival"):
            k.cluster.arrive("relaxed")
            k.cluster.wait()
        elif wrong("barrier_in_two_parts"):
            k.cluster.arrive()
            value = value + 0.0
            k.cluster.wait()
        elif wrong("skips_the_barrier_in_the_last_round"):
            with k.if_(turn + 1 < rounds):
                k.cluster.sync()
        elif not wrong("reads_before_the_barrier"):
            k.cluster.sync()
        y[place] = value + theirs[thread]
        if wrong("ends_while_the_peer_reads"):
            with k.if_(turn + 1 < rounds):
                k.cluster.sync()
        elif wrong("writes_again_before_the_peer_has_read"):
            with k.if_(turn + 1 == rounds):
                k.cluster.sync()
        else:
            k.cluster.sync()


def _sent(*counts):
    def launch(steps):
        x = small(steps, steps, 128, kind=np.float32)
        return Launch(2, (x, Out(x[:, ::-1].copy()), steps))

    return lambda: [launch(steps) for steps in counts]


@scene(
    STYLE,
    _sent(1, 2, 3, 7),
    why="The sender waits for mbarriers of its own, at which the receiver's threads arrive; the bytes complete there.",
    no_back_pressure=Mistake("refilled-early", "The sender does not wait for the slot: wrong from the third step on."),
    arrives_before_it_has_read=Mistake("released-early", "The receiver gives the slot back before it reads it."),
    one_arrives_for_all=Mistake("released-early", "One thread gives the slot back before the others have read."),
    arrives_at_its_own=Mistake("accounting", "The receiver arrives at its own mbarrier, for which nobody waits."),
    announces_half=Mistake("accounting", "The receiver announces half of the bytes that come."),
    relaxed_release=Mistake("cluster", "The arrival that gives the slot back is relaxed."),
    sender_leaves=Mistake("cluster", "The sender ends while the receiver still arrives in it."),
    receives_before_it_is_ready=Mistake(
        "cluster", "The sender begins before the receiver's mbarriers are initialised."
    ),
    phase_of_the_slot_restarts=Mistake("parity", "The receiver waits for phase 0 of each slot, every time."),
)
@nvb.kernel("sm_90a", threads=128, cluster=2)
def sent_to_the_peer(k, x: OUT, y: OUT, steps: COUNT, *, mistake=None):
    """CTA 0 sends rows by st.async, CTA 1 writes them turned round: two slots."""
    wrong, thread = named(mistake), k.thread_id()
    slots = k.shared(f32, 2 * 128, align=16, name="slots")
    full = k.mbarrier.array(2, arrivals=1, name="full")
    empty = k.mbarrier.array(2, arrivals=1 if wrong("one_arrives_for_all") else 128, name="empty")
    if wrong("receives_before_it_is_ready"):
        k.fence.mbarrier_init()
        k.barrier.sync()
    else:
        k.mbarrier.ready()

    def release(slot):
        if wrong("one_arrives_for_all"):
            k.mbarrier.arrive(empty + slot, rank=0, when=thread == 0)
        elif wrong("arrives_at_its_own"):
            k.mbarrier.arrive(empty + slot)
        else:
            order = ("relaxed", "cluster") if wrong("relaxed_release") else ("release", "cluster")
            k.mbarrier.arrive(empty + slot, rank=0, qualifiers=order)

    with k.if_(k.cluster.rank() == 0), k.range(steps) as step:
        slot = step & 1
        if not wrong("no_back_pressure"):
            k.mbarrier.wait(empty + slot, (step >> 1 & 1) ^ 1)
        k.async_store.store(slots + (slot * 128 + thread), x[step * 128 + thread], full + slot, 1)
    with k.else_(), k.range(steps) as step:
        slot = step & 1
        with k.if_(thread == 0):
            k.mbarrier.arrive(full + slot, expect_tx=256 if wrong("announces_half") else 512)
        k.mbarrier.wait(full + slot, 0 if wrong("phase_of_the_slot_restarts") else step >> 1 & 1)
        if wrong("arrives_before_it_has_read"):
            release(slot)
        y[step * 128 + thread] = slots[slot * 128 + 127 - thread]
        if not wrong("arrives_before_it_has_read"):
            release(slot)
    if wrong("sender_leaves"):
        with k.if_(k.cluster.rank() == 1):
            k.barrier.sync()
    else:
        k.cluster.sync()
