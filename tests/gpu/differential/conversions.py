"""Every conversion of `.to`, with its roundings and saturation, and k.convert."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nvbackend.intrinsics.row.types import BY_NAME, ElementType, bf16, f16, f32, f64, s64, u64
from tests.gpu.differential.case import Case, same
from tests.gpu.differential.floats import zeros_alike
from tests.gpu.differential.rounding import Array, odd_integer, rounded
from tests.scalar import numbers

_FLOATS = (f16, bf16, BY_NAME["tf32"], f32, f64, BY_NAME["e4m3"], BY_NAME["e5m2"])
_WIDTHS = tuple(BY_NAME[f"{sign}{bits}"] for sign in "su" for bits in (8, 16, 32, 64))


def conversions() -> Iterator[Case]:
    for source in (*_FLOATS, *_WIDTHS):
        for target in (*_FLOATS, *_WIDTHS):
            if source is not target:
                yield from _conversion(source, target)


def _conversion(source: ElementType, target: ElementType) -> Iterator[Case]:
    narrow = target.bits == 8 and target.is_float
    modes: tuple[str | None, ...] = (None, "rn", "rz", "rm", "rp")
    if target.name == "tf32":
        modes = (None, "rna", "rn", "rz")
    elif narrow:
        modes = (None, "rn")
    elif not target.is_float and not source.is_float:
        modes = (None,)
    saturates = (False, True) if target in (f16, bf16) or (not target.is_float and not source.is_float) else (False,)
    for mode in modes:
        for saturate in saturates:
            if saturate and mode in ("rm", "rp"):
                continue
            if target is f64 and source in (s64, u64) and mode not in (None, "rn"):
                continue  # float64 is no witness of what is rounded to it
            if source is f64 and target.name in ("s64", "u64", "f32") and mode is None:
                pass
            more = {"rounding": mode} if mode else {}
            more |= {"saturate": True} if saturate else {}
            yield Case(
                *("to", f"{target} {mode or ''}{' saturate' if saturate else ''}", (source,), target),
                lambda k, a, target=target, more=more: a.to(target, **more),
                _converted(source, target, mode, saturate=saturate),
                zeros_alike if source.is_integer else same,
            )


def _converted(
    source: ElementType, target: ElementType, mode: str | None, *, saturate: bool
) -> Callable[[Array], Array]:
    def of_float(a: Array) -> Array:
        if target.is_float:
            if target is f64:
                return a
            narrow = target.bits == 8
            default = "rna" if target.name == "tf32" else "rn"
            return rounded(a, target.name, mode or default, saturate=saturate or narrow)
        return _to_integer(a, source, target, mode or "rz")

    def of_integer(a: Array) -> Array:
        if target is f64:
            return a.astype(np.float64)
        if target.is_float:
            return of_float(odd_integer(a))
        kind = numbers.dtype(target)
        if not saturate:
            return a.astype(kind)
        low, high = target.integers[0], target.integers[-1]
        low, high = max(low, source.integers[0]), min(high, source.integers[-1])
        return np.clip(a, np.array(low, a.dtype), np.array(high, a.dtype)).astype(kind)

    return of_float if source.is_float else of_integer


_ROUNDINGS = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def _to_integer(a: Array, source: ElementType, target: ElementType, mode: str) -> Array:
    """It stops at the ends; NaN is 0, or the highest bit alone from f64 and to 64 bits (PTX ISA 9.7.9, cvt)."""
    kind = numbers.dtype(target)
    low, high = target.integers[0], target.integers[-1]
    with np.errstate(all="ignore"):
        whole = _ROUNDINGS[mode](a)
        below, above = whole <= float(low), whole >= float(high)
        inside = np.where(below | above | np.isnan(whole), 0.0, whole)
        result = inside.astype(kind)
    result = np.where(below, np.array(low, kind), np.where(above, np.array(high, kind), result)).astype(kind)
    of_nan = 1 << target.bits - 1 if source is f64 or target.bits == 64 else 0
    nan = np.array(numbers.wrap(of_nan, target), kind)
    return np.where(np.isnan(a), nan, result).astype(kind)


def named() -> Iterator[Case]:
    """k.convert, whose pairs and singles are those of `to`, and the calls that pack."""
    for name in ("f16", "bf16"):
        kind = BY_NAME[name]
        for mode in ("rn", "rz"):
            for relu in (False, True):
                yield Case(
                    *("convert.pack", f"{name}x2 {mode} relu={relu}", (f32, f32), kind),
                    lambda k, a, b, name=name, mode=mode, relu=relu: k.packed.unpack(
                        f"{name}x2", k.convert.pack(f"{name}x2", a, b, rounding=mode, relu=relu)
                    )[1],
                    lambda a, b, name=name, mode=mode, relu=relu: _clamped(rounded(b, name, mode), relu),
                    zeros_alike if relu else same,
                )
                yield Case(
                    *("convert.single", f"{name} {mode} relu={relu}", (f32,), kind),
                    lambda k, a, kind=kind, mode=mode, relu=relu: k.convert.single(a, kind, rounding=mode, relu=relu),
                    lambda a, name=name, mode=mode, relu=relu: _clamped(rounded(a, name, mode), relu),
                    zeros_alike if relu else same,
                )
        yield Case(
            *("math.pack_pair", f"{name}x2", (f32, f32), kind),
            lambda k, a, b, name=name: k.packed.unpack(f"{name}x2", k.math.pack_pair(f"{name}x2", a, b))[1],
            lambda a, b, name=name: rounded(a, name),
        )
        yield Case(
            *("convert.pack", f"{name}x2", (f32, f32), kind),
            lambda k, a, b, name=name: k.packed.unpack(f"{name}x2", k.convert.pack(f"{name}x2", b, a))[1],
            lambda a, b, name=name: rounded(a, name),
        )
        yield Case(
            *("packed.pack", f"{name}x2", (kind, kind), kind),
            lambda k, a, b, name=name: k.packed.unpack(f"{name}x2", k.packed.pack(a, b))[0],
            lambda a, b: a,
        )
        yield Case(
            *("packed.unpack", f"{name}x2", (kind, kind), kind),
            lambda k, a, b, name=name: k.packed.unpack(f"{name}x2", k.packed.pack(a, b))[1],
            lambda a, b: b,
        )
    for name in ("e4m3", "e5m2"):
        kind = BY_NAME[name]
        yield Case(
            *("convert.unpack", f"{name}x2", (f32, f32), f16),
            lambda k, a, b, name=name: k.convert.unpack(k.convert.pack(f"{name}x2", a, b), f"{name}x2")[0],
            lambda a, b, name=name: rounded(a, name, saturate=True),
        )
        yield Case(
            *("convert.pair", f"f16x2 to {name}x2", (f16, f16), f16),
            lambda k, a, b, name=name: k.convert.unpack(
                k.convert.pair(k.packed.pack(a, b), "f16x2", f"{name}x2"), f"{name}x2"
            )[1],
            lambda a, b, name=name: rounded(b, name, saturate=True),
        )


def _clamped(value: Array, relu: bool) -> Array:
    return np.where(value < 0, 0.0, value) if relu else value
