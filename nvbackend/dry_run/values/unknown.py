"""Unknown values, which spread through arithmetic; equal expressions of equal unknown values are one object."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from nvbackend.dry_run.values.vectors import Lanes


class Unknown:
    """A value that follows from data. The same object is the same value; different objects may be equal all the
    same."""

    __slots__ = ()
    key: tuple[Any, ...] = ()
    """The operation and its operands, where it is an expression."""
    varies = True
    """Whether it may differ by lane."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __and__(self, other: object) -> Any:
        return 0 if type(other) is int and other == 0 else combine("and", self, other)

    __rand__ = __and__

    def __mul__(self, other: object) -> Any:
        return 0 if type(other) is int and other == 0 else combine("mul", self, other)

    __rmul__ = __mul__

    def __add__(self, other: object) -> Any:
        return self if type(other) is int and other == 0 else combine("add", self, other)

    __radd__ = __add__

    def __or__(self, other: object) -> Any:
        return self if type(other) is int and other == 0 else combine("or", self, other)

    __ror__ = __or__

    def __xor__(self, other: object) -> Any:
        if self is other and self is not UNKNOWN:
            return 0
        return self if type(other) is int and other == 0 else combine("xor", self, other)

    __rxor__ = __xor__

    def __sub__(self, other: object) -> Any:
        if self is other and self is not UNKNOWN:
            return 0
        return self if type(other) is int and other == 0 else combine("sub", self, other)

    def __rsub__(self, other: object) -> Any:
        return combine("sub", other, self)


UNKNOWN: Final = Unknown()
"""A value about which nothing is known."""


class Expression(Unknown):
    """An unknown value with an identity: what it is computed from. `table` holds all expressions of one run."""

    __slots__ = ("key", "table", "varies")

    def __init__(self, table: dict[Hashable, Expression], key: tuple[Any, ...]) -> None:
        self.table = table
        self.key = key
        self.varies = any(one.varies if isinstance(one, Unknown) else isinstance(one, Lanes) for one in key)


def leaf(table: dict[Hashable, Expression], *key: Hashable) -> Expression:
    """The unknown value called `key`."""
    found = table.get(key)
    if found is None:
        found = table[key] = Expression(table, key)
    return found


def combine(operation: str, *operands: Any) -> Unknown:
    """What `operation` gives of `operands`, some of which are unknown."""
    table = None
    for one in operands:
        if isinstance(one, Unknown):
            if type(one) is Unknown:
                return UNKNOWN
            table = one.table  # type: ignore[attr-defined]
    if table is None:
        return UNKNOWN
    return leaf(table, operation, *operands)


def differs_by_data_alone(value: Unknown) -> bool:
    """Whether an expression differs between lanes, as the addresses of loads in it do, and nothing else in it."""
    seen, differs, waiting = set[tuple[Unknown, bool]](), False, [(value, False)]
    while waiting:
        one, is_loaded = waiting.pop()
        if not one.key or (one, is_loaded) in seen:
            continue
        seen.add((one, is_loaded))
        is_loaded |= one.key[0].startswith("load")
        if any(isinstance(operand, Lanes) for operand in one.key):
            if not is_loaded:
                return False
            differs = True
        waiting += [(operand, is_loaded) for operand in one.key if isinstance(operand, Unknown)]
    return differs
