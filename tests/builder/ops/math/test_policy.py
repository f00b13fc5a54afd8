"""What a kernel's math policy allows, in the PTX and in the machine code: and that nothing is allowed without one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, f32, f64, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer
from tests.support.devices import on_devices


def compiled(body, *, element=f32, target="sm_90a", **policy):
    """A kernel of one thread, which stores what `body` gives for three numbers."""
    math = nvb.MathPolicy(**policy) if policy else None
    parameters = [Parameter("x", Pointer(element)), Parameter("out", Pointer(element))]
    k = KernelBuilder("policy", target, threads=32, parameters=parameters, math=math)
    x, out = k.arguments
    out[0] = body(k, x[0], x[1], x[2])
    return k.compile()


def opcodes(kernel):
    """The instructions of the machine code."""
    return re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)", kernel.sass(), re.MULTILINE)


def of_floats(kernel):
    return [one for one in opcodes(kernel) if one.startswith(("F", "H", "MUFU", "D"))]


def test_a_product_and_a_sum_are_two_instructions_and_one_where_contraction_is_allowed():
    def body(k, a, b, c):
        return a * b + c

    assert of_floats(compiled(body)) == ["FMUL", "FADD"]
    assert of_floats(compiled(body, contract=True)) == ["FFMA"]
    assert "fma.rn.f32" in compiled(body, contract=True).ptx
    assert "fma" not in compiled(body).ptx


@pytest.mark.parametrize(("element", "fused"), [(f64, "DFMA"), (f16, "HFMA2")], ids=str)
def test_a_difference_of_other_types_is_contracted_too(element, fused):
    def body(k, a, b, c):
        return c - a * b

    assert [one for one in of_floats(compiled(body, element=element, contract=True)) if "FMA" in one] == [fused]


def test_a_variable_contracts_as_an_operator_does():
    def body(k, a, b, c):
        total = k.var(c)
        total += a * b
        return total

    assert of_floats(compiled(body, contract=True)) == ["FFMA"]


def test_calls_by_name_are_never_contracted():
    kernel = compiled(lambda k, a, b, c: k.math.add(k.math.mul(a, b), c), contract=True)
    assert of_floats(kernel) == ["FMUL", "FADD"]


def test_a_maximum_is_one_instruction():
    assert of_floats(compiled(lambda k, a, b, c: k.math.max(a, b))) == ["FMNMX"]
    assert of_floats(compiled(lambda k, a, b, c: k.math.min(a, b, nan=True))) == ["FMNMX.NAN"]


@pytest.mark.parametrize("how", ["argument", "policy"])
def test_a_power_of_two_that_flushes_is_one_instruction(how):
    argument = {"ftz": True} if how == "argument" else {}
    policy = {"ftz": True} if how == "policy" else {}
    assert of_floats(compiled(lambda k, a, b, c: k.math.exp2(a, **argument), **policy)) == ["MUFU.EX2"]
    assert len(of_floats(compiled(lambda k, a, b, c: k.math.exp2(a)))) > 1


def test_ftz_reaches_operators_series_and_comparisons():
    def body(k, a, b, c):
        return k.select(a < b, k.math.sin(a) * b, k.math.fma(a, b, c))

    text = compiled(body, ftz=True).ptx
    arithmetic = re.findall(r"^\s+((?:add|sub|mul|fma|setp|abs|neg)\.[\w.]*f32)", text, re.MULTILINE)
    assert len(arithmetic) > 10
    assert [one for one in arithmetic if "ftz" not in one and not one.startswith("neg")] == []
    assert ".ftz" not in compiled(body).ptx


@pytest.mark.parametrize(("element", "suffix"), [(f32, "rz.ftz.f32"), (f64, "rz.f64")], ids=str)
def test_a_policy_flushes_rounded_operations_of_f32_alone(element, suffix):
    def body(k, a, b, c):
        return k.math.mul(k.math.add(a, b, rounding="rz"), c, rounding="rz")

    assert re.findall(r"(?:add|mul)\.(rz\S*)", compiled(body, element=element, ftz=True).ptx) == [suffix] * 2
    assert ".ftz" not in compiled(body, element=element).ptx


def test_a_policy_flushes_no_halves():
    def body(k, a, b, c):
        return k.math.fma(k.math.add(a, b), b, c)

    assert re.findall(r"(?:add|fma)\.\S+", compiled(body, element=f16, ftz=True).ptx) == ["add.rn.f16", "fma.rn.f16"]


@pytest.mark.parametrize("policy", [{}, {"ftz": True}], ids=str)
def test_widening_bf16_is_one_fast_instruction(policy):
    """F2F is many times slower than a shift, and a row norm has one for each element."""
    parameters = [Parameter("x", Pointer(bf16)), Parameter("out", Pointer(f32))]
    k = KernelBuilder("widened", "sm_90a", threads=32, parameters=parameters, math=nvb.MathPolicy(**policy))
    x, out = k.arguments
    out[0] = x[0].to(f32)
    names = opcodes(k.compile())
    assert not [name for name in names if name.startswith("F2F")]
    assert len([name for name in names if name.startswith(("SHF", "IMAD.U32", "PRMT"))]) == 1


def test_approximations_are_those_of_the_machine():
    def body(k, a, b, c):
        return k.math.tanh(a) + k.math.sin(b) / k.math.exp(c)

    text = compiled(body, approx=True).ptx
    for instruction in ("tanh.approx.f32", "sin.approx.f32", "ex2.approx.f32", "div.approx.f32"):
        assert instruction in text
    assert "approx" not in compiled(body).ptx
    accurate = compiled(lambda k, a, b, c: k.math.tanh(a, approx=False), approx=True).ptx
    assert "tanh.approx" not in accurate


@on_devices
def test_a_contracted_sum_rounds_once():
    from numba import cuda

    from nvbackend import runtime

    @nvb.kernel("sm_90a", threads=32, math=nvb.MathPolicy(contract=True))
    def fused(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32], n: i32):
        t = k.thread_id()
        with k.if_(t < n):
            out[t] = x[t] * x[t] - 1.0

    x = (1 + np.arange(32) * 2.0**-13).astype(np.float32)
    made = cuda.to_device(np.zeros(32, np.float32))
    kernel = runtime.load(fused.compile())
    kernel.launch(1, cuda.to_device(x), made, 32)
    kernel.synchronize()
    exact = (x.astype(np.float64) ** 2 - 1).astype(np.float32)
    assert np.array_equal(np.array(made.copy_to_host()), exact)
    assert not np.array_equal(x * x - np.float32(1), exact)


def test_a_policy_is_part_of_a_kernel():
    """Compiled again with another policy, the kernel is another one."""

    def body(k, x: nvb.Pointer[f32]):
        x[0] = x[1] * x[2] + x[3]

    texts = [nvb.kernel("sm_90a", threads=32, math=math)(body).compile().ptx for math in (None, nvb.MathPolicy(True))]
    assert ["fma" in text for text in texts] == [False, True]


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(nvb.DiagnosticError, match=r"math = 'fast': it must be an nvb\.MathPolicy"):
        KernelBuilder("k", "sm_90a", threads=32, math="fast")
    with pytest.raises(nvb.DiagnosticError, match=r"call\.argument"):
        nvb.MathPolicy(contract=2)


@pytest.mark.parametrize(
    ("target", "element", "rule", "words"),
    [
        ("sm_75", nvb.f32, "target.feature", "min.NaN.f32"),
        ("sm_75", nvb.f16, "target.feature", "min.NaN.f16"),
        ("sm_90", nvb.f64, "value.operation", "min.NaN"),
        ("sm_75", nvb.f64, "value.operation", "min.NaN"),
        ("sm_80", nvb.f32, None, ""),
        ("sm_80", nvb.bf16, None, ""),
    ],
)
def test_what_takes_nan_over_numbers_is_of_sm_80_and_not_of_f64(target, element, rule, words):
    """PTX ISA, min and max: .NaN needs sm_80, and there is none of .f64."""
    k = KernelBuilder("k", target, threads=32, parameters=[nvb.Parameter("x", nvb.Scalar(element))])
    said = []
    try:
        k.math.min(k.arguments[0], k.arguments[0], nan=True)
    except nvb.DiagnosticError as error:
        said = [(one.rule_id, words in one.message) for one in error.diagnostics]
    assert said == ([] if rule is None else [(rule, True)])
