"""The selector of wgmma: from a request and the exact target to the row, or to every reason against one."""

from __future__ import annotations

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.wgmma.request import WgmmaRequest, row_of
from nvbackend.isel.select.wgmma.rules import GATES
from nvbackend.isel.target.target import Target, why_not


@user_facing
def select_wgmma(request: WgmmaRequest, target: Target) -> Row:
    """The row of `wgmma.mma_async` that does `request` on `target`.

    Raises every broken rule of the request together (ids `wgmma.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)
