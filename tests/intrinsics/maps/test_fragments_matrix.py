"""Who holds what of ldmatrix, stmatrix, movmatrix, and of scale factors, by formulas written down a second time.

The narrow forms are given as layouts of bits, (lane, value) to a bit of the rows in the order of their addresses.
"""

from __future__ import annotations

import itertools

import pytest

import nvbackend as nvb
from nvbackend.cli import main
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.maps import matrix as fragments_matrix
from nvbackend.intrinsics.maps.rows import FragmentMap, fragment_maps
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.row.row import Row

LANES = range(32)
ROWS = [row for row in matrix_move.rows() if row.opcode in ("ldmatrix", "stmatrix")]
BITS_OF_A_ROW = 128

Layout = tuple[tuple[int, ...], tuple[int, ...]]


def at(layout: Layout, number: int) -> int:
    """The offset of the number-th place: extents, innermost first, and their strides."""
    offset = 0
    for extent, stride in zip(*layout, strict=True):
        number, digit = divmod(number, extent)
        offset += digit * stride
    return offset


BY_BITS: dict[str, tuple[Layout, Layout]] = {
    # CUTLASS, copy_traits_sm100.hpp: U8x4_STSM_T and SU4_DU8x16_x1_LDSM_N as they stand there. U8x8_LDSM_T numbers its
    # rows in another order, 0 1 8 9 2 3 10 11 ...; here they are in the order of the lanes that give their addresses.
    "m16n8": (((4, 8), (256, 8)), ((2, 2), (128, 64))),
    "m8n16": (((32,), (32,)), ((4,), (8,))),
    "m16n16": (((4, 8), (512, 8)), ((2, 2, 2), (128, 64, 256))),
}


def expected(row: Row, lane: int, index: int) -> tuple[int, int, int]:
    shape = str(row.axes["shape"])
    if shape == "m8n8":
        matrix, half = divmod(index, 2)
        place = (lane >> 2, (lane & 3) * 2 + half)
        return (matrix, *(place[::-1] if row.axes["transposed"] else place))
    lanes, values = BY_BITS[shape]
    each = {"m16n8": 4, "m8n16": 4, "m16n16": 8}[shape]
    bit = at(lanes, lane) + at(values, index % each)
    return index // each, bit // BITS_OF_A_ROW, bit % BITS_OF_A_ROW // 8


def only_map(row: Row) -> FragmentMap:
    (held,) = fragment_maps(row)
    return held


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.ptx)
def test_every_form_is_where_the_formulas_have_it(row: Row) -> None:
    held = only_map(row)
    places = list(itertools.product(LANES, range(held.elements)))
    assert [held.position(*place) for place in places] == [expected(row, *place) for place in places]
    bits = 16 if row.axes["shape"] == "m8n8" else 8
    assert held.elements * bits == 32 * row.operand("fragment").count
    rows, columns = (16, 16) if row.axes["shape"] == "m16n16" else (8, 8 if bits == 16 else 16)
    every = set(itertools.product(range(row.axes["count"]), range(rows), range(columns)))  # type: ignore[call-overload]
    assert {held.position(*place) for place in places} == every


def test_the_order_of_rows_of_the_tall_matrix_is_that_of_the_addresses() -> None:
    """Both sides of CUTLASS's traits: lane j addresses the row that its source layout gives it."""
    source = ((2, 2, 4), (128, 1024, 256))
    destination = (((4, 8), (256, 8)), ((2, 2, 2), (128, 64, 1024)))
    lane_of_row = {at(source, lane) // BITS_OF_A_ROW: lane for lane in range(16)}
    shape = next(one for one in matrix_move.LOADED if one.name == "m16n16")
    for lane, index in itertools.product(LANES, range(8)):
        bit = at(destination[0], lane) + at(destination[1], index)
        where = (0, lane_of_row[bit // BITS_OF_A_ROW], bit % BITS_OF_A_ROW // 8)
        assert fragments_matrix.matrix_position(shape, True, lane, index) == where


def test_movmatrix_swaps_rows_and_columns() -> None:
    source, fragment = fragment_maps(matrix_move.movmatrix())
    assert (source.operand, fragment.operand) == ("source", "fragment")
    for lane, half in itertools.product(LANES, range(2)):
        row, column = lane // 4, lane % 4 * 2 + half
        assert source.position(lane, half) == (row, column)
        assert fragment.position(lane, half) == (column, row)


@pytest.mark.parametrize(("lane", "index"), [(-1, 0), (32, 0), (0, -1), (0, 8)])
def test_no_such_lane_or_element(lane: int, index: int) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        fragments_matrix.matrix_position(matrix_move.HALVES, False, lane, index)
    assert [one.rule_id for one in caught.value.diagnostics] == ["fragment.range"]


SCALED = [row for row in mma.rows() if row.axes["scale"] is not None]


@pytest.mark.parametrize("row", SCALED[::7], ids=lambda row: row.ptx)
def test_scale_factors_are_where_the_figures_have_them(row: Row) -> None:
    """PTX ISA 9.7.14.3: of each quad, two lanes give the two rows of A, and one the column of B."""
    maps = {held.operand: held for held in fragment_maps(row)}
    a, b = maps["scale_a"], maps["scale_b"]
    factors = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4 if "4X" in row.ptx else 2}[str(row.axes["kind"])]
    assert a.elements == b.elements == factors
    for thread_id in range(2):
        held = {
            a.position(4 * quad + 2 * thread_id + one, i)
            for quad in range(8)
            for one in range(2)
            for i in range(factors)
        }
        assert held == set(itertools.product(range(16), range(factors)))
    for lane, i in itertools.product(LANES, range(factors)):
        assert a.position(lane, i) == (lane // 4 + (8 if lane % 2 else 0), i)
        assert b.position(lane, i) == (i, lane // 4)
    assert "thread-id-a" in a.counted
    assert "byte-id-b" in b.counted


def test_explain_tells_who_holds_what(capsys: pytest.CaptureFixture[str]) -> None:
    for spelling, said in {
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16": "thread  1  (0,2,0) (0,3,0)",
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8": "thread  4  (0,0,1) (0,1,1) (0,0,9) (0,1,9)",
        "movmatrix.sync.aligned.m8n8.trans.b16": "before it was transposed",
        SCALED[0].ptx: "the factors of lanes with lane % 4 = thread-id-b count, from byte byte-id-b on",
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32": "lanes with lane % 4 / 2 = selector counts",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16": "thread / 2 % 2 = selector counts",
        "tcgen05.ld.sync.aligned.16x64b.x1.b32": "(lane, 32-bit column)",
    }.items():
        assert main(["explain", spelling]) == 0
        assert said in capsys.readouterr().out, spelling
