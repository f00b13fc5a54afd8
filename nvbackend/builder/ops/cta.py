"""What all threads of a CTA compute together: reductions and scans, through shared memory that the calls manage."""

from __future__ import annotations

import functools
from typing import Any

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
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
from nvbackend.builder.ops.groups import Group, Groups
from nvbackend.builder.ops.warp import Warp
from nvbackend.builder.ops.warp_reductions import reduced, scanned, shifted
from nvbackend.builder.ops.words import keep, kept, stored_type
from nvbackend.builder.values.values import Operand, Value, as_index, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.semantics import WARP_SIZE


@user_facing
class CtaWide(Noun):
    """What all threads of a CTA compute together; the calls manage shared memory and barriers themselves."""

    __noun__ = "cta"
    __usual__ = "reduce"

    def __init__(self, k: Core, threads: Threads, control: Control, groups: Groups, warp: Warp) -> None:
        super().__init__(k)
        self._threads = threads
        self._control = control
        self._groups = groups
        self._warp = warp

    def reduce(
        self,
        operation: Operation,
        value: Any,
        *,
        nan: bool = False,
        threads: int | None = None,
        barrier: Operand | None = None,
    ) -> Any:
        """`value` of all threads of the CTA combined, in each of them.

        `operation` is add, mul, min, max, and, or, xor, or a function of two values that is associative and commutes;
        `value` of any type, or a tuple of values: a name combines each with its own, a function takes two tuples and
        gives one. Partial sums of warps are added in the order of the warps, so the result is the same each time. All
        threads call it (cta.threads, control.one-thread); it has two barriers, and may be called in loops.

        With `threads` and `barrier`, a group of so many threads calls it, such as a warpgroup that consumes, while
        others do something else. `barrier` is 1 to 15, and nothing else uses it for another number of threads; where
        several groups come to one call, each has its own, such as `barrier=1 + k.warpgroup_id()`. A group is of warps
        that follow one another, known when the kernel is built (cta.group). Raises reduce.operation, value.type,
        barrier.id, barrier.threads, barrier.waits.
        """
        call = "k.cta.reduce"
        values = brought(self._k, value)
        combine = combining(self._k, call, operation, values, nan=nan)
        return result_of(self._reduce(self._groups.of(call, threads, barrier), combine, values), value)

    def argmax(
        self,
        value: Operand,
        index: Operand | None = None,
        *,
        threads: int | None = None,
        barrier: Operand | None = None,
    ) -> tuple[Value, Value]:
        """The greatest value of all threads and its index, by default the thread's number; of equals the least index.

        The thread's number is that in the CTA in a group, too. NaN is greatest only where there is nothing else.
        `threads` and `barrier` are as in `reduce`. Raises what `reduce` raises.
        """
        return self._extreme("max", value, index, threads, barrier)

    def argmin(
        self,
        value: Operand,
        index: Operand | None = None,
        *,
        threads: int | None = None,
        barrier: Operand | None = None,
    ) -> tuple[Value, Value]:
        """The least value of all threads and its index, like `argmax`."""
        return self._extreme("min", value, index, threads, barrier)

    def _extreme(
        self, mode: str, value: Operand, index: Operand | None, threads: int | None, barrier: Operand | None
    ) -> tuple[Value, Value]:
        number = self._number().to(INDEX) if index is None else as_index(self._k, index)
        group = self._groups.of({"max": "k.cta.argmax", "min": "k.cta.argmin"}[mode], threads, barrier)
        best, at = self._reduce(group, extreme_of_pairs(self._k, mode), (as_value(self._k, value), number))
        return best, at

    def scan(
        self,
        operation: Operation,
        value: Any,
        *,
        exclusive: bool = False,
        initial: Any = None,
        nan: bool = False,
        threads: int | None = None,
        barrier: Operand | None = None,
    ) -> Any:
        """`value` of all threads up to this one combined, in their order; without this thread's if `exclusive`.

        `initial` is what an exclusive scan begins with, and so what the first thread gets; by default what changes
        nothing (reduce.initial for a function). Otherwise as `reduce`, of a group of threads too; a function need not
        commute.
        """
        call = "k.cta.scan"
        check_initial(call, initial, exclusive=exclusive)
        values = brought(self._k, value)
        combine = combining(self._k, call, operation, values, nan=nan)
        first = first_of(self._k, call, operation, values, initial) if exclusive else ()
        return result_of(self._scan(self._groups.of(call, threads, barrier), combine, values, first), value)

    # -- how --------------------------------------------------------------------------------------------------------

    def _reduce(self, group: Group, combine: Combine, values: Several) -> Several:
        own = reduced(self._warp.shuffle, combine, values, WARP_SIZE)
        if group.warps == 1:
            return own
        return functools.reduce(combine, self._of_warps(group, own, self._number() % WARP_SIZE == 0))

    def _scan(self, group: Group, combine: Combine, values: Several, first: Several) -> Several:
        lane = self._number() % WARP_SIZE
        own = scanned(self._k, self._warp.shuffle, combine, values, WARP_SIZE)
        *before, _ = [own] if group.warps == 1 else self._of_warps(group, own, lane == WARP_SIZE - 1)
        warp = group.rank()
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

    def _of_warps(self, group: Group, values: Several, writes: Value) -> list[Several]:
        """What the thread of each warp of the group that `writes` has, in all its threads."""
        cells = [group.buffer(place).cast(stored_type(value.type)) for place, value in enumerate(values)]
        group.sync()  # the buffers may still be read by threads that have not left an earlier call
        warp = group.warp()
        with self._control.if_(writes):
            for cell, value in zip(cells, values, strict=True):
                keep(self._k, cell + warp, value)
        group.sync()
        first = group.first_cells(cells)
        loaded = [
            [kept(each, value.type) for each in _loaded(cell, group.warps)]
            for cell, value in zip(first, values, strict=True)
        ]
        return list(zip(*loaded, strict=True))


def _loaded(cells: Address, count: int) -> list[Value]:
    """`count` values from the start of a buffer, in accesses as wide as they can be."""
    values: list[Value] = []
    most = 16 // cells.element.bytes_for(1)
    while len(values) < count:
        left = count - len(values)
        step = min(most, 1 << left.bit_length() - 1)
        values += (cells + len(values)).load(step)
    return values
