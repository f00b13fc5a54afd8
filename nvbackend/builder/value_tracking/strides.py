"""Values as multiples of a step that a group of threads has in common, plus a rest that is known in each thread.

The index of a CTA is a multiple of the cluster's extent plus the CTA's rank, so `block_id() // 2` is the same in all
CTAs of a cluster of two, and so is `block_id() < 4`. Numbers count as not wrapping around: this shows where nothing
parts threads, never what a number is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from nvbackend.builder.thread_tables.table import Table, each
from nvbackend.builder.thread_tables.tables import Numbers
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE, Scope

_GROUPS = ((Scope.WARPGROUP, WARPGROUP_SIZE), (Scope.WARP, WARP_SIZE))
_BITS = 40
_LARGEST = 1 << _BITS
"""Larger steps and rests are not followed."""


def scope_of(numbers: Numbers) -> Scope:
    """The largest scope over which these numbers, by elected lane, rank and thread, are the same."""
    if numbers.is_same:
        return Scope.GRID
    _, ranks, threads = numbers.shape
    rows: Sequence[Any] = numbers.bits if numbers.is_of_bits else numbers.rows
    alike = [(row, rows[place % ranks]) for place, row in enumerate(rows)]
    if all(_is_one(row, 0, threads) and _first(row, 0) == _first(other, 0) for row, other in alike):
        return Scope.CTA
    for scope, size in _GROUPS:
        if all(
            _is_one(row, start, min(start + size, threads))
            and (scope is Scope.WARP or _first(row, start) == _first(other, start))
            for row, other in alike
            for start in range(0, threads, size)
        ):
            return scope
    return Scope.THREAD


def _first(row: Any, start: int) -> Any:
    """The number of a thread."""
    return row >> start & 1 if type(row) is int else row[start]


def _is_one(row: Any, start: int, stop: int) -> bool:
    """Whether the threads have one number; of truth values there is a bit each."""
    if type(row) is int:
        whole = (1 << stop - start) - 1
        return row >> start & whole in (0, whole)
    return bool(row[start:stop].count(row[start]) == stop - start)


@dataclass(frozen=True, slots=True, eq=False)
class Strided:
    """`step` times a number that nothing shows to differ in a group of this `scope`, plus `rest`.

    `positive`: nothing shows that it is ever less than 0.
    """

    step: int
    rest: Numbers
    scope: Scope
    positive: bool = False

    @property
    def uniform(self) -> Scope:
        """The largest scope over which nothing shows that the value differs."""
        return min(self.scope, scope_of(self.rest))

    @property
    def constant(self) -> int | None:
        """The rest, where it is the same in all threads."""
        return self.rest.first if self.rest.is_same else None

    @property
    def number(self) -> int | None:
        """The value, where it is one that is known."""
        return None if self.step else self.constant

    def equals(self, other: Strided | None) -> bool:
        """Whether it says the same."""
        return other is not None and (
            (self.step, self.scope, self.positive) == (other.step, other.scope, other.positive)
            and self.rest.shape == other.rest.shape
            and self.rest.equals(other.rest)
        )

    def within(self, scope: Scope) -> Strided:
        """The same where it is in common in groups of this `scope` alone."""
        return self if self.scope <= scope else replace(self, scope=scope)


_NONE = Table.of(0)


def known_numbers(numbers: Numbers) -> Strided | None:
    """Of numbers with a sign that are all known; None where they are too large."""
    return strided(0, numbers, Scope.GRID, positive=min(numbers.numbers()) >= 0)


def number(value: int) -> Strided:
    """Of this number."""
    return Strided(0, Table.of(value), Scope.GRID, value >= 0)


def unknown(scope: Scope) -> Strided:
    """Of a value of which nothing is known, but over which groups it is the same."""
    return Strided(1, _NONE, scope)


def strided(step: int, rest: Numbers | None, scope: Scope, *, positive: bool = False) -> Strided | None:
    """The value of this step and rest, in the one way to write it; None where they are too large."""
    step = abs(step)
    rest = _NONE if rest is None else rest
    if step >= _LARGEST or _most(rest) >= _LARGEST:
        return None
    return Strided(step, _less(rest, step * (min(rest.numbers()) // step)) if step else rest, scope, positive)


def _most(rest: Numbers) -> int:
    """The greatest number without its sign."""
    most: int = max(map(abs, rest.numbers()))
    return most


def _less(rest: Numbers, number: int) -> Numbers:
    return each(operator.sub, rest, number) if number else rest


def joined(left: Strided, right: Strided) -> Strided | None:
    """What both are: their rests may differ by one number in all threads."""
    apart = each(operator.sub, left.rest, right.rest)
    if not apart.is_same:
        return None
    step = math.gcd(left.step, right.step, apart.first)
    scope, positive = min(left.scope, right.scope), left.positive and right.positive
    return strided(step, left.rest, scope, positive=positive)


# -- arithmetic -------------------------------------------------------------------------------------------------------

_Found: TypeAlias = "Strided | None"


def _sum(left: Strided, right: Strided) -> _Found:
    return strided(
        math.gcd(left.step, right.step), each(operator.add, left.rest, right.rest), min(left.scope, right.scope)
    )


def _difference(left: Strided, right: Strided) -> _Found:
    return strided(
        math.gcd(left.step, right.step), each(operator.sub, left.rest, right.rest), min(left.scope, right.scope)
    )


def _product(left: Strided, right: Strided) -> _Found:
    """Two rests that differ between threads, or one of them with what is in common in the other, are not in common."""
    if right.constant is None:
        left, right = right, left
    factor, scope = right.constant, min(left.scope, right.scope)
    if factor is None or abs(factor) * _most(left.rest) >= _LARGEST:
        return None
    if left.constant is None:
        return None if right.step else strided(left.step * factor, each(operator.mul, left.rest, factor), scope)
    step = math.gcd(left.step * right.step, left.step * factor, right.step * left.constant)
    return strided(step, each(operator.mul, left.rest, factor), scope)


def _shifted_left(left: Strided, right: Strided) -> _Found:
    by = _power(right)
    return None if by is None else _product(left, by)


def _divided(function: Callable[[Strided, int, int], _Found]) -> Callable[[Strided, Strided], _Found]:
    """By a positive number: `function` has it, and the part of it that divides the step."""

    def of(left: Strided, right: Strided) -> _Found:
        by = right.number
        return None if by is None or by <= 0 else function(left, by, math.gcd(left.step, by))

    return of


@_divided
def _quotient(left: Strided, by: int, common: int) -> _Found:
    """Exactly by the part that divides the step, and then what is in common is divided."""
    rest = each(operator.floordiv, left.rest, common)
    if common == by:
        return strided(left.step // by, rest, left.scope)
    return unknown(min(left.scope, scope_of(rest)))


def _shifted_right(left: Strided, right: Strided) -> _Found:
    by = _power(right)
    return None if by is None else _quotient(left, by)


@_divided
def _remainder(left: Strided, by: int, common: int) -> _Found:
    """Of what is in common there is left a multiple of the part that divides the step."""
    rest = each(operator.mod, left.rest, by)
    if common == by:
        return strided(0, rest, Scope.GRID)
    below, above = each(operator.mod, rest, common), each(operator.floordiv, rest, common)
    return strided(common, below, min(left.scope, scope_of(above)))


def _bitwise(function: Callable[[Any, Any], Any]) -> Callable[[Strided, Strided], _Found]:
    """With a number: the bits below the step are known, those above are in common."""

    def of(left: Strided, right: Strided) -> _Found:
        if right.number is None:
            left, right = right, left
        if (mask := right.number) is None:
            return None
        if not left.step:
            return strided(0, each(function, left.rest, mask), left.scope)
        low = left.step & -left.step
        scope = min(left.scope, scope_of(each(operator.floordiv, left.rest, low)))
        rest = each(function, each(operator.mod, left.rest, low), mask % low)
        if function is not operator.and_:
            return strided(low, rest, scope)
        high = mask // low
        return strided(low * (high & -high), rest, scope if high else Scope.GRID)

    return of


def _power(exponent: Strided) -> _Found:
    bit = exponent.number
    return number(1 << bit) if bit is not None and 0 <= bit < _BITS else None


_ARITHMETIC: dict[str, Callable[[Strided, Strided], Strided | None]] = {
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "shl": _shifted_left,
    **dict.fromkeys(("udiv", "sdiv"), _quotient),
    **dict.fromkeys(("lshr", "ashr"), _shifted_right),
    **dict.fromkeys(("urem", "srem"), _remainder),
    "and": _bitwise(operator.and_),
    "or": _bitwise(operator.or_),
    "xor": _bitwise(operator.xor),
}
OPERATIONS = tuple(_ARITHMETIC)
_ONE_IS_ENOUGH = ("and", "urem", "srem")
"""What has no sign where one side has none. Divisions are followed as if they rounded down: what a program makes of a
quotient and its remainder, to round so, is left out then."""


def computed(operation: str, left: Strided, right: Strided) -> Strided | None:
    """What one of `OPERATIONS` gives; None where nothing but its operands shows where it is the same."""
    result = _ARITHMETIC[operation](left, right)
    if result is None or operation == "sub":
        return result
    either, both = left.positive or right.positive, left.positive and right.positive
    positive = either if operation in _ONE_IS_ENOUGH else both
    return result if result.positive is positive else replace(result, positive=positive)


# -- comparisons ------------------------------------------------------------------------------------------------------

_STRICT = ("slt", "ult", "sge", "uge")
_EQUAL = ("eq", "ne")


def compared(operation: str, left: Strided, right: Strided) -> Scope:
    """The largest scope over which nothing shows that a comparison differs: it is one of the number in common.

    `step * common + rest < 0` is `common < -(rest // step)`, so threads of one quotient find it alike.
    """
    apart = _difference(left, right)
    if apart is None:
        return Scope.THREAD
    step, rest = apart.step or _LARGEST, apart.rest
    if operation in _EQUAL:
        compared_with = rest.map(lambda number: _LARGEST if number % step else number // step)
    elif operation in _STRICT:
        compared_with = each(operator.floordiv, rest, step)
    else:
        compared_with = rest.map(lambda number: -number // step)
    return min(apart.scope, scope_of(compared_with))


def decided(operation: str, left: Strided, right: Strided) -> Strided | None:
    """The answer of a comparison with 0 that the sign decides; None for any other."""
    if not left.positive or right.number != 0 or operation not in ("slt", "sge"):
        return None
    return number(int(operation == "sge"))


def rounds(start: Strided, end: Strided, step: Strided) -> Scope:
    """The largest scope over which nothing shows that a loop of these bounds makes other numbers of rounds."""
    apart = _difference(end, start)
    if apart is None or step.constant is None:
        return Scope.THREAD
    common = math.gcd(apart.step, step.step, step.constant)
    if not common:
        return Scope.THREAD
    return min(apart.scope, step.scope, scope_of(apart.rest.map(lambda number: -number // common)))
