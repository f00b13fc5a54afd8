"""Division and product: a layout cut into tiles, as (tile, tiles), or repeated, as (block, blocks)."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args, overload

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.layout.algebra.composition import Tiler, complement, composition
from nvbackend.layout.algebra.inttuple import IntTuple, extents, modes, product, text
from nvbackend.layout.algebra.layout import Layout, joined, make_ordered_layout, size
from nvbackend.layout.algebra.rules import TILE, TILER
from nvbackend.layout.algebra.simplify import by_mode, coalesce, padded
from nvbackend.layout.algebra.swizzle import ComposedLayout, cosize


def zipped(layout: Layout, tiler: Tiler) -> Layout:
    """((FirstM, FirstN, ...), (SecondM, SecondN, ..., L, ...)) of a layout whose modes are pairs where `tiler` ends."""
    return joined(_unzipped(layout, tiler))


def tiled(layout: Layout, tiler: Tiler) -> Layout:
    """((FirstM, FirstN, ...), SecondM, SecondN, ..., L, ...)."""
    first, second = _unzipped(layout, tiler)
    return joined([first, *second.modes])


def flat(layout: Layout, tiler: Tiler) -> Layout:
    """(FirstM, FirstN, ..., SecondM, SecondN, ..., L, ...)."""
    first, second = _unzipped(layout, tiler)
    return joined([*first.modes, *second.modes])


def _unzipped(layout: Layout, tiler: Tiler) -> tuple[Layout, Layout]:
    """Of a layout whose modes are pairs where `tiler` ends: all first parts, and all second ones with what is left."""
    if not isinstance(tiler, tuple):
        parts = layout.modes
        if len(parts) != 2:
            TILER.fail(tiler=text(tiler), layout=layout, problem="it leaves a mode that has no (tile, rest)")
        return parts[0], parts[1]
    pairs = [_unzipped(part, entry) for part, entry in zip(layout.modes, tiler, strict=False)]
    rest = [pair[1] for pair in pairs] + list(layout.modes[len(tiler) :])
    return joined([pair[0] for pair in pairs]), joined(rest)


@overload
def logical_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def logical_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def logical_divide(layout: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """(tile, tiles): what `tiler` picks of the layout, and the places of all such tiles.

    A tuple divides mode by mode, `_` leaves a mode alone; a tile that does not divide the layout goes past its end in
    the last one, as in CuTe. Raises layout-algebra.tiler, layout-algebra.complement, and what `composition` raises.
    """
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(lambda inner: logical_divide(inner, tiler))
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        return by_mode(layout, tiler, logical_divide)
    tile = tiler if isinstance(tiler, Layout) else Layout(tiler)
    return composition(layout, joined([tile, complement(tile, size(layout))]))


@overload
def zipped_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def zipped_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def zipped_divide(layout: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """((TileM, TileN, ...), (RestM, RestN, ..., L, ...)): a mode of all tiles, a mode of all rests.

    Raises what `logical_divide` raises.
    """
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(lambda inner: zipped_divide(inner, tiler))
    return zipped(logical_divide(layout, tiler), tiler)


@overload
def tiled_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def tiled_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def tiled_divide(layout: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """((TileM, TileN, ...), RestM, RestN, ..., L, ...). Raises what `logical_divide` raises."""
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(lambda inner: tiled_divide(inner, tiler))
    return tiled(logical_divide(layout, tiler), tiler)


@overload
def flat_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def flat_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def flat_divide(layout: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """(TileM, TileN, ..., RestM, RestN, ..., L, ...). Raises what `logical_divide` raises."""
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(lambda inner: flat_divide(inner, tiler))
    return flat(logical_divide(layout, tiler), tiler)


Side: TypeAlias = Literal["left", "right"]
Order: TypeAlias = "IntTuple | Side"
"""Which mode is walked first: "left" for CuTe's LayoutLeft, "right" for LayoutRight, or the places, as CuTe's Step."""


@overload
def logical_product(block: Layout, tiler: Tiler) -> Layout: ...
@overload
def logical_product(block: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def logical_product(block: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """(block, blocks): the block, and the places of its copies, which lie as `tiler` says where the block leaves room.

    A tuple multiplies mode by mode, `_` leaves a mode alone. Raises layout-algebra.tiler,
    layout-algebra.complement, and what `composition` raises.
    """
    if isinstance(block, ComposedLayout):
        return block.with_layout(lambda inner: logical_product(inner, tiler))
    if tiler is None:
        return block
    if isinstance(tiler, tuple):
        return by_mode(block, tiler, logical_product)
    copies = tiler if isinstance(tiler, Layout) else Layout(tiler)
    return joined([block, composition(complement(block, size(block) * cosize(copies)), copies)])


@overload
def zipped_product(block: Layout, tiler: Tiler) -> Layout: ...
@overload
def zipped_product(block: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def zipped_product(block: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """((BlockM, BlockN, ...), (CopiesM, CopiesN, ..., L, ...)). Raises what `logical_product` raises."""
    if isinstance(block, ComposedLayout):
        return block.with_layout(lambda inner: zipped_product(inner, tiler))
    return zipped(logical_product(block, tiler), tiler)


@overload
def tiled_product(block: Layout, tiler: Tiler) -> Layout: ...
@overload
def tiled_product(block: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def tiled_product(block: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """((BlockM, BlockN, ...), CopiesM, CopiesN, ..., L, ...). Raises what `logical_product` raises."""
    if isinstance(block, ComposedLayout):
        return block.with_layout(lambda inner: tiled_product(inner, tiler))
    return tiled(logical_product(block, tiler), tiler)


@overload
def flat_product(block: Layout, tiler: Tiler) -> Layout: ...
@overload
def flat_product(block: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def flat_product(block: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """(BlockM, BlockN, ..., CopiesM, CopiesN, ..., L, ...). Raises what `logical_product` raises."""
    if isinstance(block, ComposedLayout):
        return block.with_layout(lambda inner: flat_product(inner, tiler))
    return flat(logical_product(block, tiler), tiler)


@overload
def blocked_product(block: Layout, tiler: Layout) -> Layout: ...
@overload
def blocked_product(block: ComposedLayout, tiler: Layout) -> ComposedLayout: ...
@user_facing
def blocked_product(block: Layout | ComposedLayout, tiler: Layout) -> Layout | ComposedLayout:
    """((BlockM, CopiesM), (BlockN, CopiesN), ...): each element of `tiler` is a whole block.

    Modes are paired by rank, and simplified. Raises what `logical_product` raises.
    """
    if isinstance(block, ComposedLayout):
        return block.with_layout(lambda inner: blocked_product(inner, tiler))
    inside, copies = _by_rank(block, tiler)
    return _zipped(inside, copies)


@overload
def raked_product(block: Layout, tiler: Layout) -> Layout: ...
@overload
def raked_product(block: ComposedLayout, tiler: Layout) -> ComposedLayout: ...
@user_facing
def raked_product(block: Layout | ComposedLayout, tiler: Layout) -> Layout | ComposedLayout:
    """((CopiesM, BlockM), (CopiesN, BlockN), ...): the blocks interleaved, element by element.

    Raises what `logical_product` raises.
    """
    if isinstance(block, ComposedLayout):
        return block.with_layout(lambda inner: raked_product(inner, tiler))
    inside, copies = _by_rank(block, tiler)
    return _zipped(copies, inside)


def _by_rank(block: Layout, tiler: Layout) -> tuple[Layout, Layout]:
    count = max(len(block.modes), len(tiler.modes))
    inside, copies = logical_product(padded(block, count), padded(tiler, count)).modes
    return inside, copies


def _zipped(first: Layout, second: Layout) -> Layout:
    pairs = [joined(pair) for pair in zip(first.modes, second.modes, strict=True)]
    return coalesce(joined(pairs), (1,) * len(pairs))


@overload
def tile_to_shape(block: Layout, shape: IntTuple, order: Order = "left") -> Layout: ...
@overload
def tile_to_shape(block: ComposedLayout, shape: IntTuple, order: Order = "left") -> ComposedLayout: ...
@user_facing
def tile_to_shape(block: Layout | ComposedLayout, shape: IntTuple, order: Order = "left") -> Layout | ComposedLayout:
    """The block repeated until it fills `shape`, whose modes are whole multiples of the block's.

    Copies follow each other along the first mode, then the second, ...; `order=(2, 1, 3)`, CuTe's `Step<_2,_1,_3>`,
    walks the second mode first. A swizzle stays as it is. Raises layout-algebra.tile, layout-algebra.extent.
    """
    if isinstance(block, ComposedLayout):
        return block.with_layout(lambda inner: tile_to_shape(inner, shape, order))
    target = tuple(map(product, modes(extents(shape, "a shape", least=1))))
    if len(block.modes) > len(target):
        problem = f"it has {len(block.modes)} modes, the target {len(target)}"
        TILE.fail(
            block=block, extents=text(block.shape), target=text(target), problem=problem, nearest="name all modes"
        )
    whole = padded(block, len(target))
    own = tuple(product(mode) for mode in modes(whole.shape))
    if any(extent % inner for extent, inner in zip(target, own, strict=True)):
        nearest = tuple(-(-extent // inner) * inner for extent, inner in zip(target, own, strict=True))
        problem = "its extents do not divide the target's"
        TILE.fail(block=block, extents=text(own), target=text(target), problem=problem, nearest=text(nearest))
    counts = tuple(extent // inner for extent, inner in zip(target, own, strict=True))
    copies = make_ordered_layout(counts, _places(order, len(counts)))
    return coalesce(blocked_product(whole, copies), counts)


def _places(order: Order, count: int) -> IntTuple:
    if isinstance(order, str):
        if order not in get_args(Side):
            advice = 'write order="left" or order="right", or the places of the modes, such as order=(2, 1)'
            ARGUMENT.fail(call="tile_to_shape", problem=f"order is {order!r}", advice=advice)
        return tuple(range(count) if order == "left" else reversed(range(count)))
    return order
