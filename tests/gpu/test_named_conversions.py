"""`.to()` between all types with rounding and saturation by name, and k.convert, against exact rational arithmetic.

Every code of the types of 8 bits and less, and special and random numbers of the others. What chips before sm_100a do
not have runs in the simulator alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, f32, s64, u8, u16, u32, u64
from nvbackend.signature import Parameter, Pointer
from tests.scalar import numbers
from tests.scalar.specials import every_special, random_bits
from tests.support.devices import GPU, ON_DEVICES
from tests.support.gpu import first_gpu

pytestmark = ON_DEVICES

THREADS = 512
CODES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}
SHAPES = {
    "f16": (10, -14, 65504.0),
    "bf16": (7, -126, float.fromhex("0x1.fep127")),
    "tf32": (10, -126, None),
    "f32": (23, -126, None),
    "e4m3": (3, -6, 448.0),
    "e5m2": (2, -14, 57344.0),
    "e2m3": (3, 0, 7.5),
    "e3m2": (2, -2, 28.0),
    "e2m1": (1, 0, 6.0),
}
"""Bits of the mantissa, the least exponent of a normal number, the largest number."""
NANS = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x7}
FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = tuple(f"{sign}{bits}" for sign in "su" for bits in (8, 16, 32, 64))
OLD = ("e4m3", "e5m2")


def values_of(element: ElementType) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Words with the bits of values, and the values: Fraction, or a float that is none."""
    if element.name in CODES:
        words = np.arange(1 << element.bits, dtype=np.uint64)
        floats = words.astype(np.uint8).view(CODES[element.name]).astype(np.float64).tolist()
    else:
        special = numbers.bits_of(every_special(element)).astype(np.uint64)
        words = np.concatenate([special, random_bits(np.random.default_rng(7), element, 200)])[:THREADS]
        given = numbers.from_bits(element, words)
        floats = given.tolist() if element.is_integer else given.astype(np.float64).tolist()
    return words, [Fraction(one) if math.isfinite(one) else one for one in floats]


def steps(value: Fraction, step: Fraction, mode: str) -> int:
    """`value` in whole steps."""
    low = value / step
    match mode:
        case "rm":
            return math.floor(low)
        case "rp":
            return math.ceil(low)
        case "rz":
            return math.trunc(low)
        case "rna":
            return int(math.copysign(math.floor(abs(low) + Fraction(1, 2)), low))
    return round(low)


def exponent_of(value: Fraction) -> int:
    """The exponent of its leading bit."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= abs(value) else guess - 1


def to_float(name: str, value: Any, mode: str, *, saturate: bool) -> float:
    """The float that a number becomes; NaN and infinities as they are, or the largest number."""
    mantissa, least, largest = SHAPES[name]
    largest = float(np.finfo(np.float32).max) if name == "f32" else largest or float.fromhex("0x1.ffcp127")
    if not isinstance(value, Fraction):
        return math.copysign(largest, value) if saturate and not math.isnan(value) else value
    if not value:
        return 0.0
    step = Fraction(2) ** (max(exponent_of(value), least) - mantissa)
    found = steps(value, step, mode) * step
    if abs(found) <= Fraction(largest):
        return float(found)
    towards_zero = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
    return math.copysign(largest if saturate or towards_zero else math.inf, value)


def to_integer(element: ElementType, value: Any, mode: str) -> int:
    if not isinstance(value, Fraction):
        return 0 if math.isnan(value) else element.integers[-1 if value > 0 else 0]
    return min(max(steps(value, Fraction(1), mode), element.integers[0]), element.integers[-1])


def run(emit: Callable[[Any, Any], list[Any]], source: ElementType, words: Any, target: str) -> Any:
    """The words that `emit` makes of a value of each word, a column for each."""
    from numba import cuda

    from nvbackend import runtime

    k = KernelBuilder("named", target, threads=THREADS, parameters=[Parameter(name, Pointer(u64)) for name in "xy"])
    given, out = k.arguments
    row = k.thread_id().to(s64)
    held = (given + row).cast(BY_NAME[f"u{max(8, source.bits)}"])[0]
    made = emit(k, held if source in (u8, u16, u32, u64) else held.bitcast(source))
    for column, value in enumerate(made):
        bits = {8: u8, 16: u16, 32: u32, 64: u64}[max(8, value.type.bits)]
        out[row * len(made) + column] = (value if value.type is bits else value.bitcast(bits)).to(u64)
    padded = np.zeros(THREADS, np.uint64)
    padded[: len(words)] = words
    results = cuda.to_device(np.zeros(THREADS * len(made), np.uint64))
    kernel = runtime.load(k.finish().compile())
    kernel.launch(1, cuda.to_device(padded), results)
    kernel.synchronize()
    return results.copy_to_host().reshape(THREADS, len(made))[: len(words)]


def as_floats(name: str, words: Any) -> list[float]:
    element = BY_NAME[name]
    if name in CODES:
        return words.astype(np.uint8).view(CODES[name]).astype(np.float64).tolist()
    return numbers.from_bits(element, words).astype(np.float64).tolist()


def assert_floats(name: str, found: Any, values: list[Any], mode: str, *, saturate: bool) -> None:
    nan = NANS.get(name)
    for word, got, value in zip(found.tolist(), as_floats(name, found), values, strict=True):
        wanted = to_float(name, value, mode, saturate=saturate)
        if math.isnan(wanted):
            assert math.isnan(got) if nan is None else word == nan, (value, got)
        else:
            assert got == wanted, (value, got, wanted)


def skip_without_sm_100a() -> None:
    """Its code runs on GPUs of compute capability 10.0 alone."""
    capability, reason = first_gpu()
    if capability != (10, 0):
        pytest.skip(reason or f"needs compute capability 10.0, the GPU has {capability[0]}.{capability[1]}")


def target_of(device: str, *names: str) -> str:
    """sm_90a where it has the types, else sm_100a."""
    newer = any(name in CODES and name not in OLD for name in names)
    if newer and device == GPU:
        skip_without_sm_100a()
    return "sm_100a" if newer else "sm_90a"


@pytest.mark.parametrize("name", [*CODES])
def test_every_code_becomes_every_type(name: str, device: str) -> None:
    source = BY_NAME[name]
    words, values = values_of(source)
    floats = [one for one in FLOATS if one != "f64"]
    target = target_of(device, name)
    found = run(lambda k, value: [*(value.to(BY_NAME[to]) for to in (*floats, *INTEGERS))], source, words, target)
    for column, to in enumerate((*floats, *INTEGERS)):
        if to in floats:
            assert_floats(to, found[:, column], values, "rn", saturate=False)
            continue
        element = BY_NAME[to]
        bits = (1 << element.bits) - 1
        for value, got in zip(values, found[:, column].tolist(), strict=True):
            if isinstance(value, Fraction) or math.isinf(value):
                assert got == to_integer(element, value, "rz") & bits, (name, to, value)


@pytest.mark.parametrize("name", ["e5m2", "e4m3"])
def test_a_code_saturates(name: str, device: str) -> None:
    """e5m2 has infinities: the largest number takes their place."""
    words, values = values_of(BY_NAME[name])
    found = run(
        lambda k, value: [value.to(BY_NAME[to], saturate=True) for to in ("f16", "bf16")],
        BY_NAME[name],
        words,
        target_of(device, name),
    )
    for column, to in enumerate(("f16", "bf16")):
        assert_floats(to, found[:, column], values, "rn", saturate=True)


@pytest.mark.parametrize("names", [OLD, ("e2m3", "e3m2", "e2m1")], ids="+".join)
@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS])
def test_every_type_becomes_a_narrow_one(source: str, names: tuple[str, ...], device: str) -> None:
    words, values = values_of(BY_NAME[source])
    found = run(
        lambda k, value: [value.to(BY_NAME[to]) for to in names], BY_NAME[source], words, target_of(device, *names)
    )
    for column, to in enumerate(names):
        assert_floats(to, found[:, column], values, "rn", saturate=True)


@pytest.mark.parametrize(("source", "to"), [*itertools.permutations([one for one in CODES if one != "ue8m0"], 2)])
def test_narrow_types_become_one_another(source: str, to: str, device: str) -> None:
    words, values = values_of(BY_NAME[source])
    found = run(lambda k, value: [value.to(BY_NAME[to])], BY_NAME[source], words, target_of(device, source, to))
    assert_floats(to, found[:, 0], values, "rn", saturate=True)


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS])
def test_an_unsigned_scale_stops_at_zero(source: str, device: str) -> None:
    words, values = values_of(BY_NAME[source])
    found = run(lambda k, value: [value.to(BY_NAME["ue4m3"])], BY_NAME[source], words, target_of(device, "e4m3"))
    assert_floats("e4m3", found[:, 0], [clamped(value, relu=True) for value in values], "rn", saturate=True)


@pytest.mark.parametrize("rounding", ["rz", "rp"])
def test_scales_are_powers_of_two(rounding: str, device: str) -> None:
    """PTX ISA 9.7.9 (cvt): of negative numbers it says nothing; NaN is 0xFF."""
    words, values = values_of(f32)
    found = run(
        lambda k, value: [value.to(BY_NAME["ue8m0"], rounding=rounding, saturate=True)],
        f32,
        words,
        target_of(device, "ue8m0"),
    )
    for value, got in zip(values, found[:, 0].tolist(), strict=True):
        if isinstance(value, Fraction) and value > 0:
            exponent = exponent_of(value) + (rounding == "rp" and value != Fraction(2) ** exponent_of(value))
            assert got == min(max(exponent + 127, 0), 254), value
        elif not isinstance(value, Fraction) and math.isnan(value):
            assert got == 0xFF


ROUNDED = {"f16": ("rn", "rz", "rm", "rp"), "bf16": ("rn", "rz", "rm", "rp"), "tf32": ("rna", "rn", "rz")}


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("saturate", [False, True])
def test_rounding_by_name(source: str, saturate: bool, device: str) -> None:
    """tf32 saturates by a name from sm_100 on alone, but for rna."""
    del device
    names: list[tuple[str, str | None]] = [(to, mode) for to, modes in ROUNDED.items() for mode in modes]
    if saturate:
        names = [
            (to, mode) for to, mode in names if mode in ("rn", "rz", "rna") and not (to == "tf32" and mode != "rna")
        ]
        names += [(to, None) for to in ROUNDED]
    elif source in ("f64", "s32", "u32", "s64", "u64"):
        names += [("f32", mode) for mode in ("rn", "rz", "rm", "rp")]
    names = [(to, mode) for to, mode in names if to != source]
    usual = {to: modes[0] for to, modes in ROUNDED.items()}
    words, values = values_of(BY_NAME[source])
    found = run(
        lambda k, value: [value.to(BY_NAME[to], rounding=mode, saturate=saturate) for to, mode in names],
        BY_NAME[source],
        words,
        "sm_90a",
    )
    for column, (to, mode) in enumerate(names):
        assert_floats(to, found[:, column], values, mode or usual[to], saturate=saturate)


@pytest.mark.parametrize("source", FLOATS)
def test_to_integers_by_name(source: str, device: str) -> None:
    del device
    names = list(itertools.product(INTEGERS, ("rn", "rz", "rm", "rp")))
    words, values = values_of(BY_NAME[source])
    found = run(
        lambda k, value: [value.to(BY_NAME[to], rounding=mode) for to, mode in names], BY_NAME[source], words, "sm_90a"
    )
    for column, (to, mode) in enumerate(names):
        for value, got in zip(values, found[:, column].tolist(), strict=True):
            if isinstance(value, Fraction) or math.isinf(value):
                wanted = to_integer(BY_NAME[to], value, mode) & (1 << BY_NAME[to].bits) - 1
                assert got == wanted, (to, mode, value)


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_stop_at_the_ends(source: str, device: str) -> None:
    del device
    words, values = values_of(BY_NAME[source])
    others = [to for to in INTEGERS if to != source]
    found = run(
        lambda k, value: [value.to(BY_NAME[to], saturate=True) for to in others], BY_NAME[source], words, "sm_90a"
    )
    for column, to in enumerate(others):
        wanted = [to_integer(BY_NAME[to], value, "rz") & (1 << BY_NAME[to].bits) - 1 for value in values]
        assert found[:, column].tolist() == wanted, to


def clamped(value: Any, *, relu: bool) -> Any:
    """Zero for what is below it, of relu; NaN stays."""
    is_nan = not isinstance(value, Fraction) and math.isnan(value)
    return Fraction(0) if relu and not is_nan and value < 0 else value


@pytest.mark.parametrize("name", [*OLD, "e2m3", "e3m2", "e2m1"])
@pytest.mark.parametrize("relu", [False, True])
def test_pairs(name: str, relu: bool, device: str) -> None:
    """Packed and unpacked: the first number in the lower half."""
    words, values = values_of(f32)
    shift = 4 if name == "e2m1" else 8

    def emit(k: Any, value: Any) -> list[Any]:
        packed = k.convert.pack(f"{name}x2", value, -value, relu=relu)
        low, high = k.convert.unpack(packed, f"{name}x2")
        return [packed, low, high]

    found = run(emit, f32, words, target_of(device, name))
    opposite = [-value for value in values]
    first, second = ([clamped(value, relu=relu) for value in each] for each in (values, opposite))
    mask = np.uint64((1 << BY_NAME[name].bits) - 1)
    low, high = found[:, 0] & mask, found[:, 0] >> np.uint64(shift) & mask
    assert_floats(name, low, first, "rn", saturate=True)
    assert_floats(name, high, second, "rn", saturate=True)
    for column, half in ((1, low), (2, high)):
        decoded = as_floats(name, half)
        assert all(
            got == wanted or math.isnan(wanted)
            for got, wanted in zip(as_floats("f16", found[:, column]), decoded, strict=True)
        )


@pytest.mark.parametrize("name", ["f16x2", "bf16x2", "e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"])
def test_stochastic_rounding_is_up_or_down(name: str, device: str) -> None:
    """Zeros round down, ones up, and what is exact stays (sm_100a: in the simulator)."""
    if device == GPU:
        skip_without_sm_100a()
    element = name.partition("x")[0]
    count = int(name[-1])
    words, values = values_of(f32)

    def emit(k: Any, value: Any) -> list[Any]:
        return [k.convert.pack(name, *[value] * count, random=bits, saturate=count == 2) for bits in (0, 0xFFFFFFFF)]

    found = run(emit, f32, words, "sm_100a")
    for column, away in ((0, False), (1, True)):
        mask = np.uint64((1 << BY_NAME[element].bits) - 1)
        for value, got in zip(values, as_floats(element, found[:, column] & mask), strict=True):
            if not isinstance(value, Fraction):
                continue
            down = to_float(element, value, "rz", saturate=True)
            up = to_float(element, value, "rp" if value > 0 else "rm", saturate=True)
            assert got in (down, up), (value, got, down, up)
            assert away or got == down, (value, got, down)
