"""Copies by TMA, and the mbarriers they complete on."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Major, SwizzleMode, Target, TmaRequest, bf16, e2m1, f16, f32, i32, u8, u64
from nvbackend.isel.select.tma.select import check_multicast_target
from tests.rules.example import kernel, program
from tests.rules.setup import BLACKWELL, HOPPER, load_parts

MATRIX = nvb.TensorMap(f16, box=(64, 64))
HALF_BYTES = nvb.TensorMap(e2m1, box=(64, 128), swizzle=64)
UNSWIZZLED = nvb.TensorMap(f16, box=(64, 64), swizzle=0)
OTHER = nvb.TensorMap(bf16, box=(64, 64))


@kernel("tma.box")
def box_of_half_the_columns(k, matrix: MATRIX, half: nvb.TensorMap(f16, box=(64, 32))):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, half, (0, 0), full)  # breaks
        k.tma.load(tile, matrix, (0, 0), full)  # keeps


@kernel("tma.swizzle")
def map_without_the_swizzle(k, matrix: MATRIX, plain: UNSWIZZLED):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, plain, (0, 0), full)  # breaks
        k.tma.load(tile, matrix, (0, 0), full)  # keeps


@kernel("tma.element")
def map_of_another_type(k, matrix: MATRIX, other: OTHER):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, other, (0, 0), full)  # breaks
        k.tma.load(tile, matrix, (0, 0), full)  # keeps


@kernel("tma.padded", "sm_100a")
def half_bytes_without_padding(k, matrix: HALF_BYTES):
    layout = nvb.SmemLayout(Major.K, SwizzleMode.B64, e2m1, 64, 128, padded=True)  # breaks
    layout = nvb.SmemLayout(Major.K, SwizzleMode.B64, e2m1, 64, 128)  # keeps
    tile, full = k.shared_tile(layout), k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=64 * 64)
        k.tma.load(tile, matrix, (0, 0), full)
    k.mbarrier.wait(full, 0)


@kernel("tma.place")
def three_coordinates_of_a_matrix(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 0, 0), full)  # breaks
        k.tma.load(tile, matrix, (0, 0), full)  # keeps


@kernel("tma.tile-rank")
def rows_along_two_dimensions(k, batch: nvb.TensorMap(f16, box=(2, 32, 64)), number: i32):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, batch, (number, 0, 0), full)  # breaks
        k.tma.load_box(tile.address, batch, (0, 0, number), full)  # keeps


@kernel("tma.multicast", cluster=2)
def box_that_can_not_be_shared(k, whole: MATRIX, half: nvb.TensorMap(f16, box=(32, 64))):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, whole, (0, 0), full, multicast=True)  # breaks
        k.tma.load(tile, half, (0, 0), full, multicast=True)  # keeps
    k.mbarrier.wait(full, 0)


@kernel("tma.pending")
def fewer_than_no_stores(k):
    k.tma.wait_group(-1)  # breaks
    k.tma.wait_group(0)  # keeps


@kernel("tma.box-operands")
def coordinates_of_another_rank(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load_box(tile.address, matrix, (0, 0, 0), full)  # breaks
        k.tma.load_box(tile.address, matrix, (0, 0), full)  # keeps


@kernel("tma.bulk-size")
def forty_bytes(k, source: nvb.Pointer[f32]):
    tile, full = load_parts(k)
    size = 40  # breaks
    size = 48  # keeps
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=size)
        k.bulk.load(tile.address, source, size, full)


@program("tma.rank")
def six_dimensions():
    nvb.tma.select(TmaRequest(rank=6), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(rank=5), HOPPER)  # keeps


@program("tma.direction")
def copy_without_a_direction():
    nvb.tma.select(TmaRequest(2, "copy"), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(2, "load"), HOPPER)  # keeps


@program("tma.mode")
def store_with_offsets():
    nvb.tma.select(TmaRequest(4, "store", "im2col"), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(4, "store", "im2col_no_offs"), HOPPER)  # keeps


@program("tma.im2col-rank")
def im2col_of_a_matrix():
    nvb.tma.select(TmaRequest(2, mode="im2col"), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(4, mode="im2col"), HOPPER)  # keeps


@program("tma.rows-rank")
def four_rows_of_three_dimensions():
    nvb.tma.select(TmaRequest(3, mode="tile::gather4"), BLACKWELL)  # breaks
    nvb.tma.select(TmaRequest(2, mode="tile::gather4"), BLACKWELL)  # keeps


@program("tma.rows-target")
def four_rows_on_a_chip_without():
    target = Target.parse("sm_120a")  # breaks
    target = Target.parse("sm_100a")  # keeps
    nvb.tma.select(TmaRequest(2, mode="tile::gather4"), target)


@program("tma.destination")
def load_to_global_memory():
    nvb.tma.select(TmaRequest(2, destination="global"), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(2, destination="cluster"), HOPPER)  # keeps


@program("tma.multicast-form")
def multicast_into_one_cta():
    nvb.tma.select(TmaRequest(2, destination="cta", multicast=True), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(2, destination="cluster", multicast=True), HOPPER)  # keeps


@program("tma.multicast-target")
def multicast_before_hopper():
    check_multicast_target(Target.parse("sm_89"))  # breaks
    check_multicast_target(Target.parse("sm_90a"))  # keeps


@program("tma.cta-group")
def group_of_four():
    nvb.tma.select(TmaRequest(2, cta_group=4), BLACKWELL)  # breaks
    nvb.tma.select(TmaRequest(2, cta_group=2), BLACKWELL)  # keeps


@program("tma.two-cta-target")
def pairs_of_ctas_on_hopper():
    nvb.tma.select(TmaRequest(2, cta_group=2), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(2, cta_group=2), BLACKWELL)  # keeps


@program("tma.wide-im2col-target")
def wide_im2col_on_hopper():
    nvb.tma.select(TmaRequest(4, mode="im2col::w"), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(4, mode="im2col::w"), BLACKWELL)  # keeps


@program("tma.reduction")
def product_of_what_is_there():
    nvb.tma.select(TmaRequest(2, "reduce", operation="mul"), HOPPER)  # breaks
    nvb.tma.select(TmaRequest(2, "reduce", operation="add"), HOPPER)  # keeps


@program("tma.target")
def tma_before_hopper():
    target = Target.parse("sm_89")  # breaks
    target = Target.parse("sm_90")  # keeps
    nvb.tma.select(TmaRequest(2), target)


@program("tma.ptx-version")
def load_into_one_cta_in_old_ptx():
    target = Target.parse("sm_90a", (8, 0))  # breaks
    target = Target.parse("sm_90a", (8, 6))  # keeps
    nvb.tma.select(TmaRequest(2, destination="cta"), target)


@kernel("mbarrier.address")
def barrier_of_four_bytes(k):
    memory = k.shared(u8, 8, align=4)  # breaks
    memory = k.shared(u8, 8, align=8)  # keeps
    with k.if_(k.thread_id() == 0):
        k.mbarrier.init(memory, 1)


@kernel("mbarrier.count")
def barrier_of_nobody(k):
    k.mbarrier.array(1, arrivals=0)  # breaks
    k.mbarrier.array(1, arrivals=1)  # keeps


@kernel("mbarrier.expect-tx")
def a_negative_number_of_bytes(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=-tile.layout.bytes)  # breaks
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)  # keeps
        k.tma.load(tile, matrix, (0, 0), full)


@kernel("mbarrier.parity")
def number_of_the_phase_as_its_parity(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 0), full)
    k.mbarrier.wait(full, 2)  # breaks
    k.mbarrier.wait(full, 0)  # keeps


@kernel("tma.barrier-cta", BLACKWELL, cluster=2)
def box_that_a_peer_counts(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        with k.if_(k.cluster.rank() == 0):
            k.mbarrier.arrive(full, expect_tx=2 * tile.layout.bytes)
        leaders = k.shared_address(k.cluster.map_to_peer(full.bytes, 0), u64, 8)
        k.tma.load_box(tile.address, matrix, (0, 0), leaders)  # breaks
        k.tma.load_box(tile.address, matrix, (0, 0), leaders, cta_group=2)  # keeps
    with k.if_(k.cluster.rank() == 0):
        k.mbarrier.wait(full, 0)
    k.cluster.sync()


@kernel("tma.multicast-mask", cluster=2)
def box_for_a_third_cta(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=2 * tile.layout.bytes)
        mask = 0b111  # breaks
        mask = 0b11  # keeps
        k.tma.load_box(tile.address, matrix, (0, 0), full, multicast_mask=mask)
    k.mbarrier.wait(full, 0)
