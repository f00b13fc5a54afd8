"""The threads of a CTA, of all CTAs of its cluster, as tables of numbers and as sets; arithmetic on such tables.

A table has three axes: the lane that elect.sync chooses (the same for every election in a warp: PTX ISA 9.7.13), the
CTA's rank in its cluster, and the thread. An axis of length 1 means that the value does not depend on it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from functools import cached_property
from itertools import groupby
from typing import Any, TypeAlias

from nvbackend.builder.thread_tables.table import Table, chosen, each, holds
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.isel.machine.function import Crew
from nvbackend.signature import Shape

Numbers: TypeAlias = Table
"""A number for each elected lane, rank and thread."""
Mask: TypeAlias = Table
"""Truth values, 0 and 1, of each."""
Result: TypeAlias = "tuple[Numbers, Mask | None]"
"""Numbers, and where they are defined: None for everywhere."""

NATIVE = 64
"""The bits of the widest numbers that most analyses follow."""
_ALL_LANES = (1 << WARP_SIZE) - 1


def constant(number: int, width: int) -> Numbers:
    """A number that is the same everywhere."""
    return Table.of(number & (1 << width) - 1)


def wrapped(numbers: Numbers, width: int) -> Numbers:
    """What is left of `numbers` in `width` bits."""
    return numbers if numbers.is_of_bits else each(operator.and_, numbers, (1 << width) - 1)


def signed(numbers: Numbers, width: int) -> Numbers:
    """The numbers that these bits are in two's complement."""
    half = 1 << width - 1
    if not numbers.is_of_bits and max(map(max, numbers.rows)) < half:  # most are indices
        return numbers
    return numbers.map(lambda number: (number ^ half) - half)


def _shift(function: Callable[[Any, Any], Any], *, arithmetic: bool = False) -> Callable[..., Result]:
    def shifted(a: Numbers, b: Numbers, width: int) -> Result:
        amount = each(operator.mod, b, width)
        return each(function, signed(a, width) if arithmetic else a, amount), _where(holds(operator.lt, b, width))

    return shifted


def _unsigned_division(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    return lambda a, b, _width: (each(lambda x, y: function(x, y) if y else 0, a, b), _where(b.is_set()))


def _signed_division(*, rest: bool) -> Callable[..., Result]:
    """Towards zero, as the magnitudes are divided; a rest has the sign of the dividend."""

    def divided(x: int, y: int) -> int:
        if not y:
            return 0
        result = abs(x) % abs(y) if rest else abs(x) // abs(y)
        return -result if (x < 0 if rest else (x < 0) != (y < 0)) else result

    def of(a: Numbers, b: Numbers, width: int) -> Result:
        least = -1 << width - 1
        left, right = signed(a, width), signed(b, width)
        defined = holds(lambda x, y: y != 0 and not (x == least and y == -1), left, right)
        return each(divided, left, right), _where(defined)

    return of


def _where(defined: Mask) -> Mask | None:
    return None if defined.all() else defined


def _everywhere(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    return lambda a, b, _width: (each(function, a, b), None)


def _bitwise(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    return lambda a, b, _width: (function(a, b) if a.is_of_bits and b.is_of_bits else each(function, a, b), None)


def _compared(function: Callable[[Any, Any], bool]) -> Callable[..., Result]:
    return lambda a, b, _width: (holds(function, a, b), None)


def _of_signed(function: Callable[[Any, Any], bool]) -> Callable[..., Result]:
    return lambda a, b, width: (holds(function, signed(a, width), signed(b, width)), None)


def _chosen(order: Callable[[Any, Any], bool], *, with_sign: bool) -> Callable[..., Result]:
    def extreme(a: Numbers, b: Numbers, width: int) -> Result:
        left, right = (signed(a, width), signed(b, width)) if with_sign else (a, b)
        return chosen(holds(order, left, right), a, b), None

    return extreme


_BINARY: dict[str, Callable[..., Result]] = {
    "add": _everywhere(operator.add),
    "sub": _everywhere(operator.sub),
    "mul": _everywhere(operator.mul),
    "and": _bitwise(operator.and_),
    "or": _bitwise(operator.or_),
    "xor": _bitwise(operator.xor),
    "shl": _shift(operator.lshift),
    "lshr": _shift(operator.rshift),
    "ashr": _shift(operator.rshift, arithmetic=True),
    "udiv": _unsigned_division(operator.floordiv),
    "urem": _unsigned_division(operator.mod),
    "sdiv": _signed_division(rest=False),
    "srem": _signed_division(rest=True),
    "eq": _compared(operator.eq),
    "ne": _compared(operator.ne),
    "ult": _compared(operator.lt),
    "ule": _compared(operator.le),
    "ugt": _compared(operator.gt),
    "uge": _compared(operator.ge),
    "slt": _of_signed(operator.lt),
    "sle": _of_signed(operator.le),
    "sgt": _of_signed(operator.gt),
    "sge": _of_signed(operator.ge),
    "umin": _chosen(operator.lt, with_sign=False),
    "umax": _chosen(operator.gt, with_sign=False),
    "smin": _chosen(operator.lt, with_sign=True),
    "smax": _chosen(operator.gt, with_sign=True),
}
CASTS = ("zext", "sext", "trunc")


def is_binary(operation: str) -> bool:
    """Whether it is an operation, a comparison or an extreme of two integers."""
    return operation in _BINARY


def binary(operation: str, a: Numbers, b: Numbers, width: int, to: int) -> Result:
    """`a operation b`, both of `width` bits, in `to` bits: those of a comparison are one."""
    numbers, defined = _BINARY[operation](a, b, width)
    return wrapped(numbers, to), defined


def cast(operation: str, numbers: Numbers, width: int, to: int) -> Numbers:
    """The same number in other bits: `zext`, `sext` or `trunc`."""
    return wrapped(signed(numbers, width) if operation == "sext" else numbers, to)


_RESTS = {"udiv": "urem", "sdiv": "srem"}
_ENDLESS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "shl": operator.lshift}


def kept(operation: str, flag: str, a: Numbers, b: Numbers, width: int) -> Mask | None:
    """Where a result keeps what the instruction promises of it, nsw, nuw or exact; None for everywhere."""
    if operation in _RESTS:
        return _where(~_BINARY[_RESTS[operation]](a, b, width)[0])
    right = b
    if operation in ("shl", "lshr", "ashr"):
        right = each(operator.mod, b, width)  # without meaning where it is more
    if flag == "exact":
        return _where(holds(lambda x, y: x >> y << y == x, a, right))
    if operation not in _ENDLESS:
        return None
    function, half = _ENDLESS[operation], 1 << width - 1
    if flag == "nsw":
        right = right if operation == "shl" else signed(right, width)
        result = each(function, signed(a, width), right)
        return _where(result.holds(lambda number: -half <= number < half))
    return _where(each(function, a, right).holds(lambda number: 0 <= number < 2 * half))


AXES = ("x", "y", "z")


class Cta:
    """The shape of a CTA, None where only the number of its threads is known, and the CTAs of its cluster.

    Clusters lie along x where they have no shape of their own.
    """

    def __init__(
        self, threads: int, cluster: int = 1, shape: Shape | None = None, cluster_shape: Shape | None = None
    ) -> None:
        self.threads = threads
        self.cluster = cluster
        self.shape = shape
        self.cluster_shape = cluster_shape or (cluster, 1, 1)

    @cached_property
    def warps(self) -> int:
        """The warps, all of which are whole."""
        return self.threads // WARP_SIZE

    @cached_property
    def everyone(self) -> int:
        """All threads, a bit each."""
        return (1 << self.threads) - 1

    @cached_property
    def index(self) -> Numbers:
        """The number of each thread, by which warps are made of threads."""
        return Table((1, 1, self.threads), [[*range(self.threads)]])

    @cached_property
    def lane(self) -> Numbers:
        """The lane of each thread."""
        return each(operator.mod, self.index, WARP_SIZE)

    @cached_property
    def leader(self) -> Numbers:
        """The lane that is elected."""
        return Table((WARP_SIZE, 1, 1), [[lane] for lane in range(WARP_SIZE)])

    @cached_property
    def elected(self) -> Numbers:
        """Whether each thread's lane is the one that is elected."""
        every = sum(1 << thread for thread in range(0, self.threads, WARP_SIZE))
        shape = WARP_SIZE, 1, self.threads
        return Table(shape, bits=[every << lane & self.everyone for lane in range(WARP_SIZE)])

    @cached_property
    def rank(self) -> Numbers | None:
        """The rank of the CTA; None where the launch decides whether there is a cluster."""
        return Table((1, self.cluster, 1), [[rank] for rank in range(self.cluster)]) if self.cluster > 1 else None

    def along(self, axis: int) -> Numbers | None:
        """The index of each thread along an axis; None where the shape is not known."""
        return None if self.shape is None else _along(self.index, self.shape, axis)

    def rank_along(self, axis: int) -> Numbers | None:
        """The index of the CTA in its cluster along an axis; None where there may be no cluster."""
        return None if self.rank is None else _along(self.rank, self.cluster_shape, axis)


def _along(numbers: Numbers, shape: Shape, axis: int) -> Numbers:
    """The index along an axis of what is numbered along x first, then y, then z (PTX ISA 10, %tid)."""
    before, extent = math.prod(shape[:axis]), shape[axis]
    return numbers.map(lambda number: number // before % extent)


@dataclass(frozen=True)
class ThreadSet:
    """Which threads are `present`: by the lane that each warp elects, the CTA's rank, and the thread in its CTA.

    What is asked of one CTA is for sets that are the same in all of them.
    """

    present: Mask

    def where(self, holds: Mask) -> ThreadSet:
        """Those of them for which it holds."""
        return ThreadSet(self.present & holds)

    @cached_property
    def of_cta(self) -> ThreadSet | None:
        """Those of one CTA; None where they are not the same in all."""
        same = self.present.shape[1] == 1 or self.present.equals(self.present.of_rank(0))
        return self.in_cta(0) if same else None

    def in_cta(self, rank: int) -> ThreadSet:
        """Those of the CTA of that rank."""
        return self if self.present.shape[1] == 1 else ThreadSet(self.present.of_rank(rank))

    @cached_property
    def _by_warp(self) -> list[list[int]]:
        """How many of each warp they are, by the lane that it elects."""
        starts = range(0, self.present.shape[2], WARP_SIZE)
        return [[(row >> start & _ALL_LANES).bit_count() for start in starts] for row in self.present.bits]

    @cached_property
    def _is_counted(self) -> bool:
        """Whether as many of each warp are there whichever lane is elected."""
        counts = self._by_warp
        return all(by_warp == counts[0] for by_warp in counts)

    @cached_property
    def count(self) -> int | None:
        """How many they are; None where that depends on who is elected."""
        return sum(self._by_warp[0]) if self._is_counted else None

    @cached_property
    def warps(self) -> int:
        """How many warps some of them may belong to."""
        return sum(map(any, zip(*self._by_warp, strict=True)))

    @cached_property
    def is_elected(self) -> bool:
        """Whether they are one lane of each of their warps, and which one it is is open."""
        return not self.is_exact and self._is_counted and max(self._by_warp[0]) <= 1

    @cached_property
    def is_exact(self) -> bool:
        """Whether they are the same threads whichever lane is elected."""
        rows, ranks = self.present.bits, self.present.shape[1]
        return all(row == rows[place % ranks] for place, row in enumerate(rows))

    @cached_property
    def is_one_lane(self) -> bool:
        """Whether they are some, and no two of one warp."""
        return self.present.any() and all(max(by_warp) <= 1 for by_warp in self._by_warp)

    @cached_property
    def bits(self) -> int:
        """A bit for each, or for the warp of each where one lane of it is elected."""
        if self.is_exact:
            return self.present.bits[0]
        return sum(1 << warp * WARP_SIZE for warp, count in enumerate(self._by_warp[0]) if count)

    @property
    def exact(self) -> list[int]:
        """Their numbers; none where that depends on who is elected."""
        return _places(self.present.bits[0]) if self.is_exact else []

    @property
    def is_of_whole_warps(self) -> bool:
        """Whether they are all threads of the warps that they are in."""
        return all(count in (0, WARP_SIZE) for by_warp in self._by_warp for count in by_warp)

    def values(self, numbers: Numbers) -> tuple[int, ...]:
        """Which of the `numbers`, by elected lane, rank and thread, some have for every elected lane, each once."""
        threads = max(self.present.shape[2], numbers.shape[2])
        present, wide = self.present.wide(threads), numbers.wide(threads)
        leaders = range(max(present.shape[0], wide.shape[0]))
        sets = [(present.bits[present.row(leader, 0)], wide.rows[wide.row(leader, 0)]) for leader in leaders]
        known: dict[int, None] = {}
        for start in range(0, threads, WARP_SIZE):
            rows = [[row[start + lane] for lane in _places(here >> start & _ALL_LANES)] for here, row in sets]
            certain = set[int].intersection(*map(set, rows))
            if len(certain) == 1:
                known[certain.pop()] = None
            else:
                known |= dict.fromkeys([number for number in rows[0] if number in certain])
        return tuple(known)

    @cached_property
    def candidates(self) -> list[list[int]] | None:
        """The threads of which each is one of those elected, or itself; None for other sets."""
        if not self.is_exact and not self.is_elected:
            return None
        threads = _places(functools.reduce(operator.or_, self.present.bits))
        if self.is_exact:
            return [[thread] for thread in threads]
        return [list(warp) for _, warp in groupby(threads, lambda thread: thread // WARP_SIZE)]

    def crew(self, anchor: str) -> Crew | None:
        """What the machine form says about them; None where it has no term for it."""
        if not self.is_exact and not self.is_elected:
            return None
        return Crew(self.bits, not self.is_exact, anchor)


def _places(mask: int) -> list[int]:
    """The numbers of the bits that are set."""
    return [place for place in range(mask.bit_length()) if mask >> place & 1]
