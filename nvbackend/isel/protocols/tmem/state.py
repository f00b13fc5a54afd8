"""What may hold of tensor memory before an instruction, as one warp sees it: a set of facts.

Each fact holds on some path to the place, and each step looks at one fact at a time. So the fixed point finds what
some path makes wrong, and a union joins two ways. After a mistake the state continues as if it had been fixed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from functools import cache

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.intrinsics.row.semantics import Completion, FenceOf, MbarrierUse, Scope, Semantics, TensorMemory
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine import tensor_memory_uses as tmem_uses
from nvbackend.isel.machine.function import TMEM, Access, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.operands import memory
from nvbackend.isel.protocols.mbarrier.uses import is_waiting
from nvbackend.isel.protocols.tmem import rules

_OF_MMA, _LOADS, _STORES = Completion.COMMIT, Completion.LOAD_WAIT, Completion.STORE_WAIT


def is_mma(instr: MachineInstr) -> bool:
    """Whether it multiplies into tensor memory."""
    return instr.semantics.multiplies and instr.semantics.issues is _OF_MMA


def is_commit(instr: MachineInstr) -> bool:
    """Whether it makes an mbarrier complete when earlier mma are done."""
    return instr.semantics.tracks is _OF_MMA


def manages(instr: MachineInstr, what: TensorMemory) -> bool:
    """Whether it allocates tensor memory, or gives it back."""
    return instr.semantics.tensor_memory is what


def is_barrier(instr: MachineInstr) -> bool:
    """Whether the threads of the CTA, or of the cluster, wait for one another."""
    barrier = instr.semantics.barrier
    return barrier is not None and barrier.waits and barrier.scope > Scope.WARP


@cache
def _signals(said: Semantics) -> bool:
    """Whether it may signal this warp's progress to other warps."""
    if said.fence is not None or said.tensor_memory is not None or said.completion is _OF_MMA:
        return False  # what the tensor core signals says nothing of what the thread has read
    stores = said.completion is None and any(use.writes for use in said.memory)
    return stores or said.atomic or said.barrier is not None or said.releases is not Scope.THREAD


class KnownFact(enum.Enum):
    """What a fact says; `place` is where it began to hold, -1 for the entry."""

    OPEN = "allocated"
    CLOSED = "given back"
    RELINQUISHED = "no more allocations"
    LOADING = "registers that a load fills"
    STORING = "columns that a store fills"
    ISSUED = "columns that an mma writes, with no commit after it"
    COMMITTED = "columns that an mma with a commit after it writes"
    UNSYNCHRONISED = "mma of other warps write it, and this one has waited for none"
    MET = "waited for in the loop of the mma"
    UNORDERED = "waited for, with no fence after the wait"
    UNWRITTEN = "nothing has been written to it"
    BEGUN = "what begins it, with nothing before it on that path"
    UNTOLD = "read, with neither a fence nor a barrier after"
    PASSED = "read, with no fence before the barrier"
    FENCED = "read and fenced, with no barrier after"
    IN_USE = "columns that an mma reads or writes"
    USED = "columns that an mma has done with on some path"


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact about an allocation, a place in one (`touch`), or a block of registers (by its number)."""

    known: KnownFact = field(hash=False)
    place: int = -1
    object: MemoryObject | None = None
    touch: MemoryTouch | None = field(default=None, hash=False)
    registers: int | None = None


State = frozenset[Fact]


@dataclass(frozen=True, slots=True)
class TmemFinding:
    """A broken rule at an instruction, with the fact that it breaks with."""

    rule: Rule
    site: Site
    fact: Fact
    touch: MemoryTouch | None = None


@dataclass(frozen=True)
class Surroundings:
    """What the step of one warp knows of the whole function.

    `related`: waits and barriers, as positions, after which an mma may be done. `unconditional`: allocations that
    every path of the warp makes. `owed`: those that the warp must give back itself. `freed_elsewhere`: allocations that
    other warps alone give back. `together`: by the position of a wait in a loop with an mma, the loop's blocks.
    """

    related: frozenset[int]
    unconditional: frozenset[MemoryObject]
    owed: frozenset[MemoryObject]
    freed_elsewhere: frozenset[MemoryObject]
    together: Mapping[int, frozenset[str]] = field(default_factory=dict)


def concerns(site: Site) -> bool:
    """Whether the instruction may change a fact."""
    instr = site.instr
    return bool(instr.touches) or _concerns(instr.semantics)


@cache
def _concerns(said: Semantics) -> bool:
    waits = said.mbarrier in (MbarrierUse.WAIT, MbarrierUse.POLL)
    return said.is_of_tensor_memory or waits or said.exits or _signals(said)


def step(state: State, site: Site, around: Surroundings) -> tuple[State, list[TmemFinding]]:
    """The state after an instruction, and what it breaks."""
    findings: list[TmemFinding] = []
    instr = site.instr
    for touch in instr.touches:
        if touch.access is Access.READ:
            state = _strike(state, site, memory.READ_BEFORE_WAIT, findings, KnownFact.LOADING, registers=touch.block.id)
    for cells in columns(instr):
        state = _access(state, site, cells, findings)
    if _signals(instr.semantics):
        state = _signalled(state)
    handler = _handler(instr.semantics)
    if handler is not None:
        state = handler(state, site, around, findings)
    elif is_waiting(instr) or is_barrier(instr):
        state = _synchronised(state, site, around)
    return state, findings


def columns(instr: MachineInstr) -> list[MemoryTouch]:
    """The accesses of an instruction to tensor memory."""
    return [touch for touch in instr.memory if touch.object.space == TMEM]


def overlap(touch: MemoryTouch, other: MemoryTouch) -> bool:
    """Whether two accesses certainly share a column; places that a run-time value decides are left alone."""
    if touch.object != other.object or touch.symbol or other.symbol:
        return False
    return touch.offset < other.offset + (other.bytes or 1) and other.offset < touch.offset + (touch.bytes or 1)


def accumulates(instr: MachineInstr) -> bool | None:
    """Whether an mma adds to D; None where that is decided at run time."""
    return tmem_uses.accumulates(instr.operands.get("enable_d", ""))


def _strike(
    state: State,
    site: Site,
    rule: Rule,
    findings: list[TmemFinding],
    known: KnownFact,
    *,
    touch: MemoryTouch | None = None,
    registers: int | None = None,
    of: MemoryObject | None = None,
) -> State:
    """Report the facts of this kind that concern a place, registers or an allocation, and take them out."""
    struck = [
        fact
        for fact in state
        if fact.known is known
        and fact.registers == registers
        and (of is None or fact.object == of)
        and (touch is None or (fact.touch is not None and overlap(fact.touch, touch)))
    ]
    if not struck:
        return state
    findings.append(TmemFinding(rule, site, max(struck, key=lambda fact: fact.place), touch))
    return state.difference(struck)


def _without(state: State, *known: KnownFact) -> State:
    return state.difference([fact for fact in state if fact.known in known])


def _turned(state: State, known: Collection[KnownFact], into: Callable[[Fact], Fact]) -> State:
    turned = [fact for fact in state if fact.known in known]
    return state.difference(turned).union(map(into, turned)) if turned else state


def _access(state: State, site: Site, touch: MemoryTouch, findings: list[TmemFinding]) -> State:
    """What holds for every access to tensor memory, other than its allocation."""
    if touch.use is MemoryUse.DECLARE:
        return state
    state = _strike(state, site, rules.NOT_ALLOCATED, findings, KnownFact.CLOSED, of=touch.object)
    if site.instr.semantics.issues is not _STORES:
        state = _strike(state, site, rules.MISSING_WAIT_ST, findings, KnownFact.STORING, touch=touch)
    return state


def _alloc(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:
    for touch in columns(site.instr):
        state = _strike(state, site, rules.ALLOC_AFTER_RELINQUISH, findings, KnownFact.RELINQUISHED)
        held = around.unconditional & {fact.object for fact in state if fact.known is KnownFact.OPEN}
        total = sum(block.bytes for block in held | {touch.object})
        if touch.object in around.unconditional and total > tcgen05_memory.COLUMNS:
            findings.append(TmemFinding(rules.TOTAL_COLUMNS, site, Fact(KnownFact.OPEN), touch))
        state = frozenset(
            fact
            for fact in state
            if not (fact.known in (KnownFact.CLOSED, KnownFact.OPEN) and fact.object == touch.object)
        )
        state |= {Fact(KnownFact.OPEN, site.position, touch.object)}
    return state


def _dealloc(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:  # noqa: ARG001
    for touch in columns(site.instr):
        state = _strike(state, site, rules.DOUBLE_DEALLOC, findings, KnownFact.CLOSED, of=touch.object)
        number = site.instr.operands.get("columns", "")
        moved = touch.offset not in (0, None) and not touch.symbol
        if moved or (number.isdecimal() and int(number) != touch.object.bytes):
            findings.append(TmemFinding(rules.DEALLOC_COLUMNS, site, Fact(KnownFact.OPEN), touch))
        state = frozenset(fact for fact in state if not (fact.known is KnownFact.OPEN and fact.object == touch.object))
        state |= {Fact(KnownFact.CLOSED, site.position, touch.object)}
    return state


def _relinquish(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:  # noqa: ARG001
    return state | {Fact(KnownFact.RELINQUISHED, site.position)}


def _load(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:
    for touch in columns(site.instr):
        state = _strike(state, site, rules.MISSING_COMMIT, findings, KnownFact.ISSUED, touch=touch)
        state = _strike(state, site, rules.MISSING_WAIT, findings, KnownFact.COMMITTED, touch=touch)
        if not _is_after_the_loop(state, site, touch, around):
            state = _strike(state, site, rules.MISSING_WAIT, findings, KnownFact.UNSYNCHRONISED, of=touch.object)
        state = _strike(state, site, rules.MISSING_FENCE_AFTER, findings, KnownFact.UNORDERED, of=touch.object)
        if touch.object in around.freed_elsewhere:
            state |= {Fact(KnownFact.UNTOLD, site.position, touch.object)}
    written = (touch.block.id for touch in site.instr.touches if touch.access is Access.WRITE)
    return state | {Fact(KnownFact.LOADING, site.position, registers=block) for block in written}


def _is_after_the_loop(state: State, site: Site, touch: MemoryTouch, around: Surroundings) -> bool:
    """Whether it follows the loop in which other warps' mma were waited for: without a round of it there are none."""
    return any(
        fact.known is KnownFact.MET and fact.object == touch.object and site.block not in around.together[fact.place]
        for fact in state
    )


def _store(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:  # noqa: ARG001
    touches = columns(site.instr)
    used = {(fact.place, fact.touch) for fact in state if fact.known is KnownFact.USED}
    for touch in touches:
        # Conditions that belong together may exclude the paths on which it is not waited for.
        doubtful = {fact for fact in state if fact.known is KnownFact.IN_USE and (fact.place, fact.touch) in used}
        state = (
            _strike(state - doubtful, site, rules.WRITE_IN_FLIGHT, findings, KnownFact.IN_USE, touch=touch) | doubtful
        )
    state |= {Fact(KnownFact.STORING, site.position, touch.object, touch) for touch in touches}
    return _written(state, touches)


def _copy(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:  # noqa: ARG001
    return _written(state, columns(site.instr))


def _mma(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:  # noqa: ARG001
    touches = columns(site.instr)
    results = [touch for touch in touches if touch.use is MemoryUse.ASYNC_WRITE]
    begun = {fact.touch for fact in state if fact.known is KnownFact.BEGUN}
    for touch in results if accumulates(site.instr) else ():
        # Conditions that belong together may exclude the paths on which nothing begins it.
        doubtful = {fact for fact in state if fact.known is KnownFact.UNWRITTEN and fact.touch in begun}
        state = (
            _strike(state - doubtful, site, rules.UNDEFINED_ACCUMULATOR, findings, KnownFact.UNWRITTEN, touch=touch)
            | doubtful
        )
    issued = [Fact(KnownFact.ISSUED, site.position, touch.object, touch) for touch in results]
    issued = issued or [Fact(KnownFact.ISSUED, site.position)]
    issued += (
        Fact(KnownFact.IN_USE, site.position, cells.object, cells) for cells in touches if cells.bytes is not None
    )
    state = state.difference([fact for fact in state if fact.known is KnownFact.USED and fact.place == site.position])
    return _written(state, results).union(issued)


def _written(state: State, touches: Iterable[MemoryTouch]) -> State:
    """What is unwritten is begun where one of these may write."""
    written = list(touches)
    begun = [
        fact
        for fact in state
        if fact.known is KnownFact.UNWRITTEN and any(fact.touch and _may_meet(fact.touch, cells) for cells in written)
    ]
    return state.difference(begun).union(Fact(KnownFact.BEGUN, touch=fact.touch) for fact in begun)


def _may_meet(touch: MemoryTouch, other: MemoryTouch) -> bool:
    """Whether two accesses may share a column: certain only of other allocations, and of places that are known."""
    known = is_placed(touch) and is_placed(other)
    return touch.object == other.object and (not known or overlap(touch, other))


def is_placed(touch: MemoryTouch) -> bool:
    """Whether it is known which columns an access is to."""
    return touch.bytes is not None and not touch.symbol


def _commit(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:  # noqa: ARG001
    return _turned(
        state, (KnownFact.ISSUED,), lambda fact: Fact(KnownFact.COMMITTED, fact.place, fact.object, fact.touch)
    )


def _synchronised(state: State, site: Site, around: Surroundings) -> State:
    """After a wait that may be for an mma, what was committed is done, and a fence is due."""
    if site.position not in around.related:
        return state
    waited = (KnownFact.COMMITTED, KnownFact.UNSYNCHRONISED)
    state = _turned(state, (KnownFact.IN_USE,), lambda fact: Fact(KnownFact.USED, fact.place, fact.object, fact.touch))
    if site.position in around.together:
        foreign = {fact.object for fact in state if fact.known is KnownFact.UNSYNCHRONISED}
        state |= {Fact(KnownFact.MET, site.position, memory) for memory in foreign}
    if is_barrier(site.instr):
        return _without(state, *waited)
    return _turned(state, waited, lambda fact: Fact(KnownFact.UNORDERED, site.position, fact.object))


def _fence(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:  # noqa: ARG001
    fence = site.instr.semantics.fence
    if fence is not None and fence.of is FenceOf.AFTER_SYNC:
        return _without(state, KnownFact.UNORDERED)
    return _turned(
        state, (KnownFact.UNTOLD, KnownFact.PASSED), lambda fact: Fact(KnownFact.FENCED, fact.place, fact.object)
    )


def _signalled(state: State) -> State:
    """After what other warps may wait for: a read that was fenced before it is over for them."""
    state = _without(state, KnownFact.FENCED)
    return _turned(state, (KnownFact.UNTOLD,), lambda fact: Fact(KnownFact.PASSED, fact.place, fact.object))


def _exit(state: State, site: Site, around: Surroundings, findings: list[TmemFinding]) -> State:
    for fact in sorted(state, key=lambda pending: pending.place):
        if fact.known is KnownFact.OPEN and fact.object in around.owed:
            findings.append(TmemFinding(rules.MISSING_DEALLOC, site, fact))
        elif fact.known in (KnownFact.UNTOLD, KnownFact.FENCED):
            findings.append(TmemFinding(rules.MISSING_BARRIER, site, fact))
        elif fact.known is KnownFact.PASSED:
            findings.append(TmemFinding(rules.MISSING_FENCE_BEFORE, site, fact))
    # One commit is for all mma before it.
    issued = [fact for fact in state if fact.known is KnownFact.ISSUED]
    if issued:
        findings.append(TmemFinding(rules.MISSING_COMMIT, site, max(issued, key=lambda pending: pending.place)))
    return state


_Handler = Callable[[State, Site, Surroundings, list[TmemFinding]], State]
_MANAGING: dict[TensorMemory | None, _Handler] = {
    TensorMemory.ALLOCATE: _alloc,
    TensorMemory.FREE: _dealloc,
    TensorMemory.RELINQUISH: _relinquish,
}
_WAITS: dict[Completion | None, _Handler] = {
    _LOADS: lambda state, *_: _without(state, KnownFact.LOADING),
    _STORES: lambda state, *_: _without(state, KnownFact.STORING),
}


@cache
def _handler(said: Semantics) -> _Handler | None:
    """What an instruction does to the facts; None for any that does nothing else than to access or to synchronise."""
    if said.tensor_memory is not None:
        return _MANAGING[said.tensor_memory]
    if said.awaits in _WAITS:
        return _WAITS[said.awaits]
    if said.tracks is _OF_MMA:
        return _commit
    if said.exits:
        return _exit
    if said.issues is not None:
        moved = {_LOADS: _load, _STORES: _store, _OF_MMA: _mma if said.multiplies else _copy if _fills(said) else None}
        return moved.get(said.issues)
    return _fence if said.is_of_tensor_memory else None


def _fills(said: Semantics) -> bool:
    """Whether it writes to a place that it does not read."""
    read = {use.name for use in said.memory if not use.writes}
    return any(use.name not in read for use in said.memory)
