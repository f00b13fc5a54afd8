"""The eight canonical layouts against their formulas, which stand here a second time, and what hardware reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import ElementType, b1, bf16, e2m1, e2m3, e4m3, f16, f64, s8, tf32
from nvbackend.intrinsics.words.smem_descriptor import Major, SmemDescriptor, SwizzleMode
from nvbackend.layout.descriptors.smem_layout import SmemLayout

pytestmark = pytest.mark.sampled(3)

WIDTHS = {SwizzleMode.NONE: 1, SwizzleMode.B32: 2, SwizzleMode.B64: 4, SwizzleMode.B128: 8}
MASKS = {SwizzleMode.NONE: 0, SwizzleMode.B32: 0x10, SwizzleMode.B64: 0x30, SwizzleMode.B128: 0x70}
K_MAJOR_TYPES = (b1, e2m1, e4m3, f16, tf32)


def hardware_address(major: Major, descriptor: SmemDescriptor, element: ElementType, row: int, column: int) -> int:
    """Where wgmma or tcgen05 reads element (row, column) of the operand at a descriptor: the measured formulas, swizzle
    on the bits of the whole address."""
    lbo, sbo, w = descriptor.leading_byte_offset, descriptor.stride_byte_offset, WIDTHS[descriptor.swizzle]
    t = 128 // element.bits
    byte = column % t * element.bits // 8
    if major is Major.K and w > 1:
        linear = row % 8 * 16 * w + row // 8 * sbo + column // t * 16 + byte
    elif major is Major.K:
        linear = row % 8 * 16 + row // 8 * sbo + column // t * lbo + byte
    elif w > 1:
        u = row // t
        linear = u % w * 16 + u // w * lbo + row % t * element.bits // 8 + column % 8 * 16 * w + column // 8 * sbo
    else:
        linear = row // t * sbo + row % t * element.bits // 8 + column % 8 * 16 + column // 8 * lbo
    address = descriptor.start_address + linear
    return address ^ ((address >> 3) & MASKS[descriptor.swizzle])


def tiles(*, panels: tuple[int, ...] = (1, 3), strided: tuple[int, ...] = (1, 5)) -> Iterator[SmemLayout]:
    """Tiles of every width, major and swizzle; `panels` wide (in units that the swizzle allows), `strided` core
    matrices or K steps long."""
    for swizzle, count, length in itertools.product(SwizzleMode, panels, strided):
        for element in K_MAJOR_TYPES:
            columns = max(16 * WIDTHS[swizzle], 32) * 8 // element.bits
            yield SmemLayout(Major.K, swizzle, element, 8 * length, columns * count)
        yield SmemLayout(Major.MN, swizzle, bf16, 8 * WIDTHS[swizzle] * count, 16 * length)
        yield SmemLayout(Major.MN, swizzle, e4m3, 16 * WIDTHS[swizzle] * count, 32 * length)


def kinds(layouts: Iterator[SmemLayout]) -> pytest.MarkDecorator:
    """One test for each majorness, swizzle and type."""
    groups: dict[str, list[SmemLayout]] = {}
    for layout in layouts:
        groups.setdefault(f"{layout.major}-{layout.swizzle.span}-{layout.element}", []).append(layout)
    return pytest.mark.parametrize("layouts", groups.values(), ids=list(groups))


every_tile = kinds(tiles())


def byte_elements(layout: SmemLayout) -> Iterator[tuple[int, int]]:
    """Every element that begins a byte."""
    return itertools.product(range(layout.rows), range(0, layout.columns, max(1, 8 // layout.element.bits)))


def broken(error: pytest.ExceptionInfo[DiagnosticError]) -> list[str]:
    return [diagnostic.rule_id for diagnostic in error.value.diagnostics]


@every_tile
def test_offset_covers_each_byte_of_the_tile_once(layouts: list[SmemLayout]) -> None:
    for layout in layouts:
        size = max(1, layout.element.bits // 8)
        starts = [layout.offset(row, column) for row, column in byte_elements(layout)]
        assert layout.bytes == layout.rows * layout.columns * layout.element.bits // 8
        assert sorted(starts) == list(range(0, layout.bytes, size))


@every_tile
def test_hardware_reads_through_an_advanced_descriptor_what_offset_says(layouts: list[SmemLayout]) -> None:
    for layout in layouts:
        base = layout.alignment * 7
        k = 256 // layout.element.bits
        step = max(1, 8 // layout.element.bits)
        row_step = 128 // layout.element.bits * WIDTHS[layout.swizzle] if layout.major is Major.MN else 8
        for first_row, first_column in itertools.product(range(0, layout.rows, row_step), range(0, layout.columns, k)):
            origin = layout.origin(first_row, first_column, rows=layout.rows - first_row, columns=k)
            descriptor = layout.descriptor(base).advance(origin)
            for row, column in itertools.product(range(layout.rows - first_row), range(0, k, step)):
                read = hardware_address(layout.major, descriptor, layout.element, row, column)
                assert read == base + layout.offset(first_row + row, first_column + column)


@kinds(tiles(panels=(1, 4), strided=(2, 4)))
def test_constant_steps_are_constant_for_the_hardware(layouts: list[SmemLayout]) -> None:
    for layout in layouts:
        k = 256 // layout.element.bits
        steps_a_panel = WIDTHS[layout.swizzle] // 2
        if layout.major is Major.K and steps_a_panel > 1 and layout.bytes > layout.rows * 32 * steps_a_panel:
            with pytest.raises(DiagnosticError) as error:
                layout.k_step_bytes(k)
            assert broken(error) == ["layout.step"]
            continue
        stride = layout.k_step_bytes(k)
        descriptor = layout.descriptor(0)
        for step in range(layout.columns // k):
            for row, column in itertools.product((0, layout.rows - 1), (0, k - 1)):
                read = hardware_address(layout.major, descriptor.advance(step * stride), layout.element, row, column)
                assert read == layout.offset(row, step * k + column)


@pytest.mark.parametrize(
    ("layout", "k", "stride"),
    [
        (SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64), 16, 32),
        (SmemLayout(Major.K, SwizzleMode.B64, s8, 64, 64), 32, 32),
        (SmemLayout(Major.K, SwizzleMode.B32, f16, 64, 64), 16, 64 * 32),
        (SmemLayout(Major.K, SwizzleMode.NONE, f16, 64, 64), 16, 64 * 32),
        (SmemLayout(Major.MN, SwizzleMode.B128, f16, 128, 64), 16, 2048),
        (SmemLayout(Major.MN, SwizzleMode.NONE, f16, 128, 64), 16, 256),
        (SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64), 64, 0),
    ],
)
def test_k_step_bytes(layout: SmemLayout, k: int, stride: int) -> None:
    assert layout.k_step_bytes(k) == stride
    assert layout.k_steps(k) == tuple(stride * step for step in range(layout.columns // k))


@pytest.mark.parametrize(
    ("major", "swizzle", "rows", "stride"),
    [
        (Major.K, SwizzleMode.B128, 64, 64 * 128),
        (Major.K, SwizzleMode.B32, 64, 64 * 32),
        (Major.K, SwizzleMode.NONE, 64, 64 * 16),
        (Major.MN, SwizzleMode.B128, 64, 64 * 128),
        (Major.MN, SwizzleMode.B64, 64, 2 * 64 * 64),
        (Major.MN, SwizzleMode.NONE, 8, 64 * 16),
    ],
)
def test_row_step_bytes(major: Major, swizzle: SwizzleMode, rows: int, stride: int) -> None:
    layout = SmemLayout(major, swizzle, f16, 128, 64)
    assert layout.row_step_bytes(rows) == stride
    assert layout.row_steps(rows) == tuple(stride * step for step in range(128 // rows))


def test_k_steps_of_a_wide_tile_go_from_panel_to_panel() -> None:
    layout = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 128)
    assert layout.k_steps(16) == (0, 32, 64, 96, 8192, 8224, 8256, 8288)
    with pytest.raises(DiagnosticError, match="make the tile 64 columns wide") as error:
        layout.k_step_bytes(16)
    assert broken(error) == ["layout.step"]


@pytest.mark.parametrize("k", [0, -16, 48])
def test_steps_must_divide_the_tile(k: int) -> None:
    with pytest.raises(DiagnosticError) as error:
        SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64).k_steps(k)
    assert broken(error) == ["layout.step"]


def test_steps_that_straddle_panels_are_refused() -> None:
    with pytest.raises(DiagnosticError) as error:
        SmemLayout(Major.K, SwizzleMode.B32, f16, 64, 64).k_steps(32)
    assert broken(error) == ["layout.straddle"]
    with pytest.raises(DiagnosticError) as error:
        SmemLayout(Major.MN, SwizzleMode.B128, f16, 192, 64).row_steps(96)
    assert broken(error) == ["layout.straddle"]


@pytest.mark.parametrize(
    ("layout", "row", "column", "rows", "columns"),
    [
        (SmemLayout(Major.K, SwizzleMode.B32, f16, 64, 64), 0, 0, 64, 32),
        (SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 128), 0, 56, 64, 16),
        (SmemLayout(Major.MN, SwizzleMode.B128, f16, 192, 64), 32, 0, 64, 16),
        (SmemLayout(Major.MN, SwizzleMode.B64, f16, 128, 64), 24, 0, 16, 16),
    ],
)
def test_operands_that_straddle_panels_are_refused(
    layout: SmemLayout, row: int, column: int, rows: int, columns: int
) -> None:
    descriptor = layout.descriptor().advance(layout.origin(row, column))
    last = (rows - 1, columns - 1)
    read = hardware_address(layout.major, descriptor, layout.element, *last)
    assert read != layout.offset(row + last[0], column + last[1])
    with pytest.raises(DiagnosticError) as error:
        layout.origin(row, column, rows=rows, columns=columns)
    assert broken(error) == ["layout.straddle"]


def test_what_straddles_a_panel_is_told_by_its_axis_and_place() -> None:
    for major, row, column, told in (
        (Major.K, 0, 56, {"axis": "columns", "first": 56, "last": 71, "panel": 64}),
        (Major.MN, 32, 0, {"axis": "rows", "first": 32, "last": 127, "panel": 64}),
    ):
        with pytest.raises(DiagnosticError) as error:
            SmemLayout(major, SwizzleMode.B128, f16, 192, 192).origin(row, column, rows=96, columns=16)
        (found,) = error.value.diagnostics
        assert found.values.items() >= told.items()


def test_a_tile_is_made_of_the_kinds_of_things_it_names() -> None:
    fields: list[object] = [Major.K, SwizzleMode.B128, f16, 64, 64]
    for place, name in enumerate(("major", "swizzle", "element", "rows", "columns")):
        for other in ("K", 2.5, None):
            with pytest.raises(DiagnosticError, match=name) as error:
                SmemLayout(*fields[:place], other, *fields[place + 1 :])  # type: ignore[call-arg, arg-type]
            assert broken(error) == ["call.argument"]


@pytest.mark.parametrize(
    ("major", "row", "column"), [(Major.K, 4, 0), (Major.K, 0, 4), (Major.MN, 4, 0), (Major.MN, 0, 4)]
)
def test_operands_start_at_core_matrices(major: Major, row: int, column: int) -> None:
    layout = SmemLayout(major, SwizzleMode.B128, f16, 64, 64)
    assert layout.origin(2 * row, 2 * column) == layout.swizzle.apply(layout.offset(2 * row, 2 * column))
    with pytest.raises(DiagnosticError) as error:
        layout.origin(row, column)
    assert broken(error) == ["layout.origin"]


@pytest.mark.parametrize("place", [(-1, 0), (64, 0), (0, -1), (0, 64)])
def test_elements_outside_the_tile_are_refused(place: tuple[int, int]) -> None:
    layout = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
    for ask in (layout.offset, layout.origin):
        with pytest.raises(DiagnosticError) as error:
            ask(*place)
        assert broken(error) == ["layout.bounds"]
    with pytest.raises(DiagnosticError) as error:
        layout.origin(32, 0, rows=64, columns=16)
    assert broken(error) == ["layout.bounds"]


@every_tile
def test_tma_copies_fill_the_tile(layouts: list[SmemLayout]) -> None:
    """TMA writes a box row by row, contiguous dimension first, and swizzles address bits."""
    for layout in layouts:
        along, across = layout.tma_box
        filled: dict[int, tuple[int, int]] = {}
        for copy in layout.tma_copies:
            assert copy.byte_offset % layout.alignment == 0
            for outer, inner in itertools.product(range(along), range(across)):
                address = copy.byte_offset + (outer * across + inner) * layout.element.bits // 8
                swizzled = address ^ ((address >> 3) & MASKS[layout.swizzle])
                row, column = (outer, inner) if layout.major is Major.K else (inner, outer)
                filled.setdefault(swizzled, (copy.row + row, copy.column + column))
        assert across * layout.element.bits // 8 == 16 * WIDTHS[layout.swizzle]
        assert {layout.offset(*element): element for element in byte_elements(layout)} == filled


@pytest.mark.parametrize(("rows", "box"), [(256, 256), (512, 256), (264, 88), (384, 192)])
def test_a_box_has_at_most_256_rows_and_parts_are_even(rows: int, box: int) -> None:
    layout = SmemLayout(Major.K, SwizzleMode.B128, f16, rows, 128)
    assert layout.tma_box == (box, 64)
    places = [(copy.panel, copy.row, copy.column, copy.byte_offset) for copy in layout.tma_copies]
    expected = [(p, r, 64 * p, p * rows * 128 + r * 128) for p in range(2) for r in range(0, rows, box)]
    assert places == expected


@every_tile
def test_arrange_puts_each_element_at_its_offset(layouts: list[SmemLayout]) -> None:
    for layout in layouts:
        bits = layout.element.bits
        dtype = layout.element.numpy_dtype()
        shape = (layout.rows, layout.columns * bits // 8 // dtype.itemsize)
        raw = numpy.random.default_rng(7).integers(0, 256, (*shape, dtype.itemsize), numpy.uint8)
        matrix = raw.view(dtype).reshape(shape)
        image = layout.arrange(matrix)
        assert image.shape == (layout.bytes,)
        per_item = max(1, 8 // bits)
        for row, column in itertools.product(range(shape[0]), range(shape[1])):
            start = layout.offset(row, column * per_item)
            assert bytes(image[start : start + dtype.itemsize]) == matrix[row, column].tobytes()
        gathered = layout.gather(image)
        assert (gathered.dtype, gathered.shape) == (dtype, shape)
        assert gathered.tobytes() == matrix.tobytes()


def test_arrange_takes_views_and_other_types_of_the_same_size() -> None:
    layout = SmemLayout(Major.MN, SwizzleMode.B64, bf16, 64, 32)
    matrix = numpy.arange(64 * 64, dtype=numpy.int16).reshape(64, 64)
    assert bytes(layout.arrange(matrix[:, ::2])) == bytes(layout.arrange(matrix[:, ::2].copy()))
    assert numpy.array_equal(layout.gather(layout.arrange(matrix.T[:, :32])), matrix.T[:, :32])


def test_arrays_of_another_shape_or_size_are_refused() -> None:
    layout = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
    for matrix in (numpy.zeros((64, 32), numpy.float16), numpy.zeros((64, 64), numpy.float32)):
        with pytest.raises(DiagnosticError) as error:
            layout.arrange(matrix)
        assert broken(error) == ["layout.array"]
    for image in (numpy.zeros(layout.bytes - 1, numpy.uint8), numpy.zeros(layout.bytes, numpy.uint16)):
        with pytest.raises(DiagnosticError) as error:
            layout.gather(image)
        assert broken(error) == ["layout.array"]


@given(
    st.sampled_from(Major),
    st.sampled_from(SwizzleMode),
    st.sampled_from((*K_MAJOR_TYPES, s8, bf16)),
    st.integers(1, 40).map(lambda count: 8 * count),
    st.integers(1, 40).map(lambda count: 16 * count),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])  # nine of ten tiles are not legal
def test_a_legal_tile_fits_its_descriptor_and_can_be_repeated(
    major: Major, swizzle: SwizzleMode, element: ElementType, rows: int, columns: int
) -> None:
    try:
        layout = SmemLayout(major, swizzle, element, rows, columns)
    except DiagnosticError:
        assume(False)
    assert layout.bytes % layout.alignment == 0
    descriptor = layout.descriptor()
    assert SmemDescriptor.decode(descriptor.encode()) == descriptor
    assert descriptor.swizzle is swizzle


def wide(swizzle: SwizzleMode, element: ElementType) -> int:
    return 16 * WIDTHS[swizzle] * 8 // element.bits


@pytest.mark.parametrize("swizzle", SwizzleMode)
@pytest.mark.parametrize("element", [*K_MAJOR_TYPES, s8, bf16])
def test_extents_are_checked_in_both_directions(swizzle: SwizzleMode, element: ElementType) -> None:
    columns = max(wide(swizzle, element), 256 // element.bits)
    assert SmemLayout(Major.K, swizzle, element, 8, columns).bytes == columns * element.bits
    with pytest.raises(DiagnosticError, match="use 8 rows") as error:
        SmemLayout(Major.K, swizzle, element, 0, columns + 1)
    assert broken(error) == ["layout.rows", "layout.columns"]
    with pytest.raises(DiagnosticError, match=f"use {2 * columns} columns") as error:
        SmemLayout(Major.K, swizzle, element, 16, columns + columns // 2)
    assert broken(error) == ["layout.columns"]


@pytest.mark.parametrize("swizzle", SwizzleMode)
def test_extents_of_mn_major_tiles_are_checked(swizzle: SwizzleMode) -> None:
    rows = wide(swizzle, f16)
    assert SmemLayout(Major.MN, swizzle, f16, rows, 16).bytes == rows * 32
    with pytest.raises(DiagnosticError, match=f"use {2 * rows} rows") as error:
        SmemLayout(Major.MN, swizzle, f16, rows + rows // 2, 8)
    assert broken(error) == ["layout.rows", "layout.columns"]


def test_a_refused_extent_is_told_with_the_swizzle_that_takes_it() -> None:
    with pytest.raises(DiagnosticError, match="use 128 columns, or no swizzle, or 64 B swizzle, or 32 B swizzle"):
        SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 96)


@pytest.mark.parametrize("element", [b1, e2m1, tf32])
def test_only_8_and_16_bit_types_can_be_mn_major(element: ElementType) -> None:
    with pytest.raises(DiagnosticError, match=r"Major\.K") as error:
        SmemLayout(Major.MN, SwizzleMode.NONE, element, 1024, 1024)
    assert broken(error) == ["layout.major"]


@pytest.mark.parametrize("element", [e2m3, f64])
def test_types_that_nothing_reads_are_refused(element: ElementType) -> None:
    with pytest.raises(DiagnosticError) as error:
        SmemLayout(Major.K, SwizzleMode.NONE, element, 1024, 1024)
    assert broken(error) == ["layout.element"]


@pytest.mark.parametrize(
    ("swizzle", "period"),
    [(SwizzleMode.NONE, 16), (SwizzleMode.B32, 256), (SwizzleMode.B64, 512), (SwizzleMode.B128, 1024)],
)
def test_tiles_start_at_the_swizzle_period(swizzle: SwizzleMode, period: int) -> None:
    layout = SmemLayout(Major.K, swizzle, f16, 64, 64)
    assert layout.alignment == period
    assert layout.descriptor(3 * period).start_address == 3 * period
    with pytest.raises(DiagnosticError, match=f"place it at {period} or {2 * period}") as error:
        layout.descriptor(period + period // 2)
    assert broken(error) == ["layout.alignment"]


@pytest.mark.parametrize("major", list(Major))
@pytest.mark.parametrize("swizzle", list(SwizzleMode))
def test_the_reach_of_an_operand_holds_every_byte_of_it(major: Major, swizzle: SwizzleMode) -> None:
    """The bytes are those of `offset`, element by element; no operand starts before its origin or ends behind."""
    layout = SmemLayout(major, swizzle, f16, 128, 128)
    for row, column, rows, columns in ((0, 0, 128, 128), (0, 16, 64, 16), (64, 64, 64, 16), (64, 112, 64, 16)):
        origin = layout.origin(row, column)
        inside = [layout.offset(r, c) for r in range(row, row + rows) for c in range(column, column + columns)]
        assert origin <= min(inside)
        assert max(inside) + 2 <= origin + layout.reach(row, column, rows, columns) <= layout.bytes
