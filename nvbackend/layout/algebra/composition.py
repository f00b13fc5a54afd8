"""Composition: one layout after another, as one layout."""

from __future__ import annotations

from typing import Any, overload

from nvbackend.diagnostics import user_facing
from nvbackend.layout.algebra.composed import AnyLayout, ComposedLayout
from nvbackend.layout.algebra.inttuple import IntTuple, modes, text
from nvbackend.layout.algebra.layout import Layout, joined, must_be_known, size, trusted
from nvbackend.layout.algebra.rules import CARRY, DIVISIBILITY, SWIZZLE_THROUGH, TILER
from nvbackend.layout.algebra.simplify import Flat, flat_modes, from_flat, merged
from nvbackend.layout.algebra.swizzle import Swizzle, swizzle_of_masks

Tiler = Any
"""A layout, an integer n (for n:1), `_` (the mode as it is), or a tuple of these, one a mode."""


@overload
def composition(left: Layout, right: Layout | int | tuple[Any, ...] | None) -> Layout: ...
@overload
def composition(left: AnyLayout | Swizzle, right: Any) -> AnyLayout: ...
@user_facing
def composition(left: AnyLayout | Swizzle, right: Any) -> AnyLayout:
    """The layout `left o right`: result(c) == left(right(c)), with the shape of `right`, or finer modes of it.

    `right` may be a tiler: an integer n means n:1, and a tuple composes mode by mode (modes of `left` without an
    entry are dropped). A swizzle on either side gives a swizzled layout. An index past `left`'s end continues in its
    last mode, as in CuTe. Unlike there the result is always checked to be the composition. Raises
    layout-algebra.divisibility, layout-algebra.carry, layout-algebra.tiler, layout-algebra.swizzle-through,
    layout-algebra.run-time.
    CUTLASS documentation, CuTe layout algebra.
    """
    if isinstance(left, Swizzle):
        inner = right if isinstance(right, Layout) else Layout(right)
        return ComposedLayout(left, 0, inner) if left.bits else inner
    if isinstance(left, ComposedLayout):
        return left.with_layout(lambda layout: composition(layout, right))
    if isinstance(right, Swizzle):
        return _through(left, right)
    if isinstance(right, ComposedLayout):
        if right.offset != 0:
            SWIZZLE_THROUGH.fail(layout=left, swizzle=right, problem="it does not begin at 0")
        return composition(_through(left, right.swizzle), right.layout_b)
    if isinstance(right, Layout):
        must_be_known(right, "a composition whose right side is")
        return _composed(left, right)
    return _tiled(left, right)


def _tiled(left: Layout, tiler: Tiler) -> Layout:
    if tiler is None:
        return left
    if not isinstance(tiler, tuple):
        return composition(left, Layout(tiler))
    parts = left.modes
    if len(tiler) > len(parts):
        TILER.fail(tiler=text(tiler), layout=left, problem=f"{len(tiler)} entries for {len(parts)} modes")
    return joined([composition(part, entry) for part, entry in zip(parts, tiler, strict=False)])


def _composed(left: Layout, right: Layout) -> Layout:
    """Leaf by leaf of `right`; each leaf's indices are sums over the modes of `left`, which must never carry."""
    flat = flat_modes(left) or [(1, 0)]
    if flat[-1][0] == 1:
        flat[-1] = (2, flat[-1][1])  # so that its stride stays, which indices past the end go on with
    flat = merged(flat)
    reached = [0] * len(flat)

    def compose(shape: IntTuple, stride: IntTuple) -> Layout:
        if isinstance(shape, tuple):
            return joined([compose(*pair) for pair in zip(shape, modes(stride), strict=True)])
        assert not isinstance(stride, tuple)
        if stride == 0:
            return trusted(shape, stride)
        if len(flat) == 1:
            return trusted(shape, stride * flat[0][1])
        return from_flat(_leaf(left, right, flat, (shape, stride), reached))

    result = compose(right.shape, right.stride)
    for (extent, _), most in zip(flat[:-1], reached, strict=False):
        if most >= extent:
            CARRY.fail(left=left, right=right, most=most, extent=extent)
    return result


def _leaf(left: Layout, right: Layout, flat: Flat, mode: tuple[int, int], reached: list[int]) -> Flat:
    """The modes of `left` that `extent` steps of `step` walk through, and how far they come in each (`reached`)."""
    extent, step = mode
    found: Flat = []

    def fail(place: int, when: str) -> None:
        DIVISIBILITY.fail(
            left=left, right=right, mode=f"{text(mode[0])}:{text(mode[1])}", extent=flat[place][0], step=step, when=when
        )

    if extent == 1:
        return found
    if step < 0:
        fail(0, "at its beginning, since the steps are negative")
    for place, (inner, stride) in enumerate(flat[:-1]):
        if step % inner == 0:
            step = step // inner
            continue
        if (extent - 1) * step < inner:
            reached[place] += int((extent - 1) * step)
            found.append((extent, step * stride))
            return found
        if inner % step:
            fail(place, "in the middle of a step")
        count = inner // step
        if extent % count:
            fail(place, f"after {count} steps, of which {extent} is not a multiple")
        reached[place] += int((count - 1) * step)
        found.append((count, step * stride))
        extent, step = extent // count, 1
    found.append((extent, step * flat[-1][1]))
    return found


def _through(left: Layout, swizzle: Swizzle) -> AnyLayout:
    """`left o swizzle` as another swizzle after `left`, which is checked for every index of `left`."""
    if swizzle.bits == 0:
        return left
    must_be_known(left, "a swizzle before")
    source, target = left(swizzle.source_mask), left(swizzle.target_mask)
    found = swizzle_of_masks(source, target)
    if found is None:
        problem = f"its bits would have to be {source:#x} and {target:#x}, which are not two runs of as many bits"
        SWIZZLE_THROUGH.fail(layout=left, swizzle=swizzle, problem=problem)
    for index in range(size(left)):
        if found(left(index)) != left(swizzle(index)):
            problem = f"{found} after it differs at index {index}"
            SWIZZLE_THROUGH.fail(layout=left, swizzle=swizzle, problem=problem)
    return composition(found, left)
