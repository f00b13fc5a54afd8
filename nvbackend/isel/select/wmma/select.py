"""The selector of wmma: from a typed request and the exact target to the row, or to every reason against one."""

from __future__ import annotations

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest
from nvbackend.isel.select.wmma.rules import mma_violations, move_violations
from nvbackend.isel.target.target import Target


@user_facing
def select_wmma(request: WmmaRequest, target: Target) -> Row:
    """The row of `wmma.mma` that does `request` on `target`.

    Raises every broken rule of the request together (ids `wmma.*`), at the caller's line.
    """
    raise_all(mma_violations(request, target))
    return wmma_row(request)


@user_facing
def select_wmma_move(request: WmmaMoveRequest, target: Target) -> Row:
    """The row of `wmma.load` or `wmma.store` that does `request` on `target`.

    Raises every broken rule of the request together (ids `wmma.*`), at the caller's line.
    """
    raise_all(move_violations(request, target))
    return wmma_row(request)


def wmma_row(request: WmmaRequest | WmmaMoveRequest) -> Row:
    """The row of a request that breaks no rule."""
    return _moving(request) if isinstance(request, WmmaMoveRequest) else _multiplying(request)


def _multiplying(request: WmmaRequest) -> Row:
    return wmma.mma(
        request.shape,
        request.a,
        request.c,
        request.d,
        (request.a_layout, request.b_layout),
        satfinite=request.satfinite,
        rounding=request.rounding,
        popc=request.popc,
    )


def _moving(request: WmmaMoveRequest) -> Row:
    if request.operation == "store":
        return wmma.store(request.shape, request.element, request.layout, request.space, strided=request.strided)
    return wmma.load(
        request.fragment,
        request.shape,
        request.element,
        request.layout,
        request.space,
        strided=request.strided,
    )
