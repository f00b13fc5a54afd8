"""Conversions of packed and narrow floats, against searches among ml_dtypes' values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.scalar.grids import GRIDS
from tests.simulator.scalar.operands import LANES, computed, drawn

NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
WIDTHS = {"e2m1": 4, "e4m3": 8, "e5m2": 8, "e2m3": 8, "e3m2": 8, "f16": 16, "bf16": 16}


def code_of(name, value, mode="rn", *, saturate=False, relu=False):
    """The code of one number in a format."""
    grid = GRIDS[name]
    if math.isnan(value):
        return grid.nan
    if math.isinf(value):
        code = grid.largest if saturate or not grid.has_infinity else grid.largest + 1
        code |= grid.sign if value < 0 else 0
    else:
        code = grid.rounded(Fraction(value), mode, negative=math.copysign(1, value) < 0, saturate=saturate)
    return 0 if relu and code & grid.sign else code


def values_for(name, seed):
    """f32 at, between and beyond the numbers of a format."""
    grid = GRIDS[name]
    rng = np.random.default_rng([seed, *name.encode()])
    codes = rng.integers(0, grid.largest, 3 * LANES)
    low = np.array([grid.value(int(one)) for one in codes])
    high = np.array([grid.value(int(one) + 1) for one in codes])
    part = rng.choice([0.0, 0.25, 0.5, 0.5, 0.75], len(codes))
    sign = rng.choice([-1.0, 1.0], len(codes))
    near = (sign * (low + (high - low) * part)).astype(np.float32)
    near = np.where(rng.random(len(near)) < 0.2, np.nextafter(near, np.float32(1)), near)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, 465.0, 449.0, 6.5, 7.75, 31.0])
    return np.concatenate([near, special.astype(np.float32), drawn("f32", rng).view(np.float32)])


def f32_bits(values):
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("name", NARROW)
def test_two_f32_to_two_narrow_numbers(name, relu):
    a, b = values_for(name, 1), values_for(name, 2)
    (found,) = computed(f"cvt.rn.satfinite{relu}.{name}x2.f32", f32_bits(a), f32_bits(b))
    width = WIDTHS[name]
    for x, y, got in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        codes = [code_of(name, one, saturate=True, relu=bool(relu)) for one in (x, y)]
        assert got == codes[0] << width | codes[1], (x, y, hex(got))


@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize("name", NARROW)
def test_halves_to_narrow_numbers(name, half):
    every = np.arange(1 << 16, dtype=np.uint32)[::97]
    (found,) = computed(f"cvt.rn.satfinite.{name}x2.{half}x2", every | (every[::-1] << np.uint32(16)))
    codes = [code_of(name, GRIDS[half].value(one), saturate=True) for one in every.tolist()]
    width = WIDTHS[name]
    assert found.tolist() == [high << width | low for high, low in zip(codes[::-1], codes, strict=True)]


@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize("name", NARROW)
def test_narrow_numbers_to_halves(name, half):
    width = WIDTHS[name]
    every = np.arange(1 << 2 * width, dtype=np.uint8 if width == 4 else np.uint16)
    if name in ("e2m3", "e3m2"):
        every = every & np.uint16(0x3F3F)
    (found,) = computed(f"cvt.rn.{half}x2.{name}x2", every)
    mask = (1 << width) - 1
    codes = [code_of(half, GRIDS[name].value(one)) for one in range(GRIDS[name].sign * 2)]
    expected = [codes[one >> width] << 16 | codes[one & mask] for one in every.tolist()]
    assert found.tolist() == expected


@pytest.mark.parametrize("name", NARROW)
def test_narrow_numbers_scaled(name):
    rng = np.random.default_rng(3)
    width = WIDTHS[name]
    every = rng.integers(0, 1 << 2 * width, 500).astype(np.uint8 if width == 4 else np.uint16)
    if name in ("e2m3", "e3m2"):
        every = every & np.uint16(0x3F3F)
    scale = rng.integers(0, 1 << 16, 500).astype(np.uint16)
    (found,) = computed(f"cvt.rn.scaled::n2::ue8m0.bf16x2.{name}x2", every, scale)
    powers = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    for one, factor, got in zip(every.tolist(), scale.tolist(), found.tolist(), strict=True):
        pairs = [(one >> width, factor >> 8), (one & ((1 << width) - 1), factor & 255)]
        codes = [code_of("bf16", GRIDS[name].value(x) * float(powers[y])) for x, y in pairs]
        assert got == codes[0] << 16 | codes[1]


@pytest.mark.parametrize(("mode", "modifiers"), list(itertools.product(("rn", "rz"), ("", ".relu", ".satfinite"))))
@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_f32_to_halves(half, mode, modifiers):
    a, b = values_for(half, 1), values_for(half, 2)
    options = {"saturate": "satfinite" in modifiers, "relu": "relu" in modifiers}
    (found,) = computed(f"cvt.{mode}{modifiers}.{half}x2.f32", f32_bits(a), f32_bits(b))
    (single,) = computed(f"cvt.{mode}{modifiers}.{half}.f32", f32_bits(a))
    for x, y, got, one in zip(a.tolist(), b.tolist(), found.tolist(), single.tolist(), strict=True):
        codes = [code_of(half, number, mode, **options) for number in (x, y)]
        assert (got, one) == (codes[0] << 16 | codes[1], codes[0])


def power_code(value, mode, *, saturate):
    """CUDA's conversion to e8m0 in a host's integers: from the bits of an f32."""
    size = int(np.array(value, np.float32).view(np.uint32)) & 0x7FFFFFFF
    if size > 0x7F800000:
        return 0xFF
    code = size >> 23
    if mode == "rp" and size & 0x7FFFFF and 0x400000 < size < 0x7F800000:
        code += 1
    return 0xFE if saturate and code == 0xFF else code


@pytest.mark.parametrize(("mode", "saturate"), list(itertools.product(("rz", "rp"), ("", ".satfinite"))))
def test_to_powers_of_two(mode, saturate):
    rng = np.random.default_rng(4)
    special = np.array([0.0, 2.0**-127, 2.0**-126, 1.5 * 2.0**-127, 1.0, -3.0, np.inf, np.nan, 1.5 * 2.0**127])
    a = np.concatenate([special.astype(np.float32), drawn("f32", rng).view(np.float32)])
    b = a[::-1].copy()
    (found,) = computed(f"cvt.{mode}{saturate}.ue8m0x2.f32", f32_bits(a), f32_bits(b))
    codes = [power_code(one, mode, saturate=bool(saturate)) for one in a]
    assert found.tolist() == [x << 8 | y for x, y in zip(codes, codes[::-1], strict=True)]
    halves = (f32_bits(a) & np.uint32(0xFFFF0000)) | (f32_bits(b) >> np.uint32(16))
    (found,) = computed(f"cvt.{mode}{saturate}.ue8m0x2.bf16x2", halves)
    short = (f32_bits(a) & np.uint32(0xFFFF0000)).view(np.float32)
    codes = [power_code(one, mode, saturate=bool(saturate)) for one in short]
    assert found.tolist() == [x << 8 | y for x, y in zip(codes, codes[::-1], strict=True)]


def test_from_powers_of_two():
    every = np.arange(256, dtype=np.uint16)
    (found,) = computed("cvt.rn.bf16x2.ue8m0x2", every << np.uint16(8) | every[::-1])
    codes = [0x40 if one == 0 else 0x7FFF if one == 255 else one << 7 for one in range(256)]
    assert found.tolist() == [x << 16 | y for x, y in zip(codes, codes[::-1], strict=True)]


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_rounding_by_random_bits_adds_them_to_what_is_cut_off(half):
    rng = np.random.default_rng(6)
    cut = 13 if half == "f16" else 16
    a, b = ((rng.random(LANES) * 4 - 2).astype(np.float32) for _ in range(2))
    random = rng.integers(0, 1 << 32, LANES, dtype=np.uint64).astype(np.uint32)
    (found,) = computed(f"cvt.rs.{half}x2.f32", f32_bits(a), f32_bits(b), random)

    def expected(value, bits):
        code = int(np.array(value, np.float32).view(np.uint32))
        added = (code & 0x7FFFFFFF) + (bits & ((1 << cut) - 1)) >> cut << cut
        kept = float(np.array(added, np.uint32).view(np.float32))
        return code_of(half, math.copysign(kept, value), "rz")

    for x, y, bits, got in zip(a.tolist(), b.tolist(), random.tolist(), found.tolist(), strict=True):
        if min(abs(x), abs(y)) > 2.0**-14:
            assert got == expected(x, bits >> 16) << 16 | expected(y, bits)


@pytest.mark.parametrize("name", NARROW)
def test_four_numbers_rounded_by_random_bits_are_neighbours(name):
    rng = np.random.default_rng(9)
    given = [(rng.random(LANES) * 8 - 4).astype(np.float32) for _ in range(4)]
    bits = [f32_bits(one) for one in given]
    width, mask = WIDTHS[name], GRIDS[name].sign * 2 - 1
    results = {
        word: computed(f"cvt.rs.satfinite.{name}x4.f32", *bits, np.full(LANES, word, np.uint32))[0]
        for word in (0, 0xFFFFFFFF)
    }
    for place, values in enumerate(given):
        codes = {word: (one >> (3 - place) * width) & mask for word, one in results.items()}
        for lane, value in enumerate(values.tolist()):
            down = code_of(name, value, "rz", saturate=True)
            exact = GRIDS[name].value(down) == value
            assert codes[0][lane] == down
            assert codes[0xFFFFFFFF][lane] == (down if exact or down & mask >> 1 == GRIDS[name].largest else down + 1)


def test_fixed_point():
    values = np.array([0.0, 1.0, -2.0, 1.984375, 5.0, -5.0, 0.0078125, 0.0234375, np.nan], np.float32)
    (found,) = computed("cvt.rn.satfinite.s2f6x2.f32", f32_bits(values), f32_bits(values[::-1]))
    codes = [0, 64, 0x80, 127, 127, 0x80, 0, 2, 127]
    assert found.tolist() == [x << 8 | y for x, y in zip(codes, codes[::-1], strict=True)]
    scale = np.full(9, 0x8080, np.uint16)
    opcode = "cvt.rn.satfinite.relu.scaled::n2::ue8m0.s2f6x2.f32"
    (halved,) = computed(opcode, f32_bits(values), f32_bits(values), scale)
    assert [one >> 8 for one in halved.tolist()] == [0, 32, 0, 64, 127, 0, 0, 1, 127]
    (back,) = computed("cvt.rn.bf16x2.s2f6x2", np.array([0x40C0], np.uint16))
    assert back.tolist() == [0x3F80BF80]
