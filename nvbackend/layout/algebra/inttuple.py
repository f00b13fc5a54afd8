"""Integers, static or dynamic, and nested tuples of them: shapes, strides, coordinates.

Plain Python integers are CuTe's static ones, printed with an underscore: `_64`. `Dynamic` integers are those that CuTe
would know at run time only, printed without; what is computed with one is dynamic again.
"""

from __future__ import annotations

import functools
import itertools
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from nvbackend.diagnostics import printed
from nvbackend.layout.algebra.rules import CONGRUENT, EXTENT, KNOWN, LIMIT, READ

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

LARGEST_EXTENT = (1 << 31) - (1 << 16)
"""What an extent known at run time counts as: with a tile more at its end, indices still have 32 bits."""

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


class RunTimeExtent(Dynamic):
    """An extent that is a builder's value, or was computed with one: `value()` emits the arithmetic.

    As an integer it is near what indices of 32 bits come to, so that known coordinates are inside and index arithmetic
    is as wide as it must be. It equals itself alone: nothing is simplified because the integer happens to fit.
    """

    def __new__(cls, value: Callable[[], Any], number: int = LARGEST_EXTENT) -> RunTimeExtent:
        extent = super().__new__(cls, number)
        extent.value = value
        return extent

    value: Callable[[], Any]

    @staticmethod
    def _with(operation: Callable[[int, int], int], left: int, right: int) -> Dynamic:
        if not (isinstance(left, int) and isinstance(right, int)):
            return NotImplemented
        number = operation(int(left), int(right))
        return RunTimeExtent(lambda: operation(valued(left), valued(right)), number)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return "?"


def valued(a: Any) -> Any:
    """What `a` is in a kernel: a builder's value for an extent that is known at run time, nested tuples included."""
    if isinstance(a, tuple):
        return tuple(map(valued, a))
    return a.value() if isinstance(a, RunTimeExtent) else a


def as_extents(a: Any) -> Any:
    """`a` with an extent in the place of each builder's value."""
    if isinstance(a, tuple):
        return tuple(map(as_extents, a))
    return RunTimeExtent(lambda: a) if is_run_time(a) else a


def text(a: Any) -> str:
    """CuTe's text of integers, tuples and `_`: `((_64,_2),512)`."""
    if isinstance(a, tuple):
        return "(" + ",".join(map(text, a)) + ")"
    if a is None:
        return "_"
    if is_run_time(a) or isinstance(a, RunTimeExtent):
        return "?"
    if isinstance(a, int):
        return printed(int(a)) if isinstance(a, Dynamic) else f"_{printed(a)}"
    return str(a)


def index_of(value: Any) -> int | None:
    """The integer that an object is, None for anything else: classes and arrays have `__index__`, too."""
    try:
        return value if isinstance(value, int) else operator.index(value)
    except TypeError:
        return None


def is_run_time(value: Any) -> bool:
    """Whether it computes like an integer without being one: a builder's value."""
    kind: Any = type(value)
    return _is_of_run_time(kind)


@functools.lru_cache(1024)
def _is_of_run_time(kind: type) -> bool:
    arithmetic = hasattr(kind, "__floordiv__") and hasattr(kind, "__mod__")
    return arithmetic and not hasattr(kind, "__index__") and not issubclass(kind, numbers.Number)


def widened(index: Any, largest: int) -> Any:
    """`index`, a builder's value in bits enough for numbers up to `largest`; anything else as it is."""
    return index.widened(largest) if hasattr(index, "widened") else index


def added(a: Any, b: Any) -> Any:
    """The sum of two indices; of two builder's values, in the wider type."""
    for first, other in ((a, b), (b, a)):
        if is_run_time(first) and is_run_time(other) and first.type.bits < other.type.bits:
            return other + first.to(other.type)
    return a + b


def is_outside(place: Coordinate, shape: IntTuple) -> bool:
    """Whether an index that is known lies outside its mode; one of another nesting is the layout's to refuse."""
    if isinstance(place, tuple):
        parts = modes(shape)
        return len(parts) == len(place) and any(map(is_outside, place, parts))
    number = place if isinstance(place, int) else getattr(place, "constant", None)
    return isinstance(number, int) and not 0 <= number < product(shape)


def extents(a: Any, what: str, least: int | None = None, *, run_time: bool = False) -> IntTuple:
    """`a` as an IntTuple whose integers are at least `least`, where `run_time` also allows a builder's values.

    Raises layout-algebra.extent and layout-algebra.limit.
    """
    check_limits(a, what)
    return _extents(a, what, least, run_time=run_time)


def _extents(a: Any, what: str, least: int | None, *, run_time: bool) -> IntTuple:
    if isinstance(a, tuple | list):
        return tuple(_extents(each, what, least, run_time=run_time) for each in a)
    if run_time and is_run_time(a):
        value: int = a
        return value
    number = index_of(a)
    if number is None or isinstance(a, bool):
        EXTENT.fail(given=a, what=what, advice=READ if isinstance(a, str) else KNOWN)
    if least is not None and number < least:
        EXTENT.fail(given=number, what=what, advice=KNOWN)
    return number


def check_limits(a: Any, what: str) -> None:
    """Raises layout-algebra.limit for what is nested too deep, or has too many or too large integers."""
    waiting, count = [(a, 0)], 1
    while waiting:
        entry, depth = waiting.pop()
        if isinstance(entry, tuple | list):
            if depth == MOST_DEPTH:
                LIMIT.fail(what=what, problem="parentheses nested deeper", limit=f"{MOST_DEPTH} levels of them")
            count += max(len(entry), 1) - 1
            if count > MOST_INTEGERS:
                LIMIT.fail(what=what, problem="more integers", limit=f"{MOST_INTEGERS} of them")
            waiting += ((each, depth + 1) for each in entry)
        elif isinstance(entry, int) and not -MOST_DISTANCE <= entry < MOST_DISTANCE:
            LIMIT.fail(what=what, problem=f"an integer of {entry.bit_length()} bits", limit="64, with the sign")


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


def leaves(a: IntTuple) -> Iterator[int]:
    """The integers, left to right."""
    if not isinstance(a, tuple):
        yield a
        return
    for each in a:
        if isinstance(each, tuple):
            yield from leaves(each)
        else:
            yield each


def modes(a: IntTuple) -> tuple[IntTuple, ...]:
    """The top-level modes: of an integer, itself."""
    return a if isinstance(a, tuple) else (a,)


def product(a: IntTuple) -> int:
    """The product of all integers."""
    return math.prod(leaves(a))


def depth_of(a: IntTuple) -> int:
    """How deep it is nested: 0 for an integer, 1 for a tuple of integers."""
    return 1 + max(map(depth_of, a), default=0) if isinstance(a, tuple) else 0


def compact(shape: IntTuple, first: int = 1) -> IntTuple:
    """Strides of a shape without gaps, the first mode fastest and with the stride `first`; 0 for static modes of 1."""
    order: list[int] = list(leaves(shape))
    steps = list(itertools.accumulate(order, operator.mul, initial=first))
    strides = [
        0 if each == 1 and not isinstance(each, Dynamic) else step for each, step in zip(order, steps, strict=False)
    ]
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
