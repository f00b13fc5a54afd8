"""What the algebra refuses: the rule, and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import pytest

from nvbackend import DiagnosticError, Major, SwizzleMode, f16, layout
from nvbackend.diagnostics.boundary import MARK
from nvbackend.layout import (
    ComposedLayout,
    Layout,
    SmemPtr,
    Swizzle,
    coalesce,
    complement,
    composition,
    downcast,
    gmma_atom,
    group,
    left_inverse,
    logical_divide,
    make_layout,
    make_ordered_layout,
    parse,
    recast_layout,
    replace,
    right_inverse,
    size,
    tile_to_shape,
    upcast,
    zipped_divide,
)

MATRIX = Layout((6, 4), (4, 1))
ATOM = gmma_atom(Major.MN, SwizzleMode.B128, f16)

REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "a fraction": ("extent", lambda: Layout((4, 2.5))),  # type: ignore[arg-type]
    "no element": ("extent", lambda: Layout((4, 0))),
    "a boolean": ("extent", lambda: Layout((4, True))),
    "three shapes": ("extent", lambda: make_layout(2, 3, 4)),
    "a stride too few": ("congruent", lambda: Layout((4, 2), 1)),
    "an order too few": ("congruent", lambda: make_ordered_layout((4, 2, 2), (0, 1))),
    "an index too many": ("coordinate", lambda: MATRIX(1, 2, 3)),
    "an index inside an integer": ("coordinate", lambda: MATRIX((1, 0), 2)),
    "a fraction as index": ("coordinate", lambda: MATRIX(1.5, 2)),
    "a text as index": ("coordinate", lambda: MATRIX("1", 2)),
    "an index before the beginning": ("coordinate", lambda: MATRIX(-1)),
    "a mode that is not there": ("mode", lambda: MATRIX[2]),
    "a mode counted from the end": ("mode", lambda: MATRIX[-1]),
    "a mode within one that is not there": ("mode", lambda: MATRIX[0, 1]),
    "a mode by its name": ("mode", lambda: MATRIX["m"]),
    "several modes": ("mode", lambda: MATRIX[0:2]),
    "the size of a mode that is not there": ("mode", lambda: size(MATRIX, 0, 3)),
    "a group past the end": ("mode", lambda: group(MATRIX, 1, 3)),
    "a replacement past the end": ("mode", lambda: replace(MATRIX, 2, Layout(1))),
    "no common stride": ("divisibility", lambda: composition(MATRIX, Layout(5, 4))),
    "a count that leaves a mode early": ("divisibility", lambda: composition(MATRIX, Layout(9))),
    "negative steps": ("divisibility", lambda: composition(MATRIX, Layout(4, -1))),
    "modes that carry": ("carry", lambda: composition(Layout((4, 2), (1, 100)), Layout((3, 2), (1, 3)))),
    "modes that carry into the last": ("carry", lambda: composition(Layout((4, 4), (1, 100)), Layout((8, 2), (1, 2)))),
    "modes among each other": ("complement", lambda: complement(Layout((4, 4), (1, 2)), 64)),
    "an index twice": ("inverse", lambda: left_inverse(Layout((4, 2), (1, 0)))),
    "a gap that is no multiple": ("inverse", lambda: left_inverse(Layout((2, 2), (2, 5)))),
    "more tilers than modes": ("tiler", lambda: composition(MATRIX, (2, 2, 2))),
    "more divisors than modes": ("tiler", lambda: logical_divide(MATRIX, (2, 2, 2))),
    "more profiles than modes": ("tiler", lambda: coalesce(MATRIX, (1, 1, 1))),
    "a mode without tile and rest": ("tiler", lambda: zipped_divide(MATRIX, (2, None))),
    "a block that does not divide": ("tile", lambda: tile_to_shape(ATOM, (96, 64))),
    "a block of more modes": ("tile", lambda: tile_to_shape(ATOM, (64,))),
    "half an element": ("recast", lambda: upcast(Layout((3, 4), (1, 3)), 2)),
    "elements apart": ("recast", lambda: downcast(Layout(4, 2), 2)),
    "overlapping elements": ("recast", lambda: downcast(Layout((4, 4), (1, 1)), 2)),
    "backwards": ("recast", lambda: upcast(Layout(4, -1), 2)),
    "no width": ("recast", lambda: upcast(Layout(4), 0)),
    "widths that do not divide": ("recast", lambda: recast_layout(Layout(24), 16, 24)),
    "elements without bits": ("recast", lambda: recast_layout(Layout(24), 0, 16)),
    "no bits for an element": ("recast", lambda: recast_layout(Layout(24), 16, 0)),
    "less than no bits": ("recast", lambda: recast_layout(Layout(24), -16, 16)),
    "a swizzle by three": ("recast", lambda: Swizzle(3, 4, 3).downcast(3)),
    "elements wider than what a swizzle moves": ("recast", lambda: Swizzle(3, 4, 3).upcast(32)),
    "a pointer's elements in thirds": ("recast", lambda: downcast(ATOM, 3)),
    "an offset within an element": (
        "recast",
        lambda: upcast(ComposedLayout(Swizzle(1, 4, 3), 3, Layout(64)), 2),
    ),
    "bits that overlap": ("swizzle", lambda: Swizzle(3, 4, 2)),
    "negative bits": ("swizzle", lambda: Swizzle(-1, 4, 3)),
    "bits that fall apart": (
        "swizzle-through",
        lambda: composition(Layout((2, 2, 4), (8, 1, 2)), Swizzle(2, 0, 2)),
    ),
    "bits that are none": ("swizzle-through", lambda: composition(Layout((3, 4), (4, 4)), Swizzle(1, 0, 2))),
    "a start": (
        "swizzle-through",
        lambda: composition(Layout(64), ComposedLayout(Swizzle(1, 0, 3), 8, Layout(8))),
    ),
    "the inverse of a start": (
        "swizzle-through",
        lambda: right_inverse(ComposedLayout(Swizzle(1, 0, 3), 8, Layout(8))),
    ),
    "bytes of unknown elements": (
        "element-width",
        lambda: ComposedLayout(Swizzle(3, 4, 3), SmemPtr(), Layout((8, 64), (64, 1)))(1, 2),
    ),
    "elements of six bits": (
        "element-width",
        lambda: ComposedLayout(Swizzle(3, 4, 3), SmemPtr(6), Layout((8, 64), (64, 1)))(1, 2),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    part, program = REFUSED[name]
    with pytest.raises(DiagnosticError) as caught:
        program()
    (found,) = caught.value.diagnostics
    assert found.rule_id == f"layout-algebra.{part}"
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize("order", ["rigth", "", "LEFT"])
def test_an_order_is_one_of_two_texts(order: str) -> None:
    """Any other text would pass for one of them."""
    for block in (Layout((2, 2)), ATOM):
        with pytest.raises(DiagnosticError, match=rf"tile_to_shape: order is '{order}'") as caught:
            tile_to_shape(block, (128, 64), order)  # type: ignore[arg-type]
        (found,) = caught.value.diagnostics
        assert 'order="left" or order="right"' in found.fix


BROKEN = {
    "": (0, "a positive number"),
    "(_64,_8)": (8, "':' and a stride"),
    "(_64,_8):": (9, "a number"),
    "(_64,_8:(_1,_64)": (7, "',' or ')'"),
    "(_64,,_8):(_1,_64)": (5, "a positive number"),
    "(_64,_0):(_1,_64)": (5, "a positive number"),
    "(_64,_8):(_1,_64) o": (18, "the end"),
    "(_64,_8):_1": (9, "a stride nested as the shape is"),
    "(_64,8.5):(_1,_64)": (6, "',' or ')'"),
    "Sw<3,4>": (6, "','"),
    "Sw<3,4,3> smem_ptr": (10, "'o' and an offset"),
    "Sw<3,4,3> o gmem_ptr o _8:_1": (12, "a number"),
    "Sw<3,4,3> o smem_ptr (_8,_64)": (21, "'o' and a layout"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_text_that_is_no_layout_is_marked_where_it_ends_to_be_one(text: str) -> None:
    position, expected = BROKEN[text]
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "layout-algebra.parse"
    assert found.values["expected"] == expected
    *_, line, mark = found.message.splitlines()
    assert line == f"    {text}".rstrip() or text == ""
    assert mark.index("^") - 4 == position


FUNCTIONS = sorted(name for name in layout.__all__ if isinstance(getattr(layout, name), FunctionType))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_are_boundaries(name: str) -> None:
    assert hasattr(getattr(layout, name), MARK), "decorate it with user_facing"


def test_the_fix_names_what_would_fit() -> None:
    with pytest.raises(DiagnosticError, match=r"\(_128,_64\)"):
        tile_to_shape(ATOM, (96, 64))


@pytest.mark.parametrize(
    ("text", "attempt"),
    [
        ("3 indices for the mode (_6,_4), which has 2", lambda: MATRIX(1, None, 3)),
        ("2 indices for the mode _6, which has 1", lambda: MATRIX((1, None), 2)),
        ("1 index for the mode (_6,_4), which has 2", lambda: Layout(((6, 4), 2))((None,), 1)),
        ("it has 2 modes, the target 1", lambda: tile_to_shape(MATRIX, (24,))),
        ("it has 3 modes, the target 2", lambda: tile_to_shape(Layout((2, 2, 2)), (4, 4))),
    ],
)
def test_what_does_not_fit_is_counted(text: str, attempt: Callable[[], object]) -> None:
    with pytest.raises(DiagnosticError) as caught:
        attempt()
    assert text in caught.value.diagnostics[0].message
