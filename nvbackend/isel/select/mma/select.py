"""The selector of mma.sync: from a request and the exact target to the row, or to every reason against one."""

from __future__ import annotations

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.mma.request import MmaRequest, row_of
from nvbackend.isel.select.mma.rules import GATES
from nvbackend.isel.target.target import Target, why_not


@user_facing
def select_mma(request: MmaRequest, target: Target) -> Row:
    """The row of mma.sync, mma.sp or block-scaled mma that does `request` on `target`.

    Raises every broken rule of the request together (ids `mma.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)
