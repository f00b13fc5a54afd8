"""Swizzles and swizzled layouts, against bits moved one by one and against the tables of what wgmma reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend import DiagnosticError, ElementType, Major, SmemLayout, SwizzleMode, b1, bf16, e4m3, f16, s4, s8, tf32
from nvbackend.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    SmemPtr,
    Swizzle,
    composition,
    flat_divide,
    flat_product,
    gmma_atom,
    left_inverse,
    logical_divide,
    logical_product,
    recast_layout,
    right_inverse,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    upcast,
    zipped_divide,
    zipped_product,
)
from tests.layout.random_layouts import compact_layouts, image, layouts, naive_size
from tests.support.smem_addresses import address

pytestmark = pytest.mark.sampled(3)

SWIZZLES = st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(-4, 4)).filter(lambda s: abs(s[2]) >= s[0])
WIDTHS: tuple[ElementType, ...] = (b1, s8, e4m3, f16, bf16, tf32)


def moved(index: int, bits: int, base: int, shift: int) -> int:
    """The swizzle, bit by bit."""
    for bit in range(bits):
        upper, lower = base + bit + abs(shift), base + bit
        source, target = (upper, lower) if shift >= 0 else (lower, upper)
        index ^= (index >> source & 1) << target
    return index


@settings(max_examples=100, deadline=None)
@given(SWIZZLES, st.integers(0, 2**14))
def test_a_swizzle_changes_bits_by_bits(numbers: tuple[int, int, int], index: int) -> None:
    swizzle = Swizzle(*numbers)
    assert swizzle(index) == moved(index, *numbers)
    assert swizzle(swizzle(index)) == index
    assert str(swizzle) == f"Sw<{numbers[0]},{numbers[1]},{numbers[2]}>"


@settings(max_examples=60, deadline=None)
@given(SWIZZLES, st.sampled_from([1, 2, 4, 8]), st.integers(0, 2**12))
def test_a_swizzle_of_narrower_elements_moves_their_runs(
    numbers: tuple[int, int, int], factor: int, index: int
) -> None:
    swizzle = Swizzle(*numbers)
    assert swizzle.downcast(factor)(index) == swizzle(index // factor) * factor + index % factor
    assert swizzle.downcast(factor).upcast(factor) == swizzle


@pytest.mark.parametrize("mode", SwizzleMode)
@pytest.mark.parametrize("element", WIDTHS, ids=str)
@pytest.mark.parametrize("major", Major, ids=str)
def test_the_canonical_atoms_lie_where_wgmma_reads(major: Major, mode: SwizzleMode, element: ElementType) -> None:
    """Every element of a tile of several atoms, by the formulas that were measured."""
    if major is Major.MN and element.bits != 16:
        with pytest.raises(DiagnosticError):
            SmemLayout(major, mode, element, 1024, 1024)
        return
    panel, mma_k = mode.bytes * 8 // element.bits, 256 // element.bits
    rows, columns = (24, max(2 * panel, mma_k)) if major is Major.K else (2 * panel, 48)
    described = SmemLayout(major, mode, element, rows, columns)
    lbo, sbo = described.leading_byte_offset, described.stride_byte_offset
    atom = gmma_atom(major, mode, element)
    tile = tile_to_shape(atom, (rows, columns), "left" if major is Major.K else "right")
    reach = panel if major is Major.K and mode.mask else columns
    sample = (range(rows), range(0, columns, 1 if columns < 256 else 37))
    for row, column in itertools.product(*sample):
        start = column // reach * rows * mode.bytes
        place = (row, column % reach)
        wanted = address(major is Major.K, mode.name, element.bits, place, start, lbo, sbo)
        assert tile(row, column) * element.bits // 8 == described.offset(row, column) == wanted
        assert described.layout(row, column) == tile(row, column)
    assert sorted(tile.offsets()) == list(range(rows * columns))


@pytest.mark.parametrize("mode", SwizzleMode)
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("major", Major, ids=str)
def test_atoms_of_any_width_are_the_atom_of_bits_recast(major: Major, mode: SwizzleMode, bits: int) -> None:
    """An element's first bit lies where the element does, in CuTe's atom of single bits."""
    atom, of_bits = gmma_atom(major, mode, bits), gmma_atom(major, mode, 1)
    contiguous = 1 if major is Major.K else 0
    extent = atom.layout_b[contiguous].shape
    assert extent == mode.bytes * 8 // bits
    for across, along in itertools.product(range(8), range(0, extent, max(1, extent // 16))):
        place, first = (
            ((across, along), (across, along * bits)) if contiguous else ((along, across), (along * bits, across))
        )
        assert atom(*place) * bits == of_bits(*first)


def test_atoms_print_as_in_cute() -> None:
    found = {
        (major, mode): gmma_atom(major, mode, f16).flagged().replace(" o smem_ptr[16b](unset) o ", " ")
        for major, mode in itertools.product(Major, SwizzleMode)
    }
    assert found == {
        (Major.K, SwizzleMode.NONE): "Sw<0,4,3> (_8,_8):(_8,_1)",
        (Major.K, SwizzleMode.B32): "Sw<1,4,3> (_8,_16):(_16,_1)",
        (Major.K, SwizzleMode.B64): "Sw<2,4,3> (_8,_32):(_32,_1)",
        (Major.K, SwizzleMode.B128): "Sw<3,4,3> (_8,_64):(_64,_1)",
        (Major.MN, SwizzleMode.NONE): "Sw<0,4,3> (_8,_8):(_1,_8)",
        (Major.MN, SwizzleMode.B32): "Sw<1,4,3> (_16,_8):(_1,_16)",
        (Major.MN, SwizzleMode.B64): "Sw<2,4,3> (_32,_8):(_1,_32)",
        (Major.MN, SwizzleMode.B128): "Sw<3,4,3> (_64,_8):(_1,_64)",
    }


def swizzled(bits: int | None = None) -> ComposedLayout:
    return ComposedLayout(Swizzle(3, 4, 3), SmemPtr(bits), Layout((8, 64), (64, 1)))


def test_composition_passes_a_swizzle_by() -> None:
    found = composition(Swizzle(2, 0, 3), Layout((8, 8), (8, 1)))
    tiled = composition(found, (4, 2))
    assert [tiled(i, j) for i, j in itertools.product(range(4), range(2))] == [
        moved(8 * i + j, 2, 0, 3) for i, j in itertools.product(range(4), range(2))
    ]
    assert composition(Swizzle(0, 4, 3), Layout(8)) == Layout(8)
    assert str(logical_divide(swizzled(16), (4, 32))).startswith("Sw<3,4,3> o smem_ptr o ")


def test_a_layout_after_a_swizzle_becomes_a_swizzle_after_the_layout() -> None:
    left, right = Layout((16, 16), (16, 1)), composition(Swizzle(2, 1, 4), Layout(256))
    found = composition(left, right)
    assert [found(index) for index in range(256)] == [left(moved(index, 2, 1, 4)) for index in range(256)]
    assert isinstance(found, ComposedLayout)
    assert found.swizzle == Swizzle(2, 1, -4)


@pytest.mark.parametrize("invert", [left_inverse, right_inverse])
def test_inverses_of_swizzled_layouts(invert: object) -> None:
    assert callable(invert)
    layout = composition(Swizzle(3, 0, 3), Layout((8, 8), (8, 1)))
    inverse: AnyLayout = invert(layout)
    assert [inverse(layout(index)) for index in range(64)] == list(range(64))
    assert [layout(inverse(index)) for index in range(64)] == list(range(64))


def test_a_slice_of_a_swizzled_layout_keeps_its_place() -> None:
    layout = swizzled(16)
    for row in range(8):
        assert [layout(row, None)(column) for column in range(64)] == [layout(row, column) for column in range(64)]


def test_recast_keeps_the_bytes() -> None:
    layout = swizzled(16)
    wider = recast_layout(layout, f16, tf32)
    assert wider.flagged() == "Sw<3,4,3> o smem_ptr[32b](unset) o (_8,_32):(_32,_1)"
    assert all(wider(i, j) * 2 == layout(i, 2 * j) for i, j in itertools.product(range(8), range(32)))
    narrower = recast_layout(layout, f16, s4)
    assert narrower.flagged() == "Sw<3,4,3> o smem_ptr[4b](unset) o (_8,_256):(_256,_1)"
    assert all(narrower(i, 4 * j) == layout(i, j) * 4 for i, j in itertools.product(range(8), range(64)))
    elements = layout.in_elements()
    assert str(elements) == "Sw<3,3,3> o _0 o (_8,_64):(_64,_1)"
    assert str(upcast(elements, 2)) == "Sw<3,2,3> o _0 o (_8,_32):(_32,_1)"


def test_offsets_are_those_of_all_coordinates() -> None:
    for layout in (swizzled(16), swizzled(8)(3, None), composition(Swizzle(2, 0, -3), Layout((8, 8)))):
        assert isinstance(layout, ComposedLayout)
        assert layout.offsets() == [layout(index) for index in range(len(layout.offsets()))]


TILINGS: tuple[Callable[..., AnyLayout], ...] = (
    *(logical_divide, zipped_divide, tiled_divide, flat_divide),
    *(logical_product, zipped_product, tiled_product, flat_product),
)


def test_tilings_are_of_the_layout_before_the_swizzle() -> None:
    within = Layout((8, 16), (16, 1))
    for tiling, tiler in itertools.product(TILINGS, ((2, 4), Layout(4, 2))):
        tiled = tiling(ComposedLayout(Swizzle(2, 1, 3), 0, within), tiler)
        assert tiled == ComposedLayout(Swizzle(2, 1, 3), 0, tiling(within, tiler))


@settings(max_examples=100, deadline=None)
@given(SWIZZLES, layouts(), compact_layouts(), st.integers(0, 40))
def test_the_reach_is_one_more_than_the_largest_index(
    numbers: tuple[int, int, int], layout: Layout, compact: Layout, offset: int
) -> None:
    """Of layouts with gaps, and of compact ones, whose indices need not be counted."""
    whole = Layout((compact.shape, 32), (compact.stride, naive_size(compact.shape)))
    for inner, start in itertools.product((layout, compact, whole), (0, offset)):
        composed = ComposedLayout(Swizzle(*numbers), start, inner)
        assert composed.reach() == 1 + max(moved(start + index, *numbers) for index in image(inner))
