"""k.packed: each half of a result, of pairs whose other half is another number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nvbackend.intrinsics.row.types import ElementType, bf16, f16
from tests.gpu.differential.case import Case, Judge, same
from tests.gpu.differential.floats import RELATIONS, computed, extreme, near_the_least, zeros_alike
from tests.gpu.differential.rounding import Array

_SETS: dict[str, Callable[..., Array]] = {
    **{
        name: wanted for (_, wanted), name in zip(RELATIONS.values(), ("eq", "ne", "lt", "le", "gt", "ge"), strict=True)
    },
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}


def _relation(name: str) -> Callable[..., Array]:
    def wanted(a: Array, b: Array) -> Array:
        if name in ("num", "nan"):
            return _SETS[name](a, b).astype(np.float64)
        nan = np.isnan(a) | np.isnan(b)
        holds = _SETS[name[:2]](a, b)
        return np.where(nan, name.endswith("u") and len(name) == 3, holds).astype(np.float64)

    return wanted


def pairs() -> Iterator[Case]:
    """Each half of a result, of pairs whose other half is another number."""
    for kind in (f16, bf16):
        pair = f"{kind}x2"
        forms: list[tuple[str, str, int, dict[str, Any], Callable[..., Array], Judge]] = [
            (name, "", arity, {}, computed(name, kind.name), same)
            for name, arity in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3))
        ]
        forms += [("fma", "relu", 3, {"relu": True}, computed("fma", kind.name, relu=True), zeros_alike)]
        if kind is f16:
            forms += [
                (
                    name,
                    f"ftz={ftz}, saturate={sat}",
                    n,
                    {"ftz": ftz, "saturate": sat},
                    computed(name, "f16", ftz=ftz, saturate=sat),
                    near_the_least("f16", zeros=sat) if ftz else zeros_alike,
                )
                for name, n in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3))
                for ftz, sat in ((True, False), (False, True), (True, True))
            ]
        forms += [
            (name, f"nan={nan}", 2, {"nan": nan}, extreme(name, nan), same)
            for name in ("min", "max")
            for nan in (False, True)
        ]
        forms += [("abs", "", 1, {}, np.abs, same), ("neg", "", 1, {}, np.negative, same)]
        forms += [
            ("exp2", "", 1, {}, np.exp2, _half_error(2.0**-9 if kind is f16 else 2.0**-6.9, kind)),
            ("tanh", "", 1, {}, np.tanh, _half_error(2.0**-9 if kind is f16 else 2.0**-7, kind)),
        ]
        for name, text, arity, more, wanted, wrong in forms:
            for half in (0, 1):
                yield Case(
                    *(f"packed.{name}", f"{pair}[{half}] {text}", (kind,) * arity, kind),
                    lambda k, *v, name=name, pair=pair, more=more, half=half: _of_pairs(
                        k, pair, half, lambda *p: getattr(k.packed, name)(pair, *p, **more), v
                    ),
                    wanted,
                    wrong,
                )
        for relation in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
            yield Case(
                *("packed.compare", f"{pair} {relation}", (kind, kind), kind),
                lambda k, a, b, pair=pair, relation=relation: _of_pairs(
                    k, pair, 1, lambda x, y: k.packed.compare(pair, relation, x, y), (a, b)
                ),
                _relation(relation),
            )
        yield Case(
            *("packed.broadcast", pair, (kind,), kind),
            lambda k, a, pair=pair: k.packed.unpack(pair, k.packed.broadcast(a))[1],
            lambda a: a,
        )


def _of_pairs(k: Any, pair: str, half: int, call: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    """One half of what a call gives of pairs of which the other halves are 1."""
    one = [k.const(1.0, value.type) for value in values]
    pairs = [k.packed.pack(*((v, o) if half == 0 else (o, v))) for v, o in zip(values, one, strict=True)]
    return k.packed.unpack(pair, call(*pairs))[half]


def _half_error(relative: float, kind: ElementType) -> Judge:
    least = 2.0**-24 if kind is f16 else 2.0**-126  # ex2 of bf16x2 flushes

    def wrong(got: Array, wanted: Array, *_: Array) -> Array:
        with np.errstate(all="ignore"):
            near = np.abs(got - wanted) <= np.maximum(relative * np.abs(wanted), least)
            ends = np.isinf(got) & (np.abs(wanted) >= (65504 if kind is f16 else 2.0**127.98))
            return ~(near | ends | (got == wanted) | (np.isnan(got) & np.isnan(wanted)))

    return wrong
