"""The block-scaled forms of mma.sync: D = (A * scale_A) * (B * scale_B) + C. PTX ISA 9.7.14.3, 9.7.14.5.14.

A scale factor covers K / scale_vec elements of a row of A or a column of B: 32 for the mx kinds, and 16 of NVFP4, which
is `kind::mxf4nvf4` with four factors of ue4m3. With four of ue8m0 it needs PTX 9.1, which LLVM 22.1 does not print.
"""

from __future__ import annotations

from dataclasses import replace

from nvbackend.intrinsics.mma.dense import CONTAINER_BITS, F8F6F4, TO_F32, m16n8
from nvbackend.intrinsics.mma.form import ORDERED, Form
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.types import e2m1, ue4m3, ue8m0

_PTX = (8, 7)
DEFAULT_SCALE_VEC = {"mxf8f6f4": 1, "mxf4": 2}
"""What leaving `.scale_vec` out means."""


def scale_vector(kind: str, scale_vec: int | None) -> int:
    """Factors of a row of A: what `.scale_vec` says, or the kind's own where it is left out. PTX ISA 9.7.14.5.14."""
    return scale_vec if scale_vec is not None else DEFAULT_SCALE_VEC[kind]


def _spelled_or_not(kind: str) -> tuple[int | None, ...]:
    return None, DEFAULT_SCALE_VEC[kind]


_DENSE = (
    Form(
        F8F6F4,
        (TO_F32,),
        m16n8(32),
        Feature.BLOCK_SCALED_MMA,
        _PTX,
        kind="mxf8f6f4",
        scales=tuple((vector, ue8m0) for vector in _spelled_or_not("mxf8f6f4")),
        element_bits=CONTAINER_BITS,
    ),
    Form(
        (e2m1,),
        (TO_F32,),
        m16n8(64),
        Feature.BLOCK_SCALED_MMA,
        _PTX,
        kind="mxf4",
        scales=tuple((vector, ue8m0) for vector in _spelled_or_not("mxf4")),
    ),
    Form(
        (e2m1,),
        (TO_F32,),
        m16n8(64),
        Feature.BLOCK_SCALED_MMA,
        _PTX,
        kind="mxf4nvf4",
        scales=((2, ue8m0), (4, ue4m3)),
    ),
)


def _sparse(form: Form) -> Form:
    """The form with a sparse A: twice the K, and for packed 4-bit elements the very chip's name only."""
    requires = form.requires if form.element_bits else form.requires | Feature.ARCH_CONDITIONAL
    shapes = tuple((m, n, 2 * k) for m, n, k in form.shapes)
    return replace(form, sparsity=ORDERED, shapes=shapes, requires=requires)


FORMS: tuple[Form, ...] = (*_DENSE, *map(_sparse, _DENSE))
"""Every form with scale factors."""
