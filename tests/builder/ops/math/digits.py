"""What the functions of k.math are, to 60 digits: for results of f64, which no float can judge."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

from tests.builder.ops.math.exact import pi_times

DIGITS = 60
_TURN_BITS = 1400
"""The largest f64 has 1024 bits before its point, and as many digits as are wanted come after them."""
_PRECISE = Context(prec=DIGITS + 20, Emin=-100_000, Emax=100_000)


@cache
def _quarter() -> int:
    return pi_times(_TURN_BITS) // 2


@cache
def _ln2() -> Decimal:
    return Decimal(2).ln(_PRECISE)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _series(x: Decimal, first: Decimal, start: int) -> Decimal:
    """Of the sine (first = x, start = 1) or the cosine (first = 1, start = 0)."""
    total, term, n = first, first, start
    while abs(term) > Decimal(10) ** -(DIGITS + 15):
        term *= -x * x / ((n + 1) * (n + 2))
        total, n = total + term, n + 2
    return total


def _wave(x: float, quarters: int) -> Decimal:
    numerator, denominator = x.as_integer_ratio()
    turn, rest = divmod((numerator << _TURN_BITS) // denominator, _quarter())
    angle = _decimal(Fraction(rest, 1 << _TURN_BITS))
    turn += quarters
    wave = _series(angle, Decimal(1), 0) if turn & 1 else _series(angle, angle, 1)
    return -wave if turn & 2 else wave


def _erf(x: float) -> Decimal:
    """Of terms with one sign: exp(-x**2) times the sum of 2**n x**(2n + 1) / (1 * 3 * ... * (2n + 1))."""
    exact = Decimal(x)
    total, term, n = exact, exact, 0
    while abs(term) > abs(total) * Decimal(10) ** -DIGITS:
        n += 1
        term *= 2 * exact * exact / (2 * n + 1)
        total += term
    root = _decimal(Fraction(2 * _quarter(), 1 << _TURN_BITS)).sqrt()
    return 2 / root * (-exact * exact).exp() * total


def _tanh(x: float) -> Decimal:
    power = (2 * Decimal(x)).exp()
    return (power - 1) / (power + 1)


def _sigmoid(x: float) -> Decimal:
    return 1 / (1 + (-Decimal(x)).exp())


PRECISE: dict[str, Callable[..., Decimal]] = {
    "exp": lambda x: Decimal(x).exp(),
    "exp2": lambda x: (Decimal(x) * _ln2()).exp(),
    "log": lambda x: Decimal(x).ln(),
    "log2": lambda x: Decimal(x).ln() / _ln2(),
    "log10": lambda x: Decimal(x).log10(),
    "sin": lambda x: _wave(x, 0),
    "cos": lambda x: _wave(x, 1),
    "tanh": _tanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "silu": lambda x: Decimal(x) * _sigmoid(x),
    "pow": lambda x, y: (Decimal(y) * Decimal(x).ln()).exp(),
}


def units_off(name: str, got: float, *operands: float) -> float:
    """How many units in the last place of f64 `got` is off."""
    with localcontext(_PRECISE):
        exact = Fraction(PRECISE[name](*operands))
        exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
        while abs(exact) >= Fraction(2) ** exponent:
            exponent += 1
        while abs(exact) < Fraction(2) ** (exponent - 1):
            exponent -= 1
        return float(abs(Fraction(got) - exact) / Fraction(2) ** max(exponent - 53, -1074))
