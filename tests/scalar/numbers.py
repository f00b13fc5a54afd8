"""What scalar operations give, by CUDA's conventions, on arrays of NumPy and ml_dtypes: a witness beside the builder.

Integers are computed as Python's own and cut to their bits; floats by NumPy, which rounds each operation once.
Conversions follow PTX ISA 9.7.9 (cvt), minimum and maximum 9.7.3, shifts 9.7.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from nvbackend.intrinsics.row.types import BY_NAME, ElementType, bf16, e4m3, e5m2, f16, f32, f64, pred, s4, tf32, u4

Array = np.ndarray[Any, Any]

_DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "pred": np.bool_,
    "s4": np.int8,
    "u4": np.uint8,
    **{f"{sign}{bits}": f"{kind}{bits}" for sign, kind in (("s", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "ue8m0", "ue4m3"), np.uint8),
}
FLOATS = (f16, bf16, f32, f64)
INTEGERS = tuple(one for one in BY_NAME.values() if one.is_integer)
NUMBERS = (*FLOATS, tf32, *INTEGERS, pred)
"""The types that `.to()` converts from, and to but for predicates."""


HALVES = {"f16x2": f16, "bf16x2": bf16, "e4m3x2": e4m3, "e5m2x2": e5m2}
"""What two of lie in a register, by the pair's name in PTX."""


def dtype(element: ElementType) -> np.dtype[Any]:
    """The array type that holds values of `element`, each as it stands in a register."""
    return np.dtype(_DTYPES[element.name])


def wrap(number: int, element: ElementType) -> int:
    """The number that is left in the bits of an integer type."""
    bits = 1 if element is pred else element.bits
    number &= (1 << bits) - 1
    return number - (1 << bits) if element.is_signed and number >> bits - 1 else number


def integers(numbers: Iterable[int], element: ElementType) -> Array:
    """An array of these numbers in the bits of an integer type."""
    return np.array([wrap(int(one), element) for one in numbers], dtype(element))


def _each(function: Callable[[int, int], int]) -> Callable[[ElementType, Array, Array], Array]:
    return lambda element, a, b: integers(map(function, a.tolist(), b.tolist()), element)


def _shift(element: ElementType, a: Array, b: Array, move: Callable[[int, int], int]) -> Array:
    amounts = (int(one) & (1 << element.bits) - 1 for one in b.tolist())
    return integers((move(int(one), min(amount, 64)) for one, amount in zip(a.tolist(), amounts, strict=True)), element)


def _floor(a: int, b: int) -> int:
    return -1 if b == 0 else math.floor(Fraction(a, b))


def _rest(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * math.floor(Fraction(a, b))


_ON_INTEGERS: dict[str, Callable[[ElementType, Array, Array], Array]] = {
    "+": _each(lambda a, b: a + b),
    "-": _each(lambda a, b: a - b),
    "*": _each(lambda a, b: a * b),
    "&": _each(lambda a, b: a & b),
    "|": _each(lambda a, b: a | b),
    "^": _each(lambda a, b: a ^ b),
    "//": _each(_floor),
    "%": _each(_rest),
    "<<": lambda element, a, b: _shift(element, a, b, lambda one, by: one << by),
    ">>": lambda element, a, b: _shift(element, a, b, lambda one, by: one >> by),
}
_ON_FLOATS: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}
_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
COMPARISONS = tuple(_COMPARISONS)


def binary(operation: str, element: ElementType, a: Array, b: Array) -> Array:
    """`a operation b` of one type."""
    if not element.is_float:
        return _ON_INTEGERS[operation](element, a, b)
    return _ON_FLOATS[operation](a, b).astype(dtype(element))


def compare(operation: str, a: Array, b: Array) -> Array:
    """The predicates `a operation b`."""
    return np.asarray(_COMPARISONS[operation](a, b), np.bool_)


def negated(element: ElementType, a: Array) -> Array:
    """`-a`."""
    return (
        from_bits(element, bits_of(a) ^ (1 << element.bits - 1))
        if element.is_float
        else integers((-int(one) for one in a.tolist()), element)
    )


def inverted(element: ElementType, a: Array) -> Array:
    """`~a`."""
    return integers((~int(one) for one in a.tolist()), element)


def extreme(name: str, element: ElementType, a: Array, b: Array, *, nan: bool) -> Array:
    """min or max; of zeros, -0.0 is the lesser; with `nan`, NaN where either is."""
    wide = [_ordinal(one) if element.is_float else one for one in (a, b)]
    first = wide[0] < wide[1] if name == "min" else wide[0] > wide[1]
    chosen = np.where(first, a, b)
    if not element.is_float:
        return chosen
    is_nan = np.isnan(a), np.isnan(b)
    if nan:
        return np.where(is_nan[0], a, np.where(is_nan[1], b, chosen))
    return np.where(is_nan[0], b, np.where(is_nan[1], a, chosen))


def _ordinal(a: Array) -> Array:
    """Integers in the order of these floats, -0.0 just below 0.0."""
    bits = bits_of(a).astype(np.uint64)
    top = np.uint64(1 << 8 * a.dtype.itemsize - 1)
    size = (bits & (top - np.uint64(1))).astype(np.int64)
    return np.where(bits & top, -size - 1, size)


def fused(element: ElementType, a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once (f32, f64)."""
    return np.array([_fused(element, *one) for one in zip(a, b, c, strict=True)], dtype(element))


def _fused(element: ElementType, a: Any, b: Any, c: Any) -> Any:
    plain = np.float64(a) * np.float64(b) + np.float64(c)
    if not all(map(np.isfinite, (a, b, c))):
        return c if np.isfinite(a) and np.isfinite(b) else plain
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact:
        return plain
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if element is f32 and Fraction(near) != exact and not np.float64(near).view(np.uint64) & np.uint64(1):
        near = math.nextafter(near, math.inf if exact > Fraction(near) else -math.inf)
    return dtype(element).type(near)


def converted(source: ElementType, element: ElementType, a: Array) -> Array:
    """The same numbers as values of `element`."""
    if not element.is_float:
        if not source.is_float:
            return integers(a.tolist(), element)
        return np.array([_whole(source, element, float(one)) for one in a], dtype(element))
    if element in (bf16, tf32) and source is not f32:
        a = _odd(a.tolist() if not source.is_float else a.astype(np.float64))
    elif element is f16 and not source.is_float:
        a = a.astype(np.float64)  # past 2^53 all is infinity
    elif source is bf16:
        a = a.astype(np.float32)
    return _tf32(a.astype(np.float32)) if element is tf32 else a.astype(dtype(element))


def _whole(source: ElementType, element: ElementType, number: float) -> int:
    """cvt.rzi, clamped."""
    if math.isnan(number):
        return 0 if source is not f64 and element.bits != 64 else wrap(1 << element.bits - 1, element)
    low, high = (
        (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if element.is_signed else (0, (1 << element.bits) - 1)
    )
    if math.isinf(number):
        return high if number > 0 else low
    return min(max(int(number), low), high)


def _odd(numbers: Any) -> Array:
    """These numbers as f32, cut off, the last bit set where that lost something: to be rounded once more."""
    cut = np.array([_cut(one) for one in numbers], np.float32)
    lost = [
        not (math.isnan(b) or math.isinf(b)) and Fraction(float(a)) != Fraction(b)
        for a, b in zip(cut, numbers, strict=True)
    ]
    return (cut.view(np.uint32) | np.array(lost, np.uint32)).view(np.float32)


def _cut(number: Any) -> np.float32:
    near = np.float32(float(number))
    if math.isfinite(number) and abs(Fraction(float(near)) if np.isfinite(near) else math.inf) > abs(Fraction(number)):
        return np.nextafter(near, np.float32(0))
    return near


def _tf32(a: Array) -> Array:
    """To 10 bits of mantissa, ties away from zero. NaN is cut, so that one of low bits alone is infinite (H100)."""
    bits = a.view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x1000) & 0xFFFFE000).astype(np.uint32)
    return np.where(np.isnan(a), bits & np.uint32(0xFFFFE000), rounded).view(np.float32)


def packed(pair: str, element: ElementType, high: Array, low: Array) -> Array:
    """Each two f32 as two narrow floats in one register of `element`."""
    upper, lower = (_narrowed(pair, one).astype(np.uint64) for one in (high, low))
    return (upper << np.uint64(element.bits // 2) | lower).astype(dtype(element))


def _narrowed(pair: str, a: Array) -> Array:
    """The bits of f32 rounded to nearest even; fp8 stops at its largest numbers (.satfinite)."""
    half = HALVES[pair]
    if half not in (e4m3, e5m2):
        return bits_of(converted(f32, half, a))
    every = np.arange(128, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        known = every.view(ml_dtypes.float8_e4m3fn if half is e4m3 else ml_dtypes.float8_e5m2).astype(np.float64)
    known = known[np.isfinite(known)]
    distance = np.abs(np.abs(np.minimum(np.abs(a.astype(np.float64)), known[-1]))[:, None] - known[None, :])
    nearest = distance == distance.min(axis=1)[:, None]
    even = np.where(nearest.sum(axis=1) > 1, (nearest & (np.arange(len(known)) % 2 == 0)).argmax(axis=1), -1)
    size = np.where(even >= 0, even, nearest.argmax(axis=1)).astype(np.uint8)
    return size | np.where(np.signbit(a), np.uint8(0x80), np.uint8(0))


def bits_of(a: Array) -> Array:
    """The bits of each, as unsigned numbers."""
    return np.ascontiguousarray(a).view(f"uint{8 * a.dtype.itemsize}")


def from_bits(element: ElementType, bits: Array) -> Array:
    """Values of `element` with these bits."""
    kind = dtype(element)
    return np.ascontiguousarray(bits.astype(f"uint{8 * kind.itemsize}")).view(kind)


def recast(source: ElementType, element: ElementType, a: Array) -> Array:
    """The bits of each as a value of another type of the same width."""
    if {source, element} & {s4, u4}:
        numbers = bits_of(a).astype(np.int64).tolist()
        return integers(numbers, element if element.is_integer else u4).view(dtype(element))
    return a.view(dtype(element))


def same(element: ElementType, a: Array, b: Array) -> Array:
    """Where two arrays are equal bit for bit; all NaN are equal."""
    if not element.is_float or dtype(element) == np.uint8:
        return a == b
    with np.errstate(invalid="ignore"):
        return (bits_of(a) == bits_of(b)) | (np.isnan(a) & np.isnan(b))
