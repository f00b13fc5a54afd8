"""What choices say of sums of unknown values: between which numbers each sum lies.

`i < n - 1` and `i < n - 2` are choices about one number: where one warp makes two rounds of the first loop, another
makes one round of the second. Numbers are taken to be so small that no sum wraps around.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from nvbackend.dry_run.values.arithmetic import signed
from nvbackend.dry_run.values.unknown import Unknown

_WHOLE = {(1 << bits) - 1: bits for bits in (32, 64)}
_LEAST_WIDTH = 32
"""Narrower registers are there to wrap around."""

Factors: TypeAlias = "tuple[tuple[Unknown, int], ...]"


@dataclass(frozen=True, slots=True)
class Sum:
    """Values, each with a factor, and a number."""

    factors: Factors = ()
    number: int = 0

    def plus(self, other: Sum, times: int = 1) -> Sum:
        """Both, the other so many times."""
        found = dict(self.factors)
        for value, factor in other.factors:
            found[value] = found.get(value, 0) + factor * times
        factors = tuple((value, factor) for value, factor in found.items() if factor)
        return Sum(factors, self.number + other.number * times)

    def within(self, bits: int) -> Sum:
        """With the signs that its numbers have in a register of so many bits."""
        mask = (1 << bits) - 1
        factors = ((value, int(signed(factor & mask, bits))) for value, factor in self.factors)
        return Sum(tuple(one for one in factors if one[1]), int(signed(self.number & mask, bits)))


@dataclass(slots=True)
class _Between:
    least: int | None = None
    most: int | None = None
    without: frozenset[int] = frozenset()

    def shrink(self) -> None:
        """Leave out what is excluded at the ends."""
        while self.least is not None and self.least in self.without and self.least != self.most:
            self.least += 1
        while self.most is not None and self.most in self.without and self.least != self.most:
            self.most -= 1


class Sums:
    """What is known of the sums of one run."""

    def __init__(self) -> None:
        self._sums: dict[Unknown, Sum | None] = {}
        self._order: dict[Unknown, int] = {}
        self._known: dict[Factors, _Between] = {}

    def choose(self, predicate: str, left: Any, right: Any, wish: bool) -> bool | None:
        """Whether left is in relation to right, by eq, slt, sle, ult or ule; None where they are no sums.

        Numbers have their signs. What is known decides; where either may be, `wish` does, and is known from now on.
        """
        sides = self._sum(left), self._sum(right)
        if sides[0] is None or sides[1] is None:
            return None
        if predicate[0] == "u":
            signs = [self._is_negative(one) for one in sides if one is not None]
            if signs[0] != signs[1]:
                return signs[1]
        difference = sides[0].plus(sides[1], -1)
        if predicate.endswith("lt"):
            difference = Sum(difference.factors, difference.number + 1)
        return self._decided(difference, wish, is_equal=predicate == "eq")

    def _is_negative(self, one: Sum) -> bool:
        """Whether it is, which is so only where that is known already."""
        return not self._decided(Sum().plus(one, -1), wish=True, is_equal=False)

    def _decided(self, one: Sum, wish: bool, *, is_equal: bool) -> bool:
        """Whether a sum is 0, or where that is not asked at most 0."""
        if not one.factors:
            return one.number == 0 if is_equal else one.number <= 0
        key, scale = self._normal(one.factors)
        comparison = _Comparison(self._known.setdefault(key, _Between()), scale, one.number, is_equal)
        found = comparison.holds()
        if found is None:
            comparison.set(value=wish)
            return wish
        return found

    def _normal(self, factors: Factors) -> tuple[Factors, int]:
        """The factors without what divides all of them, the first one above 0, and what they were divided by."""
        for value, _ in factors:
            self._order.setdefault(value, len(self._order))
        ordered = sorted(factors, key=lambda one: self._order[one[0]])
        scale = math.gcd(*(factor for _, factor in ordered)) * (1 if ordered[0][1] > 0 else -1)
        return tuple((value, factor // scale) for value, factor in ordered), scale

    def _sum(self, value: Any) -> Sum | None:
        """The sum that a value is; None where it differs between lanes."""
        if type(value) is int:
            return Sum(number=value)
        if not isinstance(value, Unknown) or not value.key:
            return None
        if value not in self._sums:
            made = self._made(value.key)
            self._sums[value] = Sum(((value, 1),)) if made is None else made
        return self._sums[value]

    def _made(self, key: tuple[Any, ...]) -> Sum | None:
        """The sum that an operation makes; None where it makes none."""
        operation, *given = key
        if operation == "and" and given[1] in _WHOLE:
            inner = self._sum(given[0])
            return None if inner is None else inner.within(_WHOLE[given[1]])
        if operation in ("sext", "trunc"):
            return self._sum(given[0]) if min(given[1:]) >= _LEAST_WIDTH else None
        if operation not in _OPERATIONS:
            return None
        left, right = map(self._sum, given)
        return None if left is None or right is None else _OPERATIONS[operation](left, right)


def _product(left: Sum, right: Sum) -> Sum | None:
    if left.factors and right.factors:
        return None
    return Sum().plus(left, right.number) if left.factors else Sum().plus(right, left.number)


def _shifted(left: Sum, right: Sum) -> Sum | None:
    return None if right.factors or right.number >= _LEAST_WIDTH else Sum().plus(left, 1 << right.number)


_OPERATIONS: dict[str, Callable[[Sum, Sum], Sum | None]] = {
    "add": Sum.plus,
    "sub": lambda left, right: left.plus(right, -1),
    "mul": _product,
    "shl": _shifted,
}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Whether `scale` times a sum, and `number`, are 0 where it `is_equal`, else at most 0."""

    known: _Between
    scale: int
    number: int
    is_equal: bool

    def holds(self) -> bool | None:
        """Whether it does by what is known of the sum; None where either may be."""
        least, most = self.known.least, self.known.most
        if self.is_equal:
            at, rest = divmod(-self.number, self.scale)
            if (
                rest
                or at in self.known.without
                or not (least is None or least <= at)
                or not (most is None or at <= most)
            ):
                return False
            return True if least == most == at else None
        at = self._end()
        if self.scale < 0:
            least, most = (None if most is None else -most), (None if least is None else -least)
            at = -at
        if most is not None and most <= at:
            return True
        return False if least is not None and least > at else None

    def _end(self) -> int:
        """The last number for which it holds: the greatest, or where `scale` is below 0 the least."""
        return -self.number // self.scale if self.scale > 0 else -(self.number // self.scale)

    def set(self, *, value: bool) -> None:
        """It does hold, or does not."""
        known = self.known
        if self.is_equal:
            at = -self.number // self.scale
            if value:
                known.least = known.most = at
            else:
                known.without |= {at}
        elif (self.scale > 0) == value:
            at = self._end() if value else self._end() - 1
            known.most = at if known.most is None else min(known.most, at)
        else:
            at = self._end() if value else self._end() + 1
            known.least = at if known.least is None else max(known.least, at)
        known.shrink()
