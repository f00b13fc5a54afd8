"""Numbers that a launch decides, by how they are computed: two that are computed alike are one.

An expression is a number in a table: equal terms have the same. Sums with a constant are kept as such, comparisons in
one form, so that `n < 4` and `4 > n`, or `n - 64` and `n + 192 - 256`, are known to be one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from nvbackend.lint.numbers import integers

Expression: TypeAlias = int
Side: TypeAlias = "tuple[Expression | None, int]"
"""An expression, or none, and a constant that is added to it."""
Term: TypeAlias = "tuple[Hashable, ...]"
_SIGNED_WORDS = ("s16", "s32", "s64", "u16", "u32", "u64", "b16", "b32", "b64")
_TURNED = {"gt": "lt", "le": "ge", "hi": "lo", "ls": "hs"}
"""Comparisons by the one that they are with their sides exchanged."""
_LESS = {"lt": False, "lo": False, "ge": True, "hs": True}
"""Comparisons that are `less`, or the opposite of it."""


class Expressions:
    """The terms of one function."""

    def __init__(self) -> None:
        self._numbers: dict[Term, Expression] = {}
        self._terms: list[Term] = []

    def of(self, *term: Hashable) -> Expression:
        """The expression of a term."""
        number = self._numbers.get(term)
        if number is None:
            number = self._numbers[term] = len(self._terms)
            self._terms.append(term)
        return number

    def term(self, expression: Expression) -> Term:
        """What an expression is made of."""
        return self._terms[expression]

    def opposite(self, predicate: Expression) -> Expression:
        """The predicate that holds where another does not."""
        kind, *rest = self.term(predicate)
        return rest[0] if kind == "not" and isinstance(rest[0], int) else self.of("not", predicate)

    def computed(
        self, parts: tuple[str, ...], sources: Sequence[Expression | int], known: Sequence[bool]
    ) -> Expression:
        """What an instruction computes of expressions, and of numbers where `known` says so."""
        if parts[0] in ("add", "sub") and len(parts) == 2 and parts[1] in _SIGNED_WORDS:
            (left, right), bits = zip(sources, known, strict=True), integers.width(parts)
            if right[1] or (left[1] and parts[0] == "add"):
                base, number = (left[0], right[0]) if right[1] else (right[0], left[0])
                more = integers.signed(number & ((1 << bits) - 1), bits)
                return self._sum(base, more if parts[0] == "add" else -more)
        if parts[0] == "setp" and len(parts) == 3 and parts[2] in _SIGNED_WORDS:
            return self._compared(parts[1], parts[2], sources, known)
        return self.of(".".join(parts), *zip(sources, known, strict=True))

    def joined(self, word: str, left: Expression, right: Expression) -> Expression:
        """Two predicates with `and`, `or` or `xor` between them."""
        return self.of(word, min(left, right), max(left, right))

    def number(self, expression: Expression, of: Callable[[Expression], int | None]) -> int | None:
        """What an expression is, with its sign, by what `of` says of those that it is computed of."""
        kind, *sources = self.term(expression)
        parts = tuple(str(kind).split("."))
        bits = integers.result_width(parts) if parts[0] in integers.COMPUTED and len(parts) > 1 else 0
        if kind == "sum" or not bits:
            start, more = self.side(expression)
            known = of(start) if kind == "sum" and start is not None else None
            return None if known is None else known + more
        numbers: list[int] = []
        for source in sources:
            assert isinstance(source, tuple)
            known = source[0] if source[1] else of(source[0])
            if known is None:
                return None
            numbers.append(known & integers.MASK)
        answer = integers.computed(parts, [integers.masked(each, integers.width(parts)) for each in numbers])
        return integers.signed(answer, bits) if isinstance(answer, int) else None

    def side(self, expression: Expression) -> Side:
        """An expression as a sum."""
        term = self.term(expression)
        if term[0] == "sum" and isinstance(term[1], int) and isinstance(term[2], int):
            return term[1], term[2]
        return expression, 0

    def _sum(self, base: Expression, more: int) -> Expression:
        start, number = self.side(base)
        assert start is not None
        return self.of("sum", start, number + more) if number + more else start

    def _compared(
        self, comparison: str, kind: str, sources: Sequence[Expression | int], known: Sequence[bool]
    ) -> Expression:
        bits = int(kind[1:])
        mask = (1 << bits) - 1
        is_signed = kind[0] == "s" or comparison in ("eq", "ne")
        left, right = (
            (None, integers.signed(source & mask, bits) if is_signed else source & mask)
            if is_number
            else self.side(source)
            for source, is_number in zip(sources, known, strict=True)
        )
        if comparison in ("eq", "ne"):
            equal = self.of("equal", *sorted((left, right), key=repr))
            return equal if comparison == "eq" else self.opposite(equal)
        if comparison in _TURNED:
            left, right, comparison = right, left, _TURNED[comparison]
        if comparison not in _LESS:
            return self.of(comparison, kind, left, right)
        less = self.of("less", kind[0] == "s", left, right)
        return self.opposite(less) if _LESS[comparison] else less
