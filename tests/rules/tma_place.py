"""Where TMA copies to and from, and who issues it."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import SharedTile, f16, u8, u32
from nvbackend.intrinsics.copy.tma_tensor import load_tensor
from nvbackend.isel.machine import facts
from nvbackend.isel.operands.tma_places import place_faults
from tests.rules.example import kernel, program
from tests.rules.setup import load_parts, wgmma_parts

MATRIX = nvb.TensorMap(f16, box=(64, 64))


@kernel("tma.alignment")
def box_at_16_bytes(k, matrix: MATRIX):
    tile, full = load_parts(k)
    memory = k.shared(u8, tile.layout.bytes, align=16)  # breaks
    memory = k.shared(u8, tile.layout.bytes, align=1024)  # keeps
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load_box(memory, matrix, (0, 0), full)


@program("tma.box-row")
def rows_of_24_bytes():
    known = {facts.BOX_ROW: 24}  # breaks
    known = {facts.BOX_ROW: 32}  # keeps
    return list(place_faults(load_tensor(2), known))


@program("tma.box-swizzle")
def rows_wider_than_the_swizzle():
    known = {facts.BOX_ROW: 256, facts.SWIZZLE: 128}  # breaks
    known = {facts.BOX_ROW: 128, facts.SWIZZLE: 128}  # keeps
    return list(place_faults(load_tensor(2), known))


@kernel("tma.start")
def box_that_begins_inside_16_bytes(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 20), full)  # breaks
        k.tma.load(tile, matrix, (0, 24), full)  # keeps


@kernel("tma.before")
def store_that_begins_before_the_tensor(k, matrix: MATRIX):
    memory = k.shared(u8, 8192, align=1024)
    with k.one_thread():
        k.tma.store_box(matrix, (-64, 0), memory)  # breaks
        k.tma.store_box(matrix, (0, 0), memory)  # keeps
        k.tma.commit_group()
        k.tma.wait_group()


@kernel("tma.reduced-type")
def sum_of_bytes(k, small: nvb.TensorMap(u8, box=(64, 64), swizzle=0), wide: nvb.TensorMap(u32, (64, 16), 0)):
    memory = k.shared(u8, 4096, align=128)
    with k.one_thread():
        k.tma.reduce_box(small, (0, 0), memory, "add")  # breaks
        k.tma.store_box(small, (0, 0), memory)  # keeps
        k.tma.reduce_box(wide, (0, 0), memory, "add")  # keeps
        k.tma.commit_group()
        k.tma.wait_group()


@kernel("tma.one-thread")
def load_in_every_thread(k, matrix: MATRIX):
    tile, full = load_parts(k)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, matrix, (0, 0), full)  # keeps
    k.tma.load(tile, matrix, (0, 0), full)  # breaks


@kernel("descriptor.swizzle")
def tile_laid_over_what_another_swizzle_filled(k, matrix: nvb.TensorMap(f16, box=(64, 32), swizzle=64)):
    mma, acc, _ = wgmma_parts(k)
    _, full = load_parts(k)
    memory = k.shared(f16, 64 * 32, align=1024)
    swizzle = nvb.SwizzleMode.B32  # breaks
    swizzle = nvb.SwizzleMode.B64  # keeps
    tile = SharedTile(memory, nvb.SmemLayout(nvb.Major.K, swizzle, f16, 64, 32))
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load_box(memory, matrix, (0, 0), full)
    k.mbarrier.wait(full, 0)
    with k.wgmma.group():
        mma.accumulate(acc, tile, tile)
