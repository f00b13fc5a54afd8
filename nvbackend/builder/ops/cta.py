"""What all threads of a CTA compute together: reductions and scans, through shared memory that the calls manage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, Memory
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.core.variables import select
from nvbackend.builder.ops.combine import (
    INDEX,
    Combine,
    Operation,
    Several,
    brought,
    check_initial,
    combining,
    extreme_of_pairs,
    first_of,
    result_of,
)
from nvbackend.builder.ops.sync.barrier import Barrier
from nvbackend.builder.ops.warp import Warp
from nvbackend.builder.ops.warp_reductions import reduced, scanned, shifted
from nvbackend.builder.ops.words import MOST_BYTES, keep, kept, stored_type
from nvbackend.builder.values.values import Operand, Value, as_index, as_value
from nvbackend.diagnostics import Diagnostic, Rule, caller_location, user_facing
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import u8
from nvbackend.isel.protocols.convergence.rules import BARRIER_DIVERGENT, BARRIER_SKIPPED, WARP_DIVERGENT

_PARTINGS = (WARP_DIVERGENT, BARRIER_DIVERGENT, BARRIER_SKIPPED)
THREADS = Rule(
    id="cta.threads",
    message="{call} is executed by {count} of the CTA's {threads} threads",
    fix="call it where all threads come, before any of them returns, with a value that changes nothing in those left "
    "out: k.select(condition, value, 0)",
    why="It waits at a barrier for all threads of the CTA, and those that never come would leave the others waiting.",
    reference="PTX ISA 9.7.13.1 (barrier)",
)


@user_facing
class CtaWide(Noun):
    """What all threads of a CTA compute together; the calls manage shared memory and barriers themselves."""

    __noun__ = "cta"
    __usual__ = "reduce"

    def __init__(
        self, k: Core, memory: Memory, threads: Threads, control: Control, barrier: Barrier, warp: Warp
    ) -> None:
        super().__init__(k)
        self._memory = memory
        self._threads = threads
        self._control = control
        self._barrier = barrier
        self._warp = warp
        self._buffers: list[Address] = []

    def reduce(self, operation: Operation, value: Any, *, nan: bool = False) -> Any:
        """`value` of all threads of the CTA combined, in each of them.

        `operation` is add, mul, min, max, and, or, xor, or a function of two values that is associative and commutes;
        `value` of any type, or a tuple of values: a name combines each with its own, a function takes two tuples and
        gives one. Partial sums of warps are added in the order of the warps, so the result is the same each time. All
        threads call it (cta.threads, control.one-thread); it has two barriers, and may be called in loops. Raises
        reduce.operation, value.type.
        """
        call = "k.cta.reduce"
        values = brought(self._k, value)
        combine = combining(self._k, call, operation, values, nan=nan)
        return result_of(self._reduce(call, combine, values), value)

    def argmax(self, value: Operand, index: Operand | None = None) -> tuple[Value, Value]:
        """The greatest value of all threads and its index, by default the thread's number: of equal ones the least.

        NaN is greatest only where there is nothing else. Raises what `reduce` raises.
        """
        return self._extreme("max", value, index)

    def argmin(self, value: Operand, index: Operand | None = None) -> tuple[Value, Value]:
        """The least value of all threads and its index, as `argmax` has the greatest."""
        return self._extreme("min", value, index)

    def _extreme(self, mode: str, value: Operand, index: Operand | None) -> tuple[Value, Value]:
        number = self._number().to(INDEX) if index is None else as_index(self._k, index)
        call = {"max": "k.cta.argmax", "min": "k.cta.argmin"}[mode]
        best, at = self._reduce(call, extreme_of_pairs(self._k, mode), (as_value(self._k, value), number))
        return best, at

    def scan(
        self, operation: Operation, value: Any, *, exclusive: bool = False, initial: Any = None, nan: bool = False
    ) -> Any:
        """`value` of all threads up to this one combined, in their order; itself left out where `exclusive`.

        `initial` is what the first thread gets of an exclusive scan, by default what changes nothing (reduce.initial
        for a function). Otherwise as `reduce`; a function need not commute.
        """
        call = "k.cta.scan"
        check_initial(call, initial, exclusive=exclusive)
        values = brought(self._k, value)
        combine = combining(self._k, call, operation, values, nan=nan)
        first = first_of(self._k, call, operation, values, initial) if exclusive else ()
        return result_of(self._scan(call, combine, values, first), value)

    # -- how --------------------------------------------------------------------------------------------------------

    def _reduce(self, call: str, combine: Combine, values: Several) -> Several:
        check_all_come(self._k, call)
        own = reduced(self._warp.shuffle, combine, values, WARP_SIZE)
        if self._k.threads == WARP_SIZE:
            return own
        parts = self._of_warps(own, self._number() % WARP_SIZE == 0)
        result, *others = parts
        for other in others:
            result = combine(result, other)
        return result

    def _scan(self, call: str, combine: Combine, values: Several, first: Several) -> Several:
        check_all_come(self._k, call)
        lane = self._number() % WARP_SIZE
        own = scanned(self._k, self._warp.shuffle, combine, values, WARP_SIZE)
        *before, _ = [own] if self._k.threads == WARP_SIZE else self._of_warps(own, lane == WARP_SIZE - 1)
        warp = self._number() // WARP_SIZE
        start: Several | None = None
        for number, part in enumerate(before):
            start = part if start is None else self._select(warp > number, combine(start, part), start)
        if first:
            offset = first if start is None else self._select(warp > 0, combine(first, start), first)
            moved = shifted(self._k, self._warp.shuffle, own, first, WARP_SIZE)
            return self._select(lane > 0, combine(offset, moved), offset)
        return own if start is None else self._select(warp > 0, combine(start, own), own)

    def _select(self, condition: Value, yes: Several, no: Several) -> Several:
        return tuple(select(self._k, condition, *pair) for pair in zip(yes, no, strict=True))

    def _number(self) -> Value:
        return self._threads.thread_id("linear")

    def _of_warps(self, values: Several, writes: Value) -> list[Several]:
        """What the thread of each warp that `writes` has, in all threads."""
        warps = self._k.threads // WARP_SIZE
        cells = [self._buffer(place, warps).cast(stored_type(value.type)) for place, value in enumerate(values)]
        self._barrier.sync()  # the buffers may still be read by threads that have not left an earlier call
        warp = self._number() // WARP_SIZE
        with self._control.if_(writes):
            for cell, value in zip(cells, values, strict=True):
                keep(self._k, cell + warp, value)
        self._barrier.sync()
        loaded = [
            [kept(cell_value, value.type) for cell_value in _loaded(cell, warps)]
            for cell, value in zip(cells, values, strict=True)
        ]
        return list(zip(*loaded, strict=True))

    def _buffer(self, place: int, warps: int) -> Address:
        """The shared memory for one value of each warp: that of the calls before, or more."""
        while len(self._buffers) <= place:
            self._buffers.append(
                self._memory.shared(u8, MOST_BYTES * warps, align=16, name=f"cta_{len(self._buffers)}")
            )
        return self._buffers[place]


def check_all_come(k: Core, call: str) -> None:
    """Raises cta.threads where only a part of the CTA comes here for certain."""
    if (at := caller_location()) is not None:
        k.cta_wide.setdefault((at.file, at.line), call)
    here = k.execution.here()
    if here is not None and here.count is not None and here.count < k.threads:
        THREADS.fail(call=call, count=here.count, threads=k.threads)


def of_whole_calls(k: Core, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The same, with cta.threads for what parts the threads of a call that the whole CTA executes.

    Their instructions are not the author's, and the advice on a warp leads to the next mistake.
    """
    reported: list[Diagnostic] = []
    for each in diagnostics:
        at = each.location
        call = None if at is None or each.rule not in _PARTINGS else k.cta_wide.get((at.file, at.line))
        if call is None:
            reported.append(each)
            continue
        whole = THREADS.diagnose(at=at, notes=each.notes, call=call, count="only some", threads=k.threads)
        reported += [whole] if whole not in reported else []
    return reported


def _loaded(cells: Address, count: int) -> list[Value]:
    """`count` values from the start of a buffer, in accesses as wide as they can be."""
    values: list[Value] = []
    most = 16 // cells.element.bytes_for(1)
    while len(values) < count:
        left = count - len(values)
        step = min(most, 1 << left.bit_length() - 1)
        values += (cells + len(values)).load(step)
    return values
