"""The same memory seen as wider or narrower elements."""

from __future__ import annotations

from typing import NoReturn, overload

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout.algebra.inttuple import Dynamic, nested_as
from nvbackend.layout.algebra.layout import Layout, must_be_known, trusted
from nvbackend.layout.algebra.rules import RECAST
from nvbackend.layout.algebra.simplify import Flat, flat_modes
from nvbackend.layout.algebra.swizzle import AnyLayout, ComposedLayout


@overload
def upcast(layout: Layout, factor: int) -> Layout: ...
@overload
def upcast(layout: ComposedLayout, factor: int) -> ComposedLayout: ...
@user_facing
def upcast(layout: Layout | ComposedLayout, factor: int) -> Layout | ComposedLayout:
    """The layout in elements `factor` times as wide: strides divided, and the contiguous mode's extent.

    Raises layout-algebra.recast where an element would not be a run of `factor` neighbours.
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(
            layout.swizzle if _in_bytes(layout) else layout.swizzle.upcast(factor),
            layout.recast_offset(factor, wider=True),
            upcast(layout.layout_b, factor),
        )

    def fail(extent: int, stride: int) -> NoReturn:
        problem = f"its mode of {extent} elements {stride} apart is not a whole number of them"
        RECAST.fail(what=layout, factor=factor, scale="wide", problem=problem)

    def wider(extent: int, stride: int) -> tuple[int, int]:
        if stride == 0 or stride % factor == 0:
            return extent, stride // factor if stride else stride
        if stride < 0 or factor % stride or extent % (factor // stride) or isinstance(stride, Dynamic):
            fail(extent, stride)
        return extent // (factor // stride), 1

    must_be_known(layout, "a recast")
    _check_factor(layout, factor, "wide")
    return _from_flat(layout, [wider(*mode) for mode in flat_modes(layout)])


@overload
def downcast(layout: Layout, factor: int) -> Layout: ...
@overload
def downcast(layout: ComposedLayout, factor: int) -> ComposedLayout: ...
@user_facing
def downcast(layout: Layout | ComposedLayout, factor: int) -> Layout | ComposedLayout:
    """The layout in elements of a `factor`-th of the width: strides multiplied, and the contiguous mode's extent.

    Raises layout-algebra.recast where none of the modes is contiguous, or more than one.
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(
            layout.swizzle if _in_bytes(layout) else layout.swizzle.downcast(factor),
            layout.recast_offset(factor, wider=False),
            downcast(layout.layout_b, factor),
        )

    must_be_known(layout, "a recast")
    _check_factor(layout, factor, "narrow")
    flat = flat_modes(layout)
    contiguous = _contiguous(layout, flat, factor)
    parts = [(e * factor, d) if place == contiguous else (e, d * factor) for place, (e, d) in enumerate(flat)]
    return _from_flat(layout, parts)


def _contiguous(layout: Layout, flat: Flat, factor: int) -> int:
    """The place of the mode whose neighbours are neighbours in memory."""
    units = [place for place, (_, stride) in enumerate(flat) if stride == 1]
    longer = [place for place in units if flat[place][0] != 1]
    if not units or len(longer) > 1 or any(stride == -1 for _, stride in flat):
        problem = "more than one of its modes is contiguous" if longer else "none of its modes has a stride of 1"
        RECAST.fail(what=layout, factor=factor, scale="narrow", problem=problem)
    return (longer or units)[0]


@overload
def recast_layout(layout: Layout, old: ElementType | int, new: ElementType | int) -> Layout: ...
@overload
def recast_layout(layout: ComposedLayout, old: ElementType | int, new: ElementType | int) -> ComposedLayout: ...
@user_facing
def recast_layout(layout: AnyLayout, old: ElementType | int, new: ElementType | int) -> AnyLayout:
    """The layout of elements `old` seen as elements `new`, both element types or widths in bits.

    Raises layout-algebra.recast.
    """
    before, after = (each if isinstance(each, int) else each.bits for each in (old, new))
    if after % before == 0:
        return upcast(layout, after // before)
    if before % after == 0:
        return downcast(layout, before // after)
    problem = f"{before} and {after} bits do not divide each other"
    RECAST.fail(what=layout, factor=f"{after}/{before}", scale="wide", problem=problem)


def _in_bytes(layout: ComposedLayout) -> bool:
    return not isinstance(layout.offset, int)


def _check_factor(layout: Layout, factor: int, scale: str) -> None:
    if factor < 1:
        RECAST.fail(what=layout, factor=factor, scale=scale, problem="a width is positive")


def _from_flat(layout: Layout, parts: Flat) -> Layout:
    """New modes for the leaves of a layout, nested as they were."""
    shape = nested_as(layout.shape, [extent for extent, _ in parts])
    return trusted(shape, nested_as(layout.shape, [stride for _, stride in parts]))
