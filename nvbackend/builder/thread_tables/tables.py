"""The threads of a CTA, of all CTAs of its cluster, as tables of numbers and as sets; arithmetic on such tables.

A table has three axes: the lane that elect.sync chooses (the same for every election in a warp: PTX ISA 9.7.13), the
CTA's rank in its cluster, and the thread. An axis of length 1 means that the value does not depend on it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.isel.machine.function import Crew
from nvbackend.signature import Shape

if TYPE_CHECKING:
    import numpy.typing as npt

Numbers: TypeAlias = "npt.NDArray[Any]"
"""A number for each elected lane, rank and thread: np.uint64 or, of more than 64 bits, Python's integers."""
Mask: TypeAlias = "npt.NDArray[np.bool_]"
Result: TypeAlias = "tuple[Numbers, Mask | None]"
"""Numbers, and where they are defined: None for everywhere."""

NATIVE = 64


def constant(number: int, width: int) -> Numbers:
    """A number that is the same everywhere."""
    return np.full((1, 1, 1), number & (1 << width) - 1, np.uint64 if width <= NATIVE else object)


def wrapped(numbers: Numbers, width: int) -> Numbers:
    """What is left of `numbers` in `width` bits."""
    if width > NATIVE:
        return numbers.astype(object) & (1 << width) - 1
    if numbers.dtype == object:
        return (numbers & (1 << width) - 1).astype(np.uint64)
    numbers = numbers.astype(np.uint64, copy=False)
    return numbers if width == NATIVE else numbers & np.uint64((1 << width) - 1)


def _literal(number: int, numbers: Numbers) -> Any:
    """`number` so that NumPy keeps the kind of `numbers`."""
    return number if numbers.dtype == object else np.uint64(number)


def _extended(numbers: Numbers, width: int) -> Numbers:
    """The numbers with their sign, in two's complement at 64 bits or as Python's."""
    half = _literal(1 << width - 1, numbers)
    extended: Numbers = (numbers ^ half) - half
    return extended


def signed(numbers: Numbers, width: int) -> Numbers:
    """The numbers that these bits are in two's complement."""
    extended = _extended(numbers, width)
    return extended if extended.dtype == object else extended.view(np.int64)


def _shift(function: Callable[[Any, Any], Any], *, arithmetic: bool = False) -> Callable[..., Result]:
    def shifted(a: Numbers, b: Numbers, width: int) -> Result:
        within = (b < _literal(width, b)).astype(bool)
        amount = b % _literal(width, b)
        if arithmetic and a.dtype != object:
            return function(signed(a, width), amount.astype(np.int64)).view(np.uint64), _where(within)
        return function(_extended(a, width) if arithmetic else a, amount), _where(within)

    return shifted


def _unsigned_division(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    def divided(a: Numbers, b: Numbers, _width: int) -> Result:
        usable = (b != 0).astype(bool)
        return function(a, np.where(usable, b, _literal(1, b))), _where(usable)

    return divided


def _signed_division(function: Callable[[Any, Any], Any], *, rest: bool) -> Callable[..., Result]:
    """Towards zero, as the magnitudes are divided; a rest has the sign of the dividend."""

    def divided(a: Numbers, b: Numbers, width: int) -> Result:
        half, ones = _literal(1 << width - 1, a), _literal((1 << width) - 1, b)
        usable = (b != 0).astype(bool) & ~((a == half) & (b == ones)).astype(bool)
        left_negative, right_negative = (a >= half).astype(bool), (b >= half).astype(bool)
        left, right = _magnitude(a, left_negative, width), _magnitude(b, right_negative, width)
        result = function(left, np.where(usable, right, _literal(1, right)))
        negative = left_negative if rest else left_negative ^ right_negative
        return np.where(negative, _literal(0, result) - result, result), _where(usable)

    return divided


def _magnitude(numbers: Numbers, negative: Mask, width: int) -> Numbers:
    extended = _extended(numbers, width)
    return np.where(negative, _literal(0, extended) - extended, extended)


def _where(defined: Mask) -> Mask | None:
    return None if defined.all() else defined


def _everywhere(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    return lambda a, b, _width: (function(a, b), None)


def _of_signed(function: Callable[[Any, Any], Any]) -> Callable[..., Result]:
    return lambda a, b, width: (function(signed(a, width), signed(b, width)), None)


def _chosen(order: Callable[[Any, Any], Any], *, with_sign: bool) -> Callable[..., Result]:
    def extreme(a: Numbers, b: Numbers, width: int) -> Result:
        left, right = (signed(a, width), signed(b, width)) if with_sign else (a, b)
        return np.where(order(left, right).astype(bool), a, b), None

    return extreme


_BINARY: dict[str, Callable[..., Result]] = {
    "add": _everywhere(operator.add),
    "sub": _everywhere(operator.sub),
    "mul": _everywhere(operator.mul),
    "and": _everywhere(operator.and_),
    "or": _everywhere(operator.or_),
    "xor": _everywhere(operator.xor),
    "shl": _shift(operator.lshift),
    "lshr": _shift(operator.rshift),
    "ashr": _shift(operator.rshift, arithmetic=True),
    "udiv": _unsigned_division(operator.floordiv),
    "urem": _unsigned_division(operator.mod),
    "sdiv": _signed_division(operator.floordiv, rest=False),
    "srem": _signed_division(operator.mod, rest=True),
    "eq": _everywhere(operator.eq),
    "ne": _everywhere(operator.ne),
    "ult": _everywhere(operator.lt),
    "ule": _everywhere(operator.le),
    "ugt": _everywhere(operator.gt),
    "uge": _everywhere(operator.ge),
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
    with np.errstate(all="ignore"):  # numbers wrap around
        numbers, defined = _BINARY[operation](a, b, width)
    return wrapped(numbers, to), defined


def cast(operation: str, numbers: Numbers, width: int, to: int) -> Numbers:
    """The same number in other bits: `zext`, `sext` or `trunc`."""
    if operation == "sext":
        return wrapped(signed(numbers, width), to) if to > NATIVE else wrapped(_extended(numbers, width), to)
    return wrapped(numbers, to)


_RESTS = {"udiv": "urem", "sdiv": "srem"}
_ENDLESS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "shl": operator.lshift}


def kept(operation: str, flag: str, a: Numbers, b: Numbers, width: int) -> Mask | None:
    """Where a result keeps what the instruction promises of it, nsw, nuw or exact; None for everywhere."""
    if operation in _RESTS:
        return _where((_BINARY[_RESTS[operation]](a, b, width)[0] == 0).astype(bool))
    left, right = a.astype(object), b.astype(object)
    if operation in ("shl", "lshr", "ashr"):
        right = right % width  # without meaning where it is more
    if flag == "exact":
        return _where((left >> right << right == left).astype(bool))
    if operation not in _ENDLESS:
        return None
    if flag == "nsw":
        result = _ENDLESS[operation](signed(left, width), right if operation == "shl" else signed(right, width))
        return _where((result == signed(result & (1 << width) - 1, width)).astype(bool))
    result = _ENDLESS[operation](left, right)
    return _where((result == wrapped(result, width)).astype(bool))


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
        return np.arange(self.threads, dtype=np.uint64)[None, None, :]

    @cached_property
    def lane(self) -> Numbers:
        """The lane of each thread."""
        return self.index % np.uint64(WARP_SIZE)

    @cached_property
    def leader(self) -> Numbers:
        """The lane that is elected."""
        return np.arange(WARP_SIZE, dtype=np.uint64)[:, None, None]

    @cached_property
    def elected(self) -> Numbers:
        """Whether each thread's lane is the one that is elected."""
        elected: Numbers = (self.lane == self.leader).astype(np.uint64)
        return elected

    @cached_property
    def rank(self) -> Numbers | None:
        """The rank of the CTA; None where the launch decides whether there is a cluster."""
        return np.arange(self.cluster, dtype=np.uint64)[None, :, None] if self.cluster > 1 else None

    def along(self, axis: int) -> Numbers | None:
        """The index of each thread along an axis; None where the shape is not known."""
        return None if self.shape is None else _along(self.index, self.shape, axis)

    def rank_along(self, axis: int) -> Numbers | None:
        """The index of the CTA in its cluster along an axis; None where there may be no cluster."""
        return None if self.rank is None else _along(self.rank, self.cluster_shape, axis)


def _along(numbers: Numbers, shape: Shape, axis: int) -> Numbers:
    """The index along an axis of what is numbered along x first, then y, then z (PTX ISA 10, %tid)."""
    before = math.prod(shape[:axis])
    return numbers // np.uint64(before) % np.uint64(shape[axis])


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
        same = self.present.shape[1] == 1 or (self.present == self.present[:, :1]).all()
        return self.in_cta(0) if same else None

    def in_cta(self, rank: int) -> ThreadSet:
        """Those of the CTA of that rank."""
        if self.present.shape[1] == 1:
            return self
        return ThreadSet(self.present[:, rank : rank + 1])

    @cached_property
    def _by_warp(self) -> Numbers:
        """How many of each warp they are, by the lane that it elects."""
        leaders, _, threads = self.present.shape
        counts: Numbers = self.present.reshape(leaders, threads // WARP_SIZE, WARP_SIZE).sum(axis=-1)
        return counts

    @cached_property
    def count(self) -> int | None:
        """How many they are; None where that depends on who is elected."""
        counts = self._by_warp
        return int(counts[0].sum()) if len(counts) == 1 or (counts == counts[:1]).all() else None

    @cached_property
    def warps(self) -> int:
        """How many warps some of them may belong to."""
        return int((self._by_warp > 0).any(axis=0).sum())

    @cached_property
    def is_elected(self) -> bool:
        """Whether they are one lane of each of their warps, and which one it is is open."""
        counts = self._by_warp
        return not self.is_exact and bool(((counts == counts[:1]) & (counts <= 1)).all())

    @cached_property
    def is_exact(self) -> bool:
        """Whether they are the same threads whichever lane is elected."""
        return len(self.present) == 1 or bool((self.present == self.present[:1]).all())

    @cached_property
    def is_one_lane(self) -> bool:
        """Whether they are some, and no two of one warp."""
        return bool((self._by_warp <= 1).all()) and bool(self.present.any())

    @cached_property
    def bits(self) -> int:
        """A bit for each, or for the warp of each where one lane of it is elected."""
        if self.is_exact:
            return bits_of(self.present[0, 0])
        return sum(1 << warp * WARP_SIZE for warp, count in enumerate(self._by_warp[0]) if count)

    @property
    def exact(self) -> list[int]:
        """Their numbers; none where that depends on who is elected."""
        return np.flatnonzero(self.present[0, 0]).tolist() if self.is_exact else []

    @property
    def is_of_whole_warps(self) -> bool:
        """Whether they are all threads of the warps that they are in."""
        return bool(((self._by_warp == 0) | (self._by_warp == WARP_SIZE)).all())

    def values(self, numbers: Numbers) -> tuple[int, ...]:
        """Which of the `numbers`, by elected lane, rank and thread, some have for every elected lane, each once."""
        shape = np.broadcast_shapes(self.present.shape, numbers.shape)
        present, wide = repeated(self.present, shape)[:, 0], repeated(numbers, shape)[:, 0]
        known: dict[int, None] = {}
        for start in range(0, shape[2], WARP_SIZE):
            warp = slice(start, start + WARP_SIZE)
            rows = [row[here].tolist() for here, row in zip(present[:, warp], wide[:, warp], strict=True)]
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
        threads = np.flatnonzero(self.present[:, 0].any(axis=0)).tolist()
        if self.is_exact:
            return [[thread] for thread in threads]
        return [list(warp) for _, warp in groupby(threads, lambda thread: thread // WARP_SIZE)]

    def crew(self, anchor: str) -> Crew | None:
        """What the machine form says about them; None where it has no term for it."""
        if not self.is_exact and not self.is_elected:
            return None
        return Crew(self.bits, not self.is_exact, anchor)


def repeated(numbers: Numbers, shape: tuple[int, ...]) -> Numbers:
    """`numbers` in this shape: along an axis where there is one of them, it is that of all places."""
    return numbers if numbers.shape == shape else np.broadcast_to(numbers, shape)


def bits_of(mask: Mask | np.bool_) -> int:
    """A bit for each place where one is set."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")
