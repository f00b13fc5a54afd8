"""Exponentials, logarithms and powers of f64: reduction of the argument, then a polynomial.

The coefficients are Chebyshev fits, rounded; the error bounds that the calls state are tested against numbers of 60
digits.
"""

from __future__ import annotations

from typing import Any

from nvbackend.builder.ops.math.doubles import Doubles
from nvbackend.builder.ops.math.power import Logarithm, power_by
from nvbackend.builder.ops.math.powers import clamped, of_positive

_hex = float.fromhex


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(_hex, text.split()))


_MAGIC = 1.5 * 2.0**52
"""Added to a small number, it leaves the nearest integer in the low bits."""
_LOG2_E = (_hex("0x1.71547652b82fep+0"), _hex("0x1.777d0ffda0d24p-56"))
_LN2 = (_hex("0x1.62e42fefa39efp-1"), _hex("0x1.abc9e3b39803fp-56"))
_LN2_SHORT = (_hex("0x1.62e42fefa3800p-1"), _hex("0x1.ef35793c76730p-45"))
"""The same with zeros at the end of the first, so that its products with exponents are exact."""
_LOG10_2_SHORT = (_hex("0x1.34413509f7000p-2"), _hex("0x1.3fde623e2566bp-43"))
_BASES = {
    "2": (*_LOG2_E, 1.0, 0.0),
    "10": (_hex("0x1.bcb7b1526e50ep-2"), _hex("0x1.95355baaafad3p-57"), *_LOG10_2_SHORT),
}
"""By base: one over its natural logarithm, and the logarithm of 2 to it; each as a sum of two f64."""
_EXP = _numbers(
    """
        0x1.0000000000000p-1 0x1.5555555555557p-3 0x1.5555555555556p-5 0x1.11111111100dcp-7
        0x1.6c16c16c162d4p-10 0x1.a01a01abe7fe1p-13 0x1.a01a01a6d889cp-16 0x1.71de0231960ebp-19
        0x1.27e4db646b17ep-22 0x1.af4de97ca4194p-26 0x1.1f730349868cep-29
    """
)
"""(e**r - 1 - r) / r**2 for |r| <= ln(2) / 2."""
_LOG = _numbers(
    """
        0x1.5555555555555p-1 0x1.9999999999f99p-2 0x1.24924923d0287p-2 0x1.c71c72f1d7576p-3
        0x1.745ca69dd4056p-3 0x1.3b2ab103a724cp-3 0x1.0e7b22d240537p-3 0x1.171fcac1eaa43p-3
    """
)
"""(log((1 + t) / (1 - t)) - 2t) / t**3, in t**2 up to 0.04."""
_ATANH = _numbers(
    """
        0x1.999999999999ap-2 0x1.2492492492482p-2 0x1.c71c71c721c74p-3 0x1.745d17408c546p-3
        0x1.3b13b3d5de730p-3 0x1.1110585247c12p-3 0x1.e21dd075d040bp-4 0x1.a9879ccf5755fp-4
        0x1.cdde178406083p-4
    """
)
"""What is left of that after 2/3, by t**2."""
_TWO_THIRDS = 0x3FE5555555555555
"""The bits of 2/3: significands are reduced to [2/3, 4/3)."""
_EXPONENT_MASK = -1 << 52
_LEAST_NORMAL, _UP = 2.0**-1022, 2.0**52


def _scaled(d: Doubles, p: Any, n: Any) -> Any:
    """p * 2**n, in two steps: the first is exact."""
    half = d.wide_halved(n)
    return d.mul(d.mul(p, d.power_of_two(half)), d.power_of_two(d.wide_sub(n, half)))


def _integer(d: Doubles, shifted: Any) -> tuple[Any, Any]:
    """The integer that adding `_MAGIC` has rounded to: as a number and in 64 bits."""
    return d.sub(shifted, d.number(_MAGIC)), d.wide_sub(d.bits(shifted), d.bits(d.number(_MAGIC)))


def _less_one(d: Doubles, x: Any) -> tuple[Any, Any]:
    """e to the power of x as (1 + p) * 2**n: p and n."""
    number, n = _integer(d, d.fma(x, d.number(_LOG2_E[0]), d.number(_MAGIC)))
    r = d.fma(number, d.number(-_LN2_SHORT[0]), x)
    r = d.fma(number, d.number(-_LN2_SHORT[1]), r)
    return d.fma(d.mul(r, r), d.polynomial(_EXP, r), r), n


def exp(d: Doubles, x: Any) -> Any:
    """e to the power of x."""
    p, n = _less_one(d, clamped(d, x, -750.0, 720.0))
    return _scaled(d, d.add(p, d.number(1.0)), n)


def expm1(d: Doubles, x: Any) -> Any:
    """e to the power of x, less 1, for x from 0 to 50."""
    p, n = _less_one(d, x)
    scale = d.power_of_two(n)
    return d.fma(p, scale, d.sub(scale, d.number(1.0)))


def exp2(d: Doubles, x: Any, low: Any = None) -> Any:
    """2 to the power of x, or of x + low, where `low` is small beside x."""
    x = clamped(d, x, -1100.0, 1050.0)
    number, n = _integer(d, d.add(x, d.number(_MAGIC)))
    r = d.sub(x, number)
    natural = d.mul(r, d.number(_LN2[0]))
    rest = d.fma(r, d.number(_LN2[1]), d.fma(r, d.number(_LN2[0]), d.neg(natural)))
    if low is not None:
        rest = d.fma(low, d.number(_LN2[0]), rest)
    whole = d.add(natural, rest)
    rest = d.sub(rest, d.sub(whole, natural))
    p = d.add(whole, d.fma(d.mul(whole, whole), d.polynomial(_EXP, whole), rest))
    return _scaled(d, d.add(p, d.number(1.0)), n)


def _reduced(d: Doubles, x: Any) -> tuple[Any, Any]:
    """x = 2**e * (1 + f) with -1/3 <= f < 1/3: `e` as a number, and `f`."""
    tiny = d.less(x, d.number(_LEAST_NORMAL))
    x = d.select(tiny, d.mul(x, d.number(_UP)), x)
    bits = d.bits(x)
    exponent = d.wide_masked(d.wide_sub(bits, d.wide_number(_TWO_THIRDS)), _EXPONENT_MASK)
    f = d.sub(d.double(d.wide_sub(bits, exponent)), d.number(1.0))
    start = d.select(tiny, d.number(-52.0), d.number(0.0))
    return d.fma(d.of_wide(exponent), d.number(2.0**-52), start), f


def log(d: Doubles, x: Any, base: str) -> Any:
    """The logarithm of x to the base "e", "2" or "10"."""
    e, f = _reduced(d, x)
    t = d.div(f, d.add(f, d.number(2.0)))
    square = d.mul(t, t)
    half = d.mul(f, d.number(0.5))
    lost = d.mul(half, f)  # log(1 + f) = f - lost + t (lost + t**2 (2/3 + ...))
    rest = d.mul(t, d.fma(square, d.polynomial(_LOG, square), lost))
    if base == "e":
        rest = d.sub(lost, d.fma(e, d.number(_LN2_SHORT[1]), rest))
        return of_positive(d, x, d.fma(e, d.number(_LN2_SHORT[0]), d.neg(d.sub(rest, f))))
    scale, scale_low, two, two_low = _BASES[base]
    natural = d.sub(f, lost)
    rest = d.add(d.sub(d.sub(f, natural), lost), d.sub(rest, d.fma(half, f, d.neg(lost))))
    high = d.mul(natural, d.number(scale))
    low = d.fma(natural, d.number(scale), d.neg(high))
    low = d.add(low, d.fma(rest, d.number(scale), d.mul(natural, d.number(scale_low))))
    low = d.fma(e, d.number(two_low), low)
    whole = d.mul(e, d.number(two))
    total = d.add(whole, high)
    low = d.add(low, d.add(d.sub(whole, total), high))  # exact, as |whole| is 0 or the larger one
    return of_positive(d, x, d.add(total, low))


_LOGARITHM = Logarithm(
    reduced=_reduced,
    two_thirds=(_hex("0x1.5555555555555p-1"), _hex("0x1.5555555555555p-55")),
    atanh=_ATANH,
    log2_e=_LOG2_E,
)


def power(d: Doubles, x: Any, y: Any) -> Any:
    """x to the power of y, with C's results for special values."""
    return power_by(d, x, y, _LOGARITHM, exp2, most=2.0**70, far=2048.0)
