"""Calls that no instruction can serve: what is wrong with each, and what to do in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import KernelBuilder, Parameter, Pointer, e4m3, f16x2, f32, f64, tf32, u32

Call = Callable[[KernelBuilder, Any], object]
POINTED = {"single": f32, "double": f64, "half": nvb.f16, "pair": f16x2, "byte": e4m3, "word": u32}


class Values:
    """A loaded value of each type, and `to`, the pointers."""

    def __init__(self, k: KernelBuilder) -> None:
        self.to = dict(zip(POINTED, k.arguments, strict=True))
        for name, pointer in self.to.items():
            setattr(self, name, pointer[0])


def refused(call: Call, target: str) -> tuple[str, str, str | None]:
    parameters = [Parameter(name, Pointer(element)) for name, element in POINTED.items()]
    k = KernelBuilder("refused", target, threads=64, parameters=parameters)
    values = Values(k)
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(k, values)
    (found,) = caught.value.diagnostics
    return found.rule_id, found.message, found.fix


def store(k: KernelBuilder, pointer: Any, value: Any) -> None:
    pointer[0] = value


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("call", "rule", "message", "fix"),
    [
        (
            lambda k, v: k.math.sqrt(v.single, approx=True, rounding="rn"),
            "call.no-effect",
            "the chip's approximation has no rounding to choose",
            "leave out rounding, or approx=True",
        ),
        (
            lambda k, v: k.math.min(v.double, v.double, nan=True),
            "value.operation",
            "min.NaN",
            "use k.select(a != a, a, k.select(b != b, b, k.math.min(a, b)))",
        ),
        (
            lambda k, v: k.math.max(v.double, v.double, nan=True),
            "value.operation",
            "max.NaN",
            "use k.select(a != a, a, k.select(b != b, b, k.math.max(a, b)))",
        ),
        (
            lambda k, v: k.math.gelu(v.single, approx=True, form="erf"),
            "call.no-effect",
            'the approximation is of the form "tanh"',
            "leave out form, or approx=True",
        ),
        (
            lambda k, v: k.convert.unpack(v.pair, "f16x2", relu=True),
            "instruction.variant",
            "relu is of conversions, and f16x2 holds f16 already",
            None,
        ),
        (lambda k, v: store(k, v.to["word"], v.pair), "value.type", "expected u32", "keep the bits: .bitcast(nvb.u32)"),
        (
            lambda k, v: store(k, v.to["pair"], v.half),
            "value.type",
            "expected f16x2, but the value is f16",
            "k.packed.pack makes a pair of two numbers, and k.packed.unpack gives them",
        ),
        (
            lambda k, v: store(k, v.to["half"], v.pair),
            "value.type",
            "expected f16, but the value is f16x2",
            "k.packed.pack makes a pair of two numbers, and k.packed.unpack gives them",
        ),
        (
            lambda k, v: v.byte.to(nvb.pred),
            "value.operation",
            "conversion to pred is not defined for e4m3",
            "compare its f32 with 0: value.to(nvb.f32) != 0",
        ),
        (
            lambda k, v: v.byte + v.byte,
            "value.operation",
            "e4m3",
            "convert the operands to f16 or f32 first, with an instruction that unpacks them",
        ),
        (
            lambda k, v: v.single.to(tf32) + v.single.to(tf32),
            "value.operation",
            "tf32",
            "convert the operands to f32 first: .to(f32)",
        ),
        (
            lambda k, v: v.word + v.single,
            "value.type",
            "+ takes two values of one type, not u32 and f32",
            "convert the integer: .to(f32)",
        ),
        (
            lambda k, v: v.single + v.half,
            "value.type",
            "+ takes two values of one type, not f32 and f16",
            "convert one of them: .to(f32) or .to(f16)",
        ),
        (
            lambda k, v: k.shared_address(v.word, f32, 4, window="both"),
            "instruction.variant",
            '\'both\' is not "cta" or "cluster"',
            None,
        ),
        (
            lambda k, v: k.warp.reduce("max", v.single, absolute=True, width=16),
            "instruction.variant",
            "magnitudes are compared by redux.sync, of f32 of a whole warp",
            None,
        ),
    ],
)
def test_what_is_wrong_and_what_to_do(call: Call, rule: str, message: str, fix: str | None, target: str) -> None:
    found, said, advice = refused(call, target)
    assert found == rule
    assert message in said
    assert fix is None or (advice or "").startswith(fix)


def test_tf32_is_of_chips_with_its_tensor_cores() -> None:
    """PTX ISA 9.7.9.21: cvt to tf32 requires sm_80 or higher."""
    rule, message, fix = refused(lambda k, v: v.single.to(tf32), "sm_75")
    assert rule == "value.operation"
    assert "conversion to tf32" in message
    assert "f32 on sm_75" in message
    assert fix == "use f32 or f16: tf32 is for the tensor cores of sm_80 and later"
