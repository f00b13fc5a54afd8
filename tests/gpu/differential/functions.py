"""The functions of k.math, with the errors that their docstrings state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from nvbackend.intrinsics.row.types import f32
from tests.builder.ops.math.exact import EXACT, distances
from tests.builder.ops.math.test_accuracy import APPROXIMATE, BOUNDS
from tests.gpu.differential.case import Case, Judge
from tests.gpu.differential.rounding import Array

_FAST: dict[str, Callable[[Array], Array]] = {**EXACT, "sin": np.sin, "cos": np.cos}
"""NumPy's sine of float64 is good to a unit of it, and quick."""


def _within(bound: float) -> Judge:
    return lambda got, wanted, *_: ~(distances(got.astype(np.float32), wanted) <= bound)


def _approximate(name: str) -> Judge:
    absolute, units, each = APPROXIMATE[name]

    def wrong(got: Array, wanted: Array, x: Array) -> Array:
        with np.errstate(all="ignore"):
            middling = (np.abs(x) >= 2.0**-100) & (np.abs(x) <= 2.0**100)
            middling &= (np.abs(wanted) >= 2.0**-126) & (np.abs(wanted) < 2.0**127)
            unit = np.ldexp(1.0, np.frexp(wanted)[1] - 24)
            allowed = np.maximum(absolute, (units + each * np.abs(x)) * unit)
            return middling & ~(np.abs(got - wanted) <= allowed)

    return wrong


def _near(bound: float, inside: Callable[..., Array]) -> Judge:
    """Within an absolute error where the arguments are `inside`."""
    return lambda got, wanted, *x: inside(*x) & ~(np.abs(got - wanted) <= bound)


def _gelu(x: Array, form: str = "erf") -> Array:
    if form == "erf":
        return x * (1 + EXACT["erf"](x / np.sqrt(2))) / 2
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def _relative(bound: float) -> Judge:
    """Within a part of the argument, where it is of middling size."""
    return lambda got, wanted, x: (np.abs(x) < 12) & (np.abs(x) > 1e-30) & ~(np.abs(got - wanted) <= bound * np.abs(x))


def functions() -> Iterator[Case]:
    for name, bound in BOUNDS.items():
        more = {} if name == "erf" else {"approx": False}
        yield Case(
            *(f"math.{name}", f"within {bound} ulp", (f32,), f32),
            lambda k, a, name=name, more=more: getattr(k.math, name)(a, **more),
            _FAST[name],
            _within(bound),
        )
    for name in APPROXIMATE:
        yield Case(
            *(f"math.{name}", "approx", (f32,), f32),
            lambda k, a, name=name: getattr(k.math, name)(a, approx=True),
            _FAST[name],
            _approximate(name),
        )
    yield Case(
        *("math.pow", "within 1.3 ulp", (f32, f32), f32),
        lambda k, a, b: k.math.pow(a, b, approx=False),
        np.power,
        _within(1.3),
    )
    for name in ("sin", "cos"):
        yield Case(
            *(f"math.{name}", "approx", (f32,), f32),
            lambda k, a, name=name: getattr(k.math, name)(a, approx=True),
            _FAST[name],
            _near(2.0**-20.5, lambda x: np.abs(x) <= math.pi),
        )
    for form, bound in (("erf", 2.0**-23), ("tanh", 2.0**-21)):
        yield Case(
            *("math.gelu", form, (f32,), f32),
            lambda k, a, form=form: k.math.gelu(a, form=form, approx=False),
            lambda x, form=form: _gelu(x, form),
            _relative(bound),
        )
    yield Case(
        *("math.divide", "approx", (f32, f32), f32),
        lambda k, a, b: k.math.divide(a, b, approx=True),
        np.divide,
        lambda got, wanted, a, b: _full_division(got, wanted, b),
    )


def _full_division(got: Array, wanted: Array, b: Array) -> Array:
    """div.full is within 2 ulp for divisors from 2**-126 to 2**126 (PTX ISA 9.7.3)."""
    with np.errstate(all="ignore"):
        middling = (np.abs(b) >= 2.0**-126) & (np.abs(b) <= 2.0**126) & (np.abs(wanted) >= 2.0**-124)
        middling &= np.abs(wanted) < 2.0**127
        return middling & ~(np.abs(got - wanted) <= 2 * np.ldexp(1.0, np.frexp(wanted)[1] - 24))
