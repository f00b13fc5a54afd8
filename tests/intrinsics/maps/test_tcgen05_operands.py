"""Scale factors and metadata in tensor memory, against the layouts of CUTLASS's tmem_sf_frg and tmem_e_frg.

Those are shapes and strides of addresses, of lane + 128 * (a unit of columns): bytes, or bits of metadata.
"""

from __future__ import annotations

import itertools

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.intrinsics.maps.rows import cell_maps
from nvbackend.intrinsics.maps.tcgen05 import METADATA as METADATA_OF
from nvbackend.intrinsics.maps.tcgen05 import accumulator_cell, factors, metadata_cell, scale_a_cell, scale_b_cell
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import NoSuchRow

Mode = tuple[tuple[int, ...], tuple[int, ...]]


def address(number: int, mode: Mode) -> int:
    total = 0
    for extent, stride in zip(*mode, strict=True):
        number, digit = divmod(number, extent)
        total += digit * stride
    return total


def cell(offset: int, units: int) -> tuple[int, int, int]:
    """Lane, 32-bit column, and unit in it, where a column has `units`."""
    column, lane = divmod(offset, 128)
    return lane, *divmod(column, units)


@pytest.mark.parametrize("rows", [64, 128])
def test_a_factor_of_a_is_where_the_layout_has_it(rows: int) -> None:
    own, factor_mode = ((32, rows // 32), (1, 512)), ((4,), (128,))
    for row, factor in itertools.product(range(rows), range(4)):
        assert scale_a_cell(row, factor) == cell(address(row, own) + address(factor, factor_mode), 4)


@pytest.mark.parametrize("n", [64, 128, 192, 256])
def test_a_factor_of_b_is_where_the_layout_has_it(n: int) -> None:
    whole, halves = ((32, n // 32), (1, 512)), ((32, n // 64, 2), (1, 512, 64))
    for column, factor in itertools.product(range(n), range(4)):
        place = address(factor, ((4,), (128,)))
        assert scale_b_cell(n, column, factor) == cell(address(column, whole) + place, 4)
        assert scale_b_cell(n, column, factor, split=True) == cell(address(column, halves) + place, 4)


def test_the_id_is_the_byte_of_the_first_factor() -> None:
    assert scale_a_cell(33, 1, scale_id=2) == (1, 1, 3)
    assert scale_b_cell(64, 33, 0, scale_id=3) == (1, 1, 3)
    assert scale_b_cell(64, 33, 0, scale_id=3, split=True) == (65, 0, 3)


# Kind, bits of metadata for each element, rows and elements of A.
FOLDED = ((8, 2, 8), (1, 128 * 16, 16))
METADATA: list[tuple[str, float, Mode, Mode]] = [
    ("tf32", 2, ((8, 2, 8), (1, 1024, 16)), ((8, 2), (128, 8))),
    ("f16", 1, FOLDED, ((16, 2), (128, 8))),
    *((kind, 1, ((128,), (1,)), ((64,), (128,))) for kind in ("i8", "f8f6f4", "mxf8f6f4")),
    *((kind, 0.5, ((128,), (1,)), ((128,), (128,))) for kind in ("mxf4", "mxf4nvf4")),
]


@pytest.mark.parametrize(("kind", "bits", "rows", "columns"), METADATA, ids=[one[0] for one in METADATA])
def test_metadata_is_where_the_layout_has_it(kind: str, bits: float, rows: Mode, columns: Mode) -> None:
    elements = int(4 / bits)
    assert METADATA_OF[kind].elements == elements
    k = 1
    for extent in columns[0]:
        k *= extent
    seen = set()
    for row, element in itertools.product(range(128), range(0, k, elements)):
        lane, column, unit = cell(address(row, rows) + address(element, columns), int(32 / bits))
        found = metadata_cell(kind, row, element // elements)
        assert found == (lane, column, unit * bits)
        seen.add(found)
    assert len(seen) == 128 * k // elements
    with pytest.raises(DiagnosticError) as error:
        metadata_cell(kind, 0, k // elements)
    assert error.value.diagnostics[0].rule_id == "fragment.range"


@pytest.mark.parametrize("kind", METADATA_OF)
def test_metadata_of_64_rows_is_in_the_lanes_of_their_d(kind: str) -> None:
    """PTX ISA 9.7.16.10.8.5: one alignment of A, D and metadata, where half of the lanes are used."""
    chunks = METADATA_OF[kind].chunks
    cells = {metadata_cell(kind, row, chunk, rows=64) for row in range(64) for chunk in range(chunks)}
    lanes = {accumulator_cell(64, 8, row, 0)[1] for row in range(64)}
    assert len(cells) == 64 * chunks and {lane for lane, _, _ in cells} == lanes
    assert {lane // 32 for lane, _, _ in (metadata_cell(kind, 20, chunk, rows=64) for chunk in range(chunks))} == {1}


@pytest.mark.parametrize(
    ("kind", "vector", "count"),
    [
        ("mxf8f6f4", None, 1),
        ("mxf8f6f4", "scale_vec::1X", 1),
        ("mxf8f6f4", "block32", 1),
        ("mxf4", None, 2),
        ("mxf4", "scale_vec::2X", 2),
        ("mxf4", "block32", 2),
        ("mxf4nvf4", "scale_vec::2X", 2),
        ("mxf4nvf4", "scale_vec::4X", 4),
        ("mxf4nvf4", "block16", 4),
        ("mxf4nvf4", "block32", 2),
    ],
)
def test_how_many_factors_a_row_has(kind: str, vector: str | None, count: int) -> None:
    """K / block: 32 elements, or 16, of the 32 bytes that K is; K = 32 of kind::mxf8f6f4 and 64 of the others."""
    assert factors(kind, vector) == count


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (tcgen05.mma("f16"), [("d", 128, (128, 64)), ("d", 64, (64, 64))]),
        (
            tcgen05.mma("tf32", sparse=True, cta_group=2),
            [("d", 256, (256, 64)), ("metadata", 256, (128, 8)), ("d", 128, (128, 64))],
        ),
        (
            tcgen05.mma("mxf4", cta_group=2),
            [
                ("d", 256, (256, 64)),
                ("scale_a", 256, (128, 2)),
                ("scale_b", 256, (64, 2)),
                ("d", 128, (128, 64)),
                ("scale_a", 128, (64, 2)),
                ("scale_b", 128, (64, 2)),
            ],
        ),
        (tcgen05.mma_ws("i8"), [("d", 128, (128, 64)), ("d", 64, (64, 64)), ("d", 32, (32, 64))]),
        (tcgen05_memory.alloc(), []),
    ],
)
def test_rows_have_the_maps_of_their_operands(row, said) -> None:
    maps = list(cell_maps(row))
    assert [(one.operand, one.m, one.extents) for one in maps] == said
    for one in maps:
        cells = {one.position(*index) for index in itertools.product(*map(range, one.extents))}
        assert len(cells) == one.extents[0] * one.extents[1]


def test_b_is_split_where_two_ctas_have_128_rows() -> None:
    last = {
        one.m: one.position(63, 0) for one in cell_maps(tcgen05.mma("mxf4", cta_group=2)) if one.operand == "scale_b"
    }
    assert last == {256: (31, 1, 0), 128: (95, 0, 0)}


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: scale_a_cell(128, 0), "fragment.range"),
        (lambda: scale_a_cell(0, 3, scale_id=1), "fragment.range"),
        (lambda: scale_a_cell(0, 0, scale_id=4), "fragment.range"),
        (lambda: scale_b_cell(64, 64, 0), "fragment.range"),
        (lambda: metadata_cell("f16", 128, 0), "fragment.range"),
        (lambda: metadata_cell("f16", 64, 0, rows=64), "fragment.range"),
        (lambda: metadata_cell("f16", 0, 0, rows=32), "row.axis"),
    ],
)
def test_what_has_no_place(call, rule: str) -> None:
    with pytest.raises(DiagnosticError) as error:
        call()
    assert error.value.diagnostics[0].rule_id == rule


def test_another_kind_has_neither() -> None:
    for call in (lambda: metadata_cell("f32", 0, 0), lambda: factors("f16"), lambda: factors("mxf4", "block16")):
        with pytest.raises(NoSuchRow):
            call()
