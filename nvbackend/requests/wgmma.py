"""wgmma: `nvb.wgmma.mma_async("m64n256k16", f16, f16, f32)`."""

from __future__ import annotations

import sys

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.mma.wgmma import POPC_OPERATION
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.select.shapes import shape_extents
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.isel.select.wgmma.select import select_wgmma as select
from nvbackend.requests import Requests

__all__ = ["mma_async", "select"]
sys.modules[__name__].__class__ = Requests


@user_facing
def mma_async(
    shape: str,
    a: ElementType,
    b: ElementType,
    d: ElementType,
    *,
    a_in_registers: bool = False,
    satfinite: bool = False,
    popc: str = POPC_OPERATION,
    sparse: bool = False,
    selector: int = 0,
    negate_a: bool = False,
    negate_b: bool = False,
    trans_a: bool = False,
    trans_b: bool = False,
) -> WgmmaRequest:
    """A wgmma by the name of its shape, "m64n256k16", and its element types (mma.shape for another text).

    `trans_a` and `trans_b` say that the operand is MN-major in shared memory: a call on tiles reads it from their
    layouts. `popc` is the bit operation of b1. PTX ISA 9.7.15.5.2, 9.7.15.6.3.
    """
    m, n, k = shape_extents(shape)
    return WgmmaRequest(
        m=m,
        n=n,
        k=k,
        d=d,
        a=a,
        b=b,
        a_in_registers=a_in_registers,
        sparse=sparse,
        satfinite=satfinite,
        trans_a=int(trans_a),
        trans_b=int(trans_b),
        negate_a=negate_a,
        negate_b=negate_b,
        selector=selector,
        popc=popc,
    )
