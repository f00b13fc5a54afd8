"""What the functions of k.math are in float64, and how far a result of f32 is from that."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
_TURN_BITS = 400


def pi_times(bits: int) -> int:
    """pi times 2**bits, by Machin's formula."""

    def arctangent(n: int) -> int:
        power = total = (1 << bits + 32) // n
        for k in range(3, bits, 2):
            power //= -n * n
            total += power // k
        return total

    return (4 * (4 * arctangent(5) - arctangent(239))) >> 32


_QUARTER = pi_times(_TURN_BITS) // 2


def _of_quarter(x: float, quarters: int) -> float:
    """The sine of x, `quarters` quarter turns further: x is reduced exactly."""
    if not math.isfinite(x):
        return math.nan
    if abs(x) < 0.5 and not quarters:
        return math.sin(x)
    numerator, denominator = x.as_integer_ratio()
    turn, rest = divmod((numerator << _TURN_BITS) // denominator, _QUARTER)
    angle, other = math.ldexp(rest, -_TURN_BITS), math.ldexp(_QUARTER - rest, -_TURN_BITS)
    sine = math.sin(angle) if angle < 1 else math.cos(other)
    cosine = math.cos(angle) if angle < 1 else math.sin(other)
    return (sine, cosine, -sine, -cosine)[turn + quarters & 3]


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([function(float(one)) for one in x])


def _sigmoid(x: Array) -> Array:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


EXACT: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sin": _each(lambda x: _of_quarter(x, 0)),
    "cos": _each(lambda x: _of_quarter(x, 1)),
    "tanh": np.tanh,
    "erf": _each(math.erf),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "pow": np.power,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "divide": np.divide,
}
"""By name, of float64."""
RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-110, 95), (-1, 1)),
    "exp2": ((-155, 130), (-1, 1)),
    **dict.fromkeys(("log", "log2", "log10"), ((0.5, 2), (0.99, 1.01))),
    **dict.fromkeys(("sin", "cos"), ((-7, 7), (-1e5, 1e5))),
    "tanh": ((-11, 11), (0.5, 0.7)),
    "erf": ((-4.5, 4.5), (0.9, 1)),
    **dict.fromkeys(("sigmoid", "silu"), ((-110, 20), (-2, 2))),
}
"""Where a function is not 0, constant or infinite."""
_TINY = (0.0, 2.0**-149, 3 * 2.0**-149, 2.0**-126, 2.0**-127, 1e-20)
_PLAIN = (0.5, 1.0, 1.5, 2.0, 3.0, 10.0, 103.97, 104.0, 127.0, 128.0, 150.0, 8388607.5, 1e10, 2.0**100, 2.0**127)
SPECIAL = np.array(
    [one for size in (*_TINY, *_PLAIN, 2.0**128 * (1 - 2.0**-24), math.inf, math.nan) for one in (size, -size)],
    np.float32,
)


def drawn(name: str, count: int, seed: int) -> Array:
    """Special numbers, numbers of the function's range, and any bits: `count` in all."""
    rng = np.random.default_rng(seed)
    ranges = RANGES.get(name, ((-10, 10),))
    share = (count - len(SPECIAL)) // (len(ranges) + 1)
    uniform = [rng.uniform(low, high, share).astype(np.float32) for low, high in ranges]
    rest = count - len(SPECIAL) - share * len(ranges)
    anything = rng.integers(0, 1 << 32, rest, np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([SPECIAL, *uniform, anything])


def distances(got: Array, exact: Array) -> Array:
    """How many units in the last place of f32 each result is off; infinity where its kind or a zero's sign is wrong."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.ldexp(1.0, np.maximum(np.frexp(np.abs(exact))[1] - 24, -149))
        distance = np.abs(got.astype(np.float64) - exact) / unit
    is_end = np.isinf(rounded) | np.isinf(got)
    near_the_end = np.isfinite(exact) & (np.abs(exact) >= 2.0**128 * (1 - 2.0**-22))
    distance = np.where(is_end & ~near_the_end, np.where(got == rounded, 0, np.inf), distance)
    distance = np.where(is_end & near_the_end, 0, distance)
    distance = np.where((exact == 0) & (np.signbit(got) != np.signbit(exact)), np.inf, distance)
    return np.where(np.isnan(exact) | np.isnan(got), np.where(np.isnan(exact) == np.isnan(got), 0, np.inf), distance)
