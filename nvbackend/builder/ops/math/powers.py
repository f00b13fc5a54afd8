"""Exponentials, logarithms and powers of f32, accurate: reduction of the argument, then a polynomial.

The coefficients are minimax fits, rounded to f32 one after another; the error bounds that the calls state were measured
over all exponents (tests/builder/ops/math).
"""

from __future__ import annotations

import math
from typing import Any

from nvbackend.builder.ops.math.singles import Singles

_hex = float.fromhex
_MAGIC = 1.5 * 2.0**23
"""Added to a small number, it leaves the nearest integer in the low bits."""
_LOG2_E = _hex("0x1.715476p+0")
_LN2_HIGH, _LN2_LOW = _hex("0x1.62e430p-1"), _hex("-0x1.05c610p-29")
_EXP = tuple(map(_hex, ("0x1p-1", "0x1.55548ep-3", "0x1.5554dap-5", "0x1.123bf2p-7", "0x1.6d5cfap-10")))
"""(e**r - 1 - r) / r**2 for |r| <= ln(2) / 2."""
_EXP2 = tuple(map(_hex, ("0x1.ebfbe0p-3", "0x1.c6af86p-5", "0x1.3b2a3ap-7", "0x1.5f0548p-10", "0x1.44343cp-13")))
"""(2**r - 1 - r ln(2)) / r**2 for |r| <= 1/2."""
_LOG = tuple(
    map(
        _hex,
        (
            *("-0x1p-1", "0x1.555558p-2", "-0x1.ffff10p-3", "0x1.99967cp-3", "-0x1.5598dap-3"),
            *("0x1.251426p-3", "-0x1.f38e04p-4", "0x1.b5a13ap-4", "-0x1.0709e6p-3", "0x1.f6eee8p-4"),
        ),
    )
)
"""(log(1 + f) - f) / f**2 for -1/3 <= f <= 1/3."""
_TWO_THIRDS = 0x3F2AAAAB
"""The bits of 2/3: significands are reduced to [2/3, 4/3)."""
_EXPONENT_MASK = -1 << 23
_LEAST_NORMAL, _UP = 2.0**-126, 2.0**23
_BASES = {
    "e": (1.0, 0.0, _LN2_HIGH, _LN2_LOW),
    "2": (_hex("0x1.715476p+0"), _hex("0x1.4ae0bep-26"), 1.0, 0.0),
    "10": (_hex("0x1.bcb7b2p-2"), _hex("-0x1.5b235ep-27"), _hex("0x1.344136p-2"), _hex("-0x1.ec10c0p-27")),
}
"""By base: one over its natural logarithm, and the logarithm of 2 to it; each as a sum of two f32."""


def clamped(s: Singles, x: Any, low: float, high: float) -> Any:
    """`x` between two bounds; NaN stays."""
    x = s.select(s.less(x, s.number(low)), s.number(low), x)
    return s.select(s.less(s.number(high), x), s.number(high), x)


def _scaled(s: Singles, p: Any, n: Any) -> Any:
    """p * 2**n, in two steps: the first is exact."""
    half = s.right(n, 1)
    first = s.single(s.left(s.plus(half, s.word(127)), 23))
    second = s.single(s.left(s.plus(s.minus(n, half), s.word(127)), 23))
    return s.mul(s.mul(p, first), second)


def _integer(s: Singles, shifted: Any) -> tuple[Any, Any]:
    """The integer that adding `_MAGIC` has rounded to: as a number and as a word."""
    return s.sub(shifted, s.number(_MAGIC)), s.minus(s.bits(shifted), s.bits(s.number(_MAGIC)))


def exp(s: Singles, x: Any, low: Any = None) -> Any:
    """e to the power of x, or of x + low, where `low` is small beside x."""
    x = clamped(s, x, -105.0, 105.0)
    number, n = _integer(s, s.fma(x, s.number(_LOG2_E), s.number(_MAGIC)))
    r = s.fma(number, s.number(-_LN2_HIGH), x)
    r = s.fma(number, s.number(-_LN2_LOW), r)
    if low is not None:
        r = s.add(r, low)
    p = s.fma(s.mul(r, r), s.polynomial(_EXP, r), r)
    return _scaled(s, s.add(p, s.number(1.0)), n)


def exp2(s: Singles, x: Any, low: Any = None) -> Any:
    """2 to the power of x, or of x + low, where `low` is small beside x."""
    x = clamped(s, x, -152.0, 130.0)
    number, n = _integer(s, s.add(x, s.number(_MAGIC)))
    r = s.sub(x, number)
    if low is not None:
        r = s.add(r, low)
    p = s.fma(s.mul(r, r), s.polynomial(_EXP2, r), s.mul(r, s.number(_LN2_HIGH)))
    return _scaled(s, s.add(p, s.number(1.0)), n)


def reduced(s: Singles, x: Any) -> tuple[Any, Any]:
    """x = 2**e * (1 + f) with -1/3 <= f < 1/3: `e` as a number, and `f`."""
    tiny = s.less(x, s.number(_LEAST_NORMAL))
    x = s.select(tiny, s.mul(x, s.number(_UP)), x)
    bits = s.bits(x)
    exponent = s.masked(s.minus(bits, s.word(_TWO_THIRDS)), _EXPONENT_MASK)
    f = s.sub(s.single(s.minus(bits, exponent)), s.number(1.0))
    start = s.select(tiny, s.number(-23.0), s.number(0.0))
    return s.fma(s.of_word(exponent), s.number(2.0**-23), start), f


def log(s: Singles, x: Any, base: str) -> Any:
    """The logarithm of x to the base "e", "2" or "10"."""
    e, f = reduced(s, x)
    scale, scale_low, two, two_low = _BASES[base]
    p = s.mul(s.mul(f, f), s.polynomial(_LOG, f))
    high = s.mul(f, s.number(scale))
    rest = s.fma(p, s.number(scale), s.fma(e, s.number(two_low), s.mul(f, s.number(scale_low))))
    if base != "e":
        rest = s.add(rest, s.fma(f, s.number(scale), s.neg(high)))
    whole = s.mul(e, s.number(two))
    total = s.add(whole, high)
    rest = s.add(rest, s.add(s.sub(whole, total), high))  # exact, as |whole| is 0 or the larger one
    if base != "2":
        rest = s.add(rest, s.fma(e, s.number(two), s.neg(whole)))
    return of_positive(s, x, s.add(total, rest))


def of_positive(s: Singles, x: Any, logarithm: Any) -> Any:
    """`logarithm` where x is positive and finite; the logarithm of 0, infinity, negative numbers and NaN elsewhere."""
    infinity = s.number(math.inf)
    logarithm = s.select(s.less(x, infinity), logarithm, x)  # infinity and NaN
    logarithm = s.select(s.equal(x, s.number(0.0)), s.neg(infinity), logarithm)
    return s.select(s.less(x, s.number(0.0)), s.number(math.nan), logarithm)
