"""Sums whose parts several CTAs have."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, i32, u8, u32
from tests.rules.example import kernel, program
from tests.rules.setup import wgmma_parts


@program("reduce-scatter.cluster")
def sums_of_a_cluster_that_is_not_there():
    k = nvb.KernelBuilder("k", "sm_90a", threads=128)  # breaks
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, cluster=2)  # keeps
    mma, _, _ = wgmma_parts(k)
    k.cluster.reduce_scatter(mma)


@kernel("reduce-scatter.tile", cluster=4)
def columns_that_four_ctas_cannot_share(k, out: nvb.Pointer[f32]):
    n = 48  # breaks
    n = 64  # keeps
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{n}k16", f16, f16, f32))
    exchange = k.cluster.reduce_scatter(mma)
    k.mbarrier.ready()
    acc = mma.accumulator()
    acc.fill(1.0)
    exchange.send(acc)
    for (row, column), value in exchange.sums().items():
        out[row * n + column + exchange.first] = value


@kernel("reduce-scatter.accumulator", cluster=2)
def halves_sent_as_sums(k, out: nvb.Pointer[f32]):
    mma, acc, _ = wgmma_parts(k)
    exchange = k.cluster.reduce_scatter(mma)
    k.mbarrier.ready()
    acc.fill(1.0)
    exchange.send(acc.elements().to(f16))  # breaks
    exchange.send(acc)  # keeps
    for (row, column), value in exchange.sums().items():
        out[row * 64 + column + exchange.first] = value


@kernel("reduce-scatter.threads", threads=256, cluster=2)
def sums_sent_by_two_warpgroups_for_one(k, out: nvb.Pointer[f32]):
    mma, acc, _ = wgmma_parts(k)
    exchange = k.cluster.reduce_scatter(mma)
    k.mbarrier.ready()
    acc.fill(1.0)
    exchange.send(acc)  # breaks
    with k.if_(k.warpgroup_id() == 0):  # keeps
        exchange.send(acc)  # keeps
        for (row, column), value in exchange.sums().items():  # keeps
            out[row * 64 + column + exchange.first] = value  # keeps


@kernel("reduce-scatter.not-ready", cluster=2)
def sums_sent_before_the_others_have_started(k, out: nvb.Pointer[f32]):
    mma, acc, _ = wgmma_parts(k)
    k.mbarrier.ready()  # breaks
    exchange = k.cluster.reduce_scatter(mma)
    k.mbarrier.ready()  # keeps
    acc.fill(1.0)
    exchange.send(acc)
    for (row, column), value in exchange.sums().items():
        out[row * 64 + column + exchange.first] = value


@kernel("reduce-scatter.once", cluster=2)
def sums_of_two_tiles_by_one_exchange(k, out: nvb.Pointer[f32]):
    mma, acc, _ = wgmma_parts(k)
    exchange = k.cluster.reduce_scatter(mma)
    second = k.cluster.reduce_scatter(mma)  # keeps
    k.mbarrier.ready()
    acc.fill(1.0)
    exchange.send(acc)
    for (row, column), value in exchange.sums().items():
        out[row * 64 + column + exchange.first] = value
    acc.fill(2.0)
    exchange.send(acc)  # breaks
    second.send(acc)  # keeps
    for (row, column), value in second.sums().items():  # keeps
        out[(64 + row) * 64 + column + second.first] = value  # keeps


@kernel("reduce-scatter.not-read", cluster=2, also=("cluster.exit-before-peers",))
def sums_that_nobody_waits_for(k, out: nvb.Pointer[f32]):
    mma, acc, _ = wgmma_parts(k)
    exchange = k.cluster.reduce_scatter(mma)
    k.mbarrier.ready()
    acc.fill(1.0)
    exchange.send(acc)
    for (row, column), value in exchange.sums().items():  # keeps
        out[row * 64 + column + exchange.first] = value  # keeps


@kernel("reduce-scatter.order", cluster=2)
def columns_in_the_same_order_everywhere(k, x: nvb.TensorMap(f16, box=(32, 64)), out: nvb.Pointer[f32]):
    mma, acc, tile = wgmma_parts(k)
    exchange, full = k.cluster.reduce_scatter(mma, own_first=True), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        parts = [0, 32]  # breaks
        parts = exchange.parts()  # keeps
        for part, row in enumerate(parts):
            k.tma.load(tile.rows_from(part, 32), x, (row, 0), full)
    k.mbarrier.wait(full, 0)
    with k.wgmma.group(in_flight=0):
        mma.accumulate(acc, tile, tile)
    exchange.send(acc)
    for (row, column), value in exchange.sums().items():
        out[row * 64 + column + exchange.first] = value


Memory, Flags, Count = nvb.Pointer[f32], nvb.Pointer[u32], i32(minimum=1)


@kernel("shares.count")
def shares_of_no_step(k, flags: Flags, tiles: Count):
    depth = 48
    steps = depth // 64  # breaks
    steps = -(-depth // 64)  # keeps
    share = k.stream_k(tiles, steps)
    with share.pieces() as piece:
        flags[piece.tile] = 1


@program("shares.cluster")
def clusters_one_above_the_other():
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, cluster=(1, 2, 1))  # breaks
    k = nvb.KernelBuilder("k", "sm_90a", threads=128, cluster=(2, 1, 1))  # keeps
    k.stream_k(16, 8)


@kernel("shares.memory")
def flags_of_one_byte(k, memory: Memory, flags: Flags, out: Memory, tiles: Count, steps: Count):
    _, acc, _ = wgmma_parts(k)
    share = k.stream_k(tiles, steps)
    sums = share.partial_sums(memory, flags.cast(u8))  # breaks
    sums = share.partial_sums(memory, flags)  # keeps
    with share.pieces() as piece:
        acc.fill(1.0)
        with sums.whole(acc, piece):
            k.store_accumulator(acc, out + piece.tile * 4096, 64)


@kernel("shares.threads", threads=256)
def sums_of_one_of_two_warpgroups(k, memory: Memory, flags: Flags, out: Memory, tiles: Count, steps: Count):
    _, acc, _ = wgmma_parts(k)
    share = k.stream_k(tiles, steps)
    with k.if_(k.warpgroup_id() == 1):
        sums = share.partial_sums(memory, flags)  # breaks
        sums = share.partial_sums(memory, flags, k.warpgroup_id())  # keeps
        with share.pieces() as piece:
            acc.fill(1.0)
            with sums.whole(acc, piece):
                k.store_accumulator(acc, out + piece.tile * 4096, 64)


@kernel("shares.piece")
def sums_of_some_pieces(k, memory: Memory, flags: Flags, out: Memory, tiles: Count, steps: Count):
    _, acc, _ = wgmma_parts(k)
    share = k.stream_k(tiles, steps)
    sums = share.partial_sums(memory, flags)
    with share.pieces() as piece:
        acc.fill(1.0)
        with k.if_(piece.first > 0), sums.whole(acc, piece):  # breaks
            k.store_accumulator(acc, out + piece.tile * 4096, 64)  # breaks
        with sums.whole(acc, piece):  # keeps
            k.store_accumulator(acc, out + piece.tile * 4096, 64)  # keeps


@kernel("shares.not-cleared")
def sums_of_the_piece_before(k, memory: Memory, flags: Flags, out: Memory, tiles: Count, steps: Count):
    mma, acc, tile = wgmma_parts(k)
    share = k.stream_k(tiles, steps)
    sums = share.partial_sums(memory, flags)
    with share.pieces() as piece:
        acc.clear()  # keeps
        with k.wgmma.group():
            mma.accumulate(acc, tile, tile)
        k.wgmma.wait_group(0, drains=[acc])
        with sums.whole(acc, piece):
            k.store_accumulator(acc, out + piece.tile * 4096, 64)


@kernel("shares.parted")
def memory_from_the_own_place_on(k, memory: Memory, flags: Flags, out: Memory, tiles: Count, steps: Count):
    _, acc, _ = wgmma_parts(k)
    share = k.stream_k(tiles, steps)
    sums = share.partial_sums(memory + k.block_id() * 4096, flags)  # breaks
    sums = share.partial_sums(memory, flags)  # keeps
    with share.pieces() as piece:
        acc.fill(1.0)
        with sums.whole(acc, piece):
            k.store_accumulator(acc, out + piece.tile * 4096, 64)
