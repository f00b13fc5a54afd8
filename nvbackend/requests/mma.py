"""mma.sync: `nvb.mma.sync("m16n8k16", f16, f16, f32)`."""

from __future__ import annotations

import sys

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.mma.form import MmaInstruction
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.select.mma.request import MmaRequest
from nvbackend.isel.select.mma.select import select_mma as select
from nvbackend.isel.select.shapes import shape_extents
from nvbackend.requests import Requests

__all__ = ["select", "sync"]
sys.modules[__name__].__class__ = Requests


@user_facing
def sync(
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
    sparse: bool = False,
    ordered_metadata: bool = False,
    selector: int = 0,
    kind: str | None = None,
    scale: ElementType | None = None,
    scale_vec: int | None = None,
    scale_a_at: tuple[int, int] = (0, 0),
    scale_b_at: tuple[int, int] = (0, 0),
) -> MmaRequest:
    """An mma of one warp by the name of its shape, "m16n8k16", and its element types (mma.shape for another text).

    C has D's type unless `c` says otherwise; `popc` is the bit operation of b1, "xor" or "and". A is `sparse`, with
    `ordered_metadata` as mma.sp::ordered_metadata. `kind` is "f8f6f4", "mxf8f6f4", "mxf4" or "mxf4nvf4", of which the
    mx kinds have factors of type `scale`, `scale_vec` of them a row (4 is PTX's scale_vec::4X); `scale_a_at` and
    `scale_b_at` are (byte-id, thread-id). PTX ISA 9.7.14.5.14, 9.7.14.6.3.
    """
    instruction = MmaInstruction(
        shape=shape_extents(shape),
        d=d,
        a=a,
        b=b,
        c=d if c is None else c,
        a_layout=a_layout,
        b_layout=b_layout,
        sparsity="sp::ordered_metadata" if ordered_metadata else "sp" if sparse else None,
        kind=kind,
        scale=scale,
        scale_vec=scale_vec,
        satfinite=satfinite,
        operation=popc,
    )
    return MmaRequest(instruction, selector, *scale_a_at, *scale_b_at)
