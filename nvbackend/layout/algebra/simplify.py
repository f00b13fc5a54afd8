"""Fewer modes for the same function: coalesce, filter, flatten, and putting modes together and in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from nvbackend.diagnostics import user_facing
from nvbackend.layout.algebra.inttuple import IntTuple, leaves, modes, text
from nvbackend.layout.algebra.layout import Layout, is_zero, joined, trusted
from nvbackend.layout.algebra.rules import MODE, TILER
from nvbackend.layout.algebra.swizzle import ComposedLayout

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
