"""Sine, cosine, hyperbolic tangent and the error function of f32, accurate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nvbackend.builder.ops.math.powers import exp
from nvbackend.builder.ops.math.singles import Singles

_hex = float.fromhex
Exponential = Callable[[Any, Any], Any]
_TWO_OVER_PI = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
"""The bits of 2 / pi after the binary point, with a word of zeros in front."""
_NEAR = 0x3F490FDB
"""The bits of pi / 4: smaller arguments need no reduction."""
_INFINITY = 0x7F800000
_TURN_HIGH, _TURN_LOW = _hex("0x1.921fb6p-62"), _hex("-0x1.777a5cp-87")
"""A quarter of a turn by 2**62, as a sum."""
_SIN = tuple(map(_hex, ("-0x1.555546p-3", "0x1.11077ep-7", "-0x1.9956b4p-13")))
"""(sin(r) - r) / r**3, in r**2 up to (pi / 4)**2."""
_COS = tuple(map(_hex, ("0x1.55554ap-5", "-0x1.6c0c22p-10", "0x1.99e4f6p-16")))
"""(cos(r) - 1 + r**2 / 2) / r**4, in r**2."""
_TANH = tuple(map(_hex, ("-0x1.555540p-2", "0x1.110a20p-3", "-0x1.b8a6d8p-5", "0x1.5510cep-6", "-0x1.83dcf8p-8")))
"""(tanh(x) - x) / x**3, in x**2 up to 0.36."""
_TANH_NEAR, _TANH_FAR = 0.59375, 10.0
_ERF = tuple(
    map(
        _hex,
        (
            *("0x1.06eba8p-3", "-0x1.812742p-2", "0x1.ce2dd6p-4", "-0x1.b809d6p-6"),
            *("0x1.5496e6p-8", "-0x1.a877fap-11", "0x1.56c7d2p-14"),
        ),
    )
)
"""erf(x) / x - 1, in x**2 up to 0.92."""
_ERFC = tuple(
    map(
        _hex,
        (
            *("-0x1.656e9cp-13", "0x1.2126a2p+0", "0x1.444ac8p-1", "0x1.bb5d72p-4"),
            *("-0x1.9b33c2p-6", "0x1.10dea4p-8", "-0x1.c6255ap-12", "0x1.60343ap-16"),
        ),
    )
)
"""-log(1 - erf(x)) for x from 0.92 to 4."""
_ERF_NEAR, _ERF_FAR = 0.953125, 4.0
_SQRT_HALF = _hex("0x1.6a09e6p-1")
_GELU_CUBIC, _GELU_SCALE = _hex("0x1.6e4e26p-5"), _hex("0x1.988454p+0")
"""0.044715 and sqrt(8 / pi)."""


def _turns(s: Singles, bits: Any) -> tuple[Any, Any, Any]:
    """|x|, which has these bits, as quarter turns: how many (the low 2 bits of a word), and the rest as a sum.

    2 / pi is multiplied by the significand (Payne and Hanek): 96 of its bits, from the first whose product is less than
    four quarter turns.
    """
    shift = s.minus(s.right(bits, 23), s.word(120))
    words = [s.word(word) for word in _TWO_OVER_PI]
    part = words[:4]
    for place in range(1, 5):
        later = s.at_least(shift, 32 * place)
        part = [s.select(later, words[place + index], part[index]) for index in range(4)]
    window = [s.wide(s.funnel(part[index], part[index + 1], shift)) for index in range(3)]
    significand = s.wide(s.plus(s.masked(bits, 0x7FFFFF), s.word(0x800000)))
    low = s.wide_right(s.wide_mul(significand, window[2]), 32)
    middle = s.wide_add(s.wide_mul(significand, window[1]), low)
    product = s.wide_add(middle, s.wide_left(s.wide_mul(significand, window[0]), 32))
    quarters = s.wide_right(s.wide_add(product, s.wide_number(1 << 61)), 62)
    rest = s.wide_sub(product, s.wide_left(quarters, 62))
    first = s.of_wide(rest)
    second = s.of_wide(s.wide_sub(rest, s.to_wide(first)))
    high = s.mul(first, s.number(_TURN_HIGH))
    low_part = s.fma(first, s.number(_TURN_HIGH), s.neg(high))
    low_part = s.fma(first, s.number(_TURN_LOW), s.fma(second, s.number(_TURN_HIGH), low_part))
    return s.narrow(quarters), high, low_part


def wave(s: Singles, x: Any, wave: str) -> Any:
    """The sine or cosine ("sin", "cos") of x radians."""
    bits = s.masked(s.bits(x), 0x7FFFFFFF)
    near = s.below(bits, _NEAR)
    quarters, high, low = _turns(s, bits)
    r = s.select(near, s.single(bits), high)
    low = s.select(near, s.number(0.0), low)
    quarters = s.select(near, s.word(0), quarters)
    square = s.mul(r, r)
    sine = s.add(s.fma(s.mul(square, r), s.polynomial(_SIN, square), low), r)
    tail = s.fma(s.mul(square, square), s.polynomial(_COS, square), s.mul(r, s.neg(low)))
    half = s.mul(square, s.number(0.5))
    near_one = s.sub(s.number(1.0), half)
    lost = s.sub(s.sub(s.number(1.0), near_one), half)
    cosine = s.add(near_one, s.add(tail, lost))
    if wave == "cos":
        quarters = s.plus(quarters, s.word(1))
    turned = s.select(s.is_set(quarters, 1), cosine, sine)
    turned = s.select(s.is_set(quarters, 2), s.neg(turned), turned)
    if wave == "sin":
        turned = s.select(s.less(s.number(0.0), x), turned, s.neg(turned))
        turned = s.select(s.equal(x, s.number(0.0)), x, turned)
    return s.select(s.below(bits, _INFINITY), turned, s.number(math.nan))


def tanh(s: Singles, x: Any) -> Any:
    """The hyperbolic tangent of x."""
    size = s.abs(x)
    square = s.mul(x, x)
    near = s.fma(s.mul(square, size), s.polynomial(_TANH, square), size)
    capped = s.select(s.less(s.number(_TANH_FAR), size), s.number(_TANH_FAR), size)
    power = s.add(exp(s, s.add(capped, capped)), s.number(1.0))
    far = s.sub(s.number(1.0), s.div(s.number(2.0), power))
    return s.copysign(s.select(s.less(size, s.number(_TANH_NEAR)), near, far), x)


def erf(s: Singles, x: Any) -> Any:
    """The error function of x."""
    size = s.abs(x)
    near = s.fma(s.polynomial(_ERF, s.mul(x, x)), x, x)
    capped = s.select(s.less(s.number(_ERF_FAR), size), s.number(_ERF_FAR), size)
    far = s.sub(s.number(1.0), exp(s, s.neg(s.polynomial(_ERFC, capped))))
    return s.select(s.less(size, s.number(_ERF_NEAR)), near, s.copysign(far, x))


def sigmoid(s: Singles, x: Any, exp: Exponential = exp) -> Any:
    """1 / (1 + exp(-x)), of the exponential that does not overflow."""
    power = exp(s, s.neg(s.abs(x)))
    above = s.select(s.less(x, s.number(0.0)), power, s.number(1.0))
    return s.div(above, s.add(power, s.number(1.0)))


def silu(s: Singles, x: Any, exp: Exponential = exp) -> Any:
    """x times its sigmoid, by the root of the exponential, which stays normal where the product is normal."""
    root = exp(s, s.mul(s.abs(x), s.number(-0.5)))
    above = s.select(s.less(x, s.number(0.0)), s.mul(s.mul(x, root), root), x)
    return s.div(above, s.fma(root, root, s.number(1.0)))


def gelu(s: Singles, x: Any) -> Any:
    """x times the normal distribution's part below it."""
    half = s.mul(x, s.number(0.5))
    return s.fma(half, erf(s, s.mul(x, s.number(_SQRT_HALF))), half)


def gelu_tanh(s: Singles, x: Any) -> Any:
    """x times the sigmoid of sqrt(8 / pi) (x + 0.044715 x**3)."""
    cubic = s.fma(s.mul(x, x), s.number(_GELU_CUBIC), s.number(1.0))
    return s.mul(x, sigmoid(s, s.mul(s.mul(x, s.number(_GELU_SCALE)), cubic)))
