"""Division: a layout cut into tiles, as a layout of (tile, tiles)."""

from __future__ import annotations

from typing import overload

from nvbackend.diagnostics import user_facing
from nvbackend.layout.algebra.arrangement import flat, tiled, zipped
from nvbackend.layout.algebra.composed import ComposedLayout
from nvbackend.layout.algebra.composition import Tiler, composition
from nvbackend.layout.algebra.inverse import complement
from nvbackend.layout.algebra.layout import Layout, joined, size
from nvbackend.layout.algebra.simplify import by_mode


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
