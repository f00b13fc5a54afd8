"""A number for each elected lane, rank and thread: where all are equal along an axis, there is one.

They are Python's integers: to import NumPy would take a fresh process as long as to build a kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, TypeAlias

Shape: TypeAlias = tuple[int, int, int]
"""Elected lanes, ranks, threads: 1 where the numbers do not depend on it."""
_DIGITS = bytes.maketrans(b"\0\1", b"01")


class Table:
    """Numbers by elected lane, rank and thread. Those that are 0 or 1 are kept as a bit for each thread."""

    __slots__ = ("_bits", "_rows", "shape")

    def __init__(
        self, shape: Shape, rows: Sequence[Sequence[Any]] | None = None, bits: Sequence[int] | None = None
    ) -> None:
        self.shape = shape
        self._rows = rows
        self._bits = bits

    @classmethod
    def of(cls, number: Any) -> Table:
        """One number everywhere."""
        return cls((1, 1, 1), ((number,),))

    @classmethod
    def where_all(cls, threads: int = 1) -> Table:
        """1 for so many threads."""
        return cls((1, 1, threads), bits=((1 << threads) - 1,))

    @property
    def rows(self) -> Sequence[Sequence[Any]]:
        """The numbers of the threads, for each elected lane, and in it for each rank."""
        if self._rows is None:
            assert self._bits is not None
            threads = range(self.shape[2])
            self._rows = [[row >> thread & 1 for thread in threads] for row in self._bits]
        return self._rows

    @property
    def bits(self) -> Sequence[int]:
        """For each row the threads whose number is not 0, a bit each."""
        if self._bits is None:
            assert self._rows is not None
            return [bits_of(map(bool, row)) for row in self._rows]
        return self._bits

    @property
    def is_of_bits(self) -> bool:
        """Whether the numbers are 0 and 1 for sure."""
        return self._bits is not None

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        leaders, ranks, threads = self.shape
        return leaders * ranks * threads

    @property
    def first(self) -> Any:
        """The first number."""
        return self._rows[0][0] if self._rows is not None else self.bits[0] & 1

    def numbers(self) -> Iterator[Any]:
        """All that are kept."""
        return (number for row in self.rows for number in row)

    @property
    def is_same(self) -> bool:
        """Whether all numbers are equal."""
        if self.size == 1:
            return True
        first = self.first
        if self._bits is not None:
            whole = first * self._whole
            return all(row == whole for row in self._bits)
        return all(row.count(first) == len(row) for row in self.rows)

    @property
    def _whole(self) -> int:
        return (1 << self.shape[2]) - 1

    def row(self, leader: int, rank: int) -> int:
        """The place of a row, of a table of any shape."""
        leaders, ranks, _ = self.shape
        return (leader if leaders > 1 else 0) * ranks + (rank if ranks > 1 else 0)

    # -- made of it ---------------------------------------------------------------------------------------------------

    def map(self, function: Callable[[Any], Any]) -> Table:
        """What a function makes of each number."""
        return Table(self.shape, [[*map(function, row)] for row in self.rows])

    def holds(self, function: Callable[[Any], bool]) -> Table:
        """Where a function of the number holds."""
        return Table(self.shape, bits=[bits_of(map(function, row)) for row in self.rows])

    def is_set(self) -> Table:
        """Where the number is not 0."""
        return self if self._bits is not None else Table(self.shape, bits=self.bits)

    def wide(self, threads: int) -> Table:
        """The same with a number for each of so many threads."""
        leaders, ranks, own = self.shape
        if own == threads:
            return self
        shape = leaders, ranks, threads
        if self._bits is not None:
            return Table(shape, bits=[row * ((1 << threads) - 1) for row in self._bits])
        return Table(shape, [[row[0]] * threads for row in self.rows])

    def of_rank(self, rank: int) -> Table:
        """The numbers of one rank."""
        leaders, ranks, threads = self.shape
        if ranks == 1:
            return self
        places = [self.row(leader, rank) for leader in range(leaders)]
        if self._bits is not None:
            return Table((leaders, 1, threads), bits=[self._bits[place] for place in places])
        return Table((leaders, 1, threads), [self.rows[place] for place in places])

    # -- of masks -----------------------------------------------------------------------------------------------------

    def __and__(self, other: Table) -> Table:
        return _of_bits(operator.and_, self, other)

    def __or__(self, other: Table) -> Table:
        return _of_bits(operator.or_, self, other)

    def __xor__(self, other: Table) -> Table:
        return _of_bits(operator.xor, self, other)

    def __invert__(self) -> Table:
        whole = self._whole
        return Table(self.shape, bits=[whole ^ row for row in self.bits])

    def all(self) -> bool:
        """Whether no number is 0."""
        whole = self._whole
        return all(row == whole for row in self.bits)

    def any(self) -> bool:
        """Whether some number is not 0."""
        return any(self.bits)

    def equals(self, other: Table) -> bool:
        """Whether it has the same numbers everywhere."""
        if self._bits is not None and other._bits is not None:
            return not (self ^ other).any()
        return all([*a] == [*b] for a, b in _pairs(self, other))


def each(function: Callable[[Any, Any], Any], left: Table, right: Table | Any) -> Table:
    """What a function makes of the numbers of two tables, or of those of one and a number."""
    if not isinstance(right, Table):
        return Table(left.shape, [[*map(function, row, repeat(right))] for row in left.rows])
    shape = shape_of(left, right)
    return Table(shape, [[*map(function, *_long(pair))] for pair in _pairs(left, right)])


def holds(function: Callable[[Any, Any], bool], left: Table, right: Table | Any) -> Table:
    """Where a function of the numbers of two tables holds, or of those of one and a number."""
    if not isinstance(right, Table):
        return Table(left.shape, bits=[bits_of(map(function, row, repeat(right))) for row in left.rows])
    return Table(shape_of(left, right), bits=[bits_of(map(function, *_long(pair))) for pair in _pairs(left, right)])


def chosen(condition: Table, yes: Table, no: Table) -> Table:
    """The numbers of `yes` where the condition holds, else those of `no`."""
    if yes.is_of_bits and no.is_of_bits:
        return (condition.is_set() & yes) | (~condition & no)
    shape = shape_of(condition, yes, no)
    leaders, ranks, threads = shape
    whole, rows = (1 << threads) - 1, []
    bits, left, right = condition.is_set().wide(threads).bits, yes.rows, no.rows
    for leader in range(leaders):
        for rank in range(ranks):
            a, b = left[yes.row(leader, rank)], right[no.row(leader, rank)]
            row = bits[condition.row(leader, rank)]
            a, b = (side if len(side) == threads else [side[0]] * threads for side in (a, b))
            if row in (0, whole):
                rows.append(a if row else b)
            else:
                rows.append([x if row >> thread & 1 else y for thread, (x, y) in enumerate(zip(a, b, strict=True))])
    return Table(shape, rows)


def shape_of(*tables: Table) -> Shape:
    """The shape that has room for all of them."""
    leaders, ranks, threads = (max(extents) for extents in zip(*(table.shape for table in tables), strict=True))
    return leaders, ranks, threads


def _pairs(left: Table, right: Table) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    leaders, ranks, _ = shape_of(left, right)
    a, b = left.rows, right.rows
    for leader in range(leaders):
        for rank in range(ranks):
            pair = a[left.row(leader, rank)], b[right.row(leader, rank)]
            yield pair if len(pair[0]) == len(pair[1]) else _long(pair)


def _long(pair: tuple[Sequence[Any], Sequence[Any]]) -> tuple[Sequence[Any], Sequence[Any]]:
    a, b = pair
    if len(a) == len(b):
        return pair
    return (a, [b[0]] * len(a)) if len(a) > len(b) else ([a[0]] * len(b), b)


def _of_bits(function: Callable[[int, int], int], left: Table, right: Table) -> Table:
    shape = leaders, ranks, threads = shape_of(left, right)
    a, b = left.is_set().wide(threads), right.is_set().wide(threads)
    places = [(leader, rank) for leader in range(leaders) for rank in range(ranks)]
    return Table(shape, bits=[function(a.bits[a.row(*place)], b.bits[b.row(*place)]) for place in places])


def bits_of(truths: Iterable[bool | int]) -> int:
    """A bit for each that holds, or is 1 and not 0."""
    return int(bytes(truths).translate(_DIGITS)[::-1], 2)
