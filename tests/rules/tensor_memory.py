"""Tensor memory: allocation, moves, and what an mma is given."""

from __future__ import annotations

from nvbackend import (
    InstructionDescriptor,
    Major,
    Pointer,
    SeedCollector,
    SmemLayout,
    SwizzleMode,
    Tcgen05Collector,
    Tcgen05Request,
    bf16,
    f16,
    f32,
    u32,
)
from tests.rules.example import kernel, program
from tests.rules.setup import issuing, tensor_memory

PAIR = InstructionDescriptor(kind="f16", m=256, n=64, a=f16, b=f16, d=f32)
HALF = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)


@kernel("tcgen05.columns", "sm_100a")
def columns_that_are_no_power_of_two(k):
    cell = k.shared(u32, 1)
    columns = 96  # breaks
    columns = 128  # keeps
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, columns)
    k.barrier.sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(cell[0], columns)


@kernel("tcgen05.read-before-wait", "sm_100a")
def registers_read_too_early(k, out: Pointer[u32]):
    with tensor_memory(k, 64) as tmem:
        load = k.tcgen05.ld(tmem, "32x32b", 1)
        k.tcgen05.wait_ld(load)  # keeps
        out[k.thread_id()] = load.values[0]


@kernel("tcgen05.operands", "sm_100a")
def metadata_of_a_dense_product(k):
    with tensor_memory(k, 64) as tmem, issuing(k):
        k.tcgen05.mma(Tcgen05Request("f16"), tmem, 0, 0, HALF, accumulate=False, metadata=0)  # breaks
        k.tcgen05.mma(Tcgen05Request("f16"), tmem, 0, 0, HALF, accumulate=False)  # keeps


@kernel("tcgen05.lane-words", "sm_100a")
def half_the_lanes(k):
    request = Tcgen05Request("f16", disable_output_lane=True)
    with tensor_memory(k, 64) as tmem, issuing(k):
        k.tcgen05.mma(request, tmem, 0, 0, HALF, accumulate=False, output_lanes=[0, 0])  # breaks
        k.tcgen05.mma(request, tmem, 0, 0, HALF, accumulate=False, output_lanes=[0, 0, 0, 0])  # keeps


@kernel("tcgen05.cta-groups-mixed", "sm_100a")
def allocation_of_one_group_given_back_by_two(k):
    with tensor_memory(k, 64) as tmem, k.one_thread():
        k.tcgen05.shift(tmem, cta_group=2)  # breaks
        k.tcgen05.shift(tmem, cta_group=1)  # keeps


@kernel("tcgen05.pair-cluster", "sm_100a")
def pair_of_one(k):
    group = 2  # breaks
    group = 1  # keeps
    with k.tcgen05.tmem(64, cta_group=group):
        pass


@kernel("tcgen05.pair-issue", "sm_100a", cluster=2)
def product_that_both_ctas_of_a_pair_start(k):
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.tcgen05.tmem(64, cta_group=2) as tmem:
        issues = k.thread_id() == 0  # breaks
        issues = (k.thread_id() == 0) & ((k.cluster.rank() & 1) == 0)  # keeps
        with k.if_(issues):
            k.tcgen05.mma(Tcgen05Request("f16", cta_group=2), tmem, 0, 0, PAIR, accumulate=False)
            k.tcgen05.commit(done, cta_group=2, multicast_mask=0b11)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()


@kernel("tcgen05.one-thread", "sm_100a")
def product_that_each_lane_of_a_warp_starts(k):
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with k.tcgen05.tmem(64) as tmem:
        with k.if_(k.warp_id() == 0):  # breaks
            k.tcgen05.mma(Tcgen05Request("f16"), tmem, 0, 0, HALF, accumulate=False)  # breaks
        with k.one_thread():
            k.tcgen05.mma(Tcgen05Request("f16"), tmem, 0, 0, HALF, accumulate=False)  # keeps
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()


@program("tcgen05.seed-collector")
def shift_in_the_bit_of_the_collector():
    Tcgen05Collector(True, SeedCollector.FILL, ashift=True)  # breaks
    Tcgen05Collector(True, SeedCollector.FILL, ashift=False)  # keeps


@kernel("tcgen05.operand-tile", "sm_100a")
def tile_of_another_type(k):
    b = k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64))
    a = k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, bf16, 128, 64))  # breaks
    a = k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64))  # keeps
    with tensor_memory(k, 64) as tmem, issuing(k):
        k.tcgen05.mma(Tcgen05Request("f16"), tmem, a, b, HALF, accumulate=False)
