"""Results that CuTe's documentation and headers print: not the function alone, but its form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvbackend.layout import (
    Layout,
    blocked_product,
    coalesce,
    complement,
    composition,
    downcast,
    flat_divide,
    group,
    left_inverse,
    logical_divide,
    logical_product,
    make_ordered_layout,
    parse,
    raked_product,
    right_inverse,
    tile_to_shape,
    tiled_divide,
    upcast,
    zipped_divide,
)


def lay(text: str) -> Layout:
    """A layout of CuTe's text."""
    found = parse(text)
    assert isinstance(found, Layout)
    return found


DYNAMIC = lay("(12,(4,8)):(59,(13,1))")
NINE = lay("(_9,(_4,_8)):(_59,(_13,_1))")
NINE_TILER = (lay("_3:_3"), lay("(_2,_4):(_1,_8)"))

EXAMPLES: dict[str, Callable[[], Layout]] = {
    "_12:_1": lambda: coalesce(lay("(_2,(_1,_6)):(_1,(_6,_2))")),
    "(_2,_6):(_1,_2)": lambda: coalesce(lay("(_2,(_1,_6)):(_1,(_6,_2))"), (1, 1)),
    "_1:_0": lambda: complement(lay("(_4,_6):(_1,_4)"), 24),
    "_6:_4": lambda: complement(lay("_4:_1"), 24),
    "_4:_1": lambda: complement(lay("_6:_4"), 24),
    "(_2,_3):(_1,_8)": lambda: complement(lay("_4:_2"), 24),
    "_3:_2": lambda: complement(lay("(_2,_4):(_1,_6)"), 24),
    "(_3,_2):(_2,_12)": lambda: complement(lay("(_2,_2):(_1,_6)"), 24),
    "((_2,_2),_3):((_24,_2),_8)": lambda: composition(lay("(_6,_2):(_8,_2)"), lay("(_4,_3):(_3,_1)")),
    "(_5,_4):(_8,_2)": lambda: composition(lay("_20:_2"), lay("(_5,_4):(_4,_1)")),
    "(_5,(_2,_2)):(_16,(_80,_4))": lambda: composition(lay("(_10,_2):(_16,_4)"), lay("(_5,_4):(_1,_5)")),
    "(_2,_2,_4):(_3000,_100,_1000)": lambda: composition(lay("(_3,_6,_2,_8):(_7,_1000,_100,_1000)"), lay("_16:_9")),
    "(_3,(2,4)):(236,(26,1))": lambda: composition(DYNAMIC, (lay("_3:_4"), lay("_8:_2"))),
    "(_3,(4,2)):(59,(13,1))": lambda: composition(DYNAMIC, (3, 8)),
    "((_2,_2),(_2,_3)):((_4,_1),(_2,_8))": lambda: logical_divide(lay("(_4,_2,_3):(_2,_1,_8)"), lay("_4:_2")),
    "(_3,(_2,_4)):(_177,(_13,_2))": lambda: zipped_divide(NINE, NINE_TILER)[0],
    "((_3,_3),((_2,_4),(_2,_2))):((_177,_59),((_13,_2),(_26,_1)))": lambda: logical_divide(NINE, NINE_TILER),
    "((_3,(_2,_4)),_3,(_2,_2)):((_177,(_13,_2)),_59,(_26,_1))": lambda: tiled_divide(NINE, NINE_TILER),
    "(_3,(_2,_4),_3,(_2,_2)):(_177,(_13,_2),_59,(_26,_1))": lambda: flat_divide(NINE, NINE_TILER),
    "((_2,_2),(_4,_2)):((_4,_1),(_8,_2))": lambda: logical_product(lay("(_2,_2):(_4,_1)"), lay("(_4,_2):(_2,_1)")),
    "((_2,_5),(_3,_4)):((_5,_1),(_10,_30))": lambda: logical_product(lay("(_2,_5):(_5,_1)"), Layout((3, 4))),
    "(_6,(_5,_4)):(_5,(_1,_30))": lambda: blocked_product(lay("(_2,_5):(_5,_1)"), Layout((3, 4))),
    "((_3,_2),(_4,_5)):((_10,_5),(_30,_1))": lambda: raked_product(lay("(_2,_5):(_5,_1)"), Layout((3, 4))),
    "(_4,(_2,_3)):(_2,(_1,_8))": lambda: tile_to_shape(lay("(_4,_2):(_2,_1)"), (4, 6)),
    "((_4,_2),(_2,_3)):((_2,_24),(_1,_8))": lambda: tile_to_shape(lay("(_4,_2):(_2,_1)"), (8, 6), "right"),
    "(_4,_8):(_8,_1)": lambda: make_ordered_layout((4, 8), (1, 0)),
    "(_2,_3,_1,_4):(_12,_4,_0,_1)": lambda: make_ordered_layout((2, 3, 1, 4), (3, 2, 1, 0)),
    "(_1,_8,_3):(_0,_1,_8)": lambda: Layout((1, 8, 3)),
    "(_8,_4):(_4,_1)": lambda: right_inverse(lay("(_4,_8):(_8,_1)")),
    "(_2,_4,_3):(_1,_6,_2)": lambda: left_inverse(lay("(_2,_3,_4):(_1,_8,_2)")),
    "(_2,(_3,_4)):(_1,(_2,_6))": lambda: group(Layout((2, 3, 4)), 1, 3),
    "(_8,_16):(_16,_1)": lambda: upcast(lay("(_8,_128):(_128,_1)"), 8),
    "(_1,_16):(_2,_1)": lambda: downcast(lay("(_1,_8):(_1,_1)"), 2),
    "(_8,_128):(_128,_1)": lambda: downcast(lay("(_8,_16):(_16,_1)"), 8),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_form(text: str) -> None:
    assert str(EXAMPLES[text]()) == text


def test_the_offset_of_a_tile_is_its_first_element() -> None:
    divided = zipped_divide(NINE, NINE_TILER)
    assert divided(0, 7) == divided(0, (1, 2)) == NINE(1, 4)
    tile, start = divided.slice_and_offset(None, (1, 2))
    assert [tile(index) + start for index in range(24)] == [divided(index, 7) for index in range(24)]


def test_nested_coordinates_leave_nested_slices() -> None:
    layout = lay("((_3,_2),((_2,_3),_2)):((_4,_1),((_2,_15),_100))")
    assert str(layout(None, 5)) == "((_3,_2)):((_4,_1))"
    assert str(layout((None, 1), ((None, 0), None))) == "(_3,_2,_2):(_4,_2,_100)"
    assert str(layout((1, None), (None, 1))) == "(_2,(_2,_3)):(_1,(_2,_15))"
