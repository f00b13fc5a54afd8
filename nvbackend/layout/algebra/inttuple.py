"""Integers, static or dynamic, and nested tuples of them: shapes, strides, coordinates.

Plain Python integers are CuTe's static ones, printed with an underscore: `_64`. `Dynamic` integers are those that CuTe
would know at run time only, printed without; what is computed with one is dynamic again.
"""

from __future__ import annotations

import itertools
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from nvbackend.diagnostics import printed
from nvbackend.layout.algebra.rules import CONGRUENT, EXTENT, LIMIT

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"
"""An integer, or a nested tuple of integers: shapes and strides."""
Coordinate: TypeAlias = "Any"
"""Integers, builder values and `_`, nested in tuples."""

MOST_DEPTH = 32
"""Levels of parentheses that a shape can have: everything here follows them by recursion."""
MOST_INTEGERS = 4096
"""Integers that a shape can have."""
MOST_DISTANCE = 1 << 63
"""What no index reaches: CuTe's and the hardware's have 64 bits with the sign."""

_ = None
"""The whole mode: CuTe's underscore in coordinates and tilers."""


class Dynamic(int):
    """An integer that a CuTe program knows at run time only. Everything but its text is as with any other integer.

    As in CuTe, 0 times it is the static 0.
    """

    __slots__ = ()

    def __add__(self, other: int) -> Dynamic:
        return self._with(operator.add, self, other)

    def __radd__(self, other: int) -> Dynamic:
        return self._with(operator.add, other, self)

    def __sub__(self, other: int) -> Dynamic:
        return self._with(operator.sub, self, other)

    def __rsub__(self, other: int) -> Dynamic:
        return self._with(operator.sub, other, self)

    def __mul__(self, other: int) -> int:
        if isinstance(other, int) and other == 0 and not isinstance(other, Dynamic):
            return 0
        return self._with(operator.mul, self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Dynamic:
        return self._with(operator.floordiv, self, other)

    def __rfloordiv__(self, other: int) -> Dynamic:
        return self._with(operator.floordiv, other, self)

    def __mod__(self, other: int) -> Dynamic:
        return self._with(operator.mod, self, other)

    def __rmod__(self, other: int) -> Dynamic:
        return self._with(operator.mod, other, self)

    @staticmethod
    def _with(operation: Callable[[int, int], int], left: int, right: int) -> Dynamic:
        """The result for two integers; anything else (a list, a builder's value) has operators of its own."""
        if not (isinstance(left, int) and isinstance(right, int)):
            return NotImplemented
        return Dynamic(operation(int(left), int(right)))

    def __neg__(self) -> Dynamic:
        return Dynamic(-int(self))

    def __abs__(self) -> Dynamic:
        return Dynamic(abs(int(self)))

    def __repr__(self) -> str:
        return f"Dynamic({int(self)})"


def text(given: Any) -> str:
    """CuTe's text of integers, tuples and `_`: `((_64,_2),512)`."""
    if isinstance(given, tuple):
        return "(" + ",".join(map(text, given)) + ")"
    if given is None:
        return "_"
    if is_run_time(given):
        return "?"
    if isinstance(given, int):
        return printed(int(given)) if isinstance(given, Dynamic) else f"_{printed(given)}"
    return str(given)


def index_of(given: Any) -> int | None:
    """The integer that an object is, None for anything else: classes and arrays have `__index__`, too."""
    try:
        return given if isinstance(given, int) else operator.index(given)
    except TypeError:
        return None


def is_run_time(given: Any) -> bool:
    """Whether it computes like an integer without being one: a builder's value."""
    arithmetic = hasattr(given, "__floordiv__") and hasattr(given, "__mod__")
    return arithmetic and not hasattr(given, "__index__") and not isinstance(given, numbers.Number)


def widened(index: Any, largest: int) -> Any:
    """`index`, a builder's value in bits enough for numbers up to `largest`; anything else as it is."""
    return index.widened(largest) if hasattr(index, "widened") else index


def added(a: Any, b: Any) -> Any:
    """The sum of two indices; of two builder's values, in the wider type."""
    for one, other in ((a, b), (b, a)):
        if is_run_time(one) and is_run_time(other) and one.type.bits < other.type.bits:
            return other + one.to(other.type)
    return a + b


def is_outside(place: Coordinate, shape: IntTuple) -> bool:
    """Whether an index that is known lies outside its mode; one of another nesting is the layout's to refuse."""
    if isinstance(place, tuple):
        parts = modes(shape)
        return len(parts) == len(place) and any(map(is_outside, place, parts))
    number = place if isinstance(place, int) else getattr(place, "constant", None)
    return isinstance(number, int) and not 0 <= number < product(shape)


def extents(given: Any, what: str, least: int | None = None, *, run_time: bool = False) -> IntTuple:
    """`given` as an IntTuple whose integers are at least `least`, where `run_time` also allows a builder's values.

    Raises layout-algebra.extent and layout-algebra.limit.
    """
    check_limits(given, what)
    return _extents(given, what, least, run_time=run_time)


def _extents(given: Any, what: str, least: int | None, *, run_time: bool) -> IntTuple:
    if isinstance(given, tuple | list):
        return tuple(_extents(each, what, least, run_time=run_time) for each in given)
    if run_time and is_run_time(given):
        value: int = given
        return value
    number = index_of(given)
    if number is None or isinstance(given, bool):
        EXTENT.fail(given=given, what=what)
    if least is not None and number < least:
        EXTENT.fail(given=number, what=what)
    return number


def check_limits(given: Any, what: str) -> None:
    """Raises layout-algebra.limit for what is nested too deep, or has too many or too large integers."""
    waiting, count = [(given, 0)], 1
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, tuple | list):
            if depth == MOST_DEPTH:
                LIMIT.fail(what=what, problem="parentheses nested deeper", limit=f"{MOST_DEPTH} levels of them")
            count += max(len(one), 1) - 1
            if count > MOST_INTEGERS:
                LIMIT.fail(what=what, problem="more integers", limit=f"{MOST_INTEGERS} of them")
            waiting += ((each, depth + 1) for each in one)
        elif isinstance(one, int) and not -MOST_DISTANCE <= one < MOST_DISTANCE:
            LIMIT.fail(what=what, problem=f"an integer of {one.bit_length()} bits", limit="64, with the sign")


def check_congruent(shape: IntTuple, stride: IntTuple) -> None:
    """Raises layout-algebra.congruent where the two are nested differently."""
    if not is_congruent(shape, stride):
        CONGRUENT.fail(shape=text(shape), stride=text(stride))


def is_congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether both are nested alike."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(is_congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def is_compatible(coarse: IntTuple, fine: IntTuple) -> bool:
    """Whether every coordinate of a shape `coarse` is one of `fine`: equal sizes, mode by mode."""
    if isinstance(coarse, tuple):
        return isinstance(fine, tuple) and len(coarse) == len(fine) and all(map(is_compatible, coarse, fine))
    return coarse == product(fine)


def leaves(given: IntTuple) -> Iterator[int]:
    """The integers, left to right."""
    if isinstance(given, tuple):
        for each in given:
            yield from leaves(each)
    else:
        yield given


def modes(given: IntTuple) -> tuple[IntTuple, ...]:
    """The top-level modes: of an integer, itself."""
    return given if isinstance(given, tuple) else (given,)


def product(given: IntTuple) -> int:
    """The product of all integers."""
    return math.prod(leaves(given))


def depth_of(given: IntTuple) -> int:
    """How deep it is nested: 0 for an integer, 1 for a tuple of integers."""
    return 1 + max(map(depth_of, given), default=0) if isinstance(given, tuple) else 0


def compact(shape: IntTuple, first: int = 1, *, right: bool = False) -> IntTuple:
    """Strides of a shape without gaps, the first mode (with `right` the last) fastest; 0 for static modes of 1."""
    order: list[int] = list(leaves(shape))
    if right:
        order.reverse()
    steps = list(itertools.accumulate(order, operator.mul, initial=first))
    strides = [
        0 if each == 1 and not isinstance(each, Dynamic) else step for each, step in zip(order, steps, strict=False)
    ]
    if right:
        strides.reverse()
    return nested_as(shape, strides)


def nested_as(profile: IntTuple, numbers: Iterable[int]) -> IntTuple:
    """The numbers, as many as `profile` has, nested as it is."""
    stream = iter(numbers)

    def take(part: IntTuple) -> IntTuple:
        return tuple(map(take, part)) if isinstance(part, tuple) else next(stream)

    return take(profile)


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return (a + b - 1) // b
