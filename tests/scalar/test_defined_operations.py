"""Operations that LLVM leaves undefined somewhere: what they give there, and what they cost elsewhere."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.codegen.sass import disassemble
from nvbackend.intrinsics.row.types import (
    ELEMENT_TYPES,
    bf16,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    s32,
    s64,
    tf32,
    u32,
    u64,
    ue8m0,
)
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.scalar import numbers
from tests.scalar.numbers import FLOATS, INTEGERS, NUMBERS
from tests.scalar.specials import constants
from tests.support.host import HostKernel
from tests.support.process import python_output
from tests.support.ptxas import refusals, witnessed

WORDS = [one for one in INTEGERS if one.bits >= 32]


def built(element, body, target="sm_90a"):
    """A kernel of `out`, `a` and `b`, all of `element`: out[0] is what `body` makes of them."""
    parameters = [Parameter("out", Pointer(element)), *(Parameter(name, Scalar(element)) for name in "ab")]
    k = KernelBuilder("defined", target, threads=32, parameters=parameters)
    out, a, b = k.arguments
    out[0] = body(k, a, b)
    return k


def ptx(element, body, target="sm_90a"):
    return built(element, body, target).finish().compile(assemble=False).ptx


def optimised(kernel):
    return HostKernel(kernel, kernel.compile(assemble=False).optimized_ir)


@pytest.mark.parametrize("element", WORDS, ids=str)
def test_a_guarded_division_keeps_its_guard(element):
    """LLVM takes out a guard that could only be false where a division has no meaning."""
    kernel = optimised(built(element, lambda k, a, b: k.select(b != 0, a // b, 77)).finish())
    out = np.zeros(1, numbers.dtype(element))
    for a, b, expected in ((12, 5, 2), (12, 0, 77), (0, 0, 77)):
        kernel(out, a, b)
        assert out[0] == expected


@pytest.mark.parametrize("element", WORDS, ids=str)
@pytest.mark.parametrize("name", ["floordiv", "mod"])
def test_division_by_zero_is_all_ones_and_the_lowest_number_wraps(element, name):
    kernel = optimised(built(element, lambda k, a, b: getattr(operator, name)(a, b)).finish())
    out = np.zeros(1, numbers.dtype(element))
    for a in (0, 1, 5, (1 << element.bits - 1) - 1):
        kernel(out, a, 0)
        assert out[0] == numbers.wrap(-1, element)
    if element.is_signed:
        lowest = -(1 << element.bits - 1)
        kernel(out, lowest, -1)
        assert out[0] == (lowest if name == "floordiv" else 0)


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_what_is_known_at_build_time_is_the_same_as_what_is_not(element):
    lowest = -(1 << element.bits - 1) if element.is_signed else 0
    k = KernelBuilder("known", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(s64))])
    low, minus, three = (k.const(number, element) for number in (lowest, numbers.wrap(-1, element), 3))
    for a, b in ((low, minus), (low, three), (minus, three)):
        for name, operation in (("//", operator.floordiv), ("%", operator.mod), ("-", operator.sub)):
            rows = [np.array([one.constant], numbers.dtype(element)) for one in (a, b)]
            assert operation(a, b).constant == numbers.binary(name, element, *rows)[0]


@pytest.mark.parametrize("element", [f16, bf16, tf32, f32, f64], ids=str)
def test_a_constant_is_rounded_once(element):
    given = constants(element)
    k = KernelBuilder("constants", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(element))])
    for place, number in enumerate(given):
        k.arguments[0][place] = k.const(number, element)
    out = np.zeros(len(given), numbers.dtype(element))
    HostKernel(k.finish())(out)
    with np.errstate(all="ignore"):
        expected = numbers.converted(f64, element, np.array(given)) if element is not f64 else np.array(given)
    different = np.flatnonzero(~numbers.same(element, out, expected))
    assert [(given[place], out[place], expected[place]) for place in different] == []


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_a_negation_changes_the_sign_of_zero_too(element):
    """IEEE 754, 5.5.1: negate changes the sign bit and nothing else, at build time as at run time."""
    parameters = [Parameter("out", Pointer(element)), Parameter("given", Pointer(element))]
    k = KernelBuilder("negated", "sm_90a", threads=32, parameters=parameters)
    out, given = k.arguments
    tried = (0.0, -0.0, 1.5, -2.0, float("inf"), -float("inf"))
    for place, number in enumerate(tried):
        out[2 * place], out[2 * place + 1] = -given[place], -k.const(number, element)
    found, numbers_given = np.zeros(2 * len(tried), numbers.dtype(element)), np.array(tried, numbers.dtype(element))
    optimised(k.finish())(found, numbers_given)
    width = 8 * found.itemsize
    assert numbers.bits_of(found).tolist() == [
        int(one) ^ 1 << width - 1 for one in numbers.bits_of(numbers_given) for _ in "xx"
    ]


@pytest.mark.parametrize(("divisor", "instructions"), [(7, "mul.hi"), (8, "shr")])
def test_a_constant_divisor_is_no_division_and_has_no_guard(divisor, instructions):
    text = ptx(u32, lambda k, a, b: a // divisor)
    assert instructions in text
    assert not [word for word in ("div", "setp", "selp") if f"\t{word}." in text]


@pytest.mark.parametrize(
    ("element", "operation", "instruction"),
    [(u32, operator.lshift, "shl.b32"), (u32, operator.rshift, "shr.u32"), (s32, operator.lshift, "shl.b32")],
)
def test_a_shift_by_a_run_time_amount_is_one_instruction(element, operation, instruction):
    text = ptx(element, lambda k, a, b: operation(a, b))
    assert instruction in text
    assert not [word for word in ("setp", "selp", "min") if f"\t{word}." in text]


@pytest.mark.parametrize("operation", [operator.lshift, operator.rshift])
def test_the_upper_half_of_a_shift_amount_counts(operation):
    """The instruction reads 32 bits of the amount: 2^32 would be 0. Of a select LLVM may make one that does so."""
    text = ptx(u64, lambda k, a, b: operation(a, b))
    assert "min.u64" in text
    assert "selp" not in text


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_extremes_are_one_instruction(element, name):
    text = ptx(element, lambda k, a, b: getattr(k.math, name)(a, b))
    assert f"\t{name}.{element} " in text
    assert not [word for word in ("setp", "selp", "cvt") if f"\t{word}." in text.replace("cvta", "")]
    if element is not f64:
        assert f"\t{name}.NaN.{element} " in ptx(element, lambda k, a, b: getattr(k.math, name)(a, b, nan=True))


def test_the_extreme_of_f32_is_one_instruction_of_the_chip():
    sass = disassemble(built(f32, lambda k, a, b: k.math.max(a, b)).compile().cubin.data)
    assert "FMNMX" in sass
    assert "FSETP" not in sass


_REGISTERS = ".reg .b16 %h<3>; .reg .b16 %b<3>; .reg .f32 %f<3>; .reg .f64 %d<3>;"
_NAN_FORMS = {
    f16: "max.NaN.f16 %h0, %h1, %h2;",
    bf16: "max.NaN.bf16 %b0, %b1, %b2;",
    f32: "max.NaN.f32 %f0, %f1, %f2;",
    f64: "max.NaN.f64 %d0, %d1, %d2;",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", witnessed(), ids=str)
def test_the_form_that_keeps_nan_is_there_where_ptxas_has_it(target):
    version = ".".join(map(str, target.ptx_version))
    said = refusals(list(_NAN_FORMS.values()), _REGISTERS, target.name, version)
    for element, refusal in zip(_NAN_FORMS, said, strict=True):
        try:
            built(element, lambda k, a, b: k.math.max(a, b, nan=True), target.name)
            refused = ""
        except nvb.DiagnosticError as error:
            refused = error.diagnostics[0].rule_id
        assert refused == ("" if not refusal else "value.operation" if element is f64 else "target.feature")


@pytest.mark.parametrize("element", [one for one in ELEMENT_TYPES if one not in NUMBERS or one is tf32], ids=str)
@pytest.mark.parametrize("name", ["add", "mul", "lt", "eq", "ne", "ge", "neg", "min", "max"])
def test_what_has_no_arithmetic_has_no_comparisons_either(element, name):
    if element in (e4m3, e5m2, ue8m0):
        parameters = [Parameter("x", Pointer(element))]
        k = KernelBuilder("packed", "sm_90a", threads=32, parameters=parameters)
        a = k.arguments[0][0]
    else:
        k = KernelBuilder("packed", "sm_90a", threads=32)
        a = k.core.wrap(_zero(k, element), element)
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(k.math, name)(a, a) if name in ("min", "max") else getattr(operator, name)(
            *(a, a)[: 1 + (name != "neg")]
        )
    assert {one.rule_id for one in caught.value.diagnostics} == {"value.operation"}


def _zero(k, element):
    word = k.thread_id()
    if element.llvm == "float":
        return word.bitcast(f32).ir
    return word.to(nvb.u8).ir if element.llvm == "i8" else word.ir


def test_bits_of_one_half_float_as_another_are_compared_without_ending_the_process():
    """LLVM 22.1 stops in an assertion where it sees that both are floats."""
    program = """
import nvbackend as nvb

parameters = [nvb.Parameter(name, nvb.Pointer(kind)) for name, kind in zip("xyz", (nvb.f16, nvb.bf16, nvb.i32))]
k = nvb.KernelBuilder("recast", "sm_90a", threads=32, parameters=parameters)
x, y, z = k.arguments
z[0] = (x[0].bitcast(nvb.bf16) != 0.0).to(nvb.i32) + (y[0].bitcast(nvb.f16) == 0.0).to(nvb.i32)
print(k.finish().compile(assemble=False).ptx.count("setp"))
"""
    assert int(python_output(program)) > 0
