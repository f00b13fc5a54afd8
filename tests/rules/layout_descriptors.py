"""Descriptors made from layouts, and the iterators over them."""

from __future__ import annotations

from nvbackend import Major, SmemDescriptor, SwizzleMode, Tcgen05SmemDescriptor, f16, s8
from nvbackend.layout import (
    ComposedLayout,
    DescriptorIterator,
    Layout,
    SmemPtr,
    Swizzle,
    desc_layout,
    gmma_atom,
    make_gmma_desc,
    parse,
    smem_desc,
    tile_to_shape,
    tiled_divide,
)
from tests.rules.example import program


@program("descriptor.index")
def fourth_stage_of_three():
    fragment = DescriptorIterator(SmemDescriptor(0, 1024, 2048), parse("(_1,_2,_4,_3):(_0,_64,_256,_1024)"))
    fragment(0, 1, 3, 3)  # breaks
    fragment(0, 1, 3, 2)  # keeps


@program("descriptor.no-base")
def descriptors_of_no_tile():
    fragment = DescriptorIterator(None, parse("(_1,_2,_4,_3):(_0,_64,_256,_1024)"))
    fragment = fragment.with_base(SmemDescriptor(0x400, 1024, 2048))  # keeps
    fragment(0, 1, 3, 2)


@program("descriptor.contiguous")
def k_major_operand_that_lies_the_other_way_round():
    operand = Layout((64, 16), (1, 64))  # breaks
    operand = Layout(((8, 8), (8, 2)), ((8, 64), (1, 512)))  # keeps
    make_gmma_desc(Major.K, operand, f16)


@program("descriptor.core-matrix")
def rows_of_128_bytes_without_a_swizzle():
    operand = Layout((64, 16), (64, 1))
    make_gmma_desc(Major.K, operand, f16)  # breaks
    make_gmma_desc(Major.K, ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), operand), f16)  # keeps


@program("descriptor.element")
def bytes_in_a_tile_of_halves():
    operand = ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), Layout((64, 32), (128, 1)))  # breaks
    operand = ComposedLayout(Swizzle(3, 4, 3), SmemPtr(8), Layout((64, 32), (128, 1)))  # keeps
    make_gmma_desc(Major.K, operand, s8)


@program("descriptor.extent")
def a_whole_tile_for_one_instruction():
    tile = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (128, 64))
    make_gmma_desc(Major.K, tile, f16)  # breaks
    smem_desc(Major.K, tiled_divide(tile, (64, 16)), f16)  # keeps


@program("descriptor.leading-address")
def layout_of_two_places():
    descriptor = Tcgen05SmemDescriptor(0, 0x1000, 1024, leading_is_address=True)  # breaks
    descriptor = Tcgen05SmemDescriptor(0, 0x1000, 1024)  # keeps
    desc_layout(Major.K, descriptor, f16, (128, 16))


@program("descriptor.pattern")
def operand_across_two_rows_of_the_pattern():
    row = Layout((64, 16), (64, 1))
    make_gmma_desc(Major.K, ComposedLayout(Swizzle(3, 3, 3), 56, row), f16)  # breaks
    make_gmma_desc(Major.K, ComposedLayout(Swizzle(3, 3, 3), 48, row), f16)  # keeps


@program("descriptor.stride")
def core_matrices_at_two_strides():
    operand = Layout(((8, 4, 2), (8, 2)), ((8, 128, 4096), (1, 64)))  # breaks
    operand = Layout(((8, 4, 2), (8, 2)), ((8, 128, 512), (1, 64)))  # keeps
    make_gmma_desc(Major.K, operand, f16)


@program("descriptor.swizzle-mode")
def swizzle_of_another_machine():
    operand = Layout((64, 16), (64, 1))
    make_gmma_desc(Major.K, ComposedLayout(Swizzle(3, 3, 3), SmemPtr(16), operand), f16)  # breaks
    make_gmma_desc(Major.K, ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), operand), f16)  # keeps
