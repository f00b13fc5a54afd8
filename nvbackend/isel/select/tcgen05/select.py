"""The selector of tcgen05.mma: from a request and the exact target to the row, or to every reason against one."""

from __future__ import annotations

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.tcgen05.request import Tcgen05Request, row_of
from nvbackend.isel.select.tcgen05.rules import GATES
from nvbackend.isel.target.target import Target, why_not


@user_facing
def select_tcgen05(request: Tcgen05Request, target: Target) -> Row:
    """The row of `tcgen05.mma` or `tcgen05.mma.ws` that does `request` on `target`.

    Raises every broken rule of the request together (ids `tcgen05.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)
