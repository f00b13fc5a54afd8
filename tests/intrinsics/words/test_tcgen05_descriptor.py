"""sm_100 descriptor words: the PTX ISA's tables written down a second time, and what the words refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.types import bf16, e2m1, e2m3, e3m2, e4m3, e5m2, f16, f32, s8, s32, tf32, u8, ue4m3, ue8m0
from nvbackend.intrinsics.words import smem_descriptor
from nvbackend.intrinsics.words.tcgen05_descriptor import (
    FORMS,
    SMEM_WORD,
    InstructionDescriptor,
    Tcgen05SmemDescriptor,
    Tcgen05Swizzle,
)

SWIZZLES = {"NONE": 0, "B128_ATOM32": 1, "B128": 2, "B64": 4, "B32": 6}
SMEM_RESERVED = (14, 15, 30, 31, 48, *range(53, 61))

chunks = st.integers(0, 0x3FFF).map(lambda chunk: chunk * 16)
smem = st.builds(
    Tcgen05SmemDescriptor,
    chunks,
    chunks,
    chunks,
    st.integers(0, 7),
    st.sampled_from(Tcgen05Swizzle),
    st.booleans(),
)


def rules(error: pytest.ExceptionInfo[DiagnosticError]) -> list[str]:
    return [diagnostic.rule_id for diagnostic in error.value.diagnostics]


def test_fields_that_hopper_has_too_mean_the_same() -> None:
    before = {field.name: field for field in smem_descriptor.WORD.fields}
    same = [field for field in SMEM_WORD.fields if field.name in before and field.name != "swizzle"]
    assert [(field.name, field.meaning, field.unit) for field in same] == [
        (field.name, before[field.name].meaning, before[field.name].unit) for field in same
    ]
    assert len(same) == 4


@given(smem)
def test_the_shared_memory_word_has_each_field_where_the_ptx_isa_puts_it(descriptor: Tcgen05SmemDescriptor) -> None:
    word = descriptor.start_address // 16
    word += descriptor.leading_byte_offset // 16 * 2**16
    word += descriptor.stride_byte_offset // 16 * 2**32
    word += 2**46
    word += descriptor.base_offset * 2**49
    word += 2**52 if descriptor.leading_is_address else 0
    word += SWIZZLES[descriptor.swizzle.name] * 2**61
    assert descriptor.encode() == word
    assert Tcgen05SmemDescriptor.decode(word) == descriptor
    assert descriptor.template_word == word - descriptor.start_address // 16


@given(smem, st.sampled_from(SMEM_RESERVED))
def test_a_reserved_bit_is_refused(descriptor: Tcgen05SmemDescriptor, bit: int) -> None:
    with pytest.raises(DiagnosticError) as error:
        Tcgen05SmemDescriptor.decode(descriptor.encode() | 1 << bit)
    assert rules(error) == ["descriptor.reserved-bits"]


def test_every_other_bit_is_a_field() -> None:
    assert [bit for bit in range(64) if SMEM_WORD.reserved_mask >> bit & 1] == list(SMEM_RESERVED)


@pytest.mark.parametrize(
    "word", [0, 2 << 46, 3 << 46, 1 << 46 | 3 << 61, 1 << 46 | 5 << 61, 1 << 46 | 7 << 61, 1 << 64]
)
def test_another_version_or_swizzle_is_refused(word: int) -> None:
    """Version 0 is a Hopper word: it must not pass for one of sm_100."""
    with pytest.raises(DiagnosticError) as error:
        Tcgen05SmemDescriptor.decode(word)
    assert rules(error) == ["descriptor.range"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0x40000, 16, 16), ["descriptor.range"]),
        ((8, 16, 24), ["descriptor.alignment", "descriptor.alignment"]),
        ((-16, 16, 16, 8), ["descriptor.range", "descriptor.range"]),
    ],
)
def test_values_that_do_not_fit_are_refused_together(values: tuple[int, ...], expected: list[str]) -> None:
    with pytest.raises(DiagnosticError) as error:
        Tcgen05SmemDescriptor(*values)
    assert rules(error) == expected


def test_an_advance_changes_the_address_alone() -> None:
    descriptor = Tcgen05SmemDescriptor(0x400, 16, 1024, swizzle=Tcgen05Swizzle.B128)
    assert descriptor.advance(32).encode() == descriptor.encode() + 2
    assert descriptor.advance(32).advance(-32) == descriptor
    for bytes, rule in ((8, "descriptor.advance-unit"), (0x40000, "descriptor.advance-carry")):
        with pytest.raises(DiagnosticError) as error:
            descriptor.advance(bytes)
        assert rules(error) == [rule]


SMALL = {e4m3: 0, e5m2: 1, e2m3: 3, e3m2: 4, e2m1: 5}
CODES: dict[str, dict[Any, int]] = {
    "f16": {f16: 0, bf16: 1},
    "tf32": {tf32: 2},
    "f8f6f4": SMALL,
    "i8": {u8: 0, s8: 1},
    "mxf8f6f4": SMALL,
    "mxf4": {e2m1: 1},
    "mxf4nvf4": {e2m1: 1},
}
D_CODES = {f16: 0, f32: 1, s32: 2}
D_TYPES = {"f16": (f16, f32), "tf32": (f32,), "f8f6f4": (f16, f32), "i8": (s32,)}
SCALES = {"mxf8f6f4": (ue8m0,), "mxf4": (ue8m0,), "mxf4nvf4": (ue8m0, ue4m3)}
RESERVED = {
    **dict.fromkeys(("f16", "tf32", "f8f6f4", "i8"), (6, 23, 29)),
    "mxf8f6f4": (0, 1, 3, 6, 24, 25, 26, 31),
    **dict.fromkeys(("mxf4", "mxf4nvf4"), (0, 1, 3, 6, 12, 24, 25, 26)),
}


@st.composite
def instructions(draw: st.DrawFn) -> InstructionDescriptor:
    kind = draw(st.sampled_from(sorted(CODES)))
    scaled = kind in SCALES
    a, b = (draw(st.sampled_from(list(CODES[kind]))) for _ in "ab")
    d = draw(st.sampled_from(D_TYPES.get(kind, (f32,))))
    values: dict[str, Any] = {"m": draw(st.sampled_from((128, 256))), "n": 8 * draw(st.integers(1, 32))}
    values["sparse"] = draw(st.booleans())
    values["transpose_a"] = a.bits >= 8 and draw(st.booleans())
    values["transpose_b"] = b.bits >= 8 and draw(st.booleans())
    if kind == "i8":
        values["saturate"] = draw(st.booleans())
    else:
        values |= {"negate_a": draw(st.booleans()), "negate_b": draw(st.booleans())}
    if scaled:
        ids = (0, 1, 2, 3) if kind == "mxf8f6f4" else (0, 2)
        values |= {"scale_a_id": draw(st.sampled_from(ids)), "scale_b_id": draw(st.sampled_from(ids))}
        values["scale"] = draw(st.sampled_from(SCALES[kind]))
        values["k96"] = kind != "mxf8f6f4" and not values["sparse"] and draw(st.booleans())
    else:
        values["selector"] = draw(st.integers(0, 3)) if values["sparse"] else 0
        values["max_shift"] = draw(st.sampled_from((0, 8, 16, 32)))
    return InstructionDescriptor(kind=kind, a=a, b=b, d=f32 if bf16 in (a, b) else d, **values)


@given(instructions())
def test_the_instruction_word_has_each_field_where_the_ptx_isa_puts_it(descriptor: InstructionDescriptor) -> None:
    one = descriptor
    bits = {2: one.sparse, 13: one.negate_a, 14: one.negate_b, 15: one.transpose_a, 16: one.transpose_b}
    word = sum(2**place for place, is_set in bits.items() if is_set)
    word += CODES[one.kind][one.a] * 2**7 + CODES[one.kind][one.b] * 2**10 + (one.n >> 3) * 2**17
    if one.kind in SCALES:
        word += one.scale_b_id * 2**4 + (one.scale is ue8m0) * 2**23 + (one.m >> 7) * 2**27
        word += one.scale_a_id * 2**29 + one.k96 * 2**31
    else:
        word += one.selector + one.saturate * 2**3 + D_CODES[one.d] * 2**4 + (one.m >> 4) * 2**24
        word += {0: 0, 8: 1, 16: 2, 32: 3}[one.max_shift] * 2**30
    assert one.encode() == word
    assert InstructionDescriptor.decode(word, one.kind) == one


@given(instructions(), st.data())
def test_a_reserved_bit_of_the_kind_is_refused(descriptor: InstructionDescriptor, data: st.DataObject) -> None:
    bit = data.draw(st.sampled_from(RESERVED[descriptor.kind]))
    with pytest.raises(DiagnosticError) as error:
        InstructionDescriptor.decode(descriptor.encode() | 1 << bit, descriptor.kind)
    assert rules(error) == ["descriptor.reserved-bits"]


def test_every_kind_has_a_form_and_no_other_reserved_bits() -> None:
    assert set(FORMS) == set(tcgen05.KINDS)
    for kind, form in FORMS.items():
        assert [bit for bit in range(32) if form.word.reserved_mask >> bit & 1] == list(RESERVED[kind])


def test_two_words_of_public_kernels() -> None:
    """128 x 256 f16 into f32, and 128 x 128 nvfp4, as CUTLASS and published kernels build them."""
    half = InstructionDescriptor(kind="f16", m=128, n=256, a=f16, b=f16, d=f32)
    assert half.encode() == 1 << 4 | 256 >> 3 << 17 | 128 >> 4 << 24
    small = InstructionDescriptor(kind="mxf4nvf4", m=128, n=128, a=e2m1, b=e2m1, d=f32, scale=ue4m3)
    assert small.encode() == 1 << 7 | 1 << 10 | 128 >> 3 << 17 | 128 >> 7 << 27


K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}


@given(instructions())
def test_k_follows_from_kind_and_sparsity(descriptor: InstructionDescriptor) -> None:
    assert descriptor.k == (96 if descriptor.k96 else K[descriptor.kind] * (2 if descriptor.sparse else 1))


HALF: dict[str, Any] = {"kind": "f16", "m": 128, "n": 64, "a": f16, "b": f16, "d": f32}
FP4: dict[str, Any] = {"kind": "mxf4", "m": 128, "n": 64, "a": e2m1, "b": e2m1, "d": f32, "scale": ue8m0}
INT8: dict[str, Any] = {"kind": "i8", "m": 128, "n": 64, "a": s8, "b": u8, "d": s32}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (HALF | {"a": e4m3, "d": s32}, ["tcgen05.types", "tcgen05.types"]),
        (HALF | {"a": bf16, "d": f16}, ["tcgen05.types"]),
        (HALF | {"scale": ue8m0}, ["tcgen05.types"]),
        (FP4 | {"scale": ue4m3}, ["tcgen05.types"]),
        (FP4 | {"scale": None}, ["tcgen05.types"]),
        (FP4 | {"d": f16}, ["block-scale.accumulator"]),
        (FP4 | {"a": e4m3, "d": s32}, ["tcgen05.types", "block-scale.accumulator"]),
        (HALF | {"saturate": True}, ["tcgen05.modifier"]),
        (INT8 | {"negate_a": True, "negate_b": True}, ["tcgen05.modifier"] * 2),
        (FP4 | {"transpose_a": True, "transpose_b": True}, ["tcgen05.modifier"] * 2),
        (HALF | {"selector": 1}, ["tcgen05.modifier"]),
        (FP4 | {"sparse": True, "selector": 1}, ["tcgen05.modifier"]),
        (FP4 | {"max_shift": 8}, ["tcgen05.modifier"]),
        (HALF | {"max_shift": 4}, ["tcgen05.modifier"]),
        (HALF | {"scale_a_id": 1, "scale_b_id": 1}, ["tcgen05.modifier"] * 2),
        (FP4 | {"sparse": True, "k96": True}, ["tcgen05.modifier"]),
        (HALF | {"k96": True}, ["tcgen05.modifier"]),
        (FP4 | {"scale_a_id": 1}, ["descriptor.range"]),
        (HALF | {"m": 512, "n": 12}, ["descriptor.alignment", "descriptor.range"]),
        (FP4 | {"m": 64}, ["descriptor.alignment"]),
    ],
)
def test_what_the_word_can_not_say_is_refused(values: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(DiagnosticError) as error:
        InstructionDescriptor(**values)
    assert rules(error) == expected


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        (3 << 4 | 8 << 24, "f16"),
        (2 << 4 | 8 << 24, "f16"),
        (1 << 4 | 2 << 7 | 8 << 24, "f16"),
        (1 << 4 | 1 << 7 | 2 << 10 | 8 << 24, "tf32"),
        (2 << 7 | 1 << 27 | 1 << 23, "mxf8f6f4"),
        (1 << 27, "mxf8f6f4"),
        (1 << 27 | 1 << 7 | 1 << 10, "mxf4"),
        (1 << 32, "f16"),
    ],
)
def test_a_code_without_meaning_in_the_kind_is_refused(word: int, kind: str) -> None:
    with pytest.raises(DiagnosticError) as error:
        InstructionDescriptor.decode(word, kind)
    assert set(rules(error)) == {"descriptor.range"}


@pytest.mark.parametrize("kind", ["f32", "", None])
def test_another_kind_has_no_descriptor(kind: Any) -> None:
    for ask in (lambda: InstructionDescriptor(**HALF | {"kind": kind}), lambda: InstructionDescriptor.decode(0, kind)):
        with pytest.raises(DiagnosticError) as error:
            ask()
        assert rules(error) == ["tcgen05.descriptor-kind"]
