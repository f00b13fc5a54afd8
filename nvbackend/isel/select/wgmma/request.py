"""A wgmma instruction as asked for, how people write one, and the way to its row and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nvbackend.diagnostics import record
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.wgmma import Multiplicands, common_multiplicands
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.smem_descriptor import Major


@record
@dataclass(frozen=True, slots=True)
class WgmmaRequest:
    """One `wgmma.mma_async` as asked for: D (m x n) = A (m x k) * B (k x n) + D, sizes in elements.

    `trans_a` and `trans_b` are 1 where the operand is MN-major in shared memory; `negate_a`, `negate_b` its sign;
    `selector` the sparsity selector; `popc` the bit operation of b1. Nothing is checked here: `select_wgmma` does.
    """

    n: int
    k: int
    d: ElementType
    a: ElementType
    b: ElementType
    a_in_registers: bool = False
    sparse: bool = False
    satfinite: bool = False
    m: int = wgmma.M
    trans_a: int = 0
    trans_b: int = 0
    negate_a: bool = False
    negate_b: bool = False
    selector: int = 0
    popc: str = wgmma.POPC_OPERATION

    @property
    def multiplicands(self) -> Multiplicands | None:
        """The set to which A and B both belong; None if wgmma does not multiply them."""
        return common_multiplicands(self.a, self.b)


def request_of(row: Row, immediates: Mapping[str, int] | None = None) -> WgmmaRequest:
    """The request that selects `row` (of wgmma.mma_async), with the instruction's `immediates` where they are known."""
    numbers = immediates or {}
    axes: dict[str, Any] = dict(row.axes)
    m, n, k = axes.pop("shape")
    return WgmmaRequest(
        m=m,
        n=n,
        k=k,
        **axes,
        trans_a=numbers.get("trans_a", 0),
        trans_b=numbers.get("trans_b", 0),
        negate_a=numbers.get("scale_a") == -1,
        negate_b=numbers.get("scale_b") == -1,
        selector=numbers.get("selector", 0),
    )


def reading(request: WgmmaRequest, a_major: Major | None, b_major: Major | None) -> WgmmaRequest:
    """The request for operands of these majors, None for what it has."""
    trans_a = request.trans_a if a_major is None else int(a_major is Major.MN)
    trans_b = request.trans_b if b_major is None else int(b_major is Major.MN)
    return replace(request, trans_a=trans_a, trans_b=trans_b)
