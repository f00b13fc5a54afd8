"""Warpgroups in the simulator: their number, the descriptor of a part of a tile, and what an mma adds to."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, u32, u64
from nvbackend.signature import Parameter, Pointer

ROWS, COLUMNS, WARPGROUP = 128, 128, 128
SPANS = {SwizzleMode.B32: 32, SwizzleMode.B64: 64, SwizzleMode.B128: 128}
CODES = {SwizzleMode.B32: 3, SwizzleMode.B64: 2, SwizzleMode.B128: 1}


def test_four_warps_in_a_row_are_a_warpgroup() -> None:
    """PTX ISA 9.7.15.1: the first one's rank is a multiple of four."""

    @nvb.kernel("sm_90a", threads=3 * WARPGROUP)
    def numbers(k, out: nvb.Pointer[u32]):
        out[k.thread_id()] = k.warpgroup_id().to(u32)

    out = np.full(3 * WARPGROUP, 99, np.uint32)
    nvb.runtime.load(numbers.compile(assemble=False), device="simulator").launch(1, out)
    assert out.tolist() == [thread // 32 // 4 for thread in range(3 * WARPGROUP)]


def word(address: int, swizzle: SwizzleMode, row: int, column: int) -> int:
    """PTX ISA 9.7.15.5.1.2.2: rows of one span, SBO from eight to the next eight, and then the next span."""
    span = SPANS[swizzle]
    panel, inside = divmod(2 * column, span)
    start = address + panel * ROWS * span + row * span + inside
    return (start & 0x3FFFF) >> 4 | 1 << 16 | (8 * span >> 4) << 32 | CODES[swizzle] << 62


@pytest.mark.parametrize("swizzle", SPANS)
@pytest.mark.parametrize(("row", "column"), [(0, 0), (64, 0), (0, 16), (8, 16), (24, 64), (120, 112)])
def test_every_thread_has_the_descriptor_of_the_part(swizzle: SwizzleMode, row: int, column: int) -> None:
    k = nvb.KernelBuilder("descriptors", "sm_90a", threads=WARPGROUP, parameters=[Parameter("out", Pointer(u64))])
    k.shared(u32, 64)  # so that the tile does not begin at 0
    tile = k.shared_tile(SmemLayout(Major.K, swizzle, f16, ROWS, COLUMNS))
    (out,) = k.arguments
    out[k.thread_id()] = k.wgmma.smem_descriptor(tile, row=row, column=column)
    out[WARPGROUP] = tile.address.bytes.to(u64)
    found = np.zeros(WARPGROUP + 1, np.uint64)
    nvb.runtime.load(k.finish().compile(assemble=False), device="simulator").launch(1, found)
    assert {int(one) for one in found[:WARPGROUP]} == {word(int(found[WARPGROUP]), swizzle, row, column)}


TILE = SmemLayout(Major.K, SwizzleMode.B32, f16, 64, 16)
BEGUN = {
    "fresh": (lambda acc: None, 0),
    "cleared": (lambda acc: (acc.fill(5.0), acc.clear()), 0),
    "filled": (lambda acc: acc.fill(5.0), 5),
    "filled after it was cleared": (lambda acc: (acc.clear(), acc.fill(5.0)), 5),
    "set": (lambda acc: acc.set([5.0] * 32), 5),
}


@pytest.mark.parametrize(("begin", "start"), BEGUN.values(), ids=BEGUN)
@pytest.mark.parametrize("element", [f32, f16])
def test_the_first_mma_overwrites_what_is_cleared_and_adds_to_what_is_filled(begin, start, element) -> None:
    """C = A B for the first of two, and C = A B + C for the second: scale-D 0, then 1."""
    request = nvb.wgmma.mma_async("m64n64k16", f16, f16, element)

    @nvb.kernel("sm_90a", threads=WARPGROUP)
    def twice(k, given: nvb.Pointer[f16], out: nvb.Pointer(element)):
        tile = k.shared_tile(TILE)
        with k.range(k.thread_id(), 64 * 16, WARPGROUP) as place:
            tile.address.cast(f16)[place] = given[place]
        k.fence.proxy_async()
        k.barrier.sync()
        acc = k.wgmma.accumulator(64, element)
        begin(acc)
        with k.wgmma.group():
            for _ in range(2):
                k.wgmma.mma_async(acc, tile, tile, request)
        k.store_accumulator(acc, out, 64)

    matrix = np.random.default_rng(8).integers(-3, 4, (64, 16)).astype(np.float16)
    out = np.full((64, 64), 99, np.float32 if element is f32 else np.float16)
    given = TILE.arrange(matrix).view(np.float16)
    nvb.runtime.load(twice.compile(assemble=False), device="simulator").launch(1, given, out)
    assert np.array_equal(out, 2 * (matrix.astype(np.float32) @ matrix.T.astype(np.float32)) + start)
