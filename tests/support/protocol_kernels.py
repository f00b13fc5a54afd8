"""Small kernels out of single operations, each right: what the mutations of `tests.mutations` take apart."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32, u32
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.values.values import Value

TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
MATRIX = nvb.TensorMap(f16, box=(64, 64))
THREADS = 128
STEP_BYTES = 16 * THREADS
"""What the threads load of A, 16 bytes each, for one instruction."""

DESCRIPTOR = nvb.InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
ROWS_OF_D = SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64)


@nvb.kernel("sm_90a", threads=THREADS)
def register_operand(k: KernelBuilder, a: nvb.Pointer[u32], b: MATRIX, c: nvb.Pointer[f32], steps: i32) -> None:
    """C = A * B with A in registers and B by TMA, one buffer of it."""
    request = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, a_in_registers=True)
    tile = k.shared_tile(TILE, name="b")
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    phase = k.var(0, name="phase")
    acc = k.wgmma.accumulator(64)
    with k.range(steps) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, b, (0, step * 64), full)
        first = a.byte_offset(step * 4 * STEP_BYTES + k.thread_id() * 16, align=16)
        fragments = [k.wgmma.fragment((first.byte_offset(part * STEP_BYTES)).load(4), f16) for part in range(4)]
        k.mbarrier.wait(full, phase)
        k.wgmma.fence()
        for part, fragment in enumerate(fragments):
            k.wgmma.mma_async(acc, fragment, tile, request, b_at=(0, part * 16))
        k.wgmma.commit_group()
        k.wgmma.wait_group(0, drains=[acc])
        k.barrier.sync()
        phase.set(phase ^ 1)
    k.store_accumulator(acc, c, 64)


@nvb.kernel("sm_90a", threads=THREADS)
def ordinary_stores(
    k: KernelBuilder, a: nvb.Pointer[u32], b: nvb.Pointer[u32], c: nvb.Pointer[f32], steps: i32
) -> None:
    """C = A * B from tiles that ordinary stores fill, so that a proxy fence must stand in between."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    tile_a, tile_b = k.shared_tile(mma.smem_a(64), name="a"), k.shared_tile(mma.smem_b(64), name="b")
    acc = mma.accumulator()
    with k.range(steps) as step:
        _copy(k, a.byte_offset(step * TILE.bytes, align=16), tile_a)
        _copy(k, b.byte_offset(step * TILE.bytes, align=16), tile_b)
        k.fence.proxy_async()
        k.barrier.sync()
        k.wgmma.fence()
        mma.accumulate(acc, tile_a, tile_b)
        k.wgmma.commit_group()
        k.wgmma.wait_group(0, drains=[acc])
        k.barrier.sync()
    k.store_accumulator(acc, c, 64)


def _copy(k: KernelBuilder, source: Address, tile: SharedTile) -> None:
    words = tile.address.cast(u32)
    for turn in range(tile.layout.bytes // STEP_BYTES):
        place = k.thread_id() * 16 + turn * STEP_BYTES
        words.byte_offset(place, align=16).store(*source.byte_offset(place, align=16).load(4))


COUNT = i32(minimum=1)


@nvb.kernel("sm_90a", threads=256, cluster=2, min_ctas=1)
def shared_depth(k: KernelBuilder, a: MATRIX, b: MATRIX, c: nvb.Pointer[f32], steps: i32) -> None:
    """C = A * B of one 64 x 64 tile; two CTAs share the steps along K, and each stores half of the columns."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    ring = k.pipeline(3, 1, a=mma.smem_a(64), b=mma.smem_b(64))
    exchange = k.cluster.reduce_scatter(mma)
    k.mbarrier.ready()
    mine = lambda: k.range(k.cluster.rank(), steps, 2)  # noqa: E731
    with k.producer(registers=40), mine() as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (0, step * 64), stage.full)
        k.tma.load(stage.b, b, (0, step * 64), stage.full)
    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        acc.clear()
        with mine(), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
            mma.accumulate(acc, stage.a, stage.b)
        k.wgmma.wait_group(0, drains=[acc])
        exchange.send(acc, warpgroup)
        for (row, column), value in exchange.sums().items():
            c[row * 64 + column + exchange.first] = value


@nvb.kernel("sm_90a", threads=256, min_ctas=1)
def equal_shares(
    k: KernelBuilder,
    a: MATRIX,
    b: MATRIX,
    memory: nvb.Pointer[f32],
    flags: nvb.Pointer[u32],
    c: nvb.Pointer[f32],
    tiles: COUNT,
    steps: COUNT,
) -> None:
    """C = A * B of tiles one above the other, whose steps all CTAs share."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    ring = k.pipeline(3, 1, a=mma.smem_a(64), b=mma.smem_b(64))
    k.mbarrier.ready()
    share = k.stream_k(tiles, steps)
    with (
        k.producer(registers=40),
        share.pieces() as (tile, first, end),
        k.range(first, end) as step,
        ring.fill() as stage,
    ):
        k.tma.load(stage.a, a, (tile * 64, step * 64), stage.full)
        k.tma.load(stage.b, b, (0, step * 64), stage.full)
    with k.consumers(registers=232) as warpgroup:
        acc, sums = mma.accumulator(), share.partial_sums(memory, flags, warpgroup)
        with share.pieces() as piece:
            acc.clear()
            with k.range(piece.first, piece.end), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            with sums.whole(acc, piece):
                k.store_accumulator(acc, c + piece.tile * 4096, 64)


@nvb.kernel("sm_100a", threads=THREADS)
def tensor_memory(k: KernelBuilder, a: nvb.TensorMap(f16, box=(128, 64)), b: MATRIX, c: nvb.Pointer[u32]) -> None:
    """C = A * B of one 128 x 64 tile on the fifth-generation tensor core."""
    cell = k.shared(u32, 1, name="cell")
    tile_a, tile_b = k.shared_tile(ROWS_OF_D, name="a"), k.shared_tile(TILE, name="b")
    full, done = k.mbarrier.array(1, arrivals=1, name="full"), k.mbarrier.array(1, arrivals=1, name="done")
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
        k.tcgen05.relinquish_alloc_permit()
    k.mbarrier.ready()
    tmem = cell[0]
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile_a.layout.bytes + tile_b.layout.bytes)
        k.tma.load(tile_a, a, (0, 0), full)
        k.tma.load(tile_b, b, (0, 0), full)
        k.mbarrier.wait(full, 0)
        _multiply(k, tmem, tile_a, tile_b)
        k.tcgen05.commit(done)
    k.mbarrier.wait(done, 0)
    k.tcgen05.fence_after_thread_sync()
    load = k.tcgen05.ld(tmem + (k.warp_id().to(u32) << 21), "32x32b", 64)
    k.tcgen05.wait_ld(load)
    for column, value in enumerate(load.values):
        c[k.thread_id() * 64 + column] = value
    k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(tmem, 64)


def _multiply(k: KernelBuilder, tmem: Value, tile_a: SharedTile, tile_b: SharedTile) -> None:
    layout = nvb.Tcgen05SmemDescriptor(0, 16, 1024, swizzle=nvb.Tcgen05Swizzle.B128)
    first, second = (k.tcgen05.smem_descriptor(tile.address, layout) for tile in (tile_a, tile_b))
    for step in range(4):
        k.tcgen05.mma(
            nvb.Tcgen05Request("f16"), tmem, first + 2 * step, second + 2 * step, DESCRIPTOR, accumulate=step > 0
        )
