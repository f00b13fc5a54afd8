"""What is known where a thread comes to an instruction: truths of numbers that a launch decides.

The threads of a CTA have those numbers alike, so what holds for one that comes to a place holds for all of them. Sums
are those of integers: that they exceed a register is not considered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nvbackend.lint.numbers.by_thread import CtaValues, Unknown
from nvbackend.lint.numbers.expressions import Expression, Expressions, Side

if TYPE_CHECKING:
    from nvbackend.lint.numbers.by_thread import Value

_FAR = 1 << 65
"""More than any register holds."""


class Facts:
    """Truths, and what follows from them for other predicates. `threads` has a bit for each thread."""

    def __init__(self, expressions: Expressions, threads: int, truths: Iterable[tuple[Expression, bool]]) -> None:
        self._expressions = expressions
        self._threads = threads
        self._exact: dict[Expression, bool] = {}
        self._bounds: dict[tuple[Expression, bool], tuple[int, int]] = {}
        self._masks: dict[Expression, tuple[int, int]] = {}
        for predicate, holds in truths:
            self._learn(predicate, holds)

    def masks(self, predicate: Expression) -> tuple[int, int]:
        """The threads for which a predicate may hold, and those for which it may not."""
        known = self._masks.get(predicate)
        if known is None:
            known = self._masks[predicate] = self._evaluated(predicate)
        return known

    def _evaluated(self, predicate: Expression) -> tuple[int, int]:
        kind, *rest = self._expressions.term(predicate)
        operands = [each for each in rest if isinstance(each, int)]
        if kind == "mask":
            return operands[0], self._threads & ~operands[0]
        if kind == "not":
            return self.masks(operands[0])[::-1]
        if kind in ("and", "or", "xor") and len(operands) == 2:
            return self._joined(str(kind), *(self.masks(each) for each in operands))
        holds = self._known(predicate)
        return (0 if holds is False else self._threads, 0 if holds is True else self._threads)

    def _joined(self, kind: str, first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
        (left, not_left), (right, not_right) = first, second
        if kind == "and":
            return left & right, not_left | not_right
        if kind == "or":
            return left | right, not_left & not_right
        return (left & not_right) | (not_left & right), (left & right) | (not_left & not_right)

    def _known(self, predicate: Expression) -> bool | None:
        known = self._exact.get(predicate)
        kind, *rest = self._expressions.term(predicate)
        if known is not None:
            return known
        if kind == "less":
            is_signed, left, right = rest
            least, most = self._range(left, is_signed), self._range(right, is_signed)
            return True if least[1] < most[0] else False if least[0] >= most[1] else None
        if kind == "equal":
            left, right = (self._range(side, True) for side in rest)
            is_one = left == right and left[0] == left[1]
            return True if is_one else False if left[1] < right[0] or right[1] < left[0] else None
        return None

    # -- learning -------------------------------------------------------------------------------------------------

    def _learn(self, predicate: Expression, holds: bool) -> None:
        kind, *rest = self._expressions.term(predicate)
        if kind == "not" and isinstance(rest[0], int):
            self._learn(rest[0], not holds)
        elif (kind, holds) in (("and", True), ("or", False)):
            for each in rest:
                if isinstance(each, int):
                    self._learn(each, holds)
        elif kind in ("less", "equal"):
            self._exact[predicate] = holds
            self._bound(kind == "less", rest, holds)

    def _bound(self, is_less: bool, rest: list[object], holds: bool) -> None:
        if not is_less:
            left, right = rest
            if holds:
                self._at_most(left, right, True, 0)
                self._at_most(right, left, True, 0)
            return
        is_signed, left, right = rest
        if holds:
            self._at_most(left, right, bool(is_signed), -1)
        else:
            self._at_most(right, left, bool(is_signed), 0)

    def _at_most(self, lower: object, upper: object, is_signed: bool, more: int) -> None:
        """That a side is at most another one and `more`."""
        for side, bound, is_upper in (
            (lower, self._range(upper, is_signed)[1] + more, True),
            (upper, self._range(lower, is_signed)[0] - more, False),
        ):
            expression, number = _side(side)
            if expression is None or (number and not is_signed):
                continue
            low, high = self._bounds.get((expression, is_signed), (-_FAR, _FAR))
            place = bound - number
            self._bounds[expression, is_signed] = (low, min(high, place)) if is_upper else (max(low, place), high)

    def _range(self, side: object, is_signed: object) -> tuple[int, int]:
        """The least and the most that a side may be."""
        expression, number = _side(side)
        if expression is None:
            return number, number
        least = -_FAR if is_signed else 0
        if number and not is_signed:
            return least, _FAR
        exact = self._number(expression)
        if exact is not None and (is_signed or exact >= 0):
            return exact + number, exact + number
        low, high = self._bounds.get((expression, bool(is_signed)), (least, _FAR))
        return max(low, least) + number, high + number

    def _number(self, expression: Expression) -> int | None:
        """What an expression is, where all that it is computed of is known exactly."""
        low, high = self._bounds.get((expression, True), (-_FAR, _FAR))
        return low if low == high else self._expressions.number(expression, self._number)


def _side(side: object) -> Side:
    assert isinstance(side, tuple)
    expression, number = side
    return expression, number


def either(values: CtaValues, facts: Facts, guard: Value) -> tuple[int, int]:
    """The threads for which a guard may hold, and those for which it may not."""
    threads = values.threads
    if isinstance(guard, Unknown):
        return (threads, threads) if guard.expression is None else facts.masks(guard.expression)
    holds = values.mask(guard)
    return holds, threads & ~holds
