"""Requests as people write them: an instruction by its shape's name."""

from __future__ import annotations

import re

from nvbackend.diagnostics import Rule, user_facing
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.select.wgmma.rules import WgmmaRequest

SHAPE_TEXT = Rule(
    id="mma.shape",
    message="{given!r} is not the name of an instruction shape",
    fix='write it as PTX does: "m64n256k16"',
    why="Nothing can be selected for it.",
    reference="PTX ISA 9.7.14.1 (mma shapes), 9.7.15.2 (wgmma shapes)",
)
_SHAPE = re.compile(r"m([0-9]{1,9})n([0-9]{1,9})k([0-9]{1,9})")


def shape_extents(shape: str) -> tuple[int, int, int]:
    """M, N and K of a shape by its name, "m64n256k16" (mma.shape for another text)."""
    found = _SHAPE.fullmatch(shape) if isinstance(shape, str) else None
    if found is None:
        SHAPE_TEXT.fail(given=shape)
    m, n, k = (int(extent) for extent in found.groups())
    return m, n, k


@user_facing
def wgmma(
    shape: str,
    a: ElementType,
    b: ElementType,
    d: ElementType,
    *,
    a_in_registers: bool = False,
    sparse: bool = False,
    satfinite: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
) -> WgmmaRequest:
    """A wgmma instruction by the name of its shape, "m64n256k16", and its element types (mma.shape for another text).

    Selection tells whether it exists on a target.
    """
    m, n, k = shape_extents(shape)
    return WgmmaRequest(
        n=n,
        k=k,
        d=d,
        a=a,
        b=b,
        m=m,
        a_in_registers=a_in_registers,
        sparse=sparse,
        satfinite=satfinite,
        negate_a=negate_a,
        negate_b=negate_b,
    )
