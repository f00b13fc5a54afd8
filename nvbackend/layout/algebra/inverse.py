"""What a layout leaves out, and the way back: complement, right inverse, left inverse."""

from __future__ import annotations

from nvbackend.diagnostics import user_facing
from nvbackend.layout.algebra.composed import AnyLayout, ComposedLayout
from nvbackend.layout.algebra.composition import composition
from nvbackend.layout.algebra.inttuple import IntTuple, ceil_div, leaves, product, text
from nvbackend.layout.algebra.layout import Layout, cosize, joined, must_be_known
from nvbackend.layout.algebra.rules import COMPLEMENT, INVERSE, SWIZZLE_THROUGH
from nvbackend.layout.algebra.simplify import Flat, coalesce, filter_zeros, flat_modes, from_flat, merged


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
    found: Flat = []
    covered = 1
    for stride, extent in sorted((stride, extent) for extent, stride in flat_modes(plain) if extent != 1):
        gap = stride // covered
        if gap < 1:
            COMPLEMENT.fail(layout=layout, shape=text(extent), stride=text(stride), covered=covered)
        found.append((gap, covered))
        covered = stride * extent
    found.append((ceil_div(target, covered), covered))
    return from_flat(merged(found))


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
    found: Flat = []
    following = 1
    left = [place for place, (extent, _) in enumerate(flat) if extent != 1]
    while (place := next((each for each in left if flat[each][1] == following), None)) is not None:
        left.remove(place)
        found.append((flat[place][0], starts[place]))
        following = flat[place][0] * flat[place][1]
    return found


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
    found = _chain(flat_modes(coalesce(whole)))
    if product(tuple(extent for extent, _ in found)) != product(tuple(leaves(whole.shape))):
        INVERSE.fail(layout=layout, problem="a stride is not a multiple of what smaller strides cover")
    return from_flat(merged(found))


def _inverse_of_swizzled(layout: ComposedLayout, inner: AnyLayout) -> AnyLayout:
    plain = layout.in_elements()
    if plain.offset != 0:
        SWIZZLE_THROUGH.fail(layout=inner, swizzle=layout, problem="it does not begin at 0")
    return composition(inner, plain.swizzle)
