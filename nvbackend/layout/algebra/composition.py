"""One layout after another, as one layout, and the way back: composition, complement, right and left inverse."""

from __future__ import annotations

from typing import Any, overload

from nvbackend.diagnostics import user_facing
from nvbackend.layout.algebra.inttuple import IntTuple, ceil_div, leaves, modes, product, text
from nvbackend.layout.algebra.layout import Layout, joined, must_be_known, size, trusted
from nvbackend.layout.algebra.rules import CARRY, COMPLEMENT, DIVISIBILITY, INVERSE, SWIZZLE_THROUGH, TILER
from nvbackend.layout.algebra.simplify import Flat, coalesce, filter_zeros, flat_modes, from_flat, merged
from nvbackend.layout.algebra.swizzle import AnyLayout, ComposedLayout, Swizzle, cosize, swizzle_of_masks

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
        if shape == 1:
            return trusted(1, 0)
        return from_flat(_leaf(left, right, flat, (shape, stride), reached))

    result = compose(right.shape, right.stride)
    for (extent, _), most in zip(flat[:-1], reached, strict=False):
        if most >= extent:
            CARRY.fail(left=left, right=right, most=most, extent=extent)
    return result


def _leaf(left: Layout, right: Layout, flat: Flat, mode: tuple[int, int], reached: list[int]) -> Flat:
    """The modes of `left` that `extent` steps of `step` walk through, and how far they come in each (`reached`)."""
    extent, step = mode
    modes: Flat = []

    def fail(place: int, when: str) -> None:
        DIVISIBILITY.fail(
            left=left, right=right, mode=f"{text(mode[0])}:{text(mode[1])}", extent=flat[place][0], step=step, when=when
        )

    if step < 0:
        fail(0, "at its beginning, since the steps are negative")
    for place, (inner, stride) in enumerate(flat[:-1]):
        if step % inner == 0:
            step = step // inner
            continue
        if (extent - 1) * step < inner:
            reached[place] += int((extent - 1) * step)
            modes.append((extent, step * stride))
            return modes
        if inner % step:
            fail(place, "in the middle of a step")
        count = inner // step
        if extent % count:
            fail(place, f"after {count} steps, of which {extent} is not a multiple")
        reached[place] += int((count - 1) * step)
        modes.append((count, step * stride))
        extent, step = extent // count, 1
    modes.append((extent, step * flat[-1][1]))
    return modes


def _through(left: Layout, swizzle: Swizzle) -> AnyLayout:
    """`left o swizzle` as another swizzle after `left`, which is checked for every index of `left`."""
    if swizzle.bits == 0:
        return left
    must_be_known(left, "a swizzle before")
    source, target = left(swizzle.source_mask), left(swizzle.target_mask)
    outer = swizzle_of_masks(source, target)
    if outer is None:
        problem = f"its bits would have to be {source:#x} and {target:#x}, which are not two runs of as many bits"
        SWIZZLE_THROUGH.fail(layout=left, swizzle=swizzle, problem=problem)
    for index in range(size(left)):
        if outer(left(index)) != left(swizzle(index)):
            problem = f"{outer} after it differs at index {index}"
            SWIZZLE_THROUGH.fail(layout=left, swizzle=swizzle, problem=problem)
    return composition(outer, left)


@user_facing
def complement(layout: Layout, cotarget: IntTuple | Layout | None = None) -> Layout:
    """The layout of what `layout` leaves out below `cotarget`, in rising order.

    Sums of one index of each are never the same twice, and together they reach at least `cotarget` indices (a number,
    the size of a shape or a layout; by default the layout's cosize). Raises layout-algebra.complement.
    """
    must_be_known(layout, "the complement")
    plain = coalesce(filter_zeros(layout))
    if isinstance(cotarget, Layout):
        cotarget = cotarget.shape
    target = cosize(plain) if cotarget is None else product(cotarget)
    modes: Flat = []
    covered = 1
    for stride, extent in sorted((stride, extent) for extent, stride in flat_modes(plain) if extent != 1):
        gap = stride // covered
        if gap < 1:
            COMPLEMENT.fail(layout=layout, shape=text(extent), stride=text(stride), covered=covered)
        modes.append((gap, covered))
        covered = stride * extent
    modes.append((ceil_div(target, covered), covered))
    return from_flat(merged(modes))


@user_facing
def right_inverse(layout: AnyLayout) -> AnyLayout:
    """The layout that finds coordinates: layout(result(i)) == i for every i below the result's size.

    That size is how far the layout's indices go on without a gap, at least 1. Raises, for swizzled layouts,
    layout-algebra.swizzle-through.
    """
    if isinstance(layout, ComposedLayout):
        return _inverse_of_swizzled(layout, right_inverse(layout.layout_b))
    must_be_known(layout, "the inverse")
    flat = flat_modes(coalesce(layout))
    return from_flat(merged(_chain(flat)))


def _chain(flat: Flat) -> Flat:
    """Modes that follow each other in memory from stride 1 on, each with its stride in the coordinate's own count."""
    starts: list[int] = []
    count = 1
    for extent, _ in flat:
        starts.append(count)
        count = count * extent
    modes: Flat = []
    following = 1
    left = [place for place, (extent, _) in enumerate(flat) if extent != 1]
    while (place := next((each for each in left if flat[each][1] == following), None)) is not None:
        left.remove(place)
        modes.append((flat[place][0], starts[place]))
        following = flat[place][0] * flat[place][1]
    return modes


@user_facing
def left_inverse(layout: AnyLayout) -> AnyLayout:
    """The layout that undoes another: result(layout(i)) == i for every i below its size.

    Raises layout-algebra.inverse where indices come twice or gaps are not multiples, and, for swizzled layouts,
    layout-algebra.swizzle-through.
    """
    if isinstance(layout, ComposedLayout):
        return _inverse_of_swizzled(layout, left_inverse(layout.layout_b))
    must_be_known(layout, "the inverse")
    flat = flat_modes(coalesce(layout))
    if any(extent != 1 and stride <= 0 for extent, stride in flat):
        INVERSE.fail(
            layout=layout, problem="a stride of 0 or less gives one index twice, or none that can be looked up"
        )
    whole = joined([layout, complement(layout)])
    modes = _chain(flat_modes(coalesce(whole)))
    if product(tuple(extent for extent, _ in modes)) != product(tuple(leaves(whole.shape))):
        INVERSE.fail(layout=layout, problem="a stride is not a multiple of what smaller strides cover")
    return from_flat(merged(modes))


def _inverse_of_swizzled(layout: ComposedLayout, inner: AnyLayout) -> AnyLayout:
    plain = layout.in_elements()
    if plain.offset != 0:
        SWIZZLE_THROUGH.fail(layout=inner, swizzle=layout, problem="it does not begin at 0")
    return composition(inner, plain.swizzle)
