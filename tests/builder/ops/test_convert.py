"""k.convert and `.to()` with rounding and saturation by name: what they refuse. Numbers: tests/gpu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import (
    BY_NAME,
    ELEMENT_TYPES,
    ElementType,
    bf16,
    e2m1,
    e4m3,
    f16,
    f32,
    f64,
    pred,
    s32,
    tf32,
    u8,
    u32,
    u64,
    ue8m0,
)
from nvbackend.signature import Parameter, Pointer


class Using:
    """A kernel with values of f32 and u32."""

    def __init__(self, target: str) -> None:
        parameters = [Parameter(f"p{kind}", Pointer(kind, 16)) for kind in (f32, u32)]
        self.k: Any = KernelBuilder("use", target, threads=32, parameters=parameters)
        floats, words = self.k.arguments
        self.x, self.word = floats[0], words[0]


REFUSED = [
    ("value.operation", "sm_90a", lambda u: u.x.to(f16, rounding="rna")),
    ("value.operation", "sm_90a", lambda u: u.x.to(s32, rounding="rs")),
    ("value.operation", "sm_90a", lambda u: u.word.to(u8, rounding="rn")),
    ("value.operation", "sm_90a", lambda u: u.x.to(f64).to(f32, saturate=True)),
    ("value.operation", "sm_90a", lambda u: u.x.to(bf16, rounding="rm", saturate=True)),
    ("value.operation", "sm_90a", lambda u: u.x.to(e4m3, rounding="rz")),
    ("value.operation", "sm_90a", lambda u: u.x.to(e4m3).to(pred)),
    ("value.operation", "sm_100a", lambda u: u.x.to(ue8m0, rounding="rn")),
    ("target.feature", "sm_80", lambda u: u.x.to(e4m3)),
    ("target.feature", "sm_90a", lambda u: u.x.to(e2m1)),
    ("target.feature", "sm_80", lambda u: u.x.to(tf32, rounding="rz")),
    ("target.feature", "sm_75", lambda u: u.x.to(bf16, rounding="rz")),
    ("target.feature", "sm_100", lambda u: u.x.to(ue8m0)),
    ("target.feature", "sm_100f", lambda u: u.k.convert.pack("e4m3x4", *[u.x] * 4, random=u.word)),
    ("instruction.variant", "sm_90a", lambda u: u.k.convert.pack("f32x2", u.x, u.x)),
    ("instruction.variant", "sm_90a", lambda u: u.k.convert.pack("f16x2", u.x)),
    ("instruction.variant", "sm_90a", lambda u: u.k.convert.pack("f16x2", u.x, u.x, rounding="rp")),
    ("instruction.variant", "sm_100a", lambda u: u.k.convert.pack("f16x2", u.x, u.x, rounding="rs")),
    ("instruction.variant", "sm_100a", lambda u: u.k.convert.pack("f16x2", u.x, u.x, rounding="rz", random=u.word)),
    ("instruction.variant", "sm_100a", lambda u: u.k.convert.pack("e4m3x4", *[u.x] * 4)),
    ("instruction.variant", "sm_100a", lambda u: u.k.convert.pack("e2m1x4", *[u.x] * 3, random=u.word)),
    ("instruction.variant", "sm_100a", lambda u: u.k.convert.pack("ue8m0x2", u.x, u.x, relu=True)),
    ("instruction.variant", "sm_90a", lambda u: u.k.convert.unpack(u.word, "f32x2")),
    ("instruction.variant", "sm_90a", lambda u: u.k.convert.pair(u.word, "f16x2", "bf16x2")),
    ("instruction.variant", "sm_90a", lambda u: u.k.convert.single(u.x, f64)),
    ("value.type", "sm_90a", lambda u: u.k.convert.pack("f16x2", u.word, u.x)),
    ("value.type", "sm_90a", lambda u: u.k.convert.unpack(u.word, "e4m3x2")),
]


@pytest.mark.parametrize(("rule", "target", "call"), REFUSED)
def test_what_no_cvt_does_is_refused(rule: str, target: str, call: Callable[[Using], object]) -> None:
    u = Using(target)
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(u)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == rule
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__


def test_a_conversion_by_name_is_one_instruction() -> None:
    u = Using("sm_90a")
    u.k.arguments[0].cast(f16)[0] = u.x.to(f16, rounding="rz", saturate=True)
    u.k.arguments[1][1] = u.k.convert.pack("f16x2", u.x, 1.0, rounding="rz").bitcast(u32)
    ptx = u.k.finish(check=False).compile(assemble=False).ptx
    assert ptx.count("cvt.") == 2
    assert "cvt.rz.satfinite.f16.f32" in ptx
    assert "cvt.rz.f16x2.f32" in ptx


TYPES = [element for element in ELEMENT_TYPES if element.name != "b1"]
"""All but bits, of which a register of the tensor core holds 32."""


def _bits_of(element: ElementType) -> ElementType:
    return BY_NAME[f"u{max(8, element.bits)}"]


def test_every_type_becomes_every_other_one() -> None:
    """ptxas takes a kernel of all pairs; numbers: tests/gpu and tests/scalar."""
    pointers = [Parameter(name, Pointer(u64)) for name in "xy"]
    k = KernelBuilder("matrix", "sm_100a", threads=32, parameters=pointers)
    given, out = k.arguments
    pairs = [(source, to) for source in TYPES for to in TYPES if to is not pred]
    for place, (source, to) in enumerate(pairs):
        word = (given + place)[0]
        if source is pred:
            value = word == 1
        else:
            value = word.to(source if source.is_integer else _bits_of(source))
            value = value if source.is_integer else value.bitcast(source)
        made = value.to(to)
        made = made.to(u8) if to.is_integer and to.bits < u8.bits else made
        out[place] = (made if made.type.is_integer else made.bitcast(_bits_of(made.type))).to(u64)
    assert len(pairs) == len(TYPES) * (len(TYPES) - 1) > 500
    assert k.finish(check=False).compile().cubin
