"""Floats as the bits of a register: what comparisons, sums and conversions of LLVM are of numbers."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Any

from nvbackend.dry_run.values.arithmetic import signed
from nvbackend.intrinsics.arithmetic.relations import RELATIONS

FORMATS = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
"""The formats of numbers, by LLVM's names of the types."""
SIZES = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
"""Their bits."""
_PACKED = {"f16": "<e", "f32": "<f", "f64": "<d"}
_INFINITE = {"f16": 0x7C00, "f32": 0x7F80_0000}
"""The bits of what is larger than all numbers of a format."""
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    **RELATIONS,
    "rd": lambda _a, _b: True,
    "no": lambda _a, _b: False,
}
"""By what follows o (both are numbers) or u (or one is none) in LLVM's predicates."""
_POWERS = (*range(-8, 9), 12, 16, 24, 32, 64, 100, -12, -16, -24, -32, -64, -100)
"""Powers of two that are tried as numbers."""
Function = Callable[..., int]


def format_of(kind: Any) -> str | None:
    """The format of an LLVM type; None where it is no float."""
    return FORMATS.get(str(kind))


def number(bits: int, name: str) -> float:
    """The number that these bits are."""
    if name == "bf16":
        return number(bits << 16, "f32")
    (found,) = struct.unpack(_PACKED[name], bits.to_bytes(SIZES[name] // 8, "little"))
    return float(found)


def bits(value: float, name: str) -> int:
    """The bits of a number, rounded to the nearest one of its format."""
    if name == "bf16":
        whole = bits(value, "f32")
        return whole >> 16 if math.isnan(value) else whole + 0x7FFF + (whole >> 16 & 1) >> 16
    try:
        packed = struct.pack(_PACKED[name], value)
    except OverflowError:
        return _INFINITE[name] | (value < 0) << SIZES[name] - 1
    return int.from_bytes(packed, "little")


@cache
def function_of(said: str) -> Function | None:
    """What an operation is on the bits of its operands, as `fadd f32`, `fcmp olt f32`, `sitofp i32 f32`; None where it
    is none."""
    kind, _, rest = said.partition(" ")
    first, _, last = rest.rpartition(" ")
    if last not in SIZES and first not in SIZES:
        return None
    if kind in _ARITHMETIC:
        return _computed(_ARITHMETIC[kind], last)
    made = _MADE.get(kind)
    return None if made is None else made(first, last)


def _whole(value: float) -> int:
    return int(value) if math.isfinite(value) else 0


def _saturated(name: str, size: int, least: int) -> Function:
    most = least + (1 << size) - 1

    def run(a: int) -> int:
        value = number(a, name)
        nearest = _whole(value) if not math.isinf(value) else most if value > 0 else least
        return min(max(nearest, least), most) & (1 << size) - 1

    return run


def _compare(predicate: str, name: str) -> Function:
    holds, ordered = _HOLDS[predicate[1:]], predicate[0] == "o"

    def run(a: int, b: int) -> int:
        x, y = number(a, name), number(b, name)
        return int(not ordered if math.isnan(x) or math.isnan(y) else holds(x, y))

    return run


def _computed(rule: Callable[..., float], name: str) -> Function:
    return lambda *given: bits(rule(*[number(one, name) for one in given]), name)


def _quotient(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if math.isnan(a) or not a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _least(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else min(a, b)


def _greatest(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else max(a, b)


_ARITHMETIC: dict[str, Callable[..., float]] = {
    "fadd": operator.add,
    "fsub": operator.sub,
    "fmul": operator.mul,
    "fdiv": _quotient,
    "fma": lambda a, b, c: a * b + c,
    **dict.fromkeys(("minnum", "minimumnum"), _least),
    **dict.fromkeys(("maxnum", "maximumnum"), _greatest),
}
"""Instructions and intrinsics, by LLVM's names."""


_MADE: dict[str, Callable[[str, str], Function]] = {
    "fcmp": _compare,
    "fneg": lambda _, name: lambda a: a ^ 1 << SIZES[name] - 1,
    "fabs": lambda _, name: lambda a: a & (1 << SIZES[name] - 1) - 1,
    **dict.fromkeys(("fpext", "fptrunc"), lambda name, other: lambda a: bits(number(a, name), other)),
    "sitofp": lambda kind, name: lambda a: bits(float(signed(a, int(kind[1:]))), name),
    "uitofp": lambda _, name: lambda a: bits(float(a), name),
    **dict.fromkeys(
        ("fptosi", "fptoui"), lambda name, kind: lambda a: _whole(number(a, name)) & (1 << int(kind[1:])) - 1
    ),
    "fptosi.sat": lambda name, kind: _saturated(name, int(kind[1:]), -1 << int(kind[1:]) - 1),
    "fptoui.sat": lambda name, kind: _saturated(name, int(kind[1:]), 0),
}
"""The others, by the last two words of what they are called."""


def tried(constants: Collection[tuple[int, str]], size: int) -> Iterator[int]:
    """Bits of a float of so many, for which a condition with these constants may come out otherwise."""
    near = [number(*one) * by for one in constants for by in (1, -1, 2, 0.5)]
    powers = [sign * 2.0**power for power in _POWERS for sign in (1, -1)]
    for name in (one for one, of in SIZES.items() if of == size):
        for value in near:
            found = bits(value, name)
            yield from (found, found + 1, max(0, found - 1))
        yield from (bits(value, name) for value in powers)
