"""Descriptors made from layouts, beside what `SmemLayout` computes and beside the hardware's own address formulas."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from nvbackend import DiagnosticError, ElementType, Major, SmemDescriptor, SmemLayout, SwizzleMode, b1, f16, s8, tf32
from nvbackend.layout import (
    FORMS,
    ComposedLayout,
    Layout,
    SmemPtr,
    Swizzle,
    desc_layout,
    gmma_atom,
    make_gmma_desc,
    smem_desc,
    tile_to_shape,
    tiled_divide,
)
from tests.support.examples import on_examples
from tests.support.smem_addresses import CORE_MATRICES, address, linear, operand_layout

pytestmark = pytest.mark.sampled(3)

ELEMENTS: tuple[ElementType, ...] = (b1, s8, f16, tf32)
BITS = {"NONE": 0, "B32": 1, "B64": 2, "B128": 3}
"""B of Swizzle<B,4,3>."""


def test_the_forms_are_cutlass_comments() -> None:
    """The comments of make_gmma_desc and make_umma_desc, with k and m for the numbers of chunks and rows."""
    assert [form.in_elements for form in FORMS] == [
        "Sw<0,4,3> o smem_ptr o ((8,m),(T,k)):((T,SBO),(1,LBO))",
        "Sw<1,4,3> o smem_ptr o ((8,m),(T,k)):((2T,SBO),(1,T))",
        "Sw<2,4,3> o smem_ptr o ((8,m),(T,k)):((4T,SBO),(1,T))",
        "Sw<3,4,3> o smem_ptr o ((8,m),(T,k)):((8T,SBO),(1,T))",
        "Sw<0,4,3> o smem_ptr o ((T,m),(8,k)):((1,SBO),(T,LBO))",
        "Sw<1,4,3> o smem_ptr o ((T,2,m),(8,k)):((1,T,LBO),(2T,SBO))",
        "Sw<2,4,3> o smem_ptr o ((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))",
        "Sw<3,4,3> o smem_ptr o ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO))",
        "Sw<2,5,2> o smem_ptr o ((T,8,m),(4,k)):((1,T,LBO),(8T,SBO))",
    ]


def tiles(elements: tuple[ElementType, ...]) -> list[SmemLayout]:
    """Canonical tiles of one to several operands in each dimension."""
    found = []
    for major, mode, element in itertools.product(Major, SwizzleMode, elements):
        if major is Major.MN and element.bits != 16:
            continue
        k, panel = 256 // element.bits, mode.bytes * 8 // element.bits
        rows = (8, 64, 256) if major is Major.K else (panel, 128)
        columns = {max(k, panel), 2 * max(k, panel)} if major is Major.K else {k, 4 * k}
        found += [SmemLayout(major, mode, element, r, c) for r, c in itertools.product(rows, sorted(columns))]
    return found


@pytest.mark.parametrize("tile", tiles(ELEMENTS), ids=str)
def test_every_canonical_tile_has_the_descriptors_that_smem_layout_has(tile: SmemLayout) -> None:
    """Two ways to the same words: strides of the algebra, and panels. Offsets that are not used may differ."""
    k, panel = 256 // tile.element.bits, tile.panel_extent
    shape = (tile.rows, tile.columns)
    layout = tile_to_shape(
        gmma_atom(tile.major, tile.swizzle, tile.element), shape, "left" if tile.major is Major.K else "right"
    )
    for rows in sorted({tile.rows, 64, 8}):
        if tile.rows % rows or (tile.major is Major.MN and rows > panel and rows % panel):
            continue
        fragment = smem_desc(tile.major, tiled_divide(layout, (rows, k)), tile.element, address=0x2000)
        for m, step in itertools.product(range(tile.rows // rows), range(tile.columns // k)):
            expected = tile.descriptor(0x2000).advance(tile.origin(m * rows, step * k, rows=rows, columns=k))
            found = SmemDescriptor.decode(fragment(0, m, step))
            single = tile.major is Major.MN and rows <= panel
            if tile.swizzle is SwizzleMode.NONE:
                ignored = {"stride_byte_offset"} if single or (tile.major is Major.K and rows == 8) else set()
            else:
                ignored = {"leading_byte_offset"} if single else set()
                ignored |= {"stride_byte_offset"} if tile.major is Major.K and rows == 8 else set()
            for name in ("start_address", "leading_byte_offset", "stride_byte_offset", "base_offset", "swizzle"):
                assert name in ignored or getattr(found, name) == getattr(expected, name), name


def test_the_notes_fragment() -> None:
    """tCrA of the CUTLASS WGMMA notes, from sA: MN-major SW128, 128 x 64, three stages."""
    s_a = tile_to_shape(gmma_atom(Major.MN, SwizzleMode.B128, f16), (128, 64, 3))
    fragment = smem_desc(Major.MN, tiled_divide(s_a, (64, 16)), f16, address=0x400)
    assert str(fragment) == "GMMA::DescriptorIterator o (_1,_2,_4,_3):(_0,_64,_256,_1024)"
    assert SmemDescriptor.decode(fragment(0)) == SmemDescriptor(0x400, 16, 2048, swizzle=SwizzleMode.B128)
    k_major = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (128, 64, 3))
    fragment = smem_desc(Major.K, tiled_divide(k_major, (64, 16)), f16)
    assert str(fragment) == "GMMA::DescriptorIterator o (_1,_2,_4,_3):(_0,_512,_2,_1024)"
    assert SmemDescriptor.decode(fragment(0)) == SmemDescriptor(0, 16, 1024, swizzle=SwizzleMode.B128)


@dataclass(frozen=True)
class Case:
    """An operand of any strides that a descriptor can say, and its layout, written down from the formula's terms."""

    major: Major
    mode: str
    element: ElementType
    shape: tuple[int, int]
    lbo: int
    sbo: int
    offset: int

    @property
    def width(self) -> int:
        return CORE_MATRICES[self.mode]

    def in_elements(self, bytes: int) -> int:
        return bytes * 8 // self.element.bits

    def plain(self) -> Layout:
        return operand_layout(self.major is Major.K, self.mode, self.element.bits, self.shape, self.lbo, self.sbo)

    def layout(self) -> ComposedLayout:
        by_bytes = Swizzle(BITS[self.mode], 4, 3)
        bits = self.element.bits
        by_elements = by_bytes.upcast(bits // 8) if bits >= 8 else by_bytes.downcast(8 // bits)
        return ComposedLayout(by_elements, self.in_elements(self.offset), self.plain())

    def places(self) -> list[tuple[int, int]]:
        """Elements enough to tell any two formulas apart: all corners of chunks and core matrices."""
        return list(itertools.product(*(range(0, extent, max(1, extent // 32)) for extent in self.shape)))


UNITS = st.integers(0, 400).map(lambda units: 16 * units)


@st.composite
def cases(draw: st.DrawFn, elements: tuple[ElementType, ...] = ELEMENTS, offsets: bool = True) -> Case:
    mode = draw(st.sampled_from(sorted(BITS)))
    element = draw(st.sampled_from(elements))
    major = draw(st.sampled_from(Major)) if element.bits == 16 else Major.K
    chunk, width = 128 // element.bits, CORE_MATRICES[mode]
    k = draw(st.sampled_from([1, 2])) * 256 // element.bits
    if major is Major.K:
        k = min(k, width * chunk) if mode != "NONE" else k
        rows = 8 * draw(st.integers(1, 8))
    else:
        rows = chunk * draw(st.sampled_from([*range(1, width), *(width * n for n in (1, 2, 3))]))
    period, row = width * 128, width * 16
    room = row - min(row, (rows if major is Major.MN else k) * element.bits // 8) if mode != "NONE" else 64
    inside = 16 * draw(st.integers(0, room // 16)) if offsets else 0
    return Case(major, mode, element, (rows, k), draw(UNITS), draw(UNITS), draw(st.integers(0, 3)) * period + inside)


@on_examples(60, 150, cases(), st.integers(0, 2))
def test_the_tensor_core_finds_every_element_where_the_layout_says(case: Case, buffer: int) -> None:
    """Padded offsets, overlapping ones, interleaved ones, operands that start inside a row: all that has a word."""
    layout, start = case.layout(), buffer * 1024
    descriptor = make_gmma_desc(case.major, layout, case.element, address=start)
    assert descriptor.swizzle.name == case.mode
    fields = (descriptor.start_address, descriptor.leading_byte_offset, descriptor.stride_byte_offset)
    for place in case.places():
        found = address(case.major is Major.K, case.mode, case.element.bits, place, *fields)
        assert found == start + layout(*place) * case.element.bits // 8


@on_examples(50, 100, cases(), st.integers(0, 2), st.integers(0, 7))
def test_the_layout_of_a_descriptor_is_the_one_it_was_made_of(case: Case, buffer: int, shift: int) -> None:
    layout, period = case.layout(), case.width * 128
    start = buffer * 1024 + (shift * 128 % period if case.mode != "NONE" else 0)
    descriptor = make_gmma_desc(case.major, layout, case.element, address=start)
    origin, found = desc_layout(case.major, descriptor, case.element, case.shape)
    for place in case.places():
        byte = start + layout(*place) * case.element.bits // 8
        assert origin + found(*place) * case.element.bits // 8 == byte
        fields = (descriptor.leading_byte_offset, descriptor.stride_byte_offset, descriptor.base_offset)
        assert byte == address(
            case.major is Major.K, case.mode, case.element.bits, place, descriptor.start_address, *fields
        )
    assert make_gmma_desc(case.major, found, case.element, address=origin) == descriptor


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Case, Layout]:
    """A layout that a descriptor can say, with a mode split or one or two strides or extents changed."""
    case = draw(cases((s8, f16, tf32), offsets=False))
    plain = case.plain()
    shape, stride = [list(part) for part in plain.shape], [list(part) for part in plain.stride]  # type: ignore[union-attr]
    for _ in range(draw(st.integers(0, 2))):
        mode = draw(st.integers(0, 1))
        place = draw(st.integers(0, len(shape[mode]) - 1))
        action = draw(st.sampled_from(["stride", "swap", "split"]))
        if action == "stride":
            chunk = 128 // case.element.bits
            stride[mode][place] = draw(st.sampled_from([0, 1, 2, chunk, 2 * chunk, 4 * chunk, 8 * chunk, 64 * chunk]))
        elif action == "swap" and place:
            stride[mode][place - 1 : place + 1] = reversed(stride[mode][place - 1 : place + 1])
        elif action == "split" and shape[mode][place] % 2 == 0:
            step = draw(st.sampled_from([1, 1, 2]))
            shape[mode][place : place + 1] = [2, shape[mode][place] // 2]
            stride[mode][place : place + 1] = [stride[mode][place], 2 * step * stride[mode][place]]
    return case, Layout((tuple(shape[0]), tuple(shape[1])), (tuple(stride[0]), tuple(stride[1])))


def words_that_say(case: Case, bytes: dict[tuple[int, int], int]) -> bool:
    """Whether the formula is the layout for some LBO and SBO: read off two elements, then tried on all."""
    k_major, bits = case.major is Major.K, case.element.bits
    chunk, wide = 128 // bits, CORE_MATRICES[case.mode]
    start = bytes[0, 0]
    if k_major:
        first = {"sbo": (8, 0), "lbo": (0, chunk)}
    else:
        along, across = (wide * chunk, 0), (0, 8)
        first = {"sbo": along, "lbo": across} if case.mode == "NONE" else {"lbo": along, "sbo": across}
    offsets = {name: bytes.get(place, start) - start for name, place in first.items()}
    legal = all(0 <= offset < 1 << 18 and offset % 16 == 0 for offset in offsets.values())
    return legal and all(
        byte == start + linear(k_major, case.mode, bits, place, **offsets) for place, byte in bytes.items()
    )


@on_examples(120, 300, neighbours())
def test_nothing_is_refused_that_the_hardware_reads_and_nothing_else_accepted(given_case: tuple[Case, Layout]) -> None:
    case, layout = given_case
    places = itertools.product(*map(range, case.shape))
    bytes = {place: layout(*place) * case.element.bits // 8 for place in places}
    try:
        make_gmma_desc(case.major, ComposedLayout(Swizzle(BITS[case.mode], 4, 3), SmemPtr(), layout), case.element)
    except DiagnosticError:
        accepted = False
    else:
        accepted = True
    assert accepted == words_that_say(case, bytes)
