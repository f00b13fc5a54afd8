"""Rounding of exact rational numbers, one at a time: for what float64 cannot hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_MANTISSA = 52
_LEAST = -1074
"""The exponent of the least float64."""
_LARGEST = Fraction((1 << 53) - 1) * 2**971


def rounded_exactly(number: Fraction, rounding: str, *, negative_zero: bool = False) -> float:
    """The float64 next to `number`: rn, rz, rm, rp."""
    if not number:
        return -0.0 if negative_zero else 0.0
    size, sign = abs(number), -1 if number < 0 else 1
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - _MANTISSA - 1, _LEAST)
    while size >= Fraction(2) ** (exponent + _MANTISSA + 1):
        exponent += 1
    scaled = size / Fraction(2) ** exponent
    whole = math.floor(scaled)
    rest = scaled - whole
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rz": False,
        "rm": rest > 0 and number < 0,
        "rp": rest > 0 and number > 0,
    }[rounding]
    found = Fraction(whole + up) * Fraction(2) ** exponent
    if found > _LARGEST:
        stays = rounding in ("rz", "rp" if number < 0 else "rm")
        return math.copysign(float(_LARGEST) if stays else math.inf, sign)
    return math.copysign(float(found), sign)


def fused_exactly(a: float, b: float, c: float, rounding: str = "rn") -> float:
    """a * b + c of finite numbers."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return rounded_exactly(exact, rounding, negative_zero=_zero_sign(a, b, c, rounding))


def _zero_sign(a: float, b: float, c: float, rounding: str) -> bool:
    """Whether a sum that is zero is -0: both terms are, or they cancel where rounding is toward minus infinity."""
    product = math.copysign(1, a) * math.copysign(1, b)
    both = product < 0 and math.copysign(1, c) < 0
    cancelled = product != math.copysign(1, c)
    return both or (cancelled and rounding == "rm")


def _product(a: float, b: float, rounding: str) -> float:
    return fused_exactly(a, b, math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b)), rounding)


def _quotient(a: float, b: float, rounding: str) -> float:
    return rounded_exactly(Fraction(a) / Fraction(b), rounding)


def _root(a: float, rounding: str) -> float:
    number, scale = Fraction(a), 2 ** (2 * -_LEAST)
    root = math.isqrt(int(number * scale * scale))
    is_exact = root * root == number * scale * scale
    return rounded_exactly(Fraction(2 * root + (not is_exact), 2 * scale), rounding)


EXACT: dict[str, Callable[..., float]] = {
    "add": lambda a, b, rounding: fused_exactly(a, 1.0, b, rounding),
    "sub": lambda a, b, rounding: fused_exactly(a, 1.0, -b, rounding),
    "mul": _product,
    "fma": fused_exactly,
    "div": _quotient,
    "sqrt": _root,
}
"""Operations on finite float64 and a rounding; no zeros for div, numbers above 0 for sqrt."""


def directed(nearest: Callable[..., Array], exact: Callable[..., float], rounding: str, *given: Array) -> Array:
    """An operation on float64: `nearest` for rn, else number by number where `nearest` says too little."""
    found = nearest(*given)
    if rounding == "rn":
        return found
    usual = np.logical_and.reduce([np.isfinite(one) for one in given])
    if nearest in (np.divide, np.sqrt):
        usual &= np.logical_and.reduce([one != 0 for one in given]) & ~np.isnan(found)
    for place in zip(*np.nonzero(usual), strict=True):
        found[place] = exact(*(float(one[place]) for one in given), rounding)
    return found
