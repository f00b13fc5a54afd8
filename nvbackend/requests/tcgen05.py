"""tcgen05: `nvb.tcgen05.mma("m128n256k16", f16, f16, f32)`."""

from __future__ import annotations

import sys

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.mma.tcgen05 import EXPLICIT
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.tcgen05_descriptor import FORMS, K96, InstructionDescriptor
from nvbackend.isel.select.shapes import shape_extents
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.isel.select.tcgen05.select import select_tcgen05 as select
from nvbackend.isel.select.tcgen05.shapes import check_k
from nvbackend.isel.target.target import VARIANT
from nvbackend.requests import Requests

__all__ = ["mma", "select"]
sys.modules[__name__].__class__ = Requests


@user_facing
def mma(
    shape: str,
    a: ElementType,
    b: ElementType,
    d: ElementType,
    *,
    kind: str | None = None,
    cta_group: int = 1,
    a_in_tmem: bool = False,
    weight_stationary: bool = False,
    satfinite: bool = False,
    sparse: bool = False,
    selector: int = 0,
    negate_a: bool = False,
    negate_b: bool = False,
    trans_a: bool = False,
    trans_b: bool = False,
    scale: ElementType | None = None,
    scale_vector: str | None = None,
    scale_vec: int | None = None,
    scale_a_id: int = 0,
    scale_b_id: int = 0,
    collector: str | None = None,
    ashift: bool = False,
    max_shift: int = 0,
    scale_input_d: bool = False,
    disable_output_lane: bool = False,
    zero_column_mask: bool = False,
) -> Tcgen05Request:
    """A tcgen05.mma by the name of its shape, "m128n256k16", and its element types: qualifiers and descriptor in one.

    `kind` follows from the types where it is left out: the first that has them, with factors where `scale` is their
    type, and `scale_vec` of them a row (4: scale_vec::4X). The shape is of all CTAs of the group. For the rest see
    `nvb.Tcgen05Request` and `nvb.InstructionDescriptor`. Raises mma.shape, tcgen05.k and more. PTX ISA 9.7.16.10.9.
    """
    m, n, k = shape_extents(shape)
    descriptor = InstructionDescriptor(
        kind=kind or _kind(a, b, scale),
        m=m,
        n=n,
        a=a,
        b=b,
        d=d,
        scale=scale,
        sparse=sparse,
        selector=selector,
        saturate=satfinite,
        negate_a=negate_a,
        negate_b=negate_b,
        transpose_a=trans_a,
        transpose_b=trans_b,
        max_shift=max_shift,
        scale_a_id=scale_a_id,
        scale_b_id=scale_b_id,
        k96=k == K96,
    )
    check_k(descriptor, k)
    vector = _vector(scale_vec, scale_vector)
    forms = (cta_group, a_in_tmem, sparse, weight_stationary, scale is not None, vector, collector, ashift)
    return Tcgen05Request(descriptor.kind, *forms, scale_input_d, disable_output_lane, zero_column_mask, descriptor)


def _vector(scale_vec: int | None, scale_vector: str | None) -> str | None:
    """The qualifier for so many factors a row. Raises instruction.variant where `scale_vector` is another one."""
    if scale_vec is None:
        return scale_vector
    vector = f"{EXPLICIT}{scale_vec}X"
    if scale_vector not in (None, vector):
        VARIANT.fail(instruction="tcgen05.mma", reason=f"scale_vec={scale_vec} is {vector}, not {scale_vector}")
    return vector


def _kind(a: ElementType, b: ElementType, scale: ElementType | None) -> str:
    """The first kind that has the types; else one whose descriptor says what is wrong."""
    scaled = {name: form for name, form in FORMS.items() if bool(form.scales) == (scale is not None)}
    fitting = (
        name
        for name, form in scaled.items()
        if {a, b} <= form.multiplicands.keys() and scale in (form.scales or (None,))
    )
    return next(fitting, next(iter(scaled)))
