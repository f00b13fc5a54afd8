"""Conversions of single numbers, against rational numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from nvbackend.simulator.scalar import find
from tests.simulator.scalar.grids import GRIDS
from tests.simulator.scalar.integer_meaning import signed
from tests.simulator.scalar.operands import computed, random_operands

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = tuple(f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64))
TO_INTEGER = ("rni", "rzi", "rmi", "rpi")
TO_FLOAT = ("rn", "rz", "rm", "rp")


def whole(number: Fraction, mode: str) -> int:
    return {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](number)


def limits(kind):
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


@pytest.mark.parametrize("mode", TO_INTEGER)
@pytest.mark.parametrize("source", FLOATS)
def test_floats_to_integers(source, mode):
    for to in INTEGERS:
        assert_to_integer(to, source, mode)


def assert_to_integer(to, source, mode):
    grid, bits = GRIDS[source], int(to[1:])
    (a,) = random_operands(f"cvt.{mode}.{to}.{source}")
    (found,) = computed(f"cvt.{mode}.{to}.{source}", a)
    low, high = limits(to)
    for code, got in zip(a.tolist(), found.tolist(), strict=True):
        value = grid.value(code)
        if math.isnan(value):
            expected = 1 << (bits - 1) if source == "f64" or bits == 64 else 0
        elif math.isinf(value):
            expected = high if value > 0 else low
        else:
            expected = min(max(whole(Fraction(value), mode), low), high)
        assert got == expected & ((1 << bits) - 1), (value, hex(got), expected)


@pytest.mark.parametrize("mode", TO_FLOAT)
@pytest.mark.parametrize("to", FLOATS)
def test_integers_to_floats(to, mode):
    for source in INTEGERS:
        assert_from_integer(to, source, mode)


def assert_from_integer(to, source, mode):
    grid, bits = GRIDS[to], int(source[1:])
    (a,) = random_operands(f"cvt.{mode}.{to}.{source}")
    (found,) = computed(f"cvt.{mode}.{to}.{source}", a)
    for one, got in zip(a.tolist(), found.tolist(), strict=True):
        number = signed(one, bits) if source[0] == "s" else one
        assert got == grid.rounded(Fraction(number), mode), (number, hex(got))


KEEP_PAYLOADS = {("f32", "bf16"), ("f32", "f64"), ("f16", "f64"), ("bf16", "f64")}
FIELDS = {"f64": (63, 52), "f32": (31, 23), "f16": (15, 10), "bf16": (15, 7)}
"""The places of a sign, and how many bits a mantissa has."""


def with_payload(to, source, code):
    """The same NaN in another format; one of f64 is made quiet."""
    (sign, digits), (new_sign, new_digits) = FIELDS[source], FIELDS[to]
    payload = code & ((1 << digits) - 1)
    payload = payload << (new_digits - digits) if new_digits > digits else payload >> (digits - new_digits)
    quiet = 1 << (new_digits - 1) if source == "f64" else 0
    return (code >> sign) << new_sign | (GRIDS[to].largest + 1) | payload | quiet


def converted(to, source, mode, code, *, saturate=False):
    value = GRIDS[source].value(code)
    grid = GRIDS[to]
    if math.isnan(value):
        return with_payload(to, source, code) if (to, source) in KEEP_PAYLOADS else grid.nan
    if math.isinf(value):
        return grid.largest | (grid.sign if value < 0 else 0) if saturate else grid.special(value)
    return grid.rounded(Fraction(value), mode, negative=math.copysign(1, value) < 0, saturate=saturate)


NARROWER = [("f32", "f64"), ("f16", "f64"), ("bf16", "f64"), ("f16", "f32"), ("bf16", "f32"), ("bf16", "f16")]
WIDER = [(source, to) for to, source in NARROWER if (to, source) != ("bf16", "f16")]


@pytest.mark.parametrize("mode", TO_FLOAT)
@pytest.mark.parametrize(("to", "source"), NARROWER)
def test_floats_to_narrower_floats(to, source, mode):
    (a,) = random_operands(f"cvt.{mode}.{to}.{source}")
    (found,) = computed(f"cvt.{mode}.{to}.{source}", a)
    assert found.tolist() == [converted(to, source, mode, code) for code in a.tolist()]


@pytest.mark.parametrize(("to", "source"), WIDER)
def test_floats_to_wider_floats(to, source):
    (a,) = random_operands(f"cvt.{to}.{source}")
    (found,) = computed(f"cvt.{to}.{source}", a)
    assert found.tolist() == [converted(to, source, "rn", code) for code in a.tolist()]


@pytest.mark.parametrize("mode", TO_INTEGER)
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_to_whole_floats(kind, mode):
    grid = GRIDS[kind]
    (a,) = random_operands(f"cvt.{mode}.{kind}.{kind}")
    (found,) = computed(f"cvt.{mode}.{kind}.{kind}", a)
    for code, got in zip(a.tolist(), found.tolist(), strict=True):
        value = grid.value(code)
        if math.isfinite(value):
            number = Fraction(whole(Fraction(value), mode))
            assert got == grid.rounded(number, "rn", negative=math.copysign(1, value) < 0)
        else:
            assert got == grid.special(value)


def test_flushing_and_clamping():
    tiny = np.array([1, 0x807FFFFF, 0x3F800001, 0xBF800000, 0x7FC00000], np.uint32)
    one = 0x3F800000
    assert computed("cvt.ftz.f32.f32", tiny)[0].tolist() == [0, 0x80000000, one + 1, 0xBF800000, 0x7FFFFFFF]
    assert computed("cvt.sat.f32.f32", tiny)[0].tolist() == [1, 0, one, 0, 0]
    assert computed("cvt.rpi.s32.f32", tiny)[0].tolist() == [1, 0, 2, 0xFFFFFFFF, 0]
    assert computed("cvt.rpi.ftz.s32.f32", tiny)[0].tolist() == [0, 0, 2, 0xFFFFFFFF, 0]
    small = np.array([2.0**-130, -(2.0**-130), 3.0], np.float64).view(np.uint64)
    assert computed("cvt.rn.ftz.f32.f64", small)[0].tolist() == [0, 0x80000000, 0x40400000]
    assert computed("cvt.rp.ftz.f16.f32", tiny)[0].tolist() == [1, 0x8000, 0x3C01, 0xBC00, 0x7FFF]
    assert computed("cvt.rn.ftz.sat.f16.f32", tiny)[0].tolist() == [0, 0, 0x3C00, 0, 0]
    bf16 = np.array([1, 0x8001, 0x7F81], np.uint16)
    assert computed("cvt.ftz.f32.bf16", bf16)[0].tolist() == [0, 0x80000000, 0x7FFFFFFF]


@pytest.mark.parametrize("mode", TO_FLOAT)
def test_an_f64_is_flushed_if_24_bits_of_it_are_less_than_the_least_f32(mode):
    least, step = Fraction(1, 2**126), Fraction(1, 2**152)
    numbers = [least - count * step for count in (0, 1, 2, 3, 5, 6, 2**10)]
    numbers += [-one for one in numbers]
    a = np.array([float(one) for one in numbers]).view(np.uint64)
    (found,) = computed(f"cvt.{mode}.ftz.f32.f64", a)
    for number, got in zip(numbers, found.tolist(), strict=True):
        away = {"rn": None, "rz": False, "rm": number < 0, "rp": number > 0}[mode]
        near = abs(number) + (2 * step if away is None else 4 * step * away)  # what rounding may add to 24 bits
        sign = 0x80000000 if number < 0 else 0
        is_kept = abs(number) >= least or (near >= least and away is not False)
        assert got == (sign | 0x00800000 if is_kept else sign), (float(number), hex(got))


def tf32(code, mode, *, saturate=False):
    """By the integer of an f32's bits: 13 of them go."""
    size, sign = code & 0x7FFFFFFF, code & 0x80000000
    if size > 0x7F800000 and mode != "rna":
        return 0x7FFFFFFF
    if size > 0x7F800000:  # its lower digits are cut off; satfinite takes the number below
        return (code & ~0x1FFF) - (0x2000 if saturate else 0)
    rest = size & 0x1FFF
    up = {"rna": rest >= 0x1000, "rn": rest + (size >> 13 & 1) > 0x1000, "rz": False}[mode]
    found = (size & ~0x1FFF) + (0x2000 if up else 0)
    if saturate and found >= 0x7F800000:
        found = 0x7F7FE000
    return sign | found


@pytest.mark.parametrize("modifiers", ["rna", "rna.satfinite", "rn", "rz", "rn.satfinite", "rn.relu", "rz.relu"])
def test_to_tf32(modifiers):
    (a,) = random_operands(f"cvt.{modifiers}.tf32.f32")
    (found,) = computed(f"cvt.{modifiers}.tf32.f32", a)
    for code, got in zip(a.tolist(), found.tolist(), strict=True):
        want = tf32(code, modifiers.partition(".")[0], saturate="satfinite" in modifiers)
        if "relu" in modifiers and want >> 31:
            want = 0
        assert got & ~0x1FFF == want & ~0x1FFF, (hex(code), hex(got), hex(want))


@pytest.mark.parametrize(
    "parts", [("cvt", "rn", "f64", "f32"), ("cvt", "f32", "f64"), ("cvt", "rn", "s32", "f32"), ("cvt", "ftz", "f64")]
)
def test_a_rounding_is_there_exactly_where_something_is_lost(parts):
    assert find(parts) is None
