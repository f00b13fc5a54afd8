"""Rounding of exact rational numbers, one at a time: for what float64 cannot hold."""

from __future__ import annotations

import math
from fractions import Fraction

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
