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
    done = k.mbarrier.array(1, arrivals=128, name="done")  # keeps
    k.mbarrier.ready()
    k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


@kernel("mbarrier.not-ready")
def barrier_used_before_all_can_see_it(k):
    done = k.mbarrier.array(1, arrivals=128)
    k.mbarrier.ready()  # keeps
    k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


@kernel("mbarrier.double-init")
def barrier_initialised_twice(k):
    done = k.mbarrier.array(1, arrivals=128)
    with k.if_(k.thread_id() == 0):  # breaks
        k.mbarrier.init(done, 128)  # breaks
    k.mbarrier.ready()
    k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


@kernel("mbarrier.after-inval")
def barrier_used_behind_its_scope(k):
    with k.mbarrier.scope(1, 128) as done:
        k.mbarrier.arrive(done)
        k.mbarrier.wait(done, 0)  # keeps
    k.mbarrier.wait(done, 0)  # breaks


@kernel("mbarrier.overwritten")
def store_where_a_barrier_is(k):
    memory = k.shared(u64, 2, align=8)
    with k.if_(k.thread_id() == 0):
        k.mbarrier.init(memory, 128)
    k.mbarrier.ready()
    k.mbarrier.arrive(memory)
    k.mbarrier.wait(memory, 0)
    memory[0] = 1  # breaks
    memory[1] = 1  # keeps


@kernel("mbarrier.arrivals")
def count_of_warps_where_threads_arrive(k):
    done = k.mbarrier.array(1, arrivals=4)  # breaks
    done = k.mbarrier.array(1, arrivals=128)  # keeps
    k.mbarrier.ready()
    k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


@kernel("mbarrier.no-arrival")
def wait_for_nobody(k):
    done = k.mbarrier.array(1, arrivals=128)
    k.mbarrier.ready()
    k.mbarrier.arrive(done)  # keeps
    k.mbarrier.wait(done, 0)


@kernel("mbarrier.unexpected-bytes")
def load_that_nobody_announces(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full)  # breaks
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)  # keeps
        k.tma.load(tile, matrix, (0, 0), full)
    k.mbarrier.wait(full, 0)


@kernel("mbarrier.missing-bytes")
def bytes_that_never_come(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 0), full)  # keeps
    k.mbarrier.wait(full, 0)


@kernel("mbarrier.wrong-bytes")
def bytes_counted_in_elements(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=64 * 64)  # breaks
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)  # keeps
        k.tma.load(tile, matrix, (0, 0), full)
    k.mbarrier.wait(full, 0)


@kernel("mbarrier.wrong-barrier")
def a_copy_that_another_barrier_gets(k, matrix: MATRIX):
    tiles = k.shared_tiles(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64), 2, name="tiles")
    full = k.mbarrier.array(2, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.one_thread():
        for stage in range(2):
            k.mbarrier.arrive(full + stage, expect_tx=tiles.at(0).layout.bytes)
            k.tma.load(tiles.at(stage), matrix, (0, 64 * stage), full)  # breaks
            k.tma.load(tiles.at(stage), matrix, (0, 64 * stage), full + stage)  # keeps
    k.mbarrier.wait(full, 0)
    k.mbarrier.wait(full + 1, 0)


@kernel("mbarrier.late-bytes")
def bytes_announced_after_the_arrival(k, matrix: MATRIX):
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64), name="tile")
    full = k.mbarrier.array(1, arrivals=128, name="full")
    k.mbarrier.ready()
    k.mbarrier.arrive(full)  # breaks
    with k.one_thread():
        k.mbarrier.expect_tx(full, tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 0), full)
    k.mbarrier.arrive(full)  # keeps
    k.mbarrier.wait(full, 0)


@kernel("mbarrier.parity-first")
def the_phase_before_the_first(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 0), full)
    k.mbarrier.wait(full, 1)  # breaks
    k.mbarrier.wait(full, 0)  # keeps


@kernel("mbarrier.deadlock", threads=256)
def producer_that_waits_for_the_first_release(k, matrix: MATRIX, count: i32):
    tile, full = load_parts(k)
    empty = k.mbarrier.array(1, arrivals=128, name="empty")
    k.mbarrier.ready()
    phase = k.var(0)
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(count) as step:
        k.mbarrier.wait(empty, phase)  # breaks
        k.mbarrier.wait(empty, phase ^ 1)  # keeps
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, step * 64), full)
        phase ^= 1
    with k.else_(), k.range(count):
        k.mbarrier.wait(full, phase)
        k.mbarrier.arrive(empty)
        phase ^= 1


@kernel("mbarrier.parity-fixed")
def one_parity_for_every_round(k, matrix: MATRIX, count: i32):
    tile, full = load_parts(k)
    phase = k.var(0)
    with k.range(count) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, matrix, (0, step * 64), full)
        k.mbarrier.wait(full, phase)
        phase ^= 1  # keeps
        k.barrier.sync()


@kernel("mbarrier.parity-counter")
def parity_that_turns_in_every_round_of_a_ring(k, count: i32):
    done = k.mbarrier.array(4, arrivals=128)
    k.mbarrier.ready()
    phase = k.var(0)
    with k.range(count) as step:
        k.mbarrier.arrive(done + step % 4)
        k.mbarrier.wait(done + step % 4, phase)
        phase ^= 1  # breaks
        phase.set(k.select(step % 4 == 3, phase ^ 1, phase.value))  # keeps


@kernel("mbarrier.kind")
def bytes_at_a_barrier_of_arrivals(k):
    k.mbarrier.handle(expected_txn=64)  # breaks
    k.mbarrier.handle(kind=nvb.MbarrierKind.TMA, expected_txn=64)  # keeps
    k.mbarrier.ready()


@kernel("mbarrier.unexpected-in-peer", cluster=2)
def copy_for_both_that_one_announces(k, x: nvb.Pointer(u32, 16)):
    full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
    k.mbarrier.ready()
    first = k.cluster.rank() == 0
    with k.if_((k.thread_id() == 0) & first):  # breaks
        k.mbarrier.arrive(full, expect_tx=512)  # breaks
    with k.one_thread():  # keeps
        k.mbarrier.arrive(full, expect_tx=512)  # keeps
    with k.if_((k.thread_id() == 0) & first):
        k.bulk.load(tile, x, 512, full, multicast_mask=0b11)
    k.mbarrier.wait(full, 0)
    k.cluster.sync()


@kernel("mbarrier.missing-in-peer", cluster=2)
def copy_for_one_that_both_wait_for(k, x: nvb.Pointer(u32, 16)):
    full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 128, align=128)
    k.mbarrier.ready()
    first = k.thread_id() == 0
    with k.if_(first):
        k.mbarrier.arrive(full, expect_tx=512)
    with k.if_(first & (k.cluster.rank() == 0)):
        k.bulk.load(tile, x, 512, full, multicast_mask=0b01)  # breaks
        k.bulk.load(tile, x, 512, full, multicast_mask=0b11)  # keeps
    k.mbarrier.wait(full, 0)
    k.cluster.sync()


@kernel("mbarrier.wrong-in-peer", cluster=2)
def second_copy_for_one_cta_alone(k, x: nvb.Pointer(u32, 16)):
    full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared(u32, 256, align=128)
    k.mbarrier.ready()
    first = k.thread_id() == 0
    with k.if_(first):
        k.mbarrier.arrive(full, expect_tx=1024)
    with k.if_(first & (k.cluster.rank() == 0)):
        k.bulk.load(tile, x, 512, full, multicast_mask=0b11)
        k.bulk.load(tile + 128, x, 512, full, multicast_mask=0b01)  # breaks
        k.bulk.load(tile + 128, x, 512, full, multicast_mask=0b11)  # keeps
    k.mbarrier.wait(full, 0)
    k.cluster.sync()


@kernel("mbarrier.no-arrival-in-peer", "sm_100a", cluster=2)
def commit_of_a_pair_that_both_wait_for(k):
    request = nvb.Tcgen05Request("f16", cta_group=2)
    shape = nvb.InstructionDescriptor(kind="f16", m=256, n=64, a=f16, b=f16, d=f32)
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.tcgen05.tmem(64, cta_group=2) as tmem:
        with k.if_(k.cluster.rank() == 0), k.one_thread():
            k.tcgen05.mma(request, tmem, 0, 0, shape, accumulate=False)
            k.tcgen05.commit(done, cta_group=2)  # breaks
            k.tcgen05.commit(done, cta_group=2, multicast_mask=0b11)  # keeps
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()


@kernel("mbarrier.arrivals-in-peer", cluster=2)
def arrival_of_one_more_that_never_comes(k):
    done = k.mbarrier.array(1, arrivals=2, name="done")
    k.mbarrier.ready()
    first = k.thread_id() == 0
    k.mbarrier.arrive(done, rank=0, when=first)
    k.mbarrier.arrive(done, rank=1, when=first & (k.cluster.rank() == 0))  # breaks
    k.mbarrier.arrive(done, rank=1, when=first)  # keeps
    k.mbarrier.wait(done, 0)
    k.cluster.sync()
