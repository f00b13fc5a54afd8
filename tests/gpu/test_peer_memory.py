"""Shared memory of the other CTA of a cluster on a GPU: plain loads, stores and atomics, against NumPy."""

from __future__ import annotations

import numpy as np

from nvbackend.intrinsics.row.types import u32
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES

THREADS, CLUSTER = 64, 2
WORDS = THREADS * CLUSTER


def place(k):
    """The thread's index in its cluster."""
    return k.cluster.rank() * THREADS + k.thread_id()


def test_what_a_peer_wrote_is_loaded():
    def body(k, source, out):
        own = k.shared(u32, THREADS)
        own[k.thread_id()] = source[place(k)]
        k.cluster.sync()
        out[place(k)] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[THREADS - 1 - k.thread_id()]
        k.cluster.sync()

    given = np.random.default_rng(1).integers(0, 1 << 32, WORDS, np.uint64).astype(np.uint32)
    wanted = given.reshape(CLUSTER, THREADS)[::-1, ::-1].reshape(-1)
    assert np.array_equal(words(body, given, WORDS, threads=THREADS, cluster=CLUSTER), wanted)


def test_vectors_are_stored_to_a_peer():
    def body(k, source, out):
        own = k.shared(u32, 4 * THREADS, align=16)
        k.cluster.sync()
        mine = k.thread_id() * 4
        peer = k.shared_address(k.cluster.map_to_peer(own.bytes, k.cluster.peer_rank()), u32, 16)
        (peer + mine).store(*(source[place(k) * 4 + index] for index in range(4)))
        k.cluster.sync()
        for index in range(4):
            out[place(k) * 4 + index] = own[mine + index]

    given = np.random.default_rng(2).integers(0, 1 << 32, 4 * WORDS, np.uint64).astype(np.uint32)
    wanted = given.reshape(CLUSTER, 4 * THREADS)[::-1].reshape(-1)
    assert np.array_equal(words(body, given, 4 * WORDS, threads=THREADS, cluster=CLUSTER), wanted)


def test_atomics_of_all_ctas_meet_in_one():
    def body(k, source, out):
        bins = k.shared(u32, 8)
        with k.if_(k.thread_id() < 8):
            bins[k.thread_id()] = 0
        k.cluster.sync()
        k.cluster.map_shared_rank(bins, 0).byte_offset(source[place(k)] * 4).atomic("add", 1)
        k.cluster.sync()
        with k.if_((k.cluster.rank() == 0) & (k.thread_id() < 8)):
            out[k.thread_id()] = bins[k.thread_id()]

    given = np.random.default_rng(3).integers(0, 8, WORDS).astype(np.uint32)
    found = words(body, given, 8, threads=THREADS, cluster=CLUSTER)
    assert np.array_equal(found, np.bincount(given, minlength=8))


def test_an_address_that_a_table_holds():
    """The addresses of all CTAs in one array, each loaded again and read at: those of this CTA and those of peers."""

    def body(k, source, out):
        own, table = k.shared(u32, THREADS), k.shared(u32, CLUSTER)
        own[k.thread_id()] = source[place(k)]
        with k.if_(k.thread_id() < CLUSTER):
            table[k.thread_id()] = k.cluster.map_to_peer(own.bytes, k.thread_id())
        k.cluster.sync()
        for rank in range(CLUSTER):
            mapped = k.shared_address(table[rank], u32, 4, window="cluster")
            out[place(k) * CLUSTER + rank] = mapped[k.thread_id()]
        out[WORDS * CLUSTER + place(k)] = k.shared_address(own.bytes, u32, 4, window="cluster")[k.thread_id()]
        k.cluster.sync()

    given = np.random.default_rng(4).integers(0, 1 << 32, WORDS, np.uint64).astype(np.uint32)
    columns = given.reshape(CLUSTER, THREADS)
    wanted = np.stack([columns.T] * CLUSTER).reshape(-1)
    found = words(body, given, WORDS * (CLUSTER + 1), threads=THREADS, cluster=CLUSTER)
    assert np.array_equal(found[: WORDS * CLUSTER], wanted)
    assert np.array_equal(found[WORDS * CLUSTER :], given)
