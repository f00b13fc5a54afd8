"""Which waits at mbarriers no run can pass: what may happen at most while a thread waits at one.

All that may happen is followed at once, whichever threads take which ways: a wait is passed where as many arrivals may
have been made as complete a phase that it may be for. One that is not passed even so hangs whenever a thread comes to
it. While a thread is at it, none is past a barrier of the CTA which that one has not reached; and what decided that it
came there decides the same for all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.flow.loops import loops_of
from nvbackend.lint.lifted.barrier_counts import BarrierCounts
from nvbackend.lint.lifted.lift import Line
from nvbackend.lint.numbers.addresses import Addresses, Bounded
from nvbackend.lint.numbers.by_thread import CtaValues, Unknown
from nvbackend.lint.numbers.expressions import Expression
from nvbackend.lint.numbers.facts import Facts, either
from nvbackend.lint.numbers.touched import said
from nvbackend.lint.rounds.written_out import WrittenOut
from nvbackend.ptx.syntax import Address

_ENDLESS = 1 << 30
"""As many arrivals as complete any phase."""
_RESHAPES = MbarrierUse.RECOUNT
_Completed = Mapping[int, int]
"""The phases that a thread knows to be complete, at least, by the address of the mbarrier."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A wait: its place, the address of its mbarrier, and the parity; -1 where one is not known."""

    place: int
    address: int = -1
    parity: int = -1


@dataclass(frozen=True, slots=True)
class Arrived:
    """An arrival: its place, the addresses of mbarriers that it may be at, and how often it counts for a thread."""

    place: int
    addresses: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Begun:
    """An mbarrier.init: its place, the addresses of the threads, and the arrivals of a phase; 0 if not known."""

    place: int
    addresses: tuple[int, ...]
    count: int


_Event = Asked | Arrived | Begun


@dataclass
class _Run:
    """What may have happened: the threads at the start of each block and what they know, and of each mbarrier the
    arrivals and the times that it was initialised, by the places of the instructions.
    """

    facts: Facts
    threads: dict[str, int] = field(default_factory=dict)
    known: dict[str, _Completed] = field(default_factory=dict)
    arrivals: dict[int, dict[int, int]] = field(default_factory=dict)
    begun: dict[int, dict[int, int]] = field(default_factory=dict)
    blocked: dict[int, set[str]] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)


class Progress:
    """The questions of one function, written out."""

    def __init__(self, out: WrittenOut, values: CtaValues, addresses: Addresses) -> None:
        self._out = out
        self._lines = out.lifted.lines
        self._values = values
        self._addresses = addresses
        self._blocks = values.function.blocks
        self._loops = loops_of(values.function)
        self._barriers = BarrierCounts(values.function, self._lines)
        self._start: dict[str, int] = {}
        place = 0
        for name, block in self._blocks.items():
            self._start[name] = place
            place += len(block.instructions)
        self._is_reached_from_afar = False
        """Whether an arrival may be at an mbarrier of any variable, such as that of another CTA."""
        self._places = dict(self._initialised())

    def stuck(self) -> list[tuple[int, int, int]]:
        """The waits that nothing can end: the place, the address, and the phase that it is for; the earliest first."""
        every = [(name, event) for name, events in self._events.items() for event in events]
        if self._is_reached_from_afar:
            return []
        stuck = []
        for name, event in every:
            if isinstance(event, Asked) and event.address >= 0 and event.place not in self._out.later:
                run = self._run(event, name)
                if event.place not in run.passed and name in run.threads:
                    stuck.append((self._completed(run, event.address), event.place, event.address))
        return [(place, address, phase) for phase, place, address in sorted(stuck)]

    # -- what there is --------------------------------------------------------------------------------------------

    def _address(self, place: int) -> Bounded:
        """The first address of an instruction, as a symbol and bounds."""
        operands = self._lines[place].instruction.operands
        at = next((index for index, operand in enumerate(operands) if isinstance(operand, Address)), None)
        return Bounded() if at is None else self._addresses.at(self._out.origin[place], at)

    @cached_property
    def _events(self) -> dict[str, list[_Event]]:
        """The waits and arrivals of each block that is reached, in order."""
        events: dict[str, list[_Event]] = {}
        for name, block in self._blocks.items():
            if self._loops.is_reachable(name):
                places = range(self._start[name], self._start[name] + len(block.instructions))
                each = (self._event(place, self._lines[place]) for place in places)
                events[name] = [event for event in each if event is not None]
        return events

    def _initialised(self) -> Iterator[tuple[int, Bounded]]:
        """The mbarriers by their addresses, as symbols and bounds."""
        for place, line in enumerate(self._lines):
            use = said(line).mbarrier
            if use is not None and use & MbarrierUse.INIT:
                yield from ((address, self._address(place)) for address in self._addresses_of(place))

    def _addresses_of(self, place: int) -> tuple[int, ...]:
        """The addresses of an instruction in all threads, where they are known."""
        address = self._values.address(place)
        if isinstance(address, Unknown):
            return ()
        return (address,) if isinstance(address, int) else tuple(dict.fromkeys(int(each) for each in address))

    def _event(self, place: int, line: Line) -> _Event | None:
        use = said(line).mbarrier
        parts = line.instruction.parts
        if place in self._out.waits:
            return self._asked(place, line)
        if use is None:
            is_arrival = parts[1:2] == ("commit",) or (parts[0] == "mbarrier" and parts[1].startswith("arrive"))
            return self._arrived(place, line, _ENDLESS) if is_arrival else None
        if use & MbarrierUse.INIT:
            count = 0 if place in self._out.later else self._values.at(place, 1)
            return Begun(place, self._addresses_of(place), count if isinstance(count, int) else 0)
        if not use & MbarrierUse.ARRIVE:
            return None
        is_counted = use & _RESHAPES or "multicast::cluster" in parts or "arrive_drop" in parts
        return self._arrived(place, line, _ENDLESS if is_counted or place in self._out.later else 1)

    def _asked(self, place: int, line: Line) -> Asked:
        operands = line.instruction.operands
        address = self._values.address(place)
        parity = self._values.at(place, 2) if len(operands) > 2 and "parity" in line.instruction.parts else None
        if line.instruction.guard is not None or not isinstance(address, int) or not isinstance(parity, int):
            return Asked(place)
        return Asked(place, address, parity & 1) if address in self._places else Asked(place)

    def _arrived(self, place: int, line: Line, count: int) -> Arrived:
        operands, address = line.instruction.operands, self._values.address(place)
        at = next((index for index, operand in enumerate(operands) if isinstance(operand, Address)), len(operands))
        if "expect_tx" not in line.instruction.parts and at + 1 < len(operands):
            times = self._values.at(place, at + 1)
            count = times * count if isinstance(times, int) else _ENDLESS
        if isinstance(address, int):
            return Arrived(place, (address,), count)
        where = self._address(place)
        self._is_reached_from_afar |= not where.base
        return Arrived(place, tuple(at for at, barrier in self._places.items() if _may_be(where, barrier)), _ENDLESS)

    # -- one wait -------------------------------------------------------------------------------------------------

    def _run(self, wait: Asked, block: str) -> _Run:
        """All that may happen while a thread is at a wait, until it is passed."""
        facts = Facts(self._values.expressions, self._values.threads, self._truths(block))
        run = _Run(facts)
        entry = next(iter(self._blocks))
        run.threads[entry], run.known[entry] = self._values.threads, {}
        waiting = [entry]
        while waiting and wait.place not in run.passed:
            name = waiting.pop()
            waiting += self._block(run, name, wait)
        return run

    def _truths(self, block: str) -> Iterator[tuple[Expression, bool]]:
        """What every thread has found that comes to a block: branches before it that lead there by one way alone."""
        leading = reached([block], self._loops.predecessors)
        for name in leading:
            successors = self._blocks[name].successors
            if name == block or len(successors) != 2 or not self._loops.dominates(name, block):
                continue
            ways = [successor for successor in successors if successor in leading]
            last = self._end(name) - 1
            guard = self._values.guard(last) if self._lines[last].instruction.parts[0] == "bra" else 1
            if len(ways) == 1 and isinstance(guard, Unknown) and guard.same and guard.expression is not None:
                yield guard.expression, ways[0] == successors[0]

    def _end(self, name: str) -> int:
        return self._start[name] + len(self._blocks[name].instructions)

    def _block(self, run: _Run, name: str, wait: Asked) -> Iterator[str]:
        """Runs a block as far as threads may, and gives the blocks to run for what has changed."""
        known = run.known[name]
        for event in self._events[name]:
            if self._barriers.are_more(event.place, wait.place):
                return
            if not isinstance(event, Asked):
                yield from self._arrive(run, name, event)
                continue
            phase = self._passed(run, event, known)
            if phase is None:
                run.blocked.setdefault(event.address, set()).add(name)
                return
            run.passed.add(event.place)
            if event.address >= 0:
                known = {**known, event.address: phase}
        end = self._end(name)
        if end > self._start[name] and self._barriers.are_more(end - 1, wait.place):
            return
        for successor, threads in self._ways(run, name):
            if self._joins(run, successor, threads, known):
                yield successor

    def _passed(self, run: _Run, event: Asked, known: _Completed) -> int | None:
        """The phases that are complete after a wait, at least; None where it cannot be passed."""
        if event.address < 0:
            return 0
        least = known.get(event.address, 0)
        after = least if least & 1 != event.parity else least + 1
        return after if after <= self._completed(run, event.address) else None

    def _completed(self, run: _Run, address: int) -> int:
        """The phases of an mbarrier that may be complete: any where it may be initialised again."""
        begun = run.begun.get(address)
        if not begun:
            return 0
        (count, *others) = begun.values()
        return _ENDLESS if others or count <= 0 else sum(run.arrivals.get(address, {}).values()) // count

    def _arrive(self, run: _Run, name: str, event: Arrived | Begun) -> Iterator[str]:
        """Counts an arrival of each thread that may make it, or an init, and gives the blocks that wait for it."""
        threads = run.threads[name] & either(self._values, run.facts, self._values.guard(event.place))[0]
        done, many = run.begun, event.count
        if isinstance(event, Arrived):
            done, many = run.arrivals, min(threads.bit_count() * event.count, _ENDLESS)
        for address in event.addresses if threads else ():
            before = self._completed(run, address)
            places = done.setdefault(address, {})
            places[event.place] = max(many, places.get(event.place, 0))
            if self._completed(run, address) > before:
                yield from run.blocked.pop(address, ())

    def _ways(self, run: _Run, name: str) -> Iterator[tuple[str, int]]:
        """The successors of a block, each with the threads that may go there."""
        successors, threads = self._blocks[name].successors, run.threads[name]
        guard = self._values.guard(self._end(name) - 1) if self._end(name) > self._start[name] else 1
        if len(successors) != 2 or isinstance(guard, int):
            yield from ((successor, threads) for successor in successors)
            return
        for successor, may in zip(successors, either(self._values, run.facts, guard), strict=True):
            if threads & may:
                yield successor, threads & may

    def _joins(self, run: _Run, name: str, threads: int, known: _Completed) -> bool:
        """Adds threads that come to a block, which know what is complete, and says whether that is new."""
        before = run.threads.get(name)
        if before is None:
            run.threads[name], run.known[name] = threads, known
            return True
        old = run.known[name]
        fewest = {address: min(phase, old[address]) for address, phase in known.items() if address in old}
        if before | threads == before and fewest == old:
            return False
        run.threads[name], run.known[name] = before | threads, fewest
        return True


def _may_be(where: Bounded, barrier: Bounded) -> bool:
    """Whether an address may be that of an mbarrier, which is known."""
    if where.base != barrier.base or barrier.low is None or barrier.high is None:
        return where.base == barrier.base or not (where.base and barrier.base)
    is_below = where.high is not None and where.high < barrier.low
    return not is_below and (where.low is None or where.low <= barrier.high)
