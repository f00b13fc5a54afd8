"""The same function in other modes, and the same memory in other elements.

Coalesce, filter, flatten, putting modes together and in place; elements seen as wider or narrower ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, overload

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout.algebra.inttuple import Dynamic, IntTuple, leaves, modes, nested_as, text
from nvbackend.layout.algebra.layout import Layout, is_zero, joined, must_be_known, trusted
from nvbackend.layout.algebra.rules import MODE, RECAST, TILER
from nvbackend.layout.algebra.swizzle import AnyLayout, ComposedLayout

Flat = list[tuple[int, int]]
"""Modes of a layout without nesting: (extent, stride)."""


def flat_modes(layout: Layout) -> Flat:
    """The integers of shape and stride in pairs."""
    return list(zip(leaves(layout.shape), leaves(layout.stride), strict=True))


def merged(flat: Flat) -> Flat:
    """Modes of one element dropped, neighbours joined where the second begins where the first ends."""
    kept: Flat = []
    for extent, stride in flat:
        if extent == 1:
            continue
        if kept and _goes_on(*kept[-1], stride):
            kept[-1] = (kept[-1][0] * extent, kept[-1][1])
        else:
            kept.append((extent, stride))
    return kept


def _goes_on(extent: int, stride: int, following: int) -> bool:
    """Whether a stride is where a mode ends; of run-time strides that is unknown."""
    return isinstance(stride, int) and isinstance(following, int) and extent * stride == following


def from_flat(flat: Flat) -> Layout:
    """A layout of depth 0 or 1, `_1:_0` for no modes."""
    if not flat:
        return trusted(1, 0)
    if len(flat) == 1:
        return trusted(*flat[0])
    return trusted(tuple(extent for extent, _ in flat), tuple(stride for _, stride in flat))


def by_mode(layout: Layout, profile: tuple[Any, ...], function: Callable[[Layout, Any], Layout]) -> Layout:
    """`function` of each mode and its entry of `profile`; modes without an entry stay. Raises layout-algebra.tiler."""
    parts = layout.modes
    if len(profile) > len(parts):
        TILER.fail(tiler=text(profile), layout=layout, problem=f"{len(profile)} entries for {len(parts)} modes")
    done = [function(part, entry) for part, entry in zip(parts, profile, strict=False)]
    return joined([*done, *parts[len(profile) :]])


@overload
def coalesce(layout: Layout, profile: Any = None) -> Layout: ...
@overload
def coalesce(layout: ComposedLayout, profile: Any = None) -> ComposedLayout: ...
@user_facing
def coalesce(layout: Layout | ComposedLayout, profile: Any = None) -> Layout | ComposedLayout:
    """The same function of an integer with as few modes as possible, of depth 0 or 1.

    With a tuple as `profile` that is done inside each mode that it names: `coalesce(layout, (1, 1))` keeps a matrix a
    matrix. Raises layout-algebra.tiler where the profile has more modes than the layout.
    """
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(lambda inner: coalesce(inner, profile))
    if isinstance(profile, tuple):
        return by_mode(layout, profile, coalesce)
    return from_flat(merged(flat_modes(layout)))


@overload
def filter_zeros(layout: Layout) -> Layout: ...
@overload
def filter_zeros(layout: ComposedLayout) -> ComposedLayout: ...
@user_facing
def filter_zeros(layout: Layout | ComposedLayout) -> Layout | ComposedLayout:
    """The layout whose modes of stride 0 have one element."""
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(filter_zeros)

    def kept(shape: IntTuple, stride: IntTuple) -> IntTuple:
        if isinstance(shape, tuple):
            return tuple(map(kept, shape, modes(stride)))
        return 1 if is_zero(stride) else shape

    return trusted(kept(layout.shape, layout.stride), layout.stride)


@user_facing
def filter(layout: Layout) -> Layout:  # noqa: A001
    """Without modes of stride 0 or of one element: the same indices, each as often as it is needed to tell them."""
    return coalesce(filter_zeros(layout))


@overload
def flatten(layout: Layout) -> Layout: ...
@overload
def flatten(layout: ComposedLayout) -> ComposedLayout: ...
@user_facing
def flatten(layout: Layout | ComposedLayout) -> Layout | ComposedLayout:
    """The same modes without nesting."""
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(flatten)
    if not isinstance(layout.shape, tuple):
        return layout
    return trusted(tuple(leaves(layout.shape)), tuple(leaves(layout.stride)))


@user_facing
def group(layout: Layout, begin: int, end: int) -> Layout:
    """Modes `begin` to `end`, the end excluded, as one mode of theirs. Raises layout-algebra.mode."""
    parts = layout.modes
    if not 0 <= begin < end <= len(parts):
        MODE.fail(mode=f"{begin} to {end}", layout=layout, modes=len(parts))
    return joined([*parts[:begin], joined(parts[begin:end]), *parts[end:]])


@user_facing
def replace(layout: Layout, mode: int, by: Layout) -> Layout:
    """The layout with another one as its mode `mode`. Raises layout-algebra.mode."""
    parts = layout.modes
    if not 0 <= mode < len(parts):
        MODE.fail(mode=mode, layout=layout, modes=len(parts))
    return joined([*parts[:mode], by, *parts[mode + 1 :]])


def padded(layout: Layout, modes: int) -> Layout:
    """The layout with modes of one element appended until it has `modes` modes."""
    missing = modes - len(layout.modes)
    return joined([*layout.modes, *[trusted(1, 0)] * missing]) if missing > 0 else layout


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
            layout._recast_offset(factor, wider=True),
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
            layout._recast_offset(factor, wider=False),
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
    if min(before, after) < 1:
        RECAST.fail(what=layout, factor=f"{after}/{before}", scale="wide", problem="an element has a bit or more")
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
