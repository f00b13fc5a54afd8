"""CTAs of a cluster that meet and reach each other: `program(k, a, n)`; of wrong ones, the lines are marked."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16
from nvbackend.intrinsics.row.types import u64
from tests.rules.programs.program import breaks, keeps

LAYOUT = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)


@keeps()
def a_pair_with_work_between(k, a, n):
    k.cluster.arrive()
    with k.if_(n > 0):
        k.barrier.sync()
    k.cluster.wait()


@keeps()
def a_pair_in_each_round(k, a, n):
    with k.range(n):
        k.cluster.sync()
    k.cluster.arrive("relaxed")
    k.cluster.wait()


@keeps()
def the_whole_cluster_ends(k, a, n):
    k.return_if(k.cluster.id() >= n)
    k.cluster.sync()


@keeps()
def both_ends_behind_the_barrier(k, a, n):
    k.cluster.sync()
    k.return_if(k.thread_id() >= 128)


@keeps()
def under_a_condition_that_nobody_knows(k, a, n):
    with k.if_(n > 0):
        k.cluster.arrive()
    with k.if_(n > 0):
        k.cluster.wait()


def signalled(k, finish=True, sync=False):
    ring = k.pipeline(2, 1, a=LAYOUT, multicast=True)
    k.mbarrier.ready()
    a, n, _ = k.arguments
    with k.producer(registers=40):
        with k.range(n) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (0, step * 64), stage.full, multicast=True)
        if finish:
            ring.finish()
    with k.consumers(registers=232), k.range(n), ring.drain():
        pass  # breaks
    if sync:
        k.cluster.sync()


@keeps()
def a_ring_that_is_finished(k, a, n):
    signalled(k)


@keeps()
def a_cluster_barrier_at_the_end(k, a, n):
    signalled(k, finish=False, sync=True)


@keeps()
def signals_waited_for_in_turn(k, a, n):
    """The peer may be one round ahead, so rounds take turns at two mbarriers."""
    done = k.mbarrier.array(2, arrivals=1)
    k.mbarrier.ready()
    with k.range(n) as step:
        k.mbarrier.arrive(done + step % 2, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)
        k.mbarrier.wait(done + step % 2, step // 2 & 1)
        k.barrier.sync()


@keeps()
def a_multicast_that_all_wait_for(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)
    k.mbarrier.wait(full, 0)


@keeps()
def a_multicast_of_one_cta_that_all_wait_for(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=1024)
        with k.if_(k.cluster.rank() == 0):
            k.bulk.load(tile.address, k.arguments[-1], 1024, full, multicast_mask=3)
    k.mbarrier.wait(full, 0)


@keeps()
def whole_clusters_go_by_a_multicast(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.cluster.id() < n):
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
            k.tma.load(tile, a, (0, 0), full, multicast=True)
        k.mbarrier.wait(full, 0)


@keeps()
def multicasts_in_rounds_that_each_cta_counts(k, a, n):
    tile, full, phase = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1), k.var(0)
    k.mbarrier.ready()
    with k.range(k.block_id(), n, k.block_count()):
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
            k.tma.load(tile, a, (0, 0), full, multicast=True)
        k.mbarrier.wait(full, phase)
        phase ^= 1
        k.barrier.sync()


@keeps()
def this_very_cta(k, a, n):
    k.cluster.map_to_peer(k.shared(u64, 1).bytes, 0)


@breaks("cluster.arrived-twice", cluster=2)
def arrived_twice(k, a, n):
    k.cluster.arrive()
    k.cluster.arrive()  # breaks
    k.cluster.wait()


@breaks("cluster.arrived-twice", cluster=2)
def arrived_in_each_round(k, a, n):
    with k.range(n):
        k.cluster.arrive()  # breaks
    k.cluster.sync()  # breaks


@breaks("cluster.wait-alone", cluster=2)
def waited_for_nothing(k, a, n):
    k.cluster.wait()  # breaks


@breaks("cluster.wait-alone", cluster=2)
def waited_twice(k, a, n):
    k.cluster.sync()
    k.cluster.wait()  # breaks


@breaks("cluster.arrive-alone", cluster=2)
def never_waited_for(k, a, n):
    k.cluster.arrive()  # breaks


@breaks("cluster.exit-before-peers", cluster=2)
def a_ring_that_is_not_finished(k, a, n):
    ring = k.pipeline(2, 1, a=LAYOUT, multicast=True)
    k.mbarrier.ready()
    with k.producer(registers=40), k.range(n) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (0, step * 64), stage.full, multicast=True)
    with k.consumers(registers=232), k.range(n), ring.drain():  # breaks
        pass


@breaks("cluster.exit-before-peers", cluster=2)
def a_peer_signalled_at_the_end(k, a, n):
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)  # breaks


@breaks("cluster.exit-before-peers", cluster=2)
def a_peer_signalled_twice_at_the_end(k, a, n):
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)  # breaks
    with k.if_(n > 0):
        k.mbarrier.arrive(done, rank=k.cluster.peer_rank(), when=k.thread_id() == 0)  # breaks


@breaks("cluster.exit-before-peers", cluster=2)
def a_later_multicast_that_nobody_waits_for(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)
    k.mbarrier.wait(full, 0)
    with k.if_((k.cluster.id() < n) & (k.thread_id() == 0)):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)  # breaks


@breaks("cluster.exit-before-peers", cluster=2)
def a_multicast_that_one_cta_waits_for(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)  # breaks
    with k.if_(k.cluster.rank() == 0):
        k.mbarrier.wait(full, 0)


@breaks("cluster.exit-before-peers", cluster=2)
def a_cta_that_returns_before_the_bytes_of_its_peer(k, a, n):
    tile, full = k.shared_tiles(LAYOUT, 1).at(0), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    k.return_if(k.block_id() >= n)
    with k.if_(k.thread_id() == 0):
        k.mbarrier.arrive(full, expect_tx=LAYOUT.bytes)
        k.tma.load(tile, a, (0, 0), full, multicast=True)  # breaks
    k.mbarrier.wait(full, 0)


@breaks("cluster.rank", cluster=2)
def a_rank_past_the_last(k, a, n):
    k.cluster.map_to_peer(k.shared(u64, 1).bytes, 2)  # breaks


@breaks("cluster.no-peer", cluster=1)
def peers_without_a_cluster(k, a, n):
    k.cluster.map_to_peer(k.shared(u64, 1).bytes, n)  # breaks


@breaks("cluster.no-peer", cluster=3)
def a_pair_of_three(k, a, n):
    k.cluster.peer_rank()  # breaks


@breaks("cluster.scope", cluster=2)
def a_scope_that_there_is_not(k, a, n):
    k.cluster.sync(scope="gpu")  # breaks


@breaks("cluster.access-before-start", cluster=2)
def a_load_before_the_peer_has_started(k, a, n):
    peer = k.cluster.map_shared_rank(k.shared(u64, 1), k.cluster.peer_rank())
    with k.if_(n > 0):
        k.arguments[2][0] = peer[0]  # breaks
    k.cluster.sync()


@breaks("cluster.exit-before-access", cluster=2)
def a_store_after_the_peer_has_ended(k, a, n):
    peer = k.cluster.map_shared_rank(k.shared(u64, 1), k.cluster.peer_rank())
    k.cluster.sync()
    with k.if_(n > 0):
        peer[0] = 1  # breaks
        k.return_()
    k.cluster.sync()


@breaks("cluster.missing-barrier", cluster=2)
def a_read_after_a_barrier_of_one_cta(k, a, n):
    own = k.shared(u64, 256)
    k.cluster.sync()
    own[k.thread_id()] = 1
    k.barrier.sync()
    k.arguments[2][0] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]  # breaks
    k.cluster.sync()


@breaks("cluster.missing-barrier", cluster=2)
def what_one_cta_does_beside_it(k, a, n):
    own = k.shared(u64, 256)
    k.cluster.sync()
    own[k.thread_id()] = 1
    with k.if_(k.cluster.rank() == 0):
        k.fence.thread()
    k.barrier.sync()
    k.arguments[2][0] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]  # breaks
    k.cluster.sync()


@breaks("cluster.missing-barrier", cluster=2)
def a_read_of_a_peer_at_a_parameter(k, a, n):
    own, thread = k.shared(u64, 256), k.thread_id()
    k.cluster.sync()
    with k.if_(thread < 128):
        own[n + thread] = 1
    k.barrier.sync()
    with k.if_(thread < 128):
        k.arguments[2][0] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[n + thread]  # breaks
    k.cluster.sync()


@breaks("cluster.missing-barrier", cluster=2)
def reads_of_a_peer_in_rounds(k, a, n):
    own = k.shared(u64, 512)
    k.cluster.sync()
    peer = k.cluster.map_shared_rank(own, k.cluster.peer_rank())
    with k.range(2) as i:
        own[i * 256 + k.thread_id()] = 1
        k.barrier.sync()
        k.arguments[2][0] = peer[i * 256 + k.thread_id()]  # breaks
    k.cluster.sync()


@breaks("cluster.not-shared", cluster=2)
def an_address_of_global_memory_in_a_peer(k, a, n):
    k.cluster.map_shared_rank(k.arguments[2], 1)  # breaks
