"""Accesses that leave the allocation in shared memory that they began in, for certain.

A place is known as a constant, what of it differs between threads as a number of each thread, and what counts the
rounds of a loop as the first and the last of them. Of a thread that comes to the access whenever anybody does, no byte
may lie outside; of the others, not all. What depends on any other run-time value is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import compress
from operator import add

from nvbackend.diagnostics import Diagnostic
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import GUARD
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.isel.flow.loops import Loop, loops_of
from nvbackend.isel.flow.memory_uses import PEER_SPACE, defining_blocks, symbol_terms
from nvbackend.isel.flow.paths import thread_count
from nvbackend.isel.machine.function import (
    MachineBlock,
    MachineFunction,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
    RunTimeValues,
)
from nvbackend.isel.protocols.shared.rules import BOUNDS, LOCAL_INDEX, UNWRITTEN

_LOCAL = "local"
_SPACES = ("shared", PEER_SPACE, _LOCAL)
_ACCESSES = {
    MemoryUse.READ: "reads",
    MemoryUse.WRITE: "writes",
    MemoryUse.ASYNC_READ: "reads",
    MemoryUse.ASYNC_WRITE: "writes",
    MemoryUse.SYNCHRONIZE: "uses",
}
_ROWS = 8
"""Of a matrix of which each lane gives the address of a row (PTX ISA 9.7.14.5.15)."""


@dataclass(frozen=True)
class _Start:
    """Where an access begins, in each thread: at the lowest and at the highest of its rounds."""

    lowest: Sequence[int]
    highest: Sequence[int]
    known: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The ends of those threads that were asked for."""

    @cached_property
    def least(self) -> int:
        """The lowest of all threads."""
        return min(self.lowest)

    @cached_property
    def most(self) -> int:
        """The highest of all threads."""
        return max(self.highest)

    def ends(self, threads: int) -> tuple[int, int]:
        """The lowest and the highest of some of the threads, a bit each."""
        if threads not in self.known:
            flags = [*map(int, reversed(f"{threads:b}"))]
            lowest, highest = [*compress(self.lowest, flags)], [*compress(self.highest, flags)]
            self.known[threads] = min(lowest), max(highest)
        return self.known[threads]

    def outside(self, first: int, last: int) -> list[int]:
        """The threads that begin before `first` or after `last`."""
        if self.lowest is self.highest:
            return [thread for thread, place in enumerate(self.lowest) if not first <= place <= last]
        ends = enumerate(zip(self.lowest, self.highest, strict=True))
        return [thread for thread, (low, high) in ends if low < first or high > last]


def check_shared_bounds(function: MachineFunction) -> list[Diagnostic]:
    """Every access that certainly leaves its allocation (shared.bounds), at its line, once for each line."""
    faults: dict[object, Diagnostic] = {}
    bounds = _Bounds(function)
    for block in function.blocks.values():
        for instr in block.instructions:
            for touch in instr.memory:
                if touch.object.space not in _SPACES or (touch.use is MemoryUse.SYNCHRONIZE and not touch.symbol):
                    continue  # an mbarrier at a constant place past the end is one that nothing initialises
                fault = bounds.fault(block, instr, touch)
                if fault is not None:
                    faults.setdefault((instr.location, touch.object.id, instr.opcode), fault)
    return list(faults.values())


def check_local_arrays(function: MachineFunction) -> list[Diagnostic]:
    """The first read of each local array that nothing ever sets (local.unwritten)."""
    reads: dict[MemoryObject, MachineInstr] = {}
    written: set[MemoryObject] = set()
    for block in function.blocks.values():
        for instr in block.instructions:
            for touch in instr.memory:
                if touch.object.space == _LOCAL and touch.use is MemoryUse.READ:
                    reads.setdefault(touch.object, instr)
                elif touch.object.space == _LOCAL:
                    written.add(touch.object)
    return [
        UNWRITTEN.diagnose(at=instr.location, name=array.name) for array, instr in reads.items() if array not in written
    ]


class _Bounds:
    """The search in one function."""

    def __init__(self, function: MachineFunction) -> None:
        self._function = function
        self._threads = thread_count(function)
        self._starts: dict[str, tuple[_Start, list[str]] | None] = {}
        """By symbol, with the counters in it."""
        self._scaled: dict[tuple[str, int], Sequence[int] | None] = {}
        """Terms of symbols in each thread."""

    def fault(self, block: MachineBlock, instr: MachineInstr, touch: MemoryTouch) -> Diagnostic | None:
        """What is wrong with one access, None where nothing certainly is."""
        # An mma describes a whole tile: where it starts, it may go round the end of a swizzle's period.
        size = 1 if instr.semantics.multiplies else touch.bytes or 1
        last = touch.object.bytes - size
        if not touch.symbol:
            outside = not 0 <= touch.offset <= last
            return _diagnose(instr, touch, touch.offset, size, "") if outside else None
        start = self._start(block.crew.anchor if block.crew is not None else block.name, touch.symbol)
        if start is None:
            return None
        if touch.offset + start.least >= 0 and touch.offset + start.most <= last:
            return None
        crew = 0 if block.crew is None else block.crew.bits & (1 << self._threads) - 1
        if crew:
            least, most = start.ends(crew)
            if touch.offset + least >= 0 and touch.offset + most <= last:
                return None
        leaving = start.outside(-touch.offset, last - touch.offset)
        thread = next(iter(self._certain(block, instr, touch, leaving)), None)
        if thread is None:
            return None
        low, high = touch.offset + start.lowest[thread], touch.offset + start.highest[thread]
        same = start.lowest.count(start.lowest[0]) == len(start.lowest)
        return _diagnose(instr, touch, low if low < 0 else high, size, "" if same else f" in thread {thread}")

    def _certain(
        self, block: MachineBlock, instr: MachineInstr, touch: MemoryTouch, leaving: Sequence[int]
    ) -> Sequence[int]:
        """Those of the threads `leaving` of which one certainly executes the instruction, if anybody does."""
        if len(leaving) == self._threads:
            return leaving
        crew = block.crew
        if crew is None or GUARD in instr.operands:
            return ()
        lanes = _lanes(instr, touch)
        if lanes is not None:
            leaving = [thread for thread in leaving if thread % WARP_SIZE < lanes]
        if not crew.elected:
            return [thread for thread in leaving if crew.bits >> thread & 1]
        warps = [thread for thread in leaving if thread % WARP_SIZE == 0 and crew.bits >> thread & (1 << WARP_SIZE) - 1]
        return [first for first in warps if {*range(first, first + WARP_SIZE)} <= {*leaving}]

    def _start(self, block: str, symbol: str) -> _Start | None:
        """The run-time part of a place in each thread; None where some of it is not known in `block`."""
        if symbol not in self._starts:
            self._starts[symbol] = self._evaluate(symbol)
        start = self._starts[symbol]
        return start[0] if start is not None and self._runs_all_rounds(block, start[1]) else None

    def _evaluate(self, symbol: str) -> tuple[_Start, list[str]] | None:
        """The run-time part of a place in each thread, and the counters that it has every value of."""
        values = self._function.values
        if values is None:
            return None
        lowest: Sequence[int] = [0] * self._threads
        highest = lowest
        counters: list[str] = []
        for name, factor in symbol_terms(symbol):
            scaled = self._term(values, name, factor)
            if scaled is not None:
                same = lowest is highest
                lowest = [*map(add, lowest, scaled)]
                highest = lowest if same else [*map(add, highest, scaled)]
            elif (counted := values.counted(name)) is not None:
                counters.append(name)
                first, last = sorted(factor * number for number in counted)
                lowest, highest = [number + first for number in lowest], [number + last for number in highest]
            else:
                return None
        return _Start(lowest, highest), counters

    def _term(self, values: RunTimeValues, name: str, factor: int) -> Sequence[int] | None:
        """A run-time value times a factor in each thread; None where it is not known."""
        term = (name, factor)
        if term not in self._scaled:
            known = values.numbers(name)
            self._scaled[term] = known if known is None or factor == 1 else [factor * number for number in known]
        return self._scaled[term]

    def _runs_all_rounds(self, block: str, counters: Sequence[str]) -> bool:
        """Whether `block` is run in each round of the loops that have these counters, and nothing leaves them early."""
        if not counters:
            return True
        loops = loops_of(self._function)
        around = {loop.header: loop for loop in map(loops.innermost, _blocks(counters)) if loop is not None}
        if len(around) != len(counters):
            return False
        for loop in sorted(around.values(), key=lambda inner: len(inner.blocks)):
            if block not in loop.blocks or not loops.every_round(loop, block) or not self._runs_to_its_end(loop):
                return False
            block = loop.header
        return True

    def _runs_to_its_end(self, loop: Loop) -> bool:
        """Whether the only way out of the loop is that of its header."""
        inside = loop.blocks - {loop.header}
        return all(loop.blocks.issuperset(self._function.blocks[name].successors) for name in inside)


def _blocks(counters: Sequence[str]) -> Iterator[str]:
    for name in counters:
        yield from defining_blocks(name)


def _lanes(instr: MachineInstr, touch: MemoryTouch) -> int | None:
    """The lanes of a warp whose addresses are used, where each gives another, as far as that is known."""
    access = instr.semantics.accesses(touch.operand)
    return None if access is None or access.lanes is None else access.lanes or _ROWS


def _diagnose(instr: MachineInstr, touch: MemoryTouch, start: int, size: int, who: str) -> Diagnostic:
    if touch.object.space == _LOCAL:
        count, index = touch.object.bytes // touch.object.element_bytes, start // touch.object.element_bytes
        name = touch.object.name
        return LOCAL_INDEX.diagnose(at=instr.location, index=index, name=name, who=who, count=count, last=count - 1)
    return BOUNDS.diagnose(
        at=instr.location,
        instruction=instr.row.ptx if instr.row is not None else instr.opcode,
        does=_ACCESSES[touch.use],
        size=size,
        memory=touch.object.called,
        start=start,
        who=who,
        bytes=touch.object.bytes,
    )
