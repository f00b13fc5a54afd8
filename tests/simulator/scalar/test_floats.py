"""Floating-point arithmetic against rational numbers, rounded by a search among NumPy's and ml_dtypes' values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.simulator.scalar.grids import FLUSHING, GRIDS, combined
from tests.simulator.scalar.operands import computed, random_operands

MODES = ("rn", "rz", "rm", "rp")
ELEMENTS = {"f16x2": ("f16", 2), "bf16x2": ("bf16", 2), "f32x2": ("f32", 2)}


def split(words, kind):
    """The numbers in registers, one after another, as unsigned integers."""
    element, _ = ELEMENTS.get(kind, (kind, 1))
    return words.view(f"uint{GRIDS[element].bits}").tolist()


def differences(opcode, kind, expected, given):
    """The operands for which the instruction gives another code than `expected(codes)`."""
    (found,) = computed(opcode, *given)
    rows = zip(*(split(one, kind) for one in given), strict=True)
    wrong = []
    for codes, got in zip(rows, split(found, kind), strict=True):
        want = expected(list(codes))
        if got != want:
            wrong.append((opcode, [hex(one) for one in codes], hex(got), hex(want)))
    return wrong


def arithmetic():
    for operation, kind in itertools.product(("add", "sub", "mul", "fma"), ("f32", "f64", "f32x2")):
        for mode in MODES:
            yield operation, mode, kind, ""
    for operation, kind in itertools.product(("add", "sub", "mul", "fma"), ("f16", "bf16", "f16x2", "bf16x2")):
        yield operation, "rn", kind, ""
    for operation, mode in itertools.product(("div", "sqrt", "rcp"), MODES):
        yield operation, mode, "f32", ""
        yield operation, mode, "f64", ""
        yield operation, mode, "f32", "ftz"
    for operation, mode in itertools.product(("add", "mul", "fma"), MODES):
        yield operation, mode, "f32", "ftz"
        yield operation, mode, "f32", "sat"
    for kind, modifier in itertools.product(("f16", "f16x2"), ("ftz", "sat")):
        yield "fma", "rn", kind, modifier
        yield "add", "rn", kind, modifier
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        yield "fma", "rn", kind, "relu"


@pytest.mark.parametrize(("operation", "mode", "kind", "modifier"), list(arithmetic()))
def test_it_is_rounded_once(operation, mode, kind, modifier):
    grid = (FLUSHING if modifier == "ftz" else GRIDS)[ELEMENTS.get(kind, (kind, 1))[0]]
    opcode = ".".join(part for part in (operation, mode, modifier, kind) if part)

    def expected(codes):
        if modifier == "ftz":
            codes = [grid.flushed(one) for one in codes]
        if operation == "rcp":
            one = grid.rounded(1, "rn")
            code = combined("div", grid, mode, [one, *codes])
        else:
            code = combined(operation, grid, mode, codes)
        return modified(code, modifier, grid)

    assert differences(opcode, kind, expected, random_operands(opcode)) == []


def modified(code, modifier, grid):
    value = grid.value(code)
    if modifier == "sat":
        return 0 if not value > 0 else min(code, grid.rounded(1, "rn"))
    if modifier == "relu":
        return 0 if code & grid.sign else code
    return code


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "f64"])
def test_fma_of_numbers_that_cancel_or_tie(kind):
    """Sums next to the middle of two numbers: rounding twice would go wrong there."""
    grid = GRIDS[kind]
    rng = np.random.default_rng(7)
    width = grid.bits
    mantissa = {"f32": 23, "f16": 10, "bf16": 7, "f64": 52}[kind]
    one = grid.rounded(1, "rn")
    a = [one | int(rng.integers(0, 1 << min(mantissa, 30))) for _ in range(200)]
    b = [one | int(rng.integers(0, 1 << min(mantissa, 30))) for _ in range(200)]
    c = []
    for place, (x, y) in enumerate(zip(a, b, strict=True)):
        product = combined("mul", grid, "rn", [x, y])
        shift = int(rng.integers(-mantissa - 3, mantissa + 3))
        scaled = max(1, product + (shift << mantissa)) & (grid.sign - 1)
        c.append(scaled & ~((1 << mantissa) - 1) | (0, 1, (1 << mantissa) - 1)[place % 3] | (grid.sign * (place & 1)))
    given = [np.array(one, f"uint{width}") for one in (a, b, c)]
    assert differences(f"fma.rn.{kind}", kind, lambda codes: combined("fma", grid, "rn", codes), given) == []


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_fma_of_subnormal_results(kind):
    grid = GRIDS[kind]
    rng = np.random.default_rng(8)
    mantissa = {"f32": 23, "f16": 10, "bf16": 7}[kind]
    bias = {"f32": 127, "f16": 15, "bf16": 127}[kind]
    fields = rng.integers(1, bias - 2, 300)
    digits = rng.integers(0, 1 << mantissa, (2, 300))
    a = (fields << mantissa | digits[0]).astype(f"uint{grid.bits}")
    b = (np.maximum(bias - fields - rng.integers(0, mantissa, 300), 0) << mantissa | digits[1]).astype(
        f"uint{grid.bits}"
    )
    c = rng.integers(0, 3 << mantissa, 300).astype(f"uint{grid.bits}")
    assert differences(f"fma.rn.{kind}", kind, lambda codes: combined("fma", grid, "rn", codes), [a, b, c]) == []


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_fma_of_large_numbers_and_an_infinity(kind):
    """A product beyond the largest number is still finite."""
    grid = GRIDS[kind]
    codes = [grid.largest, grid.largest | grid.sign, grid.largest + 1, grid.largest + 1 | grid.sign]
    given = [np.array(one, f"uint{grid.bits}") for one in zip(*itertools.product(codes, repeat=3), strict=True)]
    assert differences(f"fma.rn.{kind}", kind, lambda codes: combined("fma", grid, "rn", codes), given) == []


@pytest.mark.parametrize("scale", [24, -127])
def test_fma_next_to_the_middle_of_two_numbers(scale):
    """The product is 1 + 2^-33 or 1 - 2^-33, times half of the last place of c: float64 does not hold the sum."""
    half, u = {24: 0, -127: -150}[scale], 2.0**-11
    given = [
        (sign * (1 + step) * 2.0 ** (half // 2), (1 - step + step * step) * 2.0 ** (half - half // 2), sign * c)
        for sign, step, c in itertools.product(
            (1, -1), (u, -u), (2.0**scale, 2.0**scale + 2.0 ** max(scale - 23, -149), -(2.0**scale))
        )
    ]
    arrays = [np.array(one, np.float32) for one in zip(*given, strict=True)]
    assert [tuple(map(float, row)) for row in zip(*arrays, strict=True)] == given
    for lane in range(len(given)):  # alone: one such lane must not put the others right
        words = [one[lane : lane + 1].view(np.uint32) for one in arrays]
        assert differences("fma.rn.f32", "f32", lambda codes: combined("fma", GRIDS["f32"], "rn", codes), words) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("operation", ["add", "sub", "fma"])
def test_signs_of_zeros(operation, kind, mode):
    grid = GRIDS[kind]
    one, zero = grid.rounded(1, "rn"), 0
    codes = [one, one | grid.sign, zero, grid.sign]
    rows = itertools.product(codes, repeat=3 if operation == "fma" else 2)
    given = [np.array(column, f"uint{grid.bits}") for column in zip(*rows, strict=True)]
    opcode = f"{operation}.{mode}.{kind}"
    assert differences(opcode, kind, lambda codes: combined(operation, grid, mode, codes), given) == []


@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", ["add", "sub", "fma"])
def test_mixed_precision(operation, mode, half):
    opcode = f"{operation}.{mode}.f32.{half}"
    given = random_operands(opcode)
    (found,) = computed(opcode, *given)
    wide, narrow = GRIDS["f32"], GRIDS[half]
    for codes, got in zip(zip(*(one.tolist() for one in given), strict=True), found.tolist(), strict=True):
        values = [np.float32(narrow.value(one)).view(np.uint32).item() for one in codes[:-1]]
        assert got == combined(operation, wide, mode, [*values, codes[-1]])


def extremes():
    for name, kind in itertools.product(("min", "max"), ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")):
        yield name, "", kind
        if kind != "f64":
            yield name, "NaN", kind
            yield name, "xorsign.abs", kind
            yield name, "NaN.xorsign.abs", kind
        if kind in ("f32", "f16", "f16x2"):
            yield name, "ftz", kind
            yield name, "ftz.NaN", kind


def extreme(name, grid, a, b, *, nan):
    is_nan = [grid.value(one) != grid.value(one) for one in (a, b)]
    if all(is_nan) or (nan and any(is_nan)):
        return grid.nan
    if any(is_nan):
        return b if is_nan[0] else a
    key = [-(one & ~grid.sign) - 1 if one & grid.sign else one for one in (a, b)]
    return (a if key[0] < key[1] else b) if name == "min" else (a if key[0] > key[1] else b)


@pytest.mark.parametrize(("name", "modifiers", "kind"), list(extremes()))
def test_min_and_max(name, modifiers, kind):
    grid = GRIDS[ELEMENTS.get(kind, (kind, 1))[0]]
    opcode = ".".join(part for part in (name, modifiers, kind) if part)

    def expected(codes):
        a, b = (grid.flushed(one) for one in codes) if "ftz" in modifiers else codes
        sizes = [one & ~grid.sign for one in (a, b)] if "abs" in modifiers else (a, b)
        found = extreme(name, grid, *sizes, nan="NaN" in modifiers)
        if "xorsign" in modifiers and grid.value(found) == grid.value(found):
            found = found & ~grid.sign | (a ^ b) & grid.sign
        return found

    assert differences(opcode, kind, expected, random_operands(opcode)[:2]) == []


@pytest.mark.parametrize("modifiers", ["", "NaN.", "abs.", "NaN.abs.", "ftz."])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_of_three(name, modifiers):
    grid = GRIDS["f32"]

    def expected(codes):
        codes = [grid.flushed(one) for one in codes] if "ftz" in modifiers else codes
        a, b, c = [one & ~grid.sign for one in codes] if "abs" in modifiers else codes
        nan = "NaN" in modifiers
        return extreme(name, grid, extreme(name, grid, a, b, nan=nan), c, nan=nan)

    opcode = f"{name}.{modifiers}f32"
    assert differences(opcode, "f32", expected, random_operands(opcode)) == []


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "f16x2", "bf16x2"])
@pytest.mark.parametrize("name", ["abs", "neg"])
def test_signs_change(name, kind):
    grid = GRIDS[ELEMENTS.get(kind, (kind, 1))[0]]

    def expected(codes):
        changed = codes[0] ^ grid.sign if name == "neg" else codes[0] & ~grid.sign
        return grid.nan if grid.value(changed) != grid.value(changed) and kind != "f64" else changed

    assert differences(f"{name}.{kind}", kind, expected, random_operands(f"{name}.{kind}")) == []


def test_copysign_takes_the_sign_of_the_first():
    a, b = (np.array([one], np.float32).view(np.uint32) for one in (-0.0, 3.0))
    assert computed("copysign.f32", a, b)[0].view(np.float32).tolist() == [-3.0]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_properties(kind):
    grid = GRIDS[kind]
    smallest, infinity = {"f32": 1 << 23, "f64": 1 << 52}[kind], grid.largest + 1
    (a,) = random_operands(f"testp.finite.{kind}")
    sizes = [one & ~grid.sign for one in a.tolist()]
    for name, holds in {
        "finite": lambda size: size < infinity,
        "infinite": lambda size: size == infinity,
        "number": lambda size: size <= infinity,
        "notanumber": lambda size: size > infinity,
        "normal": lambda size: size == 0 or smallest <= size < infinity,
        "subnormal": lambda size: 0 < size < smallest,
    }.items():
        assert computed(f"testp.{name}.{kind}", a)[0].tolist() == [holds(size) for size in sizes]


def test_a_factor_out_of_bounds_makes_zero():
    outside, nan, one = 0x7FF7, 0x7FFF, 0x3C00
    rows = [(outside, one, one), (one, outside | 0x8000, one), (one, one, outside), (nan, one, one)]
    given = [np.array(column, np.uint16) for column in zip(*rows, strict=True)]
    assert computed("fma.rn.oob.f16", *given)[0].tolist() == [0, 0, nan, nan]
    assert computed("fma.rn.f16", *given)[0].tolist() == [nan] * 4


TINY = [
    ("mul", [0x3F7FFFFF, 0x00800000]),  # 2^-126 - 2^-150, half way to 2^-126: the tie goes there
    ("mul", [0x3F7FFFFF, 0x80800000]),
    ("mul", [0x3F7FF001, 0x00800800]),  # below 2^-126 by less than half of the last of 24 bits
    ("mul", [0x3F800801, 0x007FF001]),
    ("mul", [0x3F000801, 0x00FFF000]),
    ("fma", [0x3F7FFFFF, 0x00800000, 0x00000000]),
    ("fma", [0x3F800001, 0x00800001, 0x80000001]),
    ("fma", [0x33800000, 0x80800000, 0x00800000]),
    ("rcp", [0x7E800001]),
    ("div", [0x00FFFFFF, 0x40000000]),
]
"""Next to 2^-126."""


@pytest.mark.parametrize("mode", MODES)
def test_a_result_is_flushed_that_is_subnormal_when_it_has_24_bits(mode):
    grid = FLUSHING["f32"]
    for operation, codes in TINY:
        flushed = [grid.flushed(one) for one in codes]
        factors = [0x3F800000, *flushed] if operation == "rcp" else flushed
        want = combined("div" if operation == "rcp" else operation, grid, mode, factors)
        (found,) = computed(f"{operation}.{mode}.ftz.f32", *(np.array([one], np.uint32) for one in codes))
        assert int(found[0]) == want, (operation, mode, codes)


_COMPARED = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def holds(name, a, b):
    is_nan = a != a or b != b  # noqa: PLR0124
    if name in ("num", "nan"):
        return is_nan == (name == "nan")
    return _COMPARED[name.removesuffix("u")](a, b) if not is_nan else name.endswith("u")


FLOAT_NAMES = (*_COMPARED, *(f"{name}u" for name in _COMPARED), "num", "nan")


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "f16x2", "bf16x2"])
@pytest.mark.parametrize("name", FLOAT_NAMES)
def test_comparisons(name, kind):
    name = {"neu": "neu", "equ": "equ"}.get(name, name)
    grid = GRIDS[ELEMENTS.get(kind, (kind, 1))[0]]
    given = random_operands(f"setp.{name}.{kind}")
    given[1][::4] = given[0][::4]
    p, q = computed(f"setp.{name}.{kind}", *given)
    rows = list(zip(*(split(one, kind) for one in given), strict=True))
    truth = [holds(name, grid.value(a), grid.value(b)) for a, b in rows]
    if kind in ELEMENTS:
        assert (p.tolist(), q.tolist()) == (truth[0::2], truth[1::2])
        (ones,) = computed(f"set.{name}.{kind}.{kind}", *given)
        (words,) = computed(f"set.{name}.u32.{kind}", *given)
        assert split(ones, kind) == [grid.rounded(1, "rn") if one else 0 for one in truth]
        assert split(words, kind) == [0xFFFF if one else 0 for one in truth]
    else:
        assert (p.tolist(), q.tolist()) == (truth, [not one for one in truth])
        (words,) = computed(f"set.{name}.s32.{kind}", *given)
        assert words.tolist() == [0xFFFFFFFF if one else 0 for one in truth]


def test_comparisons_flush():
    tiny, zero = np.array([1, 0x80000001], np.uint32), np.zeros(2, np.uint32)
    assert computed("setp.eq.ftz.f32", tiny, zero)[0].tolist() == [True, True]
    assert computed("setp.eq.f32", tiny, zero)[0].tolist() == [False, False]


def test_slct_of_a_float():
    c = np.array([0.0, -0.0, -1.0, np.nan, 2.0], np.float32).view(np.uint32)
    a, b = np.full(5, 1, np.uint32), np.full(5, 2, np.uint32)
    assert computed("slct.b32.f32", a, b, c)[0].tolist() == [1, 1, 2, 2, 1]
