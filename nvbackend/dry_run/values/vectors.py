"""The numbers of the lanes of a warp, as Python's integers: a fresh process compiles without NumPy's import."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import repeat
from typing import Any


class Lanes:
    """A number for each lane, or for each element of a table. Operators are those of integers, lane by lane."""

    __slots__ = ("_hash", "numbers")

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self._hash: int | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lanes) and self.numbers == other.numbers

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self.numbers))
        return self._hash

    def __repr__(self) -> str:
        return f"Lanes({self.numbers})"

    def __add__(self, other: Lanes | int) -> Any:
        return _each(operator.add, self, other)

    def __sub__(self, other: Lanes | int) -> Any:
        return _each(operator.sub, self, other)

    def __rsub__(self, other: int) -> Lanes:
        return Lanes([other - number for number in self.numbers])

    def __mul__(self, other: Lanes | int) -> Any:
        return _each(operator.mul, self, other)

    def __and__(self, other: Lanes | int) -> Any:
        return _each(operator.and_, self, other)

    def __or__(self, other: Lanes | int) -> Any:
        return _each(operator.or_, self, other)

    def __xor__(self, other: Lanes | int) -> Any:
        return _each(operator.xor, self, other)

    def __rshift__(self, by: int) -> Lanes:
        return Lanes([number >> by for number in self.numbers])

    def __lshift__(self, by: int) -> Lanes:
        return Lanes([number << by for number in self.numbers])

    __radd__, __rmul__, __rand__, __ror__, __rxor__ = __add__, __mul__, __and__, __or__, __xor__


def _each(function: Callable[[int, int], int], left: Lanes, right: Any) -> Any:
    if isinstance(right, Lanes):
        return Lanes([*map(function, left.numbers, right.numbers)])
    if isinstance(right, int):
        return Lanes([*map(function, left.numbers, repeat(right))])
    return NotImplemented
