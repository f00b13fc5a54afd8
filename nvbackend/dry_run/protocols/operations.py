"""Steps that issue asynchronous operations, and those by which threads wait for groups of them.

An operation is done at once as far as barriers and groups are concerned. But it is an event of its own, which others
know only when they have waited for what it completes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier
from nvbackend.dry_run.order.events import Known, Warp
from nvbackend.dry_run.order.footprints import Access, multicast_mask, number
from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.protocols.exchanges import Exchanges
from nvbackend.dry_run.protocols.signals import Signals
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import DONE, Outcome, Step
from nvbackend.intrinsics.row.semantics import Completion, Proxy

_GROUPS = (
    Completion.MMA_GROUP,
    Completion.COPY_GROUP,
    Completion.BULK_GROUP,
    Completion.LOAD_WAIT,
    Completion.STORE_WAIT,
)


class Operations:
    """The asynchronous operations of a run."""

    def __init__(self, state: State, signals: Signals, exchanges: Exchanges) -> None:
        self._state = state
        self._signals = signals
        self._exchanges = exchanges

    def issue(self, step: Step) -> tuple[Outcome, int, Known]:
        """One more operation: its event, and what it knows."""
        state, said = self._state, step.instr.semantics
        warp = state.warp(step)
        told = state.memory.tells(warp, step.lanes, step.instr) | warp.order.tell(step.lanes, state.events.new)
        seen, fenced = self._known(step)
        known = seen | told, fenced
        event = state.events.new()
        bit = 1 << event
        mask = self._mask(step)
        if step.facts.completes:
            self._brings(step, warp, bit, known, mask, event)
        else:
            self._access(step, event, known, mask, None)
        if said.issues in _GROUPS:
            rounds = step.rounds()
            for each in state.warps_of(step):
                operation = state.groups_of(each, said.issues).add(bit, step.instr, step.lanes, rounds)
                if said.issues is Completion.COPY_GROUP:
                    operation.writes += self._written(step)
        elif said.issues is Completion.COMMIT:
            state.tensor_issued[warp.cta, warp.index].add(bit, step.instr, step.lanes)
        return DONE, event, known

    def _written(self, step: Step) -> Iterator[tuple[int, Part]]:
        """The CTAs, and what an operation writes in each."""
        base = self._state.cluster_of(step.cta)
        for access in self._state.footprints.of(step):
            if access.writes:
                yield from ((cta, access.part) for cta in self._ctas(step, access, None, base))

    def _known(self, step: Step) -> Known:
        """What an operation knows: what all its warps know, and what the same engine was given before, in order."""
        seen = fenced = -1
        for warp in self._state.warps_of(step):
            one, other = warp.tell_operation(step.lanes)
            seen, fenced = seen & one, fenced & other
            if step.instr.semantics.issues is Completion.COMMIT:
                seen |= self._state.tensor_issued[warp.cta, warp.index].of_all
        return seen, fenced

    def _known_of(self, step: Step, access: Access, known: Known) -> Known:
        """What one part of an operation knows: each warp multiplies its own rows of A."""
        return known if access.warp is None else self._state.warps[step.cta, step.warps[access.warp]].tell()

    def _mask(self, step: Step) -> int | None:
        mask = multicast_mask(step, self._state.launch.cluster)
        if mask == -1:
            self._state.findings.lost = True
            return None
        return mask

    def _access(self, step: Step, event: int, known: Known, mask: int | None, barrier: Mbarrier | None) -> int:
        """Check the accesses of the operation. Returns the bytes that it writes in each CTA."""
        state, said, brought = self._state, step.instr.semantics, 0
        base = state.cluster_of(step.cta)
        for writes, accesses in groupby(state.footprints.of(step), lambda one: one.writes):
            record = Record(
                event, step.cta, step.warps[0], writes, step.rounds(), step.facts.name,
                proxy=said.proxy is Proxy.ASYNC, barrier=barrier, phase=0 if barrier is None else barrier.phase,
                guard=state.guards.get((step.cta, step.warps[0])), source=_source(step) if writes else None,
            )  # fmt: skip
            reads: list[tuple[int, Part, Known]] = []
            for access in accesses:
                ctas, seen = self._ctas(step, access, mask, base), self._known_of(step, access, known)
                self._exchanges.issue(step, ctas, access)
                if writes:
                    self._signals.overwritten.look(step, access, ctas)
                    for cta in ctas:
                        state.memory.issue_write(record, seen, cta, access.part)
                    is_one = isinstance(access.part.addresses, int)
                    brought += access.part.bytes * (step.lanes.bit_count() if is_one else 1)
                else:
                    reads += [(cta, access.part, seen) for cta in ctas]
            state.memory.issue_reads(record, reads)
        return brought

    def _ctas(self, step: Step, access: Access, mask: int | None, base: int) -> list[int]:
        """The CTAs that an access is to: of a multicast, or of a pair that multiplies or copies together, several."""
        if access.writes and mask is not None:
            return [base + rank for rank in range(self._state.launch.cluster) if mask >> rank & 1]
        if access.rank >= 0:
            return [base + access.rank]
        if step.instr.semantics.cta_group == 2:
            first = step.cta & ~1
            return [first, first + 1]
        return [step.cta]

    def _brings(self, step: Step, warp: Warp, bit: int, known: Known, mask: int | None, event: int) -> None:
        """A copy whose bytes complete on mbarriers."""
        state = self._state
        places = self._signals.places(step, mask, of_pairs=step.facts.of_pairs)
        if places is None:
            return
        reached = [(self._signals.at(step, place), times) for place, _, times in places]
        barriers = [(barrier, times) for barrier, times in reached if barrier is not None]
        if not barriers:
            return
        brought = self._access(step, event, known, mask, barriers[0][0])
        bytes = self._bytes(step)
        for barrier, times in barriers:
            all_bytes = bytes * times if bytes is not None else brought * times // step.lanes.bit_count()
            if not all_bytes:
                state.findings.lost = True
                return
            barrier.tell((known[0] | bit, known[1]), bit)
            barrier.copied |= bit
            arrival = Arrival(step.instr, step.rounds(), warp.cta, warp.index, brought=all_bytes)
            self._signals.apply(step, warp, barrier, arrival)

    def _bytes(self, step: Step) -> int | None:
        """The bytes that each lane's copy brings to each CTA, where the instruction counts them."""
        if "bytes" in step.facts.operands:
            return number(step.value("bytes"), step.lanes)
        return None

    def commit(self, step: Step) -> None:
        """Commit what was issued as a group."""
        kind = step.instr.semantics.commits
        assert kind is not None
        for warp in self._state.warps_of(step):
            self._state.groups_of(warp, kind).commit(step.lanes)

    def wait(self, step: Step) -> None:
        """The warps know what they have waited for."""
        kind = step.instr.semantics.awaits
        assert kind is not None
        leave: int | None = 0
        if "pending" in step.facts.operands:
            leave = number(step.value("pending"), step.lanes)
        if leave is None:
            self._state.findings.lost = True
            return
        for warp in self._state.warps_of(step):
            groups = self._state.groups_of(warp, kind)
            if kind in (Completion.LOAD_WAIT, Completion.STORE_WAIT):
                groups.commit(step.lanes)
            known = 0
            for operation in groups.wait(step.lanes, leave):
                known |= operation.bit
                self._exchanges.land(warp, operation)
            if known:
                warp.learn((known, 0), step.lanes)


def _source(step: Step) -> object:
    """The box of a tensor that a copy reads, by its coordinates; None where these are not known."""
    if "coordinates" not in step.facts.operands:
        return None
    count = step.instr.registers.get("coordinates", 0)
    found = [number(step.value("coordinates", index), step.lanes) for index in range(count)]
    return None if None in found else tuple(found)
