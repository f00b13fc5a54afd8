"""x to the power of y: 2**(y log2(x)), where the logarithm is a sum of two numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nvbackend.builder.ops.math.powers import exp2, reduced
from nvbackend.builder.ops.math.singles import Singles
from nvbackend.diagnostics.classes.dataclass import dataclass

_hex = float.fromhex
_Sum = tuple[Any, Any]
"""A number as a sum of two, of which the second is small beside the first."""
_TWO_THIRDS = (_hex("0x1.555556p-1"), _hex("-0x1.555556p-26"))
_ATANH = tuple(map(_hex, ("0x1.99999ap-2", "0x1.24924ap-2", "0x1.c71c72p-3", "0x1.745d18p-3", "0x1.3b13b2p-3")))
"""2/5, 2/7 and so on: of log((1 + t) / (1 - t)) = 2t + t**3 (2/3 + 2/5 t**2 + ...)."""
_LOG2_E = (_hex("0x1.715476p+0"), _hex("0x1.4ae0bep-26"))
_MOST = _hex("0x1p+40")
_FAR = 256.0


@dataclass(frozen=True)
class Logarithm:
    """What the logarithm of a type is made of: the reduction of its argument, and constants as sums of two numbers."""

    reduced: Callable[[Any, Any], _Sum]
    two_thirds: tuple[float, float]
    atanh: tuple[float, ...]
    log2_e: tuple[float, float]


_LOGARITHM = Logarithm(reduced, _TWO_THIRDS, _ATANH, _LOG2_E)


def _sum(s: Singles, a: Any, b: Any) -> _Sum:
    """a + b, exactly, where a is 0 or the larger one."""
    total = s.add(a, b)
    return total, s.add(s.sub(a, total), b)


def _product(s: Singles, a: _Sum, b: _Sum) -> _Sum:
    """a * b."""
    high = s.mul(a[0], b[0])
    low = s.fma(a[0], b[0], s.neg(high))
    return high, s.fma(a[0], b[1], s.fma(a[1], b[0], low))


def _log2(s: Singles, x: Any, made_of: Logarithm) -> _Sum:
    """The logarithm of a positive x to the base 2: of f32 to 2**-33 of it, of f64 to 2**-64."""
    exponent, f = made_of.reduced(s, x)
    divisor = s.add(f, s.number(2.0))
    lost = s.sub(f, s.sub(divisor, s.number(2.0)))
    high = s.div(f, divisor)
    low = s.div(s.fma(s.neg(high), lost, s.fma(s.neg(high), divisor, f)), divisor)
    t = high, low
    square = _product(s, t, t)
    first, rest = _sum(s, s.number(made_of.two_thirds[0]), s.mul(square[0], s.polynomial(made_of.atanh, square[0])))
    cubic = _product(s, _product(s, square, (first, s.add(rest, s.number(made_of.two_thirds[1])))), t)
    top, bottom = _sum(s, s.add(high, high), cubic[0])
    natural = _sum(s, top, s.add(bottom, s.add(s.add(low, low), cubic[1])))
    scaled = _product(s, natural, (s.number(made_of.log2_e[0]), s.number(made_of.log2_e[1])))
    whole, part = _sum(s, exponent, scaled[0])
    return _sum(s, whole, s.add(part, scaled[1]))


def power(s: Singles, x: Any, y: Any) -> Any:
    """x to the power of y, of f32, with C's results for special values."""
    return power_by(s, x, y, _LOGARITHM, exp2, most=_MOST, far=_FAR)


def power_by(
    s: Singles, x: Any, y: Any, logarithm: Logarithm, exp2: Callable[[Any, Any, Any], Any], *, most: float, far: float
) -> Any:
    """As `power`, of any type.

    An exponent beyond `most` gives 0, 1 or infinity as that one does, and 2 to the power of more than `far` is 0 or
    infinity.
    """
    zero, one, infinity = s.number(0.0), s.number(1.0), s.number(math.inf)
    size, exponent_size = s.abs(x), s.abs(y)
    capped = s.copysign(s.select(s.less(s.number(most), exponent_size), s.number(most), exponent_size), y)
    high, low = _product(s, _log2(s, size, logarithm), (capped, zero))
    low = s.select(s.less(s.abs(high), s.number(far)), low, zero)
    result = exp2(s, high, low)
    at_end = s.either(s.equal(size, zero), s.equal(size, infinity))
    grows = s.same(s.less(one, size), s.less(zero, y))
    result = s.select(at_end, s.select(grows, infinity, zero), result)
    half = s.mul(y, s.number(0.5))
    is_integer = s.equal(s.trunc(y), y)
    is_odd = s.both(is_integer, s.different(s.trunc(half), half))
    negative = s.negative(x)
    result = s.select(s.both(is_odd, negative), s.neg(result), result)
    no_root = s.both(s.both(s.less(x, zero), s.different(x, s.neg(infinity))), s.different(s.trunc(y), y))
    result = s.select(no_root, s.number(math.nan), result)
    result = s.select(s.different(x, x), x, s.select(s.different(y, y), y, result))
    return s.select(s.either(s.equal(y, zero), s.equal(x, one)), one, result)
