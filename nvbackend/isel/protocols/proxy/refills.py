"""Tiles that are filled again while multiplies may read them.

`wgmma.wait_group` is for the thread's own warp. A thread that multiplied and then fills the tile again, itself or by a
copy, must have met the other warps in between. What tcgen05.mma reads is free when an mbarrier that a tcgen05.commit
arrives on says so, for the thread that multiplied as for all others. Only what a thread certainly does in this order
counts, and only where no path from one to the other has anything that threads could meet at.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.accesses import AccessKind, Relation, Run, relation
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Crew, MachineFunction, MemoryObject, MemoryUse
from nvbackend.isel.machine.naming import with_line
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED
from nvbackend.isel.protocols.proxy import rules
from nvbackend.isel.protocols.proxy.protocol import find_meetings, reduce_function, waits_are_wrong
from nvbackend.isel.protocols.shared.pairs import Pairs
from nvbackend.isel.protocols.shared.syncs import Syncs, acquires

_MULTIPLIES = (Completion.MMA_GROUP, Completion.COMMIT)
_WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)
_FILLS = (AccessKind.WRITE, AccessKind.COPY, AccessKind.LOAD)


def check_refills(function: MachineFunction) -> list[Diagnostic]:
    """Every access that refills what multiplies before it read, and may still read.

    What one barrier fixes is reported once.
    """
    memory = _refilled(function)
    if not memory or function.attributes.get(ATTACHED):
        return []
    pairs = list(_Refills(function, memory).find())
    if any(first.kind is AccessKind.MULTIPLY for first, _ in pairs) and _is_told_there(function):
        pairs = [(first, second) for first, second in pairs if first.kind is not AccessKind.MULTIPLY]
    causes: dict[tuple[str, str], tuple[Run, Run]] = {}
    for first, second in pairs:
        causes.setdefault((first.site.block, second.site.block), (first, second))
    return [_diagnose(first, second) for first, second in causes.values()]


def _is_told_there(function: MachineFunction) -> bool:
    """Whether this warp's own multiplies are not waited for: the protocols of wgmma and of the proxies report that."""
    return waits_are_wrong(function) or any(
        meeting.first.kind is AccessKind.MULTIPLY for meeting in find_meetings(reduce_function(function))
    )


def _refilled(function: MachineFunction) -> set[MemoryObject]:
    """The allocations that are both multiplied and filled."""
    multiplied, filled = set(), set()
    for instr in function.instructions():
        for touch in instr.memory:
            if instr.semantics.issues in _MULTIPLIES:
                multiplied.add(touch.object)
            elif touch.use in _WRITES:
                filled.add(touch.object)
    return multiplied & filled


class _Refills:
    """The search in one function, for fills of `memory`."""

    def __init__(self, function: MachineFunction, memory: set[MemoryObject]) -> None:
        hazards = dict.fromkeys((AccessKind.MULTIPLY, AccessKind.MULTIPLY_5), _FILLS)
        self._pairs = Pairs(function, memory, hazards, acquires)
        self._syncs = Syncs(function, self._pairs.sites)

    def find(self) -> Iterator[tuple[Run, Run]]:
        """The multiplies and the fills after them."""
        for first, second in self._pairs.find():
            reader = self._reader(first, second)
            if (
                reader is not None
                and self._follows(first, reader, second)
                and relation(first, second) is Relation.SURE
                and not self._pairs.is_ordered_somewhere(first, second)
            ):
                yield first, second

    def _reader(self, first: Run, second: Run) -> str | None:
        """The block that always comes with a multiply of what is filled; None where who fills may know it is done."""
        if first.kind is AccessKind.MULTIPLY:
            return first.site.block if _concerns_all_warps(first, second) else None
        by, also = self._pairs.crew(first), self._pairs.crew(second)
        return None if by is None or also is None or not self._goes_on(first, by, second, also) else by.anchor

    def _follows(self, first: Run, reader: str, second: Run) -> bool:
        """Whether who fills has multiplied before: always, or in each round of the loop that both are in."""
        if self._pairs.is_before(first, reader, second):
            return True
        loops = self._pairs.loops
        loop = loops.innermost(second.site.block)
        if loop is None or first.site.block not in loop.blocks or not first.blocks.isdisjoint(loop.blocks):
            return False  # in another round it is another place
        return loops.every_round(loop, reader)

    def _goes_on(self, first: Run, by: Crew, second: Run, also: Crew) -> bool:
        """Whether who fills, where tcgen05 reads, certainly does not know that the multiplies are done.

        The thread that multiplied knows what it waits for itself, another one what it waits for since both met.
        """
        if (by.bits, by.elected) == (also.bits, also.elected):
            return True
        last = self._pairs.last[first.number]
        return self._pairs.last[second.number] <= last and self._syncs.before(last) == self._syncs.everybody


def _concerns_all_warps(first: Run, second: Run) -> bool:
    """Whether every warp reads what is filled: a warp may fill the rows of A that are its own."""
    read = (site.instr.semantics.accesses(touch.operand) for site, touch in first.accesses)
    if any(run is not None and run.by_each_warp for run in read):
        return True
    return all(site.instr.facts.get(facts.THREADS) == 1 for site, _ in second.accesses)


def _diagnose(first: Run, second: Run) -> Diagnostic:
    reader, writer = first.site.instr, second.site.instr
    rule = rules.REFILL if first.kind is AccessKind.MULTIPLY else rules.REFILL_IN_FLIGHT
    return rule.diagnose(
        at=writer.location,
        notes=(("it is read from here on", reader.location),),
        writer=f"the {writer.opcode}",
        reader=with_line(reader),
        memory=first.object.called,
    )
