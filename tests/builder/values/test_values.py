"""Operators of run-time values, against Python's own arithmetic: the same IR, run on this machine's processor."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import f16, f32, f64, i32, i64, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.lower.conversions import is_packed
from nvbackend.builder.ops.math.functions import Math
from nvbackend.builder.values.values import as_value
from nvbackend.intrinsics.row.types import BY_NAME, ELEMENT_TYPES, pred
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.host import run_on_host
from tests.support.said import said

INTEGERS = st.integers(-(2**31), 2**31 - 1)
DIVISORS = INTEGERS.filter(lambda number: number not in (0, -1))


def binary(operation, element, result):
    """A kernel that writes `operation(a, b)` to out[0]."""
    parameters = [Parameter("out", Pointer(result)), Parameter("a", Scalar(element)), Parameter("b", Scalar(element))]
    k = KernelBuilder("binary", "sm_90a", threads=32, parameters=parameters)
    out, a, b = k.arguments
    out[0] = operation(a, b)
    return k.finish()


def evaluate(kernel, kind, a, b):
    out = np.zeros(1, kind)
    run_on_host(kernel, out, a, b)
    return out[0]


def wrapped(number):
    return (number + 2**31) % 2**32 - 2**31


FLOOR = {name: binary(getattr(operator, name), i32, i32) for name in ("floordiv", "mod")}
RING = {name: binary(getattr(operator, name), i32, i32) for name in ("add", "sub", "mul", "and_", "or_", "xor")}


@settings(max_examples=60, deadline=None)
@given(INTEGERS, DIVISORS)
@pytest.mark.parametrize("name", FLOOR)
def test_division_rounds_towards_minus_infinity_as_in_python(name, a, b):
    assert evaluate(FLOOR[name], np.int32, a, b) == getattr(operator, name)(a, b)


@settings(max_examples=40, deadline=None)
@given(INTEGERS, INTEGERS)
@pytest.mark.parametrize("name", RING)
def test_integer_arithmetic_wraps_at_32_bits(name, a, b):
    assert evaluate(RING[name], np.int32, a, b) == wrapped(getattr(operator, name)(a, b))


@pytest.mark.parametrize("element", [i32, u32, i64], ids=str)
def test_what_changes_nothing_gives_the_value_itself(element):
    """It lives on in its own block, also where the operator stands in another that has ended."""
    k = KernelBuilder("k", "sm_90a", threads=32, parameters=[Parameter("x", Scalar(element))])
    (x,) = k.arguments
    with k.if_(x > 0):
        same = [x + 0, 0 + x, x - 0, x | 0, 0 | x, x ^ 0, 0 ^ x, x << 0, x >> 0, x * 1, 1 * x, x // 1]
        other = 0 - x
    assert all(one is x for one in same)
    assert [one + 1 is not x for one in same]
    with pytest.raises(nvb.DiagnosticError, match=r"value\.scope"):
        other + 1


PLAIN = [one for one in ELEMENT_TYPES if one.bits >= 8 and not is_packed(one)]


@pytest.mark.parametrize("given", PLAIN, ids=str)
def test_what_a_value_of_another_type_is_advised(given):
    """Bits are kept of a float only, where an integer is wanted; a predicate is a comparison."""
    k = KernelBuilder("k", "sm_90a", threads=32, parameters=[Parameter("x", Pointer(given))])
    value = k.arguments[0][0]
    for wanted in [*PLAIN, pred]:
        if wanted is given:
            assert as_value(k.core, value, wanted) is value
            continue
        with pytest.raises(nvb.DiagnosticError, match=f"expected {wanted}, but the value is {given}") as caught:
            as_value(k.core, value, wanted)
        (found,) = caught.value.diagnostics
        assert ("compare it with 0" in found.fix) is (wanted is pred)
        assert (f".to({wanted})" in found.fix) is (wanted is not pred)
        assert (".bitcast" in found.fix) is (wanted.is_integer and "f" in str(given))


@pytest.mark.parametrize("divisor", [1, 2, 8, 1024, 3, 7, 100, -5])
def test_division_by_a_constant(divisor):
    quotient = binary(lambda a, b: a // divisor, i32, i32)
    remainder = binary(lambda a, b: a % divisor, i32, i32)
    for number in (0, 1, -1, 7, -7, 12345, -12345, 2**31 - 1, -(2**31)):
        assert evaluate(quotient, np.int32, number, 0) == number // divisor
        assert evaluate(remainder, np.int32, number, 0) == number % divisor


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("element", [i32, u32, f32])
def test_comparisons_know_their_sign(name, element):
    kernel = binary(lambda a, b: getattr(operator, name)(a, b).to(i32), element, i32)
    low = 0 if element is u32 else -5
    for a, b in ((3, 4), (4, 4), (low, 2), (2, low), (2**31 - 1, low)):
        assert evaluate(kernel, np.int32, a, b) == getattr(operator, name)(a, b)


def test_unsigned_comparison_of_large_numbers():
    kernel = binary(lambda a, b: (a < b).to(i32), u32, i32)
    assert evaluate(kernel, np.int32, 2**32 - 1, 1) == 0


def test_float_arithmetic_and_fma():
    kernel = binary(lambda a, b: (a - b) * 2.0 + a / b, f64, f64)
    assert evaluate(kernel, np.float64, 3.0, 4.0) == (3.0 - 4.0) * 2.0 + 3.0 / 4.0
    fused = binary(lambda a, b: Math(a._k).fma(a, b, -9.0), f64, f64)
    assert evaluate(fused, np.float64, 2.0, 5.0) == 1.0


def test_conversions_follow_numpy():
    kernel = binary(lambda a, b: (a + b).to(f16).to(f32), f32, f32)
    assert evaluate(kernel, np.float32, 1.0, 0.0004) == np.float32(np.float16(np.float32(1.0) + np.float32(0.0004)))
    truncated = binary(lambda a, b: (a * b).to(i32), f32, i32)
    assert evaluate(truncated, np.int32, -2.5, 1.5) == -3
    widened = binary(lambda a, b: a.to(i64) * b.to(i64), i32, i64)
    assert evaluate(widened, np.int64, -(2**31), 2**31 - 1) == -(2**31) * (2**31 - 1)
    extended = binary(lambda a, b: (a + b).to(i64), u32, i64)
    assert evaluate(extended, np.int64, 2**32 - 1, 0) == 2**32 - 1


def test_bitcast_keeps_the_bits():
    kernel = binary(lambda a, b: a.bitcast(u32), f32, u32)
    assert evaluate(kernel, np.uint32, 1.5, 0.0) == np.float32(1.5).view(np.uint32)


INTEGER_TYPES = {f"{letter}{bits}": (letter, bits) for letter in "su" for bits in (4, 8, 16, 32, 64)}


@pytest.mark.parametrize("source", INTEGER_TYPES)
def test_an_integer_constant_stays_one_in_every_type(source):
    """Two's complement, by Python's integers."""
    k = KernelBuilder("constants", "sm_90a", threads=32)
    letter, bits = INTEGER_TYPES[source]
    least = -(1 << bits - 1) if letter == "s" else 0
    for number in {least, least + 1, -(least < 0), 0, 1, (1 << bits) + least - 1, ((1 << bits) + least - 1) // 3}:
        for name, (to, width) in INTEGER_TYPES.items():
            wrapped = number & (1 << width) - 1
            wanted = wrapped - (1 << width) if to == "s" and wrapped >> width - 1 else wrapped
            value = k.const(number, BY_NAME[source])
            assert value.to(BY_NAME[name]).constant == wanted
            if width == bits:
                assert value.bitcast(BY_NAME[name]).constant == wanted


def test_bfloat_constants_are_rounded_to_nearest_even():
    for number in (1.0, -2.5, 3.14159, 1.00390625, 1.01171875):
        k = KernelBuilder("bf", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(nvb.u16))])
        (out,) = k.arguments
        out[0] = k.const(number, nvb.bf16).bitcast(nvb.u16)
        found = np.zeros(1, np.uint16)
        run_on_host(k.finish(), found)
        ml_dtypes = pytest.importorskip("ml_dtypes")
        assert found[0] == np.array(number).astype(ml_dtypes.bfloat16).view(np.uint16)


@pytest.mark.parametrize(
    ("broken", "rule", "says"),
    [
        (lambda k, a, f: a + f, "value.type", "s32 and f32"),
        (lambda k, a, f: a / a, "value.operation", "use //"),
        (lambda k, a, f: f << 1, "value.operation", "<<"),
        (lambda k, a, f: a + 2**40, "value.constant", str(2**31 - 1)),
        (lambda k, a, f: a + 0.5, "value.constant", "0.5"),
        (lambda k, a, f: a % 0, "value.constant", "divisor"),
        (lambda k, a, f: a << 32, "value.constant", "0 to 31"),
        (lambda k, a, f: a >> -1, "value.constant", "0 to 31"),
        (lambda k, a, f: k.const(1, i64) << -1, "value.constant", "0 to 63"),
        (lambda k, a, f: k.const(65536.0, f16), "value.constant", "65504.0"),
        (lambda k, a, f: k.const(-1e39, nvb.bf16), "value.constant", "-1e+39"),
        (lambda k, a, f: f * 1e39, "value.constant", "f32"),
        (lambda k, a, f: k.const(10**400, f64), "value.constant", "f64"),
        (lambda k, a, f: k.const(1.0, nvb.e4m3), "value.operation", ".to(nvb.e4m3)"),
        (lambda k, a, f: bool(a < 3), "value.truth", "k.if_"),
        (lambda k, a, f: f"{a}", "value.number", 'k.print("{}", value)'),
        (lambda k, a, f: f"{k.var(0)}", "value.number", 'k.print("{}", value)'),
        (lambda k, a, f: f"{f:.3f}", "value.number", "with '.3f'"),
        (lambda k, a, f: k.static_assert(a > 0), "static-assert.unknown", "whether <pred"),
        (lambda k, a, f: k.select(a, 1, 2), "value.type", "pred"),
        (lambda k, a, f: k.var("x"), "value.kind", "'x'"),
        (lambda k, a, f: k.var(k.math.exp, f32), "value.kind", "call it: exp(...)"),
        (lambda k, a, f: k.shared(i32, 32)[k.lane_id], "value.kind", "call it: k.lane_id()"),
        (lambda k, a, f: a.bitcast(i64), "value.operation", "64 bits"),
    ],
)
def test_misuse_is_a_diagnostic_at_the_line(broken, rule, says):
    parameters = [Parameter("a", Scalar(i32)), Parameter("f", Scalar(f32))]
    k = KernelBuilder("misuse", "sm_90a", threads=32, parameters=parameters)
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(k, *k.arguments)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == rule
    assert says in said(diagnostic)
    assert diagnostic.location is not None and diagnostic.location.file == __file__


def test_infinity_and_the_largest_numbers_are_constants():
    parameters = [Parameter("out", Pointer(f32))]
    k = KernelBuilder("constants", "sm_90a", threads=32, parameters=parameters)
    (out,) = k.arguments
    numbers = [float("inf"), -float("inf"), float(np.finfo(np.float32).max), float("nan")]
    for index, number in enumerate(numbers):
        out[index] = number
    out[4] = k.const(65504, f16).to(f32)
    found = np.zeros(5, np.float32)
    run_on_host(k.finish(), found)
    assert np.array_equal(found, np.array([*numbers, 65504], np.float32), equal_nan=True)


def test_addresses_are_no_sequences():
    """Python would ask for elements 0, 1, 2, ... and never come to an end."""
    k = KernelBuilder("sequence", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(i32))])
    (out,) = k.arguments
    with pytest.raises(TypeError, match="not iterable"):
        list(out)


def test_a_value_of_another_kernel_is_refused():
    one, two = (
        KernelBuilder(name, "sm_90a", threads=32, parameters=[Parameter("a", Scalar(i32))]) for name in ("one", "two")
    )
    with pytest.raises(nvb.DiagnosticError, match="kernel one is used in kernel two") as caught:
        two.var(one.arguments[0])
    assert caught.value.diagnostics[0].rule_id == "value.kernel"


@pytest.mark.parametrize("element", [nvb.u8, nvb.s16, nvb.s32, nvb.u32, nvb.s64, nvb.u64, nvb.f32, nvb.pred], ids=str)
@pytest.mark.parametrize("largest", [0, 1 << 31, 1 << 32, 1 << 40])
def test_an_index_is_widened_only_where_its_type_does_not_hold_the_largest(element, largest):
    k = KernelBuilder("widened", "sm_90a", threads=32)
    thread = k.thread_id()
    value = thread < 1 if element is nvb.pred else thread.to(element)
    for most in (largest, largest - 1):
        holds = element.is_integer and element.bits >= 32 and most < 1 << element.bits - element.is_signed
        wider = nvb.s32 if most < 1 << 31 else nvb.s64
        made = value.widened(most)
        assert made.type is (element if holds or not element.is_integer else wider)
        assert (made is value) == (made.type is element)
