"""The lives of CTAs and of mbarriers: peers access memory within them, and nothing writes data over an mbarrier."""

from __future__ import annotations

from typing import Any

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, ORDER, UNWRITTEN
from nvbackend.dry_run.objects.groups import Operation
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier, Place
from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.footprints import Access, lanes_of, multicast_mask
from nvbackend.dry_run.order.naming import after_rounds, in_rounds, instruction, line, touch_of
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import RANK_SHIFT, Step, Unknown
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.row.semantics import BARRIER, Completion
from nvbackend.isel.machine.function import MachineInstr, MemoryObject

MBARRIER_BYTES = 8


@dataclass(slots=True)
class _Reach:
    """Accesses of a peer's memory by one instruction of a warp: their events, and the rounds of the last one."""

    bits: int
    instr: MachineInstr
    rounds: When
    cta: int
    peer: int


class Lifetimes:
    """Checks the lives of CTAs against accesses from peers."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._reached: dict[tuple[int, int, int, int], _Reach] = {}

    def reach(self, step: Step, event: int = 0) -> None:
        """A step on an mbarrier, or with one, that may be a peer's. `event` is its bit where that is not the warp's."""
        if self._state.launch.cluster == 1:
            return
        if not step.facts.has_barrier:
            return
        value = lanes_of(step.value(BARRIER), step.lanes)
        if isinstance(value, Unknown):
            return
        mask, cluster = multicast_mask(step, self._state.launch.cluster), range(self._state.launch.cluster)
        if mask is not None and mask != -1:
            ranks = {rank for rank in cluster if mask >> rank & 1}
        else:
            ranks = {one >> RANK_SHIFT for one in ((value,) if isinstance(value, int) else value)}
        for rank in ranks.intersection(cluster) if len(ranks) > 1 else ranks:
            if rank in cluster:
                self.touch(step, self._state.cluster_of(step.cta) + rank, event)
        if event and step.facts.sends:
            self._touched(step, step.cta, event)

    def touch(self, step: Step, peer: int, event: int = 0) -> None:
        """A step accesses the memory of a CTA."""
        if peer == step.cta:
            return
        state, warp = self._state, self._state.warp(step)
        if not warp.seen >> peer & 1:
            state.findings.add(
                *(ORDER, f"CTA {peer}", rules.ACCESS_EARLY, step.instr, ()),
                now=in_rounds(step.rounds()), instruction=instruction(step.instr), cta=step.cta, peer=peer,
                line=line(step.instr),
            )  # fmt: skip
        self._touched(step, peer, event)

    def _touched(self, step: Step, peer: int, event: int) -> None:
        """The memory of a CTA, a peer's or the own one, must outlive what a step does with it."""
        warp = self._state.warp(step)
        reach = self._reached.setdefault(
            (step.cta, warp.index, peer, id(step.instr)), _Reach(0, step.instr, When(), step.cta, peer)
        )
        reach.bits |= event or warp.mark()
        reach.rounds = step.rounds()

    def ended(self, warp: Warp) -> None:
        """A warp ends: what it knows, and which of its stores still read shared memory."""
        warp.close()
        warp.ended = True
        self._state.exits[warp.cta] |= warp.seen | warp.heard[0]
        groups = self._state.groups.get((warp.cta, warp.index, Completion.BULK_GROUP))
        for operation in groups.operations if groups is not None else ():
            committed = groups is not None and groups.is_committed(operation)
            self._outlives(warp, operation, committed)

    def _outlives(self, warp: Warp, operation: Operation, committed: bool) -> None:
        rule = rules.STORE_NOT_WAITED if committed else rules.STORE_NOT_COMMITTED
        first = f"{instruction(operation.instr)}{after_rounds(operation.rounds)}"
        self._state.findings.add(
            *(ORDER, "bulk group", rule, operation.instr, ()), warp=warp.index, first=first, line=line(operation.instr)
        )

    def finish(self) -> None:
        """Every access of a peer's memory came before the peer's end, and every copy before that of its CTA."""
        self._copies()
        for reach in self._reached.values():
            if reach.bits & ~self._state.exits[reach.peer]:
                self._state.findings.add(
                    *(ORDER, f"CTA {reach.peer}", rules.ACCESS_LATE, reach.instr, ()),
                    now=in_rounds(reach.rounds), instruction=instruction(reach.instr), cta=reach.cta, peer=reach.peer,
                    line=line(reach.instr),
                )  # fmt: skip

    def _copies(self) -> None:
        """Some warp of the CTA waited for each copy. An array that nobody waits on is part of a kernel."""
        barriers = self._state.mbarriers.values()
        done = [barrier for barrier in barriers if barrier.waited and _last_copies(barrier)]
        waited = {id(one.instr) for barrier in done for one in _last_copies(barrier)}
        arrays = {_array(one) for one in done}
        for barrier in barriers:
            if not barrier.copied & ~self._state.exits[barrier.place[0]]:
                continue
            for one in _last_copies(barrier):
                if id(one.instr) in waited or _array(barrier) in arrays:
                    self._state.findings.add(
                        *(UNWRITTEN, barrier.name, rules.FILL_LEFT, one.instr, ()),
                        now=in_rounds(one.rounds), instruction=instruction(one.instr), warp=one.warp,
                        cta=barrier.place[0], barrier=barrier.name,
                    )  # fmt: skip
                    return


class Overwritten:
    """The allocations that hold mbarriers: others cannot be hit, since each access stays in its own."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._holders: set[int] = set()

    def holds(self, memory: MemoryObject) -> None:
        """An mbarrier is initialised in an allocation."""
        self._holders.add(memory.id)

    def look(self, step: Step, access: Access, ctas: list[int]) -> None:
        """A step accesses the memory of these CTAs."""
        if not access.writes or not self._holders:
            return
        touch = touch_of(step.instr, access.part.operand)
        if touch is not None and not self._holders.intersection((touch.object.id, touch.object.twin)):
            return
        for (cta, offset), barrier in self._state.mbarriers.items():
            if cta in ctas and access.part.covers(offset, MBARRIER_BYTES):
                self._state.findings.add(
                    *(ACCOUNTING, barrier.name, rules.OVERWRITTEN, step.instr),
                    (("it is initialised here", barrier.instr.location),),
                    now=in_rounds(step.rounds()), instruction=instruction(step.instr), warp=step.warps[0],
                    barrier=barrier.name,
                )  # fmt: skip


def _array(barrier: Mbarrier) -> tuple[int, str]:
    """The CTA and the name of the array that a barrier is an element of."""
    return barrier.place[0], barrier.name.partition("[")[0]


def _last_copies(barrier: Mbarrier) -> list[Arrival]:
    return [one for one in [*barrier.arrivals, *barrier.last] if one.brought]


def is_none(state: State, step: Step, place: Place) -> None:
    """The finding of a use of what is no mbarrier: none was there, or its life is over."""
    warp, ended = state.warp(step), state.invalidated.get(place)
    said: dict[str, Any] = {"now": in_rounds(step.rounds()), "instruction": instruction(step.instr), "warp": warp.index}
    here = line(step.instr)
    if ended is None:
        said |= {"memory": state.memory.names.name(touch_of(step.instr, BARRIER), place[1]), "line": here}
        state.findings.add(*(ACCOUNTING, str(place), rules.UNINITIALISED, step.instr, ()), **said)
        return
    there = line(ended.instr)
    reason = "nothing makes that wait for this use"
    fix = f"let all who use {ended.name} meet after {here} and before the block of {there}: k.barrier.sync()"
    if warp.seen & ended.event:
        reason = "its life is over here"
        fix = f"invalidate it after {here}, or initialise it again in between: k.mbarrier.init, k.mbarrier.ready()"
    state.findings.add(
        *(ACCOUNTING, str(place), rules.AFTER_INVAL, step.instr, (("it is invalidated here", ended.instr.location),)),
        **said, barrier=ended.name, other=ended.warp, line=there, reason=reason, fix=fix,
    )  # fmt: skip
