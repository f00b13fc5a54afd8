"""wmma: `nvb.wmma.mma("m16n16k16", f16, f16, f32)`, `nvb.wmma.load("a", "m16n16k16", f16)`."""

from __future__ import annotations

import sys

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.select.shapes import shape_extents
from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest
from nvbackend.isel.select.wmma.select import select_wmma, select_wmma_move
from nvbackend.isel.target.target import Target
from nvbackend.requests import Requests

__all__ = ["load", "mma", "select", "store"]
sys.modules[__name__].__class__ = Requests


@user_facing
def mma(
    shape: str,
    a: ElementType,
    b: ElementType,
    d: ElementType,
    *,
    c: ElementType | None = None,
    a_layout: str = "row",
    b_layout: str = "col",
    satfinite: bool = False,
    popc: str | None = None,
    rounding: str | None = None,
) -> WmmaRequest:
    """A wmma.mma by the name of its shape, "m16n16k16", and its element types (mma.shape for another text).

    C has D's type unless `c` says otherwise; `a_layout` and `b_layout` are those that A and B were loaded from.
    `popc` is the bit operation of b1, `rounding` that of f64. PTX ISA 9.7.14.4.5.
    """
    addend = d if c is None else c
    return WmmaRequest(shape_extents(shape), a, b, addend, d, a_layout, b_layout, satfinite, rounding, popc)


@user_facing
def load(
    fragment: str,
    shape: str,
    element: ElementType,
    *,
    layout: str = "row",
    space: str | None = None,
    strided: bool = True,
) -> WmmaMoveRequest:
    """A wmma.load of `fragment` "a", "b" or "c" of an mma of `shape` (mma.shape for another text).

    `space` is "global" or "shared", None for a generic address; `strided` whether a stride is given. PTX ISA
    9.7.14.4.3.
    """
    return WmmaMoveRequest("load", fragment, shape_extents(shape), element, layout, space, strided)


@user_facing
def store(
    shape: str, element: ElementType, *, layout: str = "row", space: str | None = None, strided: bool = True
) -> WmmaMoveRequest:
    """A wmma.store of D of an mma of `shape`, as `load` otherwise. PTX ISA 9.7.14.4.4."""
    return WmmaMoveRequest("store", "d", shape_extents(shape), element, layout, space, strided)


@user_facing
def select(request: WmmaRequest | WmmaMoveRequest, target: Target) -> Row:
    """The row that does `request` on `target`. Raises every broken rule of the request together (ids `wmma.*`)."""
    if isinstance(request, WmmaMoveRequest):
        return select_wmma_move(request, target)
    return select_wmma(request, target)
