"""Division: a layout cut into tiles, as a layout of (tile, tiles)."""

from __future__ import annotations

from typing import overload

from nvbackend.diagnostics import user_facing
from nvbackend.layout.composed import ComposedLayout
from nvbackend.layout.composition import Tiler, composition
from nvbackend.layout.inttuple import text
from nvbackend.layout.inverse import complement
from nvbackend.layout.layout import Layout, joined, size
from nvbackend.layout.rules import TILER
from nvbackend.layout.simplify import by_mode


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
    return joined(unzipped(logical_divide(layout, tiler), tiler))


@overload
def tiled_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def tiled_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def tiled_divide(layout: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """((TileM, TileN, ...), RestM, RestN, ..., L, ...). Raises what `logical_divide` raises."""
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(lambda inner: tiled_divide(inner, tiler))
    tile, rest = unzipped(logical_divide(layout, tiler), tiler)
    return joined([tile, *rest.modes])


@overload
def flat_divide(layout: Layout, tiler: Tiler) -> Layout: ...
@overload
def flat_divide(layout: ComposedLayout, tiler: Tiler) -> ComposedLayout: ...
@user_facing
def flat_divide(layout: Layout | ComposedLayout, tiler: Tiler) -> Layout | ComposedLayout:
    """(TileM, TileN, ..., RestM, RestN, ..., L, ...). Raises what `logical_divide` raises."""
    if isinstance(layout, ComposedLayout):
        return layout.with_layout(lambda inner: flat_divide(inner, tiler))
    tile, rest = unzipped(logical_divide(layout, tiler), tiler)
    return joined([*tile.modes, *rest.modes])


def unzipped(layout: Layout, tiler: Tiler) -> tuple[Layout, Layout]:
    """Of a layout whose modes are pairs where `tiler` ends: all first parts, and all second ones with what is left."""
    if not isinstance(tiler, tuple):
        parts = layout.modes
        if len(parts) != 2:
            TILER.fail(tiler=text(tiler), layout=layout, problem="it leaves a mode that has no (tile, rest)")
        return parts[0], parts[1]
    pairs = [unzipped(part, entry) for part, entry in zip(layout.modes, tiler, strict=False)]
    rest = [pair[1] for pair in pairs] + list(layout.modes[len(tiler) :])
    return joined([pair[0] for pair in pairs]), joined(rest)
