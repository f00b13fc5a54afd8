"""How the two parts of a division or product are arranged: zipped, tiled, flat."""

from __future__ import annotations

from nvbackend.layout.algebra.composition import Tiler
from nvbackend.layout.algebra.inttuple import text
from nvbackend.layout.algebra.layout import Layout, joined
from nvbackend.layout.algebra.rules import TILER


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
