"""The forms of mma.sp and mma.sp::ordered_metadata: half of A's elements, and where they are. PTX ISA 9.7.14.6.3.

Left out although ptxas takes them: selectors 2 and 3 of f16 m16n8k32, which the PTX ISA does not have, and f16
accumulators of fp8 without a `.kind`, which it takes for 12.x only.
"""

from __future__ import annotations

from dataclasses import replace

from nvbackend.intrinsics.mma.dense import CONTAINER_BITS, F8F6F4, F8F6F4_KIND, FP8, TO_F16, TO_F32, TO_S32, m16n8
from nvbackend.intrinsics.mma.form import ORDERED, SP, Form
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.types import bf16, f16, s4, s8, tf32, u4, u8

_ORDERED_PTX = (8, 5)
_ANY_ORDER = (
    Form((f16,), (TO_F16, TO_F32), m16n8(16, 32), Feature.SM_80, (7, 1), sparsity=SP),
    Form((bf16,), (TO_F32,), m16n8(16, 32), Feature.SM_80, (7, 1), sparsity=SP),
    Form((tf32,), (TO_F32,), m16n8(8, 16), Feature.SM_80, (7, 1), sparsity=SP),
    Form((s8, u8), (TO_S32,), m16n8(32, 64), Feature.SM_80, (7, 1), sparsity=SP, saturates=True),
    Form((s4, u4), (TO_S32,), m16n8(64, 128), Feature.SM_80, (7, 1), sparsity=SP, saturates=True),
    Form(FP8, (TO_F32,), m16n8(64), Feature.SM_89, (8, 4), sparsity=SP),
)
FORMS: tuple[Form, ...] = (
    *_ANY_ORDER,
    *(replace(form, sparsity=ORDERED, ptx_version=max(form.ptx_version, _ORDERED_PTX)) for form in _ANY_ORDER),
    Form(
        F8F6F4,
        (TO_F16, TO_F32),
        m16n8(64),
        Feature.BLOCK_SCALED_MMA,
        (8, 7),
        sparsity=ORDERED,
        kind=F8F6F4_KIND,
        element_bits=CONTAINER_BITS,
    ),
)
"""Every sparse form without scale factors."""
