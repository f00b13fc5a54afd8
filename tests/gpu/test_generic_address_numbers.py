"""Instructions on generic addresses of shared memory on a GPU, of this CTA and of the other one of a cluster.

multimem is not among them: its addresses are those of a multicast object, which takes several GPUs joined by NVLink.
"""

from __future__ import annotations

import numpy as np

from nvbackend.intrinsics import spellings
from nvbackend.intrinsics.copy import async_store, matrix_move
from nvbackend.intrinsics.row.types import u32
from nvbackend.intrinsics.sync import cluster, mbarrier, mbarrier_phases
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES


def generic(row):
    (found,) = [one for one in spellings.other_spellings(row) if one.axes["spelling"] == "generic"]
    return found


def random_words(count, seed):
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint64).astype(np.uint32)


def the_states_of_a_phase(k, source, out):
    barrier = k.shared(u32, 2, align=8)
    with k.if_(k.thread_id() == 0):
        here = k.generic_address(barrier)
        k.instruction(generic(mbarrier.init()), barrier=here, count=3)
        arrive, wait = generic(mbarrier.arrive_state()), generic(mbarrier_phases.wait("test_wait", "state"))
        first = k.instruction(arrive, barrier=here)["state"][0]
        second = k.instruction(generic(mbarrier_phases.arrive_state(counted=True)), barrier=here, count=1)["state"][0]
        out[0], out[1] = k.mbarrier.pending_count(first), k.mbarrier.pending_count(second)
        early = k.instruction(wait, barrier=here, state=second)["done"][0]
        out[2] = k.select(early, 1, 0).to(u32)
        k.instruction(generic(mbarrier.arrive()), barrier=here)
        late = k.instruction(wait, barrier=here, state=first)["done"][0]
        out[3] = k.select(late, 1, 0).to(u32)
        parity = generic(mbarrier_phases.wait("try_wait", time_hint=True))
        done = k.instruction(parity, barrier=here, parity=0, time_hint=1000)["done"][0]
        out[4] = k.select(done, 1, 0).to(u32)
        expect, complete = (generic(mbarrier_phases.transaction(one, "cta")) for one in mbarrier_phases.TRANSACTIONS)
        k.instruction(expect, barrier=here, bytes=64)
        k.instruction(generic(mbarrier.arrive(counted=True)), barrier=here, count=3)
        other = k.instruction(parity, barrier=here, parity=1, time_hint=0)["done"][0]
        out[5] = k.select(other, 1, 0).to(u32)
        k.instruction(complete, barrier=here, bytes=64)
        other = k.instruction(parity, barrier=here, parity=1, time_hint=1000)["done"][0]
        out[6] = k.select(other, 1, 0).to(u32)
        k.instruction(generic(mbarrier.inval()), barrier=here)


def test_the_states_of_a_phase():
    # Pending 3 and 2; not done after two arrivals, done after three; then a phase that waits for 64 bytes as well.
    assert list(words(the_states_of_a_phase, np.zeros(1, np.uint32), 7)) == [3, 2, 0, 1, 1, 0, 1]


def a_barrier_of_the_other_cta(k, source, out):
    barrier = k.mbarrier.array(1, 32)
    k.mbarrier.ready()
    k.cluster.sync()
    lane, rank = k.thread_id(), k.cluster.rank()
    there = k.instruction(cluster.mapa(None, 64), address=barrier, rank=(1 - rank).to(u32))["mapped"][0]
    also = k.instruction(
        cluster.mapa("shared::cluster", 64), address=barrier.bytes.to(there.type), rank=lane.to(u32) % 2
    )
    k.instruction(generic(mbarrier.arrive()), barrier=there)
    k.mbarrier.wait(barrier, 0)
    out[rank * 64 + lane] = k.instruction(cluster.getctarank(None, 64), address=there)["rank"][0]
    wide = cluster.getctarank("shared::cluster", 64)
    out[rank * 64 + 32 + lane] = k.instruction(wide, address=also["mapped"][0])["rank"][0]
    k.cluster.sync()


def test_a_barrier_of_the_other_cta():
    found = words(a_barrier_of_the_other_cta, np.zeros(1, np.uint32), 128, cluster=2).reshape(2, 2, 32)
    assert set(found[0, 0]) == {1}
    assert set(found[1, 0]) == {0}
    assert np.array_equal(found[0, 1], np.arange(32) % 2)
    assert np.array_equal(found[1, 1], np.arange(32) % 2)


def matrices_at_generic_addresses(k, source, out):
    lane = k.thread_id()
    shared, copied = k.shared(u32, 128, align=128), k.shared(u32, 128, align=128)
    for turn in range(4):
        shared[turn * 32 + lane] = source[turn * 32 + lane]
    k.barrier.sync()
    fragment = k.instruction(generic(matrix_move.ldmatrix(4)), address=shared.byte_offset(lane * 16))["fragment"]
    k.instruction(generic(matrix_move.stmatrix(4)), address=copied.byte_offset(lane * 16), fragment=fragment)
    k.barrier.sync()
    for turn, one in enumerate(fragment):
        out[turn * 32 + lane] = one
        out[128 + turn * 32 + lane] = copied[turn * 32 + lane]


def test_matrices_at_generic_addresses():
    stored = random_words(128, 5)
    found = words(matrices_at_generic_addresses, stored, 256)
    # Row t/4 of a matrix is four words, and lane t holds word t%4 of it: word t of the matrix.
    assert np.array_equal(found[:128], stored)
    assert np.array_equal(found[128:], stored)


def values_into_the_other_cta(k, source, out):
    shared, total = k.shared(u32, 64, align=128), k.shared(u32, 1, align=16)
    barrier = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    lane, rank = k.thread_id(), k.cluster.rank()
    with k.if_(lane == 0):
        total[0] = 1000 * (rank + 1).to(u32)
        k.mbarrier.arrive(barrier, expect_tx=64 * 4 + 32 * 4)
    k.cluster.sync()
    peer = (1 - rank).to(u32)
    at = [
        k.instruction(cluster.mapa(None, 64), address=one, rank=peer)["mapped"][0]
        for one in (shared + lane * 2, total, barrier)
    ]
    pair = [source[rank * 64 + lane * 2], source[rank * 64 + lane * 2 + 1]]
    k.instruction(generic_store(), destination=at[0], values=pair, barrier=at[2])
    k.instruction(generic(async_store.reduce("add", "u32")), destination=at[1], value=pair[0] >> 8, barrier=at[2])
    k.mbarrier.wait(barrier, 0)
    for turn in (0, 1):
        out[rank * 65 + turn * 32 + lane] = shared[turn * 32 + lane]
    with k.if_(lane == 0):
        out[rank * 65 + 64] = total[0]
    k.cluster.sync()


def generic_store():
    (found,) = [
        one for one in spellings.other_spellings(async_store.store("u32", 2)) if one.axes["spelling"] == "weak generic"
    ]
    return found


def test_values_reach_the_other_cta_and_are_added_there():
    values = random_words(128, 6)
    found = words(values_into_the_other_cta, values, 130, cluster=2).reshape(2, 65)
    for rank in (0, 1):
        sent = values.reshape(2, 64)[1 - rank]
        assert np.array_equal(found[rank, :64], sent)
        assert found[rank, 64] == 1000 * (rank + 1) + (sent[::2] >> 8).sum()
