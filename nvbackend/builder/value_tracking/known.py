"""The lattice of the evaluator: a value's number in each thread, as far as known, and the scope of its uniformity.

There are two scopes: over one the value is certainly uniform, over the other nothing shows that it differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_, or_

from nvbackend.builder.thread_tables.tables import NATIVE, Mask, Numbers, signed
from nvbackend.builder.value_tracking.strides import Strided, joined, known_numbers, scope_of
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Scope

_ALL_LANES = (1 << WARP_SIZE) - 1


class Known:
    """What is known of one value. `numbers` hold `where` that is set: everywhere for None.

    `parts` are what is known of the elements of an aggregate, `strided` where a value that is not known differs.
    """

    __slots__ = ("_apparent", "_certain", "_one_lane", "_signed", "numbers", "parts", "strided", "where")

    def __init__(
        self,
        numbers: Numbers | None = None,
        where: Mask | None = None,
        *,
        certain: Scope = Scope.THREAD,
        apparent: Scope = Scope.GRID,
        parts: tuple[Known, ...] = (),
        strided: Strided | None = None,
    ) -> None:
        self.numbers = numbers
        self.where = where
        self.parts = parts
        self.strided = strided
        whole = numbers is not None and where is None
        self._certain = None if whole else certain
        self._apparent = None if whole else apparent
        self._signed: tuple[int, ...] | None = None
        self._one_lane: bool | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the number is known in every thread."""
        return self.numbers is not None and self.where is None

    @property
    def certain(self) -> Scope:
        """The largest scope over which the value is certainly the same."""
        if self._certain is None:
            assert self.numbers is not None
            self._certain = self._apparent = scope_of(self.numbers)
        return self._certain

    @property
    def apparent(self) -> Scope:
        """The largest scope over which nothing shows that it differs."""
        if self._apparent is None:
            return self.certain
        return self._apparent

    def equals(self, other: Known) -> bool:
        """Whether the same is known."""
        if self is other:
            return True
        if self.is_whole and other.is_whole:
            return _are_equal(self.numbers, other.numbers)
        return (
            self.is_whole == other.is_whole
            and self.certain is other.certain
            and self.apparent is other.apparent
            and _are_equal(self.where, other.where)
            and _are_equal(self.numbers, other.numbers)
            and (self.strided is other.strided or (self.strided is not None and self.strided.equals(other.strided)))
            and len(self.parts) == len(other.parts)
            and all(map(Known.equals, self.parts, other.parts))
        )

    def narrowed(self, scope: Scope) -> Known:
        """What is known of it where nothing but groups of this `scope` has it in common."""
        if self.is_whole:
            return self
        strided = None if self.strided is None else self.strided.within(scope)
        return Known(apparent=min(self.apparent, scope), strided=strided)

    def refined(self, strided: Strided | None, apparent: Scope = Scope.THREAD) -> Known:
        """The same where more is known of the groups that have it in common."""
        if self.is_whole:
            return self
        apparent = max(self.apparent, apparent, Scope.THREAD if strided is None else strided.uniform)
        return Known(
            self.numbers, self.where, certain=self.certain, apparent=apparent, parts=self.parts, strided=strided
        )

    # -- predicates ---------------------------------------------------------------------------------------------------

    def holds(self) -> Mask | None:
        """Where a predicate certainly holds; None where nothing is known of it."""
        if self.numbers is None:
            return None
        holds = self.numbers.is_set()
        return holds if self.where is None else holds & self.where

    def fails(self) -> Mask | None:
        """Where a predicate certainly does not hold; None where nothing is known of it."""
        if self.numbers is None:
            return None
        fails = ~self.numbers
        return fails if self.where is None else fails & self.where

    def sides(self, threads: int) -> tuple[int, int] | None:
        """The threads of a CTA for which a predicate certainly holds, and for which it certainly does not, a bit each.

        None where that depends on more than who the thread is.
        """
        if self.numbers is None or not self.is_whole or self.numbers.shape[1] > 1:
            return None
        true = self.numbers.is_set().wide(threads).bits
        return reduce(and_, true), (1 << threads) - 1 & ~reduce(or_, true)

    def never(self, threads: int, *, holds: bool) -> int:
        """The threads of a CTA, a bit each, for which a predicate certainly does not hold, or fail, in any CTA."""
        known = self.fails() if holds else self.holds()
        return 0 if known is None else reduce(and_, known.wide(threads).bits)

    def is_one_lane(self, threads: int) -> bool:
        """Whether a predicate holds in one lane of a warp at most."""
        if self._one_lane is None:
            self._one_lane = self._holds_in_one_lane(threads)
        return self._one_lane

    def _holds_in_one_lane(self, threads: int) -> bool:
        fails = self.fails()
        if fails is None or fails.shape[2] == 1:
            return fails is not None and fails.all()
        holding = (row >> start & _ALL_LANES for row in (~fails).bits for start in range(0, threads, WARP_SIZE))
        return all(not lanes & (lanes - 1) for lanes in holding)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def per_thread(self, threads: int, width: int) -> tuple[int, ...] | None:
        """The number in each thread, with a sign; None where one is not known, or depends on more than the thread."""
        if self._signed is None and self.is_whole:
            assert self.numbers is not None
            if self.numbers.shape[:2] == (1, 1):
                numbers = self.numbers if width == 1 else signed(self.numbers, width)
                self._signed = tuple(numbers.wide(threads).rows[0])
        return self._signed


def _are_equal(left: Numbers | None, right: Numbers | None) -> bool:
    return left is right or (left is not None and right is not None and left.equals(right))


def meet(alternatives: Iterable[Known]) -> Known | None:
    """The join: what is known of a value that is one of these; None for no values."""
    result: Known | None = None
    for known in alternatives:
        if result is None:
            result = known
        elif not result.equals(known):
            apparent = min(result.apparent, known.apparent)
            parts = zip(result.parts, known.parts, strict=False)
            met = tuple([common for pair in parts if (common := meet(pair)) is not None])
            result = Known(apparent=apparent, parts=met).refined(_of_both(result, known))
    return result


def _of_both(left: Known, right: Known) -> Strided | None:
    """Where a value differs that is one of two."""
    first, second = _strided(left), _strided(right)
    return None if first is None or second is None else joined(first, second)


def _strided(known: Known) -> Strided | None:
    if not known.is_whole or known.numbers is None:
        return known.strided
    numbers = known.numbers
    is_native = numbers.is_of_bits or all(type(number) is int and not number >> NATIVE for number in numbers.numbers())
    return known_numbers(signed(numbers, NATIVE)) if is_native else None
