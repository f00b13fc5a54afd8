"""Values as multiples of a step that a group of threads has in common, plus a rest that is known in each thread.

The index of a CTA is a multiple of the cluster's extent plus the CTA's rank, so `block_id() // 2` is the same in all
CTAs of a cluster of two, and so is `block_id() < 4`. Numbers count as not wrapping around: this shows where nothing
parts threads, never what a number is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from nvbackend.builder.thread_tables.tables import Numbers
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE, Scope

_GROUPS = ((Scope.WARPGROUP, WARPGROUP_SIZE), (Scope.WARP, WARP_SIZE))
_BITS = 40
_LARGEST = 1 << _BITS
"""Larger steps and rests are not followed."""


def scope_of(numbers: Numbers) -> Scope:
    """The largest scope over which these numbers, by elected lane, rank and thread, are the same."""
    if numbers.size == 1 or (numbers == numbers[:1, :1, :1]).all():
        return Scope.GRID
    if (numbers == numbers[:1, :, :1]).all():
        return Scope.CTA
    threads = numbers.shape[2]
    for scope, size in _GROUPS:
        lead = numbers[:1] if scope is Scope.WARPGROUP else numbers
        if (numbers == np.repeat(lead[:, :, ::size], size, axis=2)[:, :, :threads]).all():
            return scope
    return Scope.THREAD


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
        same = self.rest.size == 1 or (self.rest == self.rest[:1, :1, :1]).all()
        return int(self.rest[0, 0, 0]) if same else None

    @property
    def number(self) -> int | None:
        """The value, where it is one that is known."""
        return None if self.step else self.constant

    def equals(self, other: Strided | None) -> bool:
        """Whether it says the same."""
        return other is not None and (
            (self.step, self.scope, self.positive) == (other.step, other.scope, other.positive)
            and self.rest.shape == other.rest.shape
            and bool((self.rest == other.rest).all())
        )

    def within(self, scope: Scope) -> Strided:
        """The same where it is in common in groups of this `scope` alone."""
        return self if self.scope <= scope else replace(self, scope=scope)


_NONE = np.zeros((1, 1, 1), np.int64)


def known_numbers(numbers: Numbers) -> Strided | None:
    """Of numbers with a sign that are all known; None where they are too large."""
    return strided(0, numbers, Scope.GRID, positive=bool((numbers >= 0).all()))


def number(value: int) -> Strided:
    """Of this number."""
    return Strided(0, np.full((1, 1, 1), value, np.int64), Scope.GRID, value >= 0)


def unknown(scope: Scope) -> Strided:
    """Of a value of which nothing is known, but over which groups it is the same."""
    return Strided(1, _NONE, scope)


def strided(step: int, rest: Numbers | None, scope: Scope, *, positive: bool = False) -> Strided | None:
    """The value of this step and rest, in the one way to write it; None where they are too large."""
    step = abs(step)
    rest = _NONE if rest is None else rest
    if step >= _LARGEST or (abs(int(rest[0, 0, 0])) if rest.size == 1 else np.abs(rest).max()) >= _LARGEST:
        return None
    return Strided(step, rest - step * (int(rest.min()) // step) if step else rest, scope, positive)


def joined(left: Strided, right: Strided) -> Strided | None:
    """What both are: their rests may differ by one number in all threads."""
    apart = left.rest - right.rest
    if (apart != apart[:1, :1, :1]).any():
        return None
    step = math.gcd(left.step, right.step, int(apart[0, 0, 0]))
    scope, positive = min(left.scope, right.scope), left.positive and right.positive
    return strided(step, left.rest, scope, positive=positive)


# -- arithmetic -------------------------------------------------------------------------------------------------------

_Found: TypeAlias = "Strided | None"


def _sum(left: Strided, right: Strided) -> _Found:
    return strided(math.gcd(left.step, right.step), left.rest + right.rest, min(left.scope, right.scope))


def _difference(left: Strided, right: Strided) -> _Found:
    return strided(math.gcd(left.step, right.step), left.rest - right.rest, min(left.scope, right.scope))


def _product(left: Strided, right: Strided) -> _Found:
    """Two rests that differ between threads, or one of them with what is in common in the other, are not in common."""
    if right.constant is None:
        left, right = right, left
    factor, scope = right.constant, min(left.scope, right.scope)
    if factor is None or abs(factor) * int(np.abs(left.rest).max()) >= _LARGEST:
        return None
    if left.constant is None:
        return None if right.step else strided(left.step * factor, left.rest * factor, scope)
    step = math.gcd(left.step * right.step, left.step * factor, right.step * left.constant)
    return strided(step, left.rest * factor, scope)


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
    rest = left.rest // common
    if common == by:
        return strided(left.step // by, rest, left.scope)
    return unknown(min(left.scope, scope_of(rest)))


def _shifted_right(left: Strided, right: Strided) -> _Found:
    by = _power(right)
    return None if by is None else _quotient(left, by)


@_divided
def _remainder(left: Strided, by: int, common: int) -> _Found:
    """Of what is in common there is left a multiple of the part that divides the step."""
    rest = left.rest % by
    if common == by:
        return strided(0, rest, Scope.GRID)
    return strided(common, rest % common, min(left.scope, scope_of(rest // common)))


def _bitwise(function: Callable[[Any, Any], Any]) -> Callable[[Strided, Strided], _Found]:
    """With a number: the bits below the step are known, those above are in common."""

    def of(left: Strided, right: Strided) -> _Found:
        if right.number is None:
            left, right = right, left
        if (mask := right.number) is None:
            return None
        if not left.step:
            return strided(0, function(left.rest, mask), left.scope)
        low = left.step & -left.step
        scope = min(left.scope, scope_of(left.rest // low))
        rest = function(left.rest % low, mask % low)
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
        compared_with = np.where(rest % step == 0, rest // step, _LARGEST)
    elif operation in _STRICT:
        compared_with = rest // step
    else:
        compared_with = -rest // step
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
    return min(apart.scope, step.scope, scope_of(-apart.rest // common))
