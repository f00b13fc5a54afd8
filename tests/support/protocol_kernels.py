"""Small kernels out of single operations, each right: what the mutations of `tests.mutations` take apart."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Major, SmemLayout, Swizzle, f16, f32, i32, u32
from nvbackend.builder.kernel import KernelBuilder
from nvbackend.builder.memory import Address
from nvbackend.builder.tile import SharedTile
from nvbackend.builder.values import Value

TILE = SmemLayout(Major.K, Swizzle.B128, f16, 64, 64)
MATRIX = nvb.TensorMap(f16, box=(64, 64))
THREADS = 128
STEP_BYTES = 16 * THREADS
"""What the threads load of A, 16 bytes each, for one instruction."""

DESCRIPTOR = nvb.InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
ROWS_OF_D = SmemLayout(Major.K, Swizzle.B128, f16, 128, 64)


@nvb.kernel("sm_90a", threads=THREADS)
def register_operand(k: KernelBuilder, a: nvb.Pointer(u32), b: MATRIX, c: nvb.Pointer(f32), steps: i32) -> None:
    """C = A * B with A in registers and B by TMA, one buffer of it."""
    request = nvb.wgmma("m64n64k16", f16, f16, f32, a_in_registers=True)
    tile = k.shared_tile(TILE, name="b")
    full = k.mbarriers(1, arrivals=1, name="full")
    k.barriers_ready()
    phase = k.var(0, name="phase")
    acc = k.accumulator(64)
    with k.range(steps) as step:
        with k.one_thread():
            k.mbarrier_arrive_expect_tx(full, tile.layout.bytes)
            k.tma_load(tile, b, (0, step * 64), full)
        first = a.byte_offset(step * 4 * STEP_BYTES + k.thread_id() * 16, align=16)
        fragments = [k.fragment((first.byte_offset(part * STEP_BYTES)).load(4), f16) for part in range(4)]
        k.mbarrier_wait(full, phase)
        k.wgmma_fence()
        for part, fragment in enumerate(fragments):
            k.wgmma_mma_async(acc, fragment, tile, request, b_at=(0, part * 16))
        k.wgmma_commit_group()
        k.wgmma_wait_group(0, drains=[acc])
        k.barrier()
        phase.set(phase ^ 1)
    k.store_accumulator(acc, c, 64)


@nvb.kernel("sm_90a", threads=THREADS)
def ordinary_stores(
    k: KernelBuilder, a: nvb.Pointer(u32), b: nvb.Pointer(u32), c: nvb.Pointer(f32), steps: i32
) -> None:
    """C = A * B from tiles that ordinary stores fill, so that a proxy fence must stand in between."""
    mma = k.tiled_mma(nvb.wgmma("m64n64k16", f16, f16, f32))
    tile_a, tile_b = k.shared_tile(mma.smem_a(64), name="a"), k.shared_tile(mma.smem_b(64), name="b")
    acc = mma.accumulator()
    with k.range(steps) as step:
        _copy(k, a.byte_offset(step * TILE.bytes, align=16), tile_a)
        _copy(k, b.byte_offset(step * TILE.bytes, align=16), tile_b)
        k.fence_proxy_async()
        k.barrier()
        k.wgmma_fence()
        mma.accumulate(acc, tile_a, tile_b)
        k.wgmma_commit_group()
        k.wgmma_wait_group(0, drains=[acc])
        k.barrier()
    k.store_accumulator(acc, c, 64)


def _copy(k: KernelBuilder, source: Address, tile: SharedTile) -> None:
    words = tile.address.cast(u32)
    for turn in range(tile.layout.bytes // STEP_BYTES):
        place = k.thread_id() * 16 + turn * STEP_BYTES
        words.byte_offset(place, align=16).store(*source.byte_offset(place, align=16).load(4))


@nvb.kernel("sm_100a", threads=THREADS)
def tensor_memory(k: KernelBuilder, a: nvb.TensorMap(f16, box=(128, 64)), b: MATRIX, c: nvb.Pointer(u32)) -> None:
    """C = A * B of one 128 x 64 tile on the fifth-generation tensor core."""
    cell = k.shared(u32, 1, name="cell")
    tile_a, tile_b = k.shared_tile(ROWS_OF_D, name="a"), k.shared_tile(TILE, name="b")
    full, done = k.mbarriers(1, arrivals=1, name="full"), k.mbarriers(1, arrivals=1, name="done")
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(cell, 64)
        k.tcgen05_relinquish_alloc_permit()
    k.barriers_ready()
    tmem = cell[0]
    with k.one_thread():
        k.mbarrier_arrive_expect_tx(full, tile_a.layout.bytes + tile_b.layout.bytes)
        k.tma_load(tile_a, a, (0, 0), full)
        k.tma_load(tile_b, b, (0, 0), full)
        k.mbarrier_wait(full, 0)
        _multiply(k, tmem, tile_a, tile_b)
        k.tcgen05_commit(done)
    k.mbarrier_wait(done, 0)
    k.tcgen05_fence_after_thread_sync()
    load = k.tcgen05_ld(tmem + (k.warp_id().to(u32) << 21), "32x32b", 64)
    k.tcgen05_wait_ld(load)
    for column, value in enumerate(load.values):
        c[k.thread_id() * 64 + column] = value
    k.tcgen05_fence_before_thread_sync()
    k.barrier()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(tmem, 64)


def _multiply(k: KernelBuilder, tmem: Value, tile_a: SharedTile, tile_b: SharedTile) -> None:
    layout = nvb.Tcgen05SmemDescriptor(0, 16, 1024, swizzle=nvb.Tcgen05Swizzle.B128)
    first, second = (k.tcgen05_smem_descriptor(tile.address, layout) for tile in (tile_a, tile_b))
    for step in range(4):
        k.tcgen05_mma(
            nvb.Tcgen05Request("f16"), tmem, first + 2 * step, second + 2 * step, DESCRIPTOR, accumulate=step > 0
        )
