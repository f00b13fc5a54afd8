"""Mbarriers over a whole kernel: their life, their arrivals, their bytes, their phases."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32, u64
from tests.rules.example import kernel
from tests.rules.setup import load_parts

MATRIX = nvb.TensorMap(f16, box=(64, 64))


@kernel("mbarrier.uninitialised")
def memory_as_a_barrier(k):
    done = k.shared(u64, 1, align=8, name="done")  # breaks
    done = k.mbarriers(1, arrivals=128, name="done")  # keeps
    k.barriers_ready()
    k.mbarrier_arrive(done)
    k.mbarrier_wait(done, 0)


@kernel("mbarrier.not-ready")
def barrier_used_before_all_can_see_it(k):
    done = k.mbarriers(1, arrivals=128)
    k.barriers_ready()  # keeps
    k.mbarrier_arrive(done)
    k.mbarrier_wait(done, 0)


@kernel("mbarrier.double-init")
def barrier_initialised_twice(k):
    done = k.mbarriers(1, arrivals=128)
    with k.if_(k.thread_id() == 0):  # breaks
        k.mbarrier_init(done, 128)  # breaks
    k.barriers_ready()
    k.mbarrier_arrive(done)
    k.mbarrier_wait(done, 0)


@kernel("mbarrier.after-inval")
def barrier_used_behind_its_scope(k):
    with k.mbarrier_scope(1, 128) as done:
        k.mbarrier_arrive(done)
        k.mbarrier_wait(done, 0)  # keeps
    k.mbarrier_wait(done, 0)  # breaks


@kernel("mbarrier.overwritten")
def store_where_a_barrier_is(k):
    memory = k.shared(u64, 2, align=8)
    with k.if_(k.thread_id() == 0):
        k.mbarrier_init(memory, 128)
    k.barriers_ready()
    k.mbarrier_arrive(memory)
    k.mbarrier_wait(memory, 0)
    memory[0] = 1  # breaks
    memory[1] = 1  # keeps


@kernel("mbarrier.arrivals")
def count_of_warps_where_threads_arrive(k):
    done = k.mbarriers(1, arrivals=4)  # breaks
    done = k.mbarriers(1, arrivals=128)  # keeps
    k.barriers_ready()
    k.mbarrier_arrive(done)
    k.mbarrier_wait(done, 0)


@kernel("mbarrier.no-arrival")
def wait_for_nobody(k):
    done = k.mbarriers(1, arrivals=128)
    k.barriers_ready()
    k.mbarrier_arrive(done)  # keeps
    k.mbarrier_wait(done, 0)


@kernel("mbarrier.unexpected-bytes")
def load_that_nobody_announces(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier_arrive(full)  # breaks
        k.mbarrier_arrive_expect_tx(full, tile.layout.bytes)  # keeps
        k.tma_load(tile, matrix, (0, 0), full)
    k.mbarrier_wait(full, 0)


@kernel("mbarrier.missing-bytes")
def bytes_that_never_come(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier_arrive_expect_tx(full, tile.layout.bytes)
        k.tma_load(tile, matrix, (0, 0), full)  # keeps
    k.mbarrier_wait(full, 0)


@kernel("mbarrier.wrong-bytes")
def bytes_counted_in_elements(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier_arrive_expect_tx(full, 64 * 64)  # breaks
        k.mbarrier_arrive_expect_tx(full, tile.layout.bytes)  # keeps
        k.tma_load(tile, matrix, (0, 0), full)
    k.mbarrier_wait(full, 0)


@kernel("mbarrier.parity-first")
def the_phase_before_the_first(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier_arrive_expect_tx(full, tile.layout.bytes)
        k.tma_load(tile, matrix, (0, 0), full)
    k.mbarrier_wait(full, 1)  # breaks
    k.mbarrier_wait(full, 0)  # keeps


@kernel("mbarrier.deadlock", threads=256)
def producer_that_waits_for_the_first_release(k, matrix: MATRIX, count: i32):
    tile, full = load_parts(k)
    empty = k.mbarriers(1, arrivals=128, name="empty")
    k.barriers_ready()
    phase = k.var(0)
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(count) as step:
        k.mbarrier_wait(empty, phase)  # breaks
        k.mbarrier_wait(empty, phase ^ 1)  # keeps
        k.mbarrier_arrive_expect_tx(full, tile.layout.bytes)
        k.tma_load(tile, matrix, (0, step * 64), full)
        phase ^= 1
    with k.else_(), k.range(count):
        k.mbarrier_wait(full, phase)
        k.mbarrier_arrive(empty)
        phase ^= 1


@kernel("mbarrier.parity-fixed")
def one_parity_for_every_round(k, matrix: MATRIX, count: i32):
    tile, full = load_parts(k)
    phase = k.var(0)
    with k.range(count) as step:
        with k.one_thread():
            k.mbarrier_arrive_expect_tx(full, tile.layout.bytes)
            k.tma_load(tile, matrix, (0, step * 64), full)
        k.mbarrier_wait(full, phase)
        phase ^= 1  # keeps
        k.barrier()


@kernel("mbarrier.parity-counter")
def parity_that_turns_in_every_round_of_a_ring(k, count: i32):
    done = k.mbarriers(4, arrivals=128)
    k.barriers_ready()
    phase = k.var(0)
    with k.range(count) as step:
        k.mbarrier_arrive(done + step % 4)
        k.mbarrier_wait(done + step % 4, phase)
        phase ^= 1  # breaks
        phase.set(k.select(step % 4 == 3, phase ^ 1, phase.value))  # keeps


@kernel("mbarrier.kind")
def bytes_at_a_barrier_of_arrivals(k):
    full = k.mbarrier_handle(expected_txn=64)  # breaks
    full = k.mbarrier_handle(kind=nvb.MbarrierKind.TMA, expected_txn=64)  # keeps
    k.barriers_ready()
    return full


@kernel("mbarrier.unexpected-in-peer", cluster=2)
def copy_for_both_that_one_announces(k, x: nvb.Pointer(u32, 16)):
    full, tile = k.mbarriers(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
    k.barriers_ready()
    first = k.cluster_rank() == 0
    with k.if_((k.thread_id() == 0) & first):  # breaks
        k.mbarrier_arrive_expect_tx(full, 512)  # breaks
    with k.one_thread():  # keeps
        k.mbarrier_arrive_expect_tx(full, 512)  # keeps
    with k.if_((k.thread_id() == 0) & first):
        k.bulk_load(tile, x, 512, full, multicast_mask=0b11)
    k.mbarrier_wait(full, 0)
    k.cluster_sync()


@kernel("mbarrier.missing-in-peer", cluster=2)
def copy_for_one_that_both_wait_for(k, x: nvb.Pointer(u32, 16)):
    full, tile = k.mbarriers(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
    k.barriers_ready()
    first = k.thread_id() == 0
    with k.if_(first):
        k.mbarrier_arrive_expect_tx(full, 512)
    with k.if_(first & (k.cluster_rank() == 0)):
        k.bulk_load(tile, x, 512, full, multicast_mask=0b01)  # breaks
        k.bulk_load(tile, x, 512, full, multicast_mask=0b11)  # keeps
    k.mbarrier_wait(full, 0)
    k.cluster_sync()


@kernel("mbarrier.wrong-in-peer", cluster=2)
def second_copy_for_one_cta_alone(k, x: nvb.Pointer(u32, 16)):
    full, tile = k.mbarriers(1, arrivals=1, name="full"), k.shared(u32, 256, align=128)
    k.barriers_ready()
    first = k.thread_id() == 0
    with k.if_(first):
        k.mbarrier_arrive_expect_tx(full, 1024)
    with k.if_(first & (k.cluster_rank() == 0)):
        k.bulk_load(tile, x, 512, full, multicast_mask=0b11)
        k.bulk_load(tile + 128, x, 512, full, multicast_mask=0b01)  # breaks
        k.bulk_load(tile + 128, x, 512, full, multicast_mask=0b11)  # keeps
    k.mbarrier_wait(full, 0)
    k.cluster_sync()


@kernel("mbarrier.no-arrival-in-peer", "sm_100a", cluster=2)
def commit_of_a_pair_that_both_wait_for(k):
    request = nvb.Tcgen05Request("f16", cta_group=2)
    shape = nvb.InstructionDescriptor(kind="f16", m=256, n=64, a=f16, b=f16, d=f32)
    done = k.mbarriers(1, arrivals=1, name="done")
    k.barriers_ready()
    with k.tmem_alloc(64, cta_group=2) as tmem:
        with k.if_(k.cluster_rank() == 0), k.one_thread():
            k.tcgen05_mma(request, tmem, 0, 0, shape, accumulate=False)
            k.tcgen05_commit(done, cta_group=2)  # breaks
            k.tcgen05_commit(done, cta_group=2, multicast_mask=0b11)  # keeps
        k.mbarrier_wait(done, 0)
        k.tcgen05_fence_after_thread_sync()


@kernel("mbarrier.arrivals-in-peer", cluster=2)
def arrival_of_one_more_that_never_comes(k):
    done = k.mbarriers(1, arrivals=2, name="done")
    k.barriers_ready()
    first = k.thread_id() == 0
    k.mbarrier_arrive_peer(done, 0, when=first)
    k.mbarrier_arrive_peer(done, 1, when=first & (k.cluster_rank() == 0))  # breaks
    k.mbarrier_arrive_peer(done, 1, when=first)  # keeps
    k.mbarrier_wait(done, 0)
    k.cluster_sync()
