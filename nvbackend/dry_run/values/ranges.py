"""Between which numbers an unknown value lies: by what it is computed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvbackend.dry_run.values.unknown import Unknown
from nvbackend.dry_run.values.vectors import Lanes

Bounds = tuple[int, int]
"""The least and the greatest number that it may be."""
_MOST = 1 << 62
_LOADS = {f"load i{bits}": (1 << bits) - 1 for bits in (1, 8, 16)}
_DEEP = 40
"""How deep expressions are followed."""


def bounds(value: Any, deep: int = 0) -> Bounds | None:
    """The bounds of a value, in all lanes; None where nothing is known of it. No result wraps around."""
    if isinstance(value, int):
        return value, value
    if isinstance(value, Unknown):
        return _of_expression(value.key, deep) if value.key and deep < _DEEP else None
    lanes: Lanes = value
    return min(lanes.numbers), max(lanes.numbers)


def _of_expression(key: tuple[Any, ...], deep: int) -> Bounds | None:
    operation, *operands = key
    if operation.startswith("icmp "):
        return 0, 1
    if operation in _LOADS:
        return 0, _LOADS[operation]
    made = _MADE.get(operation.partition(" ")[0])
    found = None if made is None else made(*(bounds(one, deep + 1) for one in operands))
    return found if found is not None and 0 <= found[0] <= found[1] < _MOST else None


def _and(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    for one, other in ((a, b), (b, a)):
        if other is not None and other[0] == other[1] and one is not None:
            mask = other[0]
            if not mask & (mask + 1) and one[1] <= mask:
                return one
    tops = [one[1] for one in (a, b) if one is not None]
    return (0, min(tops)) if tops else None


def _or(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    if a is None or b is None:
        return None
    return 0, (1 << max(a[1], b[1]).bit_length()) - 1


def _both(rule: Callable[[Bounds, Bounds], Bounds | None]) -> Callable[[Bounds | None, Bounds | None], Bounds | None]:
    return lambda a, b: None if a is None or b is None else rule(a, b)


def _urem(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    if b is None or not b[0]:
        return None
    return (0, b[1] - 1) if a is None else (0, min(a[1], b[1] - 1))


def _trunc(a: Bounds | None, bits: Bounds | None) -> Bounds | None:
    if bits is None:
        return None
    most = (1 << bits[0]) - 1
    return a if a is not None and a[1] <= most else (0, most)


def _sext(a: Bounds | None, source: Bounds | None, _bits: Bounds | None) -> Bounds | None:
    return a if a is not None and source is not None and a[1] < 1 << source[0] - 1 else None


def _select(_: Bounds | None, a: Bounds | None, b: Bounds | None) -> Bounds | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _umin(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    tops = [one[1] for one in (a, b) if one is not None]
    return (0, min(tops)) if tops else None


_MADE: dict[str, Callable[..., Bounds | None]] = {
    "and": _and,
    "or": _or,
    "xor": _or,
    "add": _both(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "mul": _both(lambda a, b: (a[0] * b[0], a[1] * b[1])),
    "shl": _both(lambda a, b: (a[0] << b[0], a[1] << b[1]) if b[1] < 64 else None),
    "lshr": _both(lambda a, b: (a[0] >> b[1], a[1] >> b[0])),
    "udiv": _both(lambda a, b: (a[0] // b[1], a[1] // b[0]) if b[0] else None),
    "urem": _urem,
    "umin": _umin,
    "trunc": _trunc,
    "sext": _sext,
    "select": _select,
    **{f"{name}.b{bits}": lambda _, bits=bits: (0, bits) for name in ("popc", "clz") for bits in (32, 64)},
}
