"""The bytes of an allocation that each thread certainly accesses, and whether two warps share one.

Places are evaluated in each thread (`MachineFunction.values`). A run-time term that is uniform,
such as a stage of a ring, must be the same in both accesses.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import compress, pairwise
from operator import add

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import GUARD, Effect, RegisterClass, Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE, Proxy, Scope
from nvbackend.isel.flow.accesses import Run
from nvbackend.isel.flow.finished import kept_of_text
from nvbackend.isel.flow.memory_uses import dense_extent, symbol_terms
from nvbackend.isel.flow.paths import everyone, thread_count
from nvbackend.isel.machine.function import Crew, MachineFunction, MachineInstr, MemoryTouch, RunTimeValues

_SIZES = {Scope.THREAD: 1, Scope.WARP: WARP_SIZE, Scope.WARPGROUP: WARPGROUP_SIZE}
_WARP = (1 << WARP_SIZE) - 1
_LEAST = 16
"""Bytes that a bulk copy, a row of an 8x8 matrix, or the start of a descriptor's operand has at least."""
_MOST = 8
"""So many accesses of a run are looked at."""
Terms = tuple[tuple[str, int], ...]
Span = tuple[int, int]
"""Where bytes begin and end."""


@dataclass(frozen=True, slots=True)
class ByteAccess:
    """Bytes `start` to `end`, which one of `threads` (a bit each, never of two warps) accesses, for certain."""

    start: int
    end: int
    threads: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """A byte that two threads of different warps access, as offset from the allocation's start or its `terms`."""

    first: int
    second: int
    byte: int


@dataclass(frozen=True, slots=True)
class _Footprint:
    """All accesses of a run by the run-time part of their places, which is the same in all threads."""

    accesses: dict[Terms, list[ByteAccess]]


class Footprints:
    """The footprints of the runs of one function, by its own values or those of one of its CTAs."""

    def __init__(self, function: MachineFunction, values: RunTimeValues | None = None) -> None:
        self._values = values or function.values
        self._threads = thread_count(function)
        self._everyone = everyone(function)
        self._offsets: dict[str, tuple[Sequence[int], Terms] | None] = {}
        self._found: dict[Hashable, _Footprint] = {}
        self._overlaps: dict[Hashable, Overlap | None] = {}
        self._spans: dict[Hashable, tuple[Terms, Sequence[Span]] | None] = {}

    def overlap(self, first: Run, by: Crew, second: Run, also: Crew, inside: int, fixed: bool) -> Overlap | None:
        """A byte that a thread accesses in `first` and one of another warp in `second`, both of them `inside`.

        None where that is not certain. With `fixed`, only places count that have no run-time part.
        """
        key = (first.places, by.bits, by.elected, second.places, also.bits, also.elected, inside, fixed)
        if key not in self._overlaps:
            self._overlaps[key] = None
            if not self._terms(first).isdisjoint(self._terms(second)):
                mine, other = (self._footprint(run, crew) for run, crew in ((first, by), (second, also)))
                self._overlaps[key] = next(_overlaps(mine, other, inside, fixed), None)
        return self._overlaps[key]

    def reaches(self, run: Run, crew: Crew, start: int, end: int) -> bool:
        """Whether some thread of the crew certainly accesses a byte between these offsets of the allocation."""
        accesses = self._footprint(run, crew).accesses.get((), ())
        return any(each.start < end and start < each.end for each in accesses)

    def common(self, first: Run, by: Crew, others: Footprints, second: Run, also: Crew) -> Overlap | None:
        """A byte that `first` accesses, and `second` in another CTA, whose values `others` has, at the same place."""
        if self._terms(first).isdisjoint(others._terms(second)):
            return None
        mine, other = self._footprint(first, by), others._footprint(second, also)
        for terms, accesses in mine.accesses.items():
            meeting = next(_meetings(accesses, other.accesses.get(terms, ()), self._everyone, same_warp=True), None)
            if meeting is not None:
                return meeting
        return None

    def are_apart(self, first: Run, threads: int, second: Run, also: int) -> bool:
        """Whether no byte that `threads` may access in `first` is one that those of `also` may access in `second`."""
        mine, others = self._possible(first, threads), self._possible(second, also)
        if mine is None or others is None or mine[0] != others[0]:
            return False
        return all(earlier[1] <= later[0] for earlier, later in pairwise(sorted([*mine[1], *others[1]])))

    def are_within(self, scope: Scope, first: Run, threads: int, second: Run, also: int) -> bool:
        """Whether only threads of one `scope` share a byte: one of `threads` in `first`, and one of `also` after it."""
        mine, others = self._of_each(first, threads), self._of_each(second, also)
        if mine is None or others is None or mine[0] != others[0]:
            return False
        size, meetings = _SIZES[scope], _meetings(mine[1], others[1], self._everyone, same_warp=True)
        return all(each.first // size == each.second // size for each in meetings)

    def _possible(self, run: Run, threads: int) -> tuple[Terms, Sequence[Span]] | None:
        """The bytes that threads may access, from the one run-time part of all places on; None where unknown."""
        key = run.places, threads
        if key not in self._spans:
            placed = self._placed(run)
            self._spans[key] = None if placed is None else (placed[0], self._spans_of(placed[1], threads))
        return self._spans[key]

    def _spans_of(self, accesses: Iterable[tuple[MemoryTouch, int]], threads: int) -> list[Span]:
        """Where accesses of so many bytes a thread are; what is alike at several offsets is looked for once."""
        places: dict[int, set[tuple[str, int]]] = {}
        for touch, size in accesses:
            places.setdefault(touch.offset, set()).add((touch.symbol, size))
        alike: dict[frozenset[tuple[str, int]], list[int]] = {}
        for offset, symbols in places.items():
            alike.setdefault(frozenset(symbols), []).append(offset)
        spans: list[Span] = []
        for symbols_there, offsets in alike.items():
            starts: dict[int, set[int]] = {}
            for symbol, size in symbols_there:
                starts.setdefault(size, set()).update(self._numbers(symbol, threads))
            near = [span for size, several in starts.items() for span in _runs(several, size)]
            spans += [(offset + start, offset + end) for offset in offsets for start, end in near]
        return _merged(spans)

    def _numbers(self, symbol: str, threads: int) -> Iterator[int]:
        """The numbers of a symbol, whose place is known, in some of the threads."""
        place = self._offset(symbol)
        return compress(() if place is None else place[0], map(int, reversed(f"{threads & self._everyone:b}")))

    def _of_each(self, run: Run, threads: int) -> tuple[Terms, Sequence[ByteAccess]] | None:
        """The bytes that each of the threads may access."""
        placed = self._placed(run)
        if placed is None:
            return None
        accesses = [
            ByteAccess(touch.offset + start, touch.offset + start + size, thread)
            for touch, size in placed[1]
            for thread, start in self._starts(touch.symbol, threads)
        ]
        return placed[0], accesses

    def _placed(self, run: Run) -> tuple[Terms, Sequence[tuple[MemoryTouch, int]]] | None:
        """The accesses, and how many bytes each thread accesses at most; None where their places are not all known."""
        common: set[Terms] = set()
        accesses: list[tuple[MemoryTouch, int]] = []
        for site, touch in run.accesses:
            place = self._offset(touch.symbol)
            size = _most_bytes_of_a_thread(site.instr, touch)
            if place is None or size is None:
                return None
            common.add(place[1])
            accesses.append((touch, size))
        return (common.pop(), accesses) if len(common) == 1 else None

    def _starts(self, symbol: str, threads: int) -> Iterator[tuple[int, int]]:
        """Each of the threads, as its bit, and its number of a symbol, whose place is known."""
        place = self._offset(symbol)
        numbers = () if place is None else place[0]
        return ((1 << thread, start) for thread, start in enumerate(numbers) if threads >> thread & 1)

    def _terms(self, run: Run) -> set[Terms]:
        """The run-time parts of its places: runs with none in common share no byte for certain."""
        places = (self._offset(touch.symbol) for _, touch in run.accesses[:_MOST])
        return {terms for _, terms in filter(None, places)}

    def _footprint(self, run: Run, crew: Crew) -> _Footprint:
        key = (run.places, crew.bits, crew.elected)
        if key not in self._found:
            by_terms: dict[Terms, list[ByteAccess]] = {}
            for site, touch in run.accesses[:_MOST]:
                place = self._offset(touch.symbol)
                if place is not None:
                    numbers, terms = place
                    starts = [touch.offset + number for number in numbers]
                    by_terms.setdefault(terms, []).extend(_accesses(site.instr, touch, starts, crew))
            self._found[key] = _Footprint(by_terms)
        return self._found[key]

    def _offset(self, symbol: str) -> tuple[Sequence[int], Terms] | None:
        """The value of a symbol in each thread, apart from terms that are the same in all."""
        if symbol not in self._offsets:
            self._offsets[symbol] = self._evaluate(symbol)
        return self._offsets[symbol]

    def _evaluate(self, symbol: str) -> tuple[Sequence[int], Terms] | None:
        if self._values is None:
            return None
        numbers: Sequence[int] = []
        terms: list[tuple[str, int]] = []
        for name, factor in symbol_terms(symbol):
            known = self._values.numbers(name)
            if known is not None:
                scaled = known if factor == 1 else [factor * register for register in known]
                numbers = [*map(add, numbers, scaled)] if numbers else scaled
            elif self._values.is_same(name):
                terms.append((name, factor))
            else:
                return None
        return numbers or [0] * self._threads, tuple(terms)


@kept_of_text
def footprints_of(function: MachineFunction) -> Footprints:
    """The footprints of the runs of a function, by its own values."""
    return Footprints(function)


def _accesses(instr: MachineInstr, touch: MemoryTouch, starts: Sequence[int], crew: Crew) -> Iterator[ByteAccess]:
    """What the crew accesses for certain: nothing for instructions of which that is not known."""
    if GUARD in instr.operands:
        return
    bits, row = crew.bits, instr.row
    size = _bytes_of_a_thread(instr, touch)
    if size is not None:
        for threads, start in _of_threads(crew, starts):
            yield ByteAccess(start, start + size, threads)
        return
    if row is None or crew.elected:
        return
    for first in range(0, len(starts), WARP_SIZE):
        warp = _WARP << first
        if warp & bits == warp:
            for start, extent in _of_a_warp(row, touch, starts[first : first + WARP_SIZE]):
                yield ByteAccess(start, start + extent, warp)


def _bytes_of_a_thread(instr: MachineInstr, touch: MemoryTouch) -> int | None:
    """The bytes that each thread accesses at its own address; None for what warps do together."""
    row = instr.row
    if row is None:
        return touch.bytes
    if Effect.CONVERGENT in row.effects or row.semantics.accesses(touch.operand) is None:
        return None
    if _is_descriptor(row, touch):
        return _LEAST
    return touch.bytes or (_LEAST if row.semantics.proxy is Proxy.ASYNC else None)


def _most_bytes_of_a_thread(instr: MachineInstr, touch: MemoryTouch) -> int | None:
    """The bytes from its own address on that a thread accesses at most; None for what only a warp's addresses say."""
    row = instr.row
    access = None if row is None else row.semantics.accesses(touch.operand)
    if access is not None and access.lanes is not None:
        return _LEAST
    is_own = row is None or not (Effect.CONVERGENT in row.effects or _is_descriptor(row, touch))
    return touch.bytes if is_own else None


def _runs(starts: Iterable[int], size: int) -> list[Span]:
    """The bytes of so many at each start, in spans that have a gap between them."""
    runs: list[Span] = []
    first = last = None
    for start in sorted(starts):
        if last is None or first is None:
            first = start
        elif start - last > size:
            runs.append((first, last + size))
            first = start
        last = start
    return runs if first is None or last is None else [*runs, (first, last + size)]


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same bytes in spans that have a gap between them."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _is_descriptor(row: Row, touch: MemoryTouch) -> bool:
    return row.has_operand(touch.operand) and row.operand(touch.operand).register is RegisterClass.B64


def _of_threads(crew: Crew, starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each thread of the crew and its address; of an elected one its warp, where all lanes have one address."""
    if not crew.elected:
        yield from ((1 << thread, start) for thread, start in enumerate(starts) if crew.bits >> thread & 1)
        return
    for first in range(0, len(starts), WARP_SIZE):
        start, *others = {*starts[first : first + WARP_SIZE]}
        if crew.bits >> first & _WARP and not others:
            yield _WARP << first, start


def _of_a_warp(row: Row, touch: MemoryTouch, starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where a warp accesses, and how many bytes at least."""
    access = row.semantics.accesses(touch.operand)
    if access is None:
        return
    start, *others = {*starts}
    if access.lanes is not None:
        yield from ((place, _LEAST) for place in starts[: access.lanes])
    elif others:
        return
    elif _is_descriptor(row, touch):
        if access.by_each_warp:
            yield start, _LEAST
    else:
        whole = touch.bytes is not None and dense_extent(row, touch.operand, touch.bytes) == touch.bytes
        yield start, (whole and touch.bytes) or 1


def _overlaps(first: _Footprint, second: _Footprint, inside: int, fixed: bool) -> Iterator[Overlap]:
    for terms, accesses in first.accesses.items():
        if not (fixed and terms) and terms in second.accesses:
            yield from _meetings(accesses, second.accesses[terms], inside)


def _meetings(
    first: Sequence[ByteAccess], second: Sequence[ByteAccess], inside: int, *, same_warp: bool = False
) -> Iterator[Overlap]:
    """The bytes that accesses of different warps share, or with `same_warp` any, all of whose threads are `inside`."""
    ordered = sorted((access for access in first if access.threads | inside == inside), key=lambda access: access.start)
    starts = [access.start for access in ordered]
    longest = max((access.end - access.start for access in ordered), default=0)
    for other in second:
        if other.threads | inside != inside:
            continue
        for earlier in ordered[
            bisect.bisect_right(starts, other.start - longest) : bisect.bisect_left(starts, other.end)
        ]:
            if earlier.end > other.start and (same_warp or _warp(earlier.threads) != _warp(other.threads)):
                yield Overlap(_lowest(earlier.threads), _lowest(other.threads), max(earlier.start, other.start))


def _warp(threads: int) -> int:
    return _lowest(threads) // WARP_SIZE


def _lowest(threads: int) -> int:
    return (threads ^ threads - 1).bit_length() - 1
