"""`.to()` of every ordered pair of element types: NumPy's value for every special number, or a diagnostic.

The values of floats of 8 bits and less: tests/gpu/test_named_conversions.py.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.lower.conversions import llvm_type, width
from nvbackend.intrinsics.row.types import (
    ELEMENT_TYPES,
    b1,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    pred,
    s4,
    s8,
    s64,
    tf32,
    u4,
    u8,
    u64,
    ue4m3,
    ue8m0,
)
from nvbackend.signature import Parameter, Pointer
from tests.scalar import numbers
from tests.scalar.numbers import NUMBERS
from tests.scalar.specials import every_special
from tests.support.devices import on_devices
from tests.support.host import HostKernel

PAIRS = list(itertools.permutations(ELEMENT_TYPES, 2))
CONVERTED = [(a, b) for a, b in PAIRS if a in NUMBERS and b in NUMBERS and b is not pred]
BYTES, NARROWER = {e4m3, e5m2, ue4m3}, {e2m3, e3m2, e2m1, ue8m0}
THREADS = 1024


def conversion(pairs, target="sm_90a"):
    """A kernel that reads elements of each source and writes them as the other type, a column for each pair."""
    parameters = [Parameter("given", Pointer(u64, align=16)), Parameter("out", Pointer(u64, align=16))]
    k = KernelBuilder("conversion", target, threads=THREADS, parameters=parameters)
    given, out = k.arguments
    row = k.thread_id().to(s64)
    for place, (source, element) in enumerate(pairs):
        at = given + (row + place * THREADS)
        if source is pred:
            value = at.cast(u8)[0] != 0
        else:
            value = at.cast(u8)[0].to(source) if source in (s4, u4) else at.cast(source)[0]
        made = value.to(element)
        made = made.to(s8 if element is s4 else u8) if element in (s4, u4) else made
        (out + (row + place * THREADS)).cast(made.type)[0] = made
    return k.finish()


def columns(pairs):
    """The special values of each source, as words, and how many there are."""
    table = np.zeros((len(pairs), THREADS), np.uint64)
    values = [every_special(source) for source, _ in pairs]
    for place, column in enumerate(values):
        assert len(column) <= THREADS
        table[place, : len(column)] = numbers.bits_of(column)
    return table, values


def wrong(pairs, values, out):
    for place, ((source, element), column) in enumerate(zip(pairs, values, strict=True)):
        with np.errstate(all="ignore"):
            expected = numbers.converted(source, element, column)
        got = numbers.from_bits(element, out[place, : len(column)] & np.uint64((1 << 8 * expected.itemsize) - 1))
        for number in np.flatnonzero(~numbers.same(element, got, expected)):
            yield f"{source} {column[number]!r} to {element}: {got[number]!r}, not {expected[number]!r}"


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_every_special_number_of_every_pair(target):
    pairs = [pair for pair in CONVERTED if not (target == "sm_75" and tf32 in pair)]
    table, values = columns(pairs)
    out = np.zeros_like(table)
    HostKernel(conversion(pairs, target))(table, out, threads=max(map(len, values)))
    assert list(wrong(pairs, values, out)) == []


@on_devices
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_every_special_number_of_every_pair_on_a_gpu(target):
    from numba import cuda

    from nvbackend import runtime

    pairs = [pair for pair in CONVERTED if not (target == "sm_75" and tf32 in pair)]
    table, values = columns(pairs)
    out = cuda.to_device(np.zeros_like(table))
    kernel = runtime.load(conversion(pairs, target).compile(assemble=target == "sm_90a"))
    kernel.launch(1, cuda.to_device(table), out)
    kernel.synchronize()
    assert list(wrong(pairs, values, out.copy_to_host())) == []


def refused(pair, target):
    """The rule that refuses a pair on a target, None if it is converted.

    PTX ISA 9.7.9 (cvt): e4m3 and e5m2 need sm_89, narrower floats and ue8m0 a suffix of sm_100 or later; ue4m3 is an
    e4m3 without a sign. tf32 needs sm_80. Single bits are no numbers, and a predicate is had by a comparison.
    """
    if b1 in pair or pair[1] is pred:
        return "value.operation"
    newer = {"sm_75": {*BYTES, *NARROWER}, "sm_89": NARROWER, "sm_90a": NARROWER, "sm_100a": set()}[target]
    if newer.intersection(pair):
        return "target.feature"
    return "value.operation" if pair[1] is tf32 and target == "sm_75" else None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_a_pair_is_converted_or_refused(pair):
    source, element = pair
    for target in ("sm_75", "sm_89", "sm_90a", "sm_100a"):
        k = KernelBuilder("pair", target, threads=32)
        value = _value(k, source)
        if (rule := refused(pair, target)) is None:
            assert value.to(element).type is element
            continue
        with pytest.raises(nvb.DiagnosticError) as caught:
            value.to(element)
        assert [one.rule_id for one in caught.value.diagnostics] == [rule], target


def _value(k, source):
    """A run-time value of `source`, of a word's bits."""
    bits, kind = k.thread_id().ir, llvm_type(source)
    if source.llvm in ("i64", "double"):
        bits = k.core.llvm.zext(bits, ir.IntType(64))
    elif kind != bits.type and source.llvm != "float":
        bits = k.core.llvm.trunc(bits, ir.IntType(width(source)))
    return k.core.wrap(bits if bits.type == kind else k.core.llvm.bitcast(bits, kind), source)


def test_tf32_is_refused_where_no_chip_has_it():
    k = KernelBuilder("old", "sm_75", threads=32, parameters=[Parameter("x", Pointer(f32))])
    with pytest.raises(nvb.DiagnosticError, match=r"conversion to tf32 is not defined for f32 on sm_75"):
        k.arguments[0][0].to(tf32)


@pytest.mark.parametrize("source", [f16, f32, f64])
def test_saturation_is_that_of_the_issue(source):
    """300.0 to s8 is 127: the store is there, at build time and at run time."""
    k = KernelBuilder("saturated", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(s8))])
    (out,) = k.arguments
    out[0] = k.const(300.0, source).to(s8)
    out[1] = k.var(k.const(-300.0, source)).to(s8)
    out[2] = k.const(float("nan"), source).to(s8)
    found = np.full(3, 77, np.int8)
    HostKernel(k.finish())(found)
    assert found.tolist() == [127, -128, -128 if source is f64 else 0]


INTEGERS = {
    element: (-(1 << element.bits - 1), (1 << element.bits - 1) - 1)
    if element.is_signed
    else (0, (1 << element.bits) - 1)
    for element in ELEMENT_TYPES
    if element.is_integer and element not in (b1, pred)
}
"""The integer types, each with the lowest and the highest of its numbers."""


def test_an_integer_that_saturates_stops_at_the_ends_of_the_other_type():
    """Each type to each other one, at the ends of all and beside them: at run time, and at build time."""
    parameters = [Parameter("given", Pointer(u64, align=16)), Parameter("out", Pointer(s64, align=16))]
    k = KernelBuilder("stopped", "sm_90a", threads=32, parameters=parameters)
    given, out = k.arguments
    word, pairs = given[0], list(itertools.permutations(INTEGERS, 2))
    for place, (source, element) in enumerate(pairs):
        out[place] = word.to(source).to(element, saturate=True).to(s64)
    finished, found = HostKernel(k.finish()), np.zeros(len(pairs), np.int64)
    other = KernelBuilder("constants", "sm_90a", threads=32, parameters=[])
    for number in {end + step for ends in INTEGERS.values() for end in ends for step in (-2, -1, 0, 1, 2)}:
        finished(np.array([number % 2**64], np.uint64), found)
        for (source, element), stopped in zip(pairs, found.tolist(), strict=True):
            (first, last), (low, high) = INTEGERS[source], INTEGERS[element]
            start = (number - first) % (last - first + 1) + first
            expected = min(max(start, low), high)
            assert stopped % 2**64 == expected % 2**64, (source, element, number)
            constant = other.const(start, source).to(element, saturate=True).ir.constant
            assert (constant - expected) % 2**element.bits == 0, (source, element, number)


def test_integers_of_four_bits_wrap_in_registers_as_they_do_in_constants():
    parameters = [Parameter("given", Pointer(s8)), Parameter("out", Pointer(s8))]
    k = KernelBuilder("nibbles", "sm_90a", threads=32, parameters=parameters)
    given, out = k.arguments
    known, read = k.const(7, s4) + 1, given[0].to(s4) + 1
    out[0], out[1] = known.to(s8), read.to(s8)
    out[2], out[3] = k.const(200, nvb.s16).to(u4).to(s8), given[1].to(u4).to(s8)
    out[4], out[5] = k.const(-1, s4).bitcast(u4).to(s8), (given[0].to(s4) + -8).bitcast(u4).to(s8)
    found = np.zeros(6, np.int8)
    HostKernel(k.finish())(np.array([7, 200 - 256], np.int8), found)
    assert found.tolist() == [-8, -8, 8, 8, 15, 15]
