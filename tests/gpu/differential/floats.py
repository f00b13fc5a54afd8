"""Arithmetic of floats, extremes, signs, rounding to integers, comparisons and selections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nvbackend.intrinsics.row.types import bf16, f16, f32, f64, pred, s32, s64, u32, u64
from tests.gpu.differential.case import Case, Judge, same
from tests.gpu.differential.rounding import SHAPES, Array, flushed, odd_sum, quotient, root, rounded

_EXACT: dict[str, Callable[..., Array]] = {
    "add": odd_sum,
    "sub": lambda a, b: odd_sum(a, -b),
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: odd_sum(a * b, c),
}
_NUMPY: dict[str, Callable[..., Array]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_HALVES = (f16, bf16)


def computed(
    name: str, kind: str, mode: str = "rn", *, ftz: bool = False, saturate: bool = False, relu: bool = False
) -> Callable[..., Array]:
    """The reference of add, sub, mul or fma."""

    def wanted(*values: Array) -> Array:
        given = [flushed(value, kind) for value in values] if ftz else values
        with np.errstate(all="ignore"):
            exact = _EXACT[name](*given)
            # Where the sum is exactly 0, its sign depends on the rounding: IEEE 754, 6.3.
            result = rounded(exact, kind, mode, ftz=ftz)
            if mode == "rm" and name != "mul":
                result = _sign_of_zero_down(name, given, exact, result)
            if saturate:
                result = np.where(np.isnan(result), 0.0, np.clip(result, 0.0, 1.0))
                result = np.where(result == 0, 0.0, result)
            if relu:
                result = np.where(result < 0, 0.0, result)
                result = np.where(result == 0, 0.0, result)
        return result

    return wanted


def _sign_of_zero_down(name: str, given: Any, exact: Array, result: Array) -> Array:
    parts = (given[0] * given[1], given[2]) if name == "fma" else (given[0], -given[1] if name == "sub" else given[1])
    both_plus = ~np.signbit(parts[0]) & ~np.signbit(parts[1])
    return np.where((exact == 0) & ~both_plus, -0.0, result)


def zeros_alike(got: Array, wanted: Array, *_: Array) -> Array:
    """`same`, but for the sign of a zero."""
    return same(np.where(got == 0, 0.0, got), np.where(wanted == 0, 0.0, wanted))


def arithmetic() -> Iterator[Case]:
    for name, arity in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        for kind in (f16, bf16, f32):
            yield Case(
                *(f"math.{name}", "rn", (kind,) * arity, kind),
                lambda k, *v, name=name: getattr(k.math, name)(*v),
                computed(name, kind.name),
            )
        for mode in ("rz", "rm", "rp"):
            yield Case(
                *(f"math.{name}", mode, (f32,) * arity, f32),
                lambda k, *v, name=name, mode=mode: getattr(k.math, name)(*v, rounding=mode),
                computed(name, "f32", mode),
            )
        for kind in (f16, f32):
            for ftz, saturate in ((True, False), (False, True), (True, True)):
                yield Case(
                    *(f"math.{name}", f"ftz={ftz}, saturate={saturate}", (kind,) * arity, kind),
                    lambda k, *v, name=name, ftz=ftz, saturate=saturate: getattr(k.math, name)(
                        *v, ftz=ftz, saturate=saturate
                    ),
                    computed(name, kind.name, ftz=ftz, saturate=saturate),
                    near_the_least(kind.name, zeros=saturate) if ftz else zeros_alike,
                )
        if name != "fma":
            yield Case(
                *(f"math.{name}", "rn", (f64,) * arity, f64),
                lambda k, *v, name=name: getattr(k.math, name)(*v),
                _NUMPY[name],
            )
    for kind in _HALVES:
        yield Case(
            *("math.fma", "relu", (kind,) * 3, kind),
            lambda k, *v: k.math.fma(*v, relu=True),
            computed("fma", kind.name, relu=True),
            zeros_alike,
        )
    yield from _operators()
    yield from _quotients()


def _operators() -> Iterator[Case]:
    operators = {"+": "add", "-": "sub", "*": "mul"}
    for sign, name in operators.items():
        for kind in (f16, bf16, f32, f64):
            yield Case(
                *(f"operator {sign}", "", (kind, kind), kind),
                lambda k, a, b, sign=sign: {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b}[sign](),
                _NUMPY[name] if kind is f64 else computed(name, kind.name),
            )
    for kind in (f16, bf16, f32, f64):
        yield Case(
            *("operator /", "", (kind, kind), kind),
            lambda k, a, b: a / b,
            np.divide if kind is f64 else lambda a, b, kind=kind: rounded(np.divide(a, b), kind.name),
        )
        yield Case("operator neg", "", (kind,), kind, lambda k, a: -a, np.negative)


def _quotients() -> Iterator[Case]:
    for mode in ("rn", "rz", "rm", "rp"):
        for ftz in (False, True):
            text = f"{mode}, ftz={ftz}"
            yield Case(
                *("math.divide", text, (f32, f32), f32),
                lambda k, a, b, mode=mode, ftz=ftz: k.math.divide(a, b, rounding=mode, ftz=ftz, approx=False),
                lambda a, b, mode=mode, ftz=ftz: quotient(*_in(ftz, a, b), mode, ftz=ftz),
                near_the_least("f32") if ftz else same,
            )
            yield Case(
                *("math.reciprocal", text, (f32,), f32),
                lambda k, a, mode=mode, ftz=ftz: k.math.reciprocal(a, rounding=mode, ftz=ftz, approx=False),
                lambda a, mode=mode, ftz=ftz: quotient(np.ones(a.shape), *_in(ftz, a), mode, ftz=ftz),
                near_the_least("f32") if ftz else same,
            )
            yield Case(
                *("math.sqrt", text, (f32,), f32),
                lambda k, a, mode=mode, ftz=ftz: k.math.sqrt(a, rounding=mode, ftz=ftz, approx=False),
                lambda a, mode=mode, ftz=ftz: root(*_in(ftz, a), mode, ftz=ftz),
            )
    yield Case("math.sqrt", "rn", (f64,), f64, lambda k, a: k.math.sqrt(a), np.sqrt)
    yield Case("math.divide", "rn", (f64, f64), f64, lambda k, a, b: k.math.divide(a, b), np.divide)


def _in(ftz: bool, *values: Array) -> list[Array]:
    return [flushed(value, "f32") if ftz else value for value in values]


def near_the_least(name: str, *, zeros: bool = False) -> Judge:
    """`same`, but what rounds to the least normal number may have been flushed before; `zeros` are alike."""
    least = math.ldexp(1.0, SHAPES[name][1])

    def wrong(got: Array, wanted: Array, *_: Array) -> Array:
        flushed_early = (np.abs(wanted) == least) & (got == 0) | (np.abs(got) == least) & (wanted == 0)
        return (zeros_alike if zeros else same)(got, wanted) & ~flushed_early

    return wrong


def extreme(name: str, nan: bool) -> Callable[..., Array]:
    def wanted(a: Array, b: Array) -> Array:
        if a.dtype.kind != "f":
            return np.minimum(a, b) if name == "min" else np.maximum(a, b)
        is_less = (a < b) | ((a == b) & np.signbit(a))
        chosen = np.where(is_less if name == "min" else ~is_less, a, b)
        if nan:
            return np.where(np.isnan(a) | np.isnan(b), np.nan, chosen)
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, chosen))

    return wanted


_WHOLE = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}
RELATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Array]]] = {
    "==": (lambda a, b: a == b, np.equal),
    "!=": (lambda a, b: a != b, np.not_equal),
    "<": (lambda a, b: a < b, np.less),
    "<=": (lambda a, b: a <= b, np.less_equal),
    ">": (lambda a, b: a > b, np.greater),
    ">=": (lambda a, b: a >= b, np.greater_equal),
}
INTEGERS = (s32, u32, s64, u64)


def choices() -> Iterator[Case]:
    for kind in (f16, bf16, f32, f64, *INTEGERS):
        pair = (kind, kind)
        for name in ("min", "max"):
            for nan in (False, True) if kind in (f16, bf16, f32) else (False,):
                yield Case(
                    *(f"math.{name}", f"nan={nan}", pair, kind),
                    lambda k, a, b, name=name, nan=nan: getattr(k.math, name)(a, b, **({"nan": True} if nan else {})),
                    extreme(name, nan),
                )
        for sign, (emit, wanted) in RELATIONS.items():
            yield Case(f"operator {sign}", "", pair, pred, lambda k, a, b, emit=emit: emit(a, b), wanted)
        yield Case("select", "", pair, kind, lambda k, a, b: k.select(a < b, b, a), lambda a, b: np.where(a < b, b, a))
        yield Case("math.abs", "", (kind,), kind, lambda k, a: k.math.abs(a), _absolute)
    for kind in (f16, bf16, f32, f64):
        yield Case(
            *("math.copysign", "", (kind, kind), kind),
            lambda k, a, b: k.math.copysign(a, b),
            np.copysign,
            lambda got, wanted, a, b: same(got, wanted) & ~np.isnan(b),  # of a NaN the sign is lost in float64
        )
        for name, wanted in _WHOLE.items():
            yield Case(f"math.{name}", "", (kind,), kind, lambda k, a, name=name: getattr(k.math, name)(a), wanted)


def _absolute(a: Array) -> Array:
    if a.dtype.kind == "u":
        return a
    with np.errstate(all="ignore"):
        return np.abs(a)
