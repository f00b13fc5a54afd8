"""Sine, cosine, hyperbolic tangent, the error function and what is made of them, of f64."""

from __future__ import annotations

import math
from typing import Any

from nvbackend.builder.ops.math import waves
from nvbackend.builder.ops.math.double_powers import exp, expm1
from nvbackend.builder.ops.math.doubles import Doubles

_hex = float.fromhex


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(_hex, text.split()))


_TWO_OVER_PI = (
    0,
    *(0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561),
    *(0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484),
    *(0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F),
    *(0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B),
    *(0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB),
)
"""The bits of 2 / pi after the binary point, with 64 zeros in front: as many as the largest number needs."""
_WINDOW = 4
"""Numbers of 64 bits from which the three of a window are shifted."""
_NEAR = 0x3FE921FB54442D18
"""The bits of pi / 4: smaller arguments need no reduction."""
_INFINITY = 0x7FF0000000000000
_TURN = (_hex("0x1.921fb54442d18p-126"), _hex("0x1.1a62633145c07p-180"))
"""A quarter of a turn by 2**126, as a sum."""
_SIN = _numbers(
    """
        -0x1.5555555555555p-3 0x1.1111111110bb2p-7 -0x1.a01a019e83816p-13 0x1.71de379654304p-19
        -0x1.ae600aca92c64p-26 0x1.5e0b05bff20f2p-33
    """
)
"""(sin(r) - r) / r**3, in r**2 up to (pi / 4)**2."""
_COS = _numbers(
    """
        0x1.5555555555555p-5 -0x1.6c16c16c16967p-10 0x1.a01a019f4e9b4p-16 -0x1.27e4fa17bf139p-22
        0x1.1eeb68cd22f56p-29 -0x1.907d8f29fe831p-37
    """
)
"""(cos(r) - 1 + r**2 / 2) / r**4, in r**2."""
_ERF = _numbers(
    """
        0x1.06eba8214db69p-3 -0x1.812746b0379e6p-2 0x1.ce2f21a042b30p-4 -0x1.b82ce31284e00p-6
        0x1.565bcd0dbaa38p-8 -0x1.c02db3dac435fp-11 0x1.f9a321d5b8e1ep-14 -0x1.f4d1e3183f7aep-17
        0x1.b9df224ca4b97p-20 -0x1.5f1ecb6f0764cp-23 0x1.f7b4bf3b13964p-27 -0x1.389d4f2641625p-30
        0x1.05ffd737fb32ep-34
    """
)
"""erf(x) / x - 1, in x**2 up to 1."""
_ERFC = _numbers(
    """
        0x1.d97fbf27aa2a2p+0 0x1.51c9b0006c1b6p+1 0x1.afabc11a2df7ep-1 0x1.5477f097ef626p-5
        -0x1.48c9d375c0828p-7 0x1.033f5e360d331p-9 -0x1.f1b27417154a9p-13 -0x1.b8e726ca17e28p-16
        0x1.c79b913ea5619p-16 -0x1.41f47a739b9a7p-17 0x1.10e2d68e2072ap-19 -0x1.d9ac50f0c13efp-24
        -0x1.0e42f6fffd61ap-23 0x1.2d43aa7fa9f9ap-24 -0x1.94f187c20df3cp-26 0x1.9a3967fe47a20p-28
        -0x1.49ab706423b1ap-30 0x1.a88f7283fc9c5p-33 -0x1.b2961971871adp-36 0x1.5a2e568a886cep-39
        -0x1.9ddb9f82c0d7fp-43 0x1.5d2bfcdf09018p-47 -0x1.728b128877a6bp-52 0x1.73c06fcddb4a5p-58
    """
)
"""-log(1 - erf(x)) for x from 1 to 6, in x - 1."""
_ERF_NEAR, _ERF_FAR = 1.0, 6.0
_TANH_NEAR, _TANH_FAR = 0.55, 20.0
_GELU_CUBIC = 0.044715


def _window(d: Doubles, bits: Any) -> list[Any]:
    """192 bits of 2 / pi, from the first whose product with this significand is less than four quarter turns."""
    shift = d.wide_sub(d.wide_right(bits, 52), d.wide_number(1013))
    words = [d.wide_number(word) for word in _TWO_OVER_PI]
    for step in (16, 8, 4, 2, 1):
        skip = d.has_bit(shift, 6 + step.bit_length() - 1)
        words = [
            d.select(skip, words[place + step], words[place]) if place + step < len(words) else words[place]
            for place in range(_WINDOW + step - 1)  # the smaller steps still need so many
        ]
    return [d.wide_funnel(words[place], words[place + 1], shift) for place in range(_WINDOW - 1)]


def _turns(d: Doubles, bits: Any) -> tuple[Any, Any, Any]:
    """|x|, which has these bits, as quarter turns: how many (the low 2 bits of 64), and the rest as a sum.

    2 / pi is multiplied by the significand (Payne and Hanek), exactly but for what is far below the last place.
    """
    window = _window(d, bits)
    significand = d.wide_add(d.wide_masked(bits, (1 << 52) - 1), d.wide_number(1 << 52))
    middle = d.wide_add(d.product(significand, window[1]), d.in_product(d.high_of(d.product(significand, window[2]))))
    top = d.wide_add(d.high_of(middle), d.wide_mul(significand, window[0]))
    below = d.low_of(middle)
    quarters = d.wide_right(d.wide_add(top, d.wide_number(1 << 61)), 62)
    above = d.wide_sub(top, d.wide_left(quarters, 62))
    first = d.of_wide(above)
    rest = d.of_wide(d.wide_sub(above, d.to_wide(first)))
    first = d.mul(first, d.number(2.0**64))
    upper = d.mul(d.of_wide(d.wide_right(below, 11)), d.number(2.0**11))
    rest = d.fma(rest, d.number(2.0**64), upper)
    total = d.add(first, rest)  # either may be the larger one
    part = d.sub(total, first)
    lost = d.add(d.sub(first, d.sub(total, part)), d.sub(rest, part))
    lost = d.add(lost, d.of_wide(d.wide_masked(below, (1 << 11) - 1)))
    high = d.mul(total, d.number(_TURN[0]))
    low = d.fma(total, d.number(_TURN[0]), d.neg(high))
    low = d.fma(total, d.number(_TURN[1]), d.fma(lost, d.number(_TURN[0]), low))
    return quarters, high, low


def wave(d: Doubles, x: Any, wave: str) -> Any:
    """The sine or cosine ("sin", "cos") of x radians."""
    bits = d.bits(d.abs(x))
    far = d.wide_at_least(bits, _NEAR)
    quarters, high, low = _turns(d, bits)
    r = d.select(far, high, d.abs(x))
    low = d.select(far, low, d.number(0.0))
    quarters = d.select(far, quarters, d.wide_number(0))
    square = d.mul(r, r)
    # Of sin(r + low) and cos(r + low) the terms in which `low` counts.
    half = d.mul(square, d.number(0.5))
    near_one = d.sub(d.number(1.0), half)
    sine = d.fma(d.mul(square, r), d.polynomial(_SIN, square), d.mul(low, near_one))
    sine = d.add(r, sine)
    lost = d.sub(d.sub(d.number(1.0), near_one), half)
    tail = d.fma(d.mul(square, square), d.polynomial(_COS, square), d.mul(r, d.neg(low)))
    cosine = d.add(near_one, d.add(tail, lost))
    if wave == "cos":
        quarters = d.wide_add(quarters, d.wide_number(1))
    turned = d.select(d.has_bit(quarters, 0), cosine, sine)
    turned = d.select(d.has_bit(quarters, 1), d.neg(turned), turned)
    if wave == "sin":
        turned = d.select(d.negative(x), d.neg(turned), turned)
    return d.select(d.wide_at_least(bits, _INFINITY), d.number(math.nan), turned)


def tanh(d: Doubles, x: Any) -> Any:
    """The hyperbolic tangent of x."""
    size = d.abs(x)
    capped = d.select(d.less(d.number(_TANH_FAR), size), d.number(_TANH_FAR), size)
    power = expm1(d, d.add(capped, capped))
    above = d.add(power, d.number(2.0))
    near = d.div(power, above)
    far = d.sub(d.number(1.0), d.div(d.number(2.0), above))
    return d.copysign(d.select(d.less(size, d.number(_TANH_NEAR)), near, far), x)


def erf(d: Doubles, x: Any) -> Any:
    """The error function of x."""
    size = d.abs(x)
    near = d.fma(d.polynomial(_ERF, d.mul(x, x)), x, x)
    capped = d.select(d.less(d.number(_ERF_FAR), size), d.number(_ERF_FAR), size)
    far = d.sub(d.number(1.0), exp(d, d.neg(d.polynomial(_ERFC, d.sub(capped, d.number(_ERF_NEAR))))))
    return d.select(d.less(size, d.number(_ERF_NEAR)), near, d.copysign(far, x))


def sigmoid(d: Doubles, x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return waves.sigmoid(d, x, exp)


def silu(d: Doubles, x: Any) -> Any:
    """x times its sigmoid."""
    return waves.silu(d, x, exp)


def gelu(d: Doubles, x: Any) -> Any:
    """x times the normal distribution's part below it."""
    half = d.mul(x, d.number(0.5))
    return d.fma(half, erf(d, d.mul(x, d.number(math.sqrt(0.5)))), half)


def gelu_tanh(d: Doubles, x: Any) -> Any:
    """x times the sigmoid of sqrt(8 / pi) (x + 0.044715 x**3)."""
    cubic = d.fma(d.mul(x, x), d.number(_GELU_CUBIC), d.number(1.0))
    return d.mul(x, sigmoid(d, d.mul(d.mul(x, d.number(math.sqrt(8 / math.pi))), cubic)))
