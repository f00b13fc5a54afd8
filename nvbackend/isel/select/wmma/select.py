"""The selector of wmma: from a typed request and the exact target to the row, or to every reason against one."""

from __future__ import annotations

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest, row_of
from nvbackend.isel.select.wmma.rules import GATES, MOVE_GATES
from nvbackend.isel.target.target import Target, why_not


@user_facing
def select_wmma(request: WmmaRequest, target: Target) -> Row:
    """The row of `wmma.mma` that does `request` on `target`.

    Raises every broken rule of the request together (ids `wmma.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)


@user_facing
def select_wmma_move(request: WmmaMoveRequest, target: Target) -> Row:
    """The row of `wmma.load` or `wmma.store` that does `request` on `target`.

    Raises every broken rule of the request together (ids `wmma.*`), at the caller's line.
    """
    raise_all(why_not(MOVE_GATES, request, target))
    return row_of(request)
