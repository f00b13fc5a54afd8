"""Clusters: their barrier, their ranks, and what CTAs do to one another."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32, i32, u32, u64
from tests.rules.example import kernel


@kernel("cluster.arrive-alone", cluster=2)
def arrival_without_a_wait(k):
    k.cluster.arrive()
    k.cluster.wait()  # keeps


@kernel("cluster.wait-alone", cluster=2)
def wait_without_an_arrival(k):
    k.cluster.arrive()  # keeps
    k.cluster.wait()


@kernel("cluster.arrived-twice", cluster=2)
def two_arrivals_and_one_wait(k):
    k.cluster.arrive()
    k.cluster.arrive()  # breaks
    k.cluster.wait()


@kernel("cluster.exit-before-peers", cluster=2)
def end_while_a_signal_is_on_its_way(k):
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)
    k.cluster.sync()  # keeps


@kernel("cluster.access-before-start", cluster=2)
def load_from_a_peer_that_may_not_have_started(k, out: nvb.Pointer[f32]):
    peer = k.cluster.map_shared_rank(k.shared(f32, 128), k.cluster.peer_rank())
    k.cluster.sync()  # keeps
    out[0] = peer[0]
    k.cluster.sync()


@kernel("cluster.exit-before-access", cluster=2)
def load_from_a_peer_that_may_have_ended(k, out: nvb.Pointer[f32]):
    peer = k.cluster.map_shared_rank(k.shared(f32, 128), k.cluster.peer_rank())
    k.cluster.sync()
    out[0] = peer[0]
    k.cluster.sync()  # keeps


@kernel("cluster.not-shared", cluster=2)
def global_memory_of_a_peer(k, out: nvb.Pointer[f32]):
    own = k.shared(f32, 128)
    k.cluster.sync()
    peer = k.cluster.map_shared_rank(out, 1)  # breaks
    peer = k.cluster.map_shared_rank(own, 1)  # keeps
    peer[0] = 1.0
    k.cluster.sync()


@kernel("cluster.missing-barrier", cluster=2)
def read_of_what_a_peer_may_not_have_written(k, out: nvb.Pointer[f32]):
    own = k.shared(f32, 128)
    own[k.thread_id()] = 1.0
    k.cluster.arrive("relaxed")  # breaks
    k.cluster.arrive()  # keeps
    k.cluster.wait()
    out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]
    k.cluster.sync()


@kernel("cluster.peer-address", cluster=2)
def copy_into_the_memory_of_a_peer(k, a: nvb.Pointer(f32, align=16)):
    own = k.shared(f32, 128, align=16)
    k.cp_async.copy(k.cluster.map_shared_rank(own, k.cluster.peer_rank()), a, 16)  # breaks
    k.cp_async.copy(own, a, 16)  # keeps
    k.cp_async.wait_group()


@kernel("cluster.window", cluster=2)
def address_from_a_table(k, table: nvb.Pointer[u32], out: nvb.Pointer[f32]):
    k.cluster.sync()
    value = k.shared_address(table[0], f32, 4)  # breaks
    value = k.shared_address(table[0], f32, 4, window="cluster")  # keeps
    out[0] = value[0]
    k.cluster.sync()


@kernel("cluster.no-peer")
def peer_without_a_cluster(k, rank: i32):
    shared = k.shared(u64, 1).bytes
    k.cluster.map_to_peer(shared, rank)  # breaks
    k.cluster.map_to_peer(shared, 0)  # keeps


@kernel("cluster.rank", cluster=2)
def third_of_two(k):
    shared = k.shared(u64, 1).bytes
    k.cluster.map_to_peer(shared, 2)  # breaks
    k.cluster.map_to_peer(shared, 1)  # keeps


@kernel("cluster.scope", cluster=2)
def barrier_of_the_whole_gpu(k):
    k.cluster.sync(scope="gpu")  # breaks
    k.cluster.sync(scope="cluster")  # keeps
