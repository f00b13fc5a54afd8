"""The selector of tcgen05.mma: from a request and the exact target to the row, or to every reason against one."""

from __future__ import annotations

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.tcgen05.rules import Tcgen05Request, violations
from nvbackend.isel.target.target import Target


@user_facing
def select_tcgen05(request: Tcgen05Request, target: Target) -> Row:
    """The row of `tcgen05.mma` or `tcgen05.mma.ws` that does `request` on `target`.

    Raises every broken rule of the request together (ids `tcgen05.*`), at the caller's line.
    """
    raise_all(violations(request, target))
    return tcgen05_row(request)


def tcgen05_row(request: Tcgen05Request) -> Row:
    """The row of a request that breaks no rule."""
    if request.weight_stationary:
        return tcgen05.mma_ws(
            request.kind,
            a_in_tmem=request.a_in_tmem,
            sparse=request.sparse,
            collector=request.collector,
            zero_column_mask=request.zero_column_mask,
        )
    return tcgen05.mma(
        request.kind,
        cta_group=request.cta_group,
        a_in_tmem=request.a_in_tmem,
        sparse=request.sparse,
        scale_vector=request.scale_vector,
        collector=request.collector,
        ashift=request.ashift,
        scale_input_d=request.scale_input_d,
        disable_output_lane=request.disable_output_lane,
    )
