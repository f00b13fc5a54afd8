"""SharedTile.at and SharedTile.cute: where elements are, against the byte formulas of the canonical layouts."""

from __future__ import annotations

import itertools
import math

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, tf32, u8
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.kernel.kernel import KernelBuilder
from tests.support.ir_addresses import evaluate, instructions, pointer_of

LAYOUTS = [SmemLayout(major, swizzle, f16, 128, 64) for major in Major for swizzle in SwizzleMode]
LAYOUTS += [SmemLayout(Major.K, swizzle, tf32, 64, 64) for swizzle in SwizzleMode]
EIGHT_BITS = [SmemLayout(Major.K, swizzle, nvb.s8, 64, 128) for swizzle in SwizzleMode]


def tile_of(layout: SmemLayout) -> tuple[KernelBuilder, SharedTile]:
    k = KernelBuilder("tile", "sm_90a", threads=128)
    return k, k.shared_tile(layout)


@pytest.mark.parametrize("layout", [*LAYOUTS, *EIGHT_BITS], ids=str)
def test_the_layout_is_that_of_the_bytes(layout):
    cute, size = tile_of(layout)[1].cute, layout.element.bytes_for(1)
    for row, column in itertools.product(range(0, layout.rows, 3), range(0, layout.columns, 5)):
        assert cute(row, column) * size == layout.offset(row, column)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_some_rows_of_a_tile_have_the_layout_of_the_whole(layout):
    _, tile = tile_of(layout)
    half = tile.rows_from(0, layout.rows // 2)
    assert half.cute.shape[0] != tile.cute.shape[0]
    assert half.cute.offsets()[: layout.rows // 2] == tile.cute.offsets()[: layout.rows // 2]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_an_address_of_run_time_indices(layout):
    k, tile = tile_of(layout)
    thread = k.thread_id()
    wanted = []
    for column in (0, 8, 40):
        tile.at(thread, column).store(0.0)
        wanted.append(lambda t, column=column: (t, column))
    for row in (0, 24):
        tile.at(row, thread % 64).store(0.0)
        wanted.append(lambda t, row=row: (row, t % 64))
    tile.at(thread, thread % 64).store(0.0)
    wanted.append(lambda t: (t, t % 64))
    found = [pointer_of(one) for one in instructions(k.function, "store")]
    for at, pointer in zip(wanted, found, strict=True):
        for t in (0, 1, 9, 37, 63):
            assert evaluate(pointer, {"tid.x": t}) == layout.offset(*at(t))


def test_a_chunk_is_stored_at_once_and_less_is_not():
    k, tile = tile_of(LAYOUTS[1])
    tile.at(k.thread_id(), 16).store(*[0.0] * 8)
    with pytest.raises(nvb.DiagnosticError, match=r"memory\.alignment"):
        tile.at(k.thread_id(), 4).store(*[0.0] * 8)


@pytest.mark.parametrize("at", [(128, 0), (-1, 0), (0, 64)])
def test_numbers_outside(at):
    _, tile = tile_of(LAYOUTS[0])
    with pytest.raises(nvb.DiagnosticError, match=r"layout\.bounds") as caught:
        tile.at(*at)
    assert caught.value.diagnostics[0].location.file == __file__


def test_rows_of_a_part_end_with_it():
    _, tile = tile_of(LAYOUTS[0])
    with pytest.raises(nvb.DiagnosticError, match=r"layout\.bounds"):
        tile.rows_from(0, 64).at(64, 0)


@pytest.mark.parametrize("block", [0, 1, 3])
@pytest.mark.parametrize("known", [True, False], ids=["a number", "a value"])
def test_rows_of_a_block_are_those_of_the_tile(block, known):
    layout = SmemLayout(Major.K, SwizzleMode.B64, f16, 128, 32)
    k, tile = tile_of(layout)
    number = block if known else k.thread_id()
    part = tile.rows_from(number, 32)
    for row, column in ((0, 0), (5, 8), (31, 24)):
        address = part.at(row, column).bytes
        assert evaluate(address.ir, {"tid.x": block}) == layout.offset(32 * block + row, column)


OF_PARTS_OF_BYTES = [
    *(SmemLayout(Major.K, swizzle, nvb.e2m1, 64, 256) for swizzle in SwizzleMode),
    *(SmemLayout(Major.K, swizzle, nvb.b1, 64, 1024) for swizzle in SwizzleMode),
    *(SmemLayout(Major.K, swizzle, nvb.e2m1, 64, 128, padded=True) for swizzle in SwizzleMode),
    *(SmemLayout(Major.K, swizzle, nvb.e3m2, 64, 128, padded=True) for swizzle in SwizzleMode),
]


@pytest.mark.parametrize("layout", OF_PARTS_OF_BYTES, ids=str)
def test_an_element_of_part_of_a_byte_is_at_the_byte_that_holds_it(layout):
    k, tile = tile_of(layout)
    thread = k.thread_id()
    wanted = []
    for column in (0, 32, 96):
        tile.at(thread, column).cast(u8).store(0)
        wanted.append(lambda t, column=column: (t, column))
    for row in (0, 24):
        tile.at(row, thread * 2).cast(u8).store(0)
        wanted.append(lambda t, row=row: (row, 2 * t))
    found = [pointer_of(one) for one in instructions(k.function, "store")]
    for at, pointer in zip(wanted, found, strict=True):
        for t in (0, 1, 9, 37, 63):
            assert evaluate(pointer, {"tid.x": t}) == layout.offset(*at(t))
    for row, column in ((0, 0), (9, 32), (63, 96)):
        assert tile.at(row, column).align == math.gcd(layout.alignment, layout.offset(row, column)) or row == 0
