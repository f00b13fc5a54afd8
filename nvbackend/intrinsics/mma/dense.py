"""The dense forms of mma.sync, as ptxas 13.5 takes them and the PTX ISA documents them. PTX ISA 9.7.14.5.14.

Left out although ptxas takes them: m8n8k4 of bf16 and of tf32, for which it emits no MMA; a `.kind` on fp8 other than
`kind::f8f6f4` of m16n8k32, and any on chips but 12.x; a bit operation on integers of 4 bits. It does not look at these.
"""

from __future__ import annotations

from nvbackend.intrinsics.fragments.mma import FOUR_MATRICES, Shape
from nvbackend.intrinsics.mma.form import Form
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.types import (
    b1,
    bf16,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    s4,
    s8,
    s32,
    tf32,
    u4,
    u8,
)

FP8 = (e4m3, e5m2)
F8F6F4 = (*FP8, e2m3, e3m2, e2m1)
F8F6F4_KIND = "f8f6f4"
CONTAINER_BITS = 8
"""What an element of 8, 6 or 4 bits takes where these can mix: the low bits of 6, the middle ones of 4."""

TO_F16 = (f16, f16)
TO_F32 = (f32, f32)
TO_F64 = (f64, f64)
TO_S32 = (s32, s32)


def m16n8(*every_k: int) -> tuple[Shape, ...]:
    """The shapes m16n8 of these K."""
    return tuple((16, 8, k) for k in every_k)


def m8n8(k: int) -> tuple[Shape, ...]:
    """The shape m8n8 of this K."""
    return ((8, 8, k),)


_EVERY_LAYOUT = tuple((a, b) for a in ("row", "col") for b in ("row", "col"))

FLOATS = (
    Form((f16,), (TO_F16, (f32, f16), TO_F32), (FOUR_MATRICES,), Feature.NONE, (6, 4), layouts=_EVERY_LAYOUT),
    Form((f16,), (TO_F16, TO_F32), m16n8(8), Feature.SM_75, (6, 5)),
    Form((f16,), (TO_F16, TO_F32), m16n8(16), Feature.SM_80, (7, 0)),
    Form((bf16,), (TO_F32,), m16n8(8, 16), Feature.SM_80, (7, 0)),
    Form((tf32,), (TO_F32,), m16n8(4, 8), Feature.SM_80, (7, 0)),
    Form((f64,), (TO_F64,), m8n8(4), Feature.SM_80, (7, 0)),
    Form((f64,), (TO_F64,), m16n8(4, 8, 16), Feature.SM_90, (7, 8)),
    Form(FP8, (TO_F32,), m16n8(32), Feature.SM_89, (8, 4)),
    Form(FP8, (TO_F16,), m16n8(32), Feature.SM_89, (8, 7)),
    Form(FP8, (TO_F16, TO_F32), m16n8(16), Feature.SM_89, (8, 7)),
    Form(
        F8F6F4,
        (TO_F16, TO_F32),
        m16n8(32),
        Feature.BLOCK_SCALED_MMA,
        (8, 7),
        kind=F8F6F4_KIND,
        element_bits=CONTAINER_BITS,
    ),
)
INTEGERS = (
    Form((s8, u8), (TO_S32,), m8n8(16), Feature.SM_75, (6, 5), saturates=True),
    Form((s8, u8), (TO_S32,), m16n8(16, 32), Feature.SM_80, (7, 0), saturates=True),
    Form((s4, u4), (TO_S32,), m8n8(32), Feature.SM_75, (6, 5), saturates=True),
    Form((s4, u4), (TO_S32,), m16n8(32, 64), Feature.SM_80, (7, 0), saturates=True),
)
BITS = (
    Form((b1,), (TO_S32,), m8n8(128), Feature.SM_75, (7, 0), operation="xor", by_asm=True),
    Form((b1,), (TO_S32,), m16n8(128, 256), Feature.SM_80, (7, 0), operation="xor"),
    Form((b1,), (TO_S32,), (*m8n8(128), *m16n8(128, 256)), Feature.SM_80, (7, 1), operation="and"),
)
FORMS: tuple[Form, ...] = (*FLOATS, *INTEGERS, *BITS)
"""Every dense form without scale factors."""
