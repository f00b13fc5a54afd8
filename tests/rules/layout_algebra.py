"""CuTe's layout algebra."""

from __future__ import annotations

from nvbackend import i32
from nvbackend.layout import (
    ComposedLayout,
    Layout,
    SmemPtr,
    Swizzle,
    complement,
    composition,
    left_inverse,
    logical_divide,
    parse,
    tile_to_shape,
    upcast,
)
from tests.rules.example import kernel, program


@program("layout-algebra.carry")
def modes_that_carry_into_the_next():
    left = Layout((4, 2), (1, 100))
    composition(left, Layout((3, 2), (1, 3)))  # breaks
    composition(left, Layout((2, 2), (1, 2)))  # keeps


@program("layout-algebra.complement")
def modes_among_each_other():
    complement(Layout((4, 4), (1, 2)), 64)  # breaks
    complement(Layout((4, 4), (1, 4)), 64)  # keeps


@program("layout-algebra.congruent")
def a_stride_too_few():
    Layout((4, 2), 1)  # breaks
    Layout((4, 2), (1, 4))  # keeps


@program("layout-algebra.coordinate")
def a_coordinate_too_many():
    layout = Layout((6, 4), (4, 1))
    layout(1, 2, 3)  # breaks
    layout(1, 2)  # keeps


@program("layout-algebra.divisibility")
def steps_without_a_common_divisor():
    left = Layout((6, 4), (4, 1))
    composition(left, Layout(5, 4))  # breaks
    composition(left, Layout(2, 3))  # keeps


@program("layout-algebra.limit")
def an_extent_of_64_bits():
    Layout(2**63)  # breaks
    Layout(2**63 - 1)  # keeps


@program("picture.size")
def picture_of_a_whole_matrix():
    extents = (3000, 3000)  # breaks
    extents = (64, 64)  # keeps
    Layout(extents).svg()


@program("layout-algebra.element-width")
def swizzle_of_elements_of_no_width():
    pointer = SmemPtr()  # breaks
    pointer = SmemPtr(16)  # keeps
    ComposedLayout(Swizzle(3, 4, 3), pointer, Layout((8, 64), (64, 1)))(1, 2)


@program("layout-algebra.extent")
def shape_without_elements():
    Layout((4, 0))  # breaks
    Layout((4, 1))  # keeps


@program("layout-algebra.inverse")
def every_index_twice():
    left_inverse(Layout((4, 2), (1, 0)))  # breaks
    left_inverse(Layout((4, 2), (1, 4)))  # keeps


@program("layout-algebra.mode")
def third_mode_of_two():
    layout = Layout((6, 4), (4, 1))
    layout[2]  # breaks
    layout[1]  # keeps


@program("layout-algebra.parse")
def text_without_a_stride():
    parse("(_64,_8)")  # breaks
    parse("(_64,_8):(_1,_64)")  # keeps


@program("layout-algebra.recast")
def half_an_element():
    upcast(Layout((3, 4), (1, 3)), 2)  # breaks
    upcast(Layout((4, 4), (1, 4)), 2)  # keeps


@kernel("layout-algebra.run-time")
def inverse_of_a_stride_that_nobody_knows(k, pitch: i32):
    layout = Layout((8, 4), (1, pitch))  # breaks
    layout = Layout((8, 4), (1, 8))  # keeps
    left_inverse(layout)


@program("layout-algebra.swizzle")
def bits_that_overlap():
    Swizzle(3, 4, 2)  # breaks
    Swizzle(3, 4, 3)  # keeps


@program("layout-algebra.swizzle-through")
def swizzle_whose_bits_fall_apart():
    layout = Layout((2, 2, 4), (8, 1, 2))
    composition(layout, Swizzle(2, 0, 2))  # breaks
    composition(layout, Swizzle(1, 0, 3))  # keeps


@program("layout-algebra.tile")
def block_that_does_not_divide():
    block = Layout((64, 8), (1, 64))
    tile_to_shape(block, (96, 64))  # breaks
    tile_to_shape(block, (128, 64))  # keeps


@program("layout-algebra.tiler")
def more_divisors_than_modes():
    layout = Layout((6, 4), (4, 1))
    logical_divide(layout, (2, 2, 2))  # breaks
    logical_divide(layout, (2, 2))  # keeps
