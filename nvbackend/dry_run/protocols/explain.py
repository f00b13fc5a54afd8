"""Why two accesses are unordered: the rule, and the wait that passed too early."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nvbackend.diagnostics import Rule
from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, EXCHANGE, ORDER, PARITY
from nvbackend.dry_run.findings import UNWRITTEN as NOBODY
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier, Wait, is_relaxed
from nvbackend.dry_run.order import memory
from nvbackend.dry_run.order.extents import Outside
from nvbackend.dry_run.order.naming import access, after_rounds, crew, in_rounds, instruction, line, touch_of
from nvbackend.dry_run.order.record import Part, Record, span_of
from nvbackend.dry_run.order.shared_matrix import begins_at
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.when import When
from nvbackend.isel.machine.function import MachineInstr, MemoryObject
from nvbackend.isel.protocols.shared.meeting import is_before

_COPY = "cp.async"


class Explain:
    """Turns conflicts into findings."""

    def __init__(self, state: State) -> None:
        self._state = state

    def conflict(self, first: Record | None, second: Record, part: Part, cta: int, address: int, why: str) -> None:
        """Two unordered accesses, or a read of unwritten bytes."""
        state = self._state
        if state.findings.lost:
            return
        name = state.memory.where(part, address)
        where = name if state.launch.ctas == 1 else f"{name} of CTA {cta}"
        if first is None:
            said: dict[str, Any] = {"now": in_rounds(second.rounds), "second": _who(second, part), "memory": where}
            said |= {"byte": address, "cta": cta, "line": line(part.instr)}
            holds = partial(self._has_no_order, (second.cta, second.warp))
            self._state.findings.add(NOBODY, name, rules.UNWRITTEN, part.instr, (), holds=holds, **said)
            return
        earlier = first.part_at(address, 1 << state.memory.shift(cta))
        if why in (memory.UNFENCED, memory.UNMET):
            rule = rules.MISSING_FENCE if why == memory.UNFENCED else rules.MISSING_BARRIER
            known = _unmet(earlier, part) if why == memory.UNMET else {}
            self._unordered(rule, first, earlier, second, part, name, where, **known)
            return
        if why == memory.SWIZZLED:
            modes: dict[str, Any] = {"read": _mode(part.swizzle), "filled": _mode(earlier.swizzle)}
            modes |= {"now": in_rounds(second.rounds), "second": _who(second, part), "memory": where}
            notes = ((access(first, earlier), earlier.instr.location),)
            who = _who(first, earlier, True)
            self._state.findings.add(ORDER, name, rules.SWIZZLE, part.instr, notes, first=who, **modes)
            return
        again = second.engine and self._reads_again(first, earlier, second, address)
        swapped = why == memory.NEEDED or again or self._is_reversed(first, earlier, second, part)
        if swapped:
            first, second, part, earlier = second, first, earlier, part
        if not _is_one_phase(first, second) and self._passed_early(first, second, part, swapped=swapped):
            return
        rule = _rule(first, second, earlier)
        if rule is rules.REFILL_IN_FLIGHT and self._straddles(first, earlier, name, cta):
            return
        self._unordered(rule, first, earlier, second, part, name, where)

    def _straddles(self, record: Record, part: Part, name: str, cta: int) -> bool:
        """Whether a descriptor that is made by hand is of parts of two tiles, which two copies bring apart."""
        if part.swizzle is None or touch_of(part.instr, part.operand) is not None:
            return False
        copies = {
            one.barrier.place: one
            for one in self._state.memory.writers(part, cta)
            if one.engine and isinstance(one.barrier, Mbarrier)
        }
        if len(copies) < 2:
            return False
        tile = part.tile or (part.addresses,)
        one, other = sorted(copies.values(), key=lambda copy: copy.parts[0].first)[:2]
        self._state.findings.add(
            *(ORDER, name, rules.STRADDLES, part.instr),
            tuple((access(copy, copy.parts[0]), copy.parts[0].instr.location) for copy in (one, other)),
            now=in_rounds(record.rounds), second=_who(record, part), start=min(span_of(each).first for each in tile),
            end=max(span_of(each).last for each in tile) + part.size - 1,
            one=f"the one from byte {one.parts[0].first}", first=one.barrier.name,
            other=f"the one from byte {other.parts[0].first}", last=other.barrier.name, line=line(part.instr),
            apart=other.parts[0].first - one.parts[0].first,
        )  # fmt: skip
        return True

    def left(self, record: Record, part: Part, outside: Outside) -> None:
        """An access that leaves its allocation."""
        leaves(self._state, part.instr, *outside, _who(record, part), record.rounds)

    def _unordered(
        self,
        rule: Rule,
        first: Record,
        earlier: Part,
        second: Record,
        part: Part,
        name: str,
        where: str,
        **said: object,
    ) -> None:
        from nvbackend.dry_run.protocols.fixes.advice import Advice  # few kernels need any

        relaxed = self._relaxed(first, second)
        values: dict[str, Any] = (
            {"line": line(relaxed.instr)}
            if relaxed
            else {"fix": Advice(self._state, first, earlier, second, part).later(rule)}
        )
        notes = [(access(first, earlier), earlier.instr.location)]
        if relaxed:
            notes.append(("the relaxed arrival", relaxed.instr.location))
        ctas = first.cta != second.cta
        values |= {
            "now": in_rounds(second.rounds), "second": _who(second, part, cta=ctas), "memory": where,
            "first": _who(first, earlier, True, cta=ctas), "access": "write" if first.writes else "read",
            "does": "overwrites" if second.writes else "reads",
            "reason": self._reason(first, earlier, second, part),
        } | said  # fmt: skip
        since = min(first.event, second.event)
        rule = rules.RELAXED if relaxed else rule
        holds = partial(self._has_no_order, (first.cta, first.warp), (second.cta, second.warp))
        crew_ = frozenset({(first.cta, first.warp), (second.cta, second.warp)})
        class_ = EXCHANGE if first.untold is not None and len(crew_) == 1 else ORDER
        findings = self._state.findings
        findings.add(class_, name, rule, part.instr, tuple(notes), since=since, holds=holds, crew=crew_, **values)

    def _has_no_order(self, *warps: tuple[int, int]) -> bool:
        """Whether neither warp waits for the other through atomics, as far as the whole run shows."""
        return not self._state.atomics.may_order(*warps)

    def _passed_early(self, first: Record, second: Record, part: Part, *, swapped: bool) -> bool:
        """Whether the last wait before the later access, or before what it waits for, returned at once (the cause).

        `swapped` where this run made the first access after the second.
        """
        if isinstance(first.barrier, Mbarrier) and not second.writes:
            wait = self._state.waits[second.cta, second.warp].get(first.barrier.place)
            if wait is not None and not wait.learnt and wait.guaranteed <= first.phase:
                self._early(first.barrier, wait, first.phase, part)
                return True
        if isinstance(second.barrier, Mbarrier) and not first.writes and first.rounds == second.rounds:
            wait = self._state.waits[first.cta, first.warp].get(second.barrier.place)
            stale = wait is not None and not wait.learnt and wait.rounds == first.rounds
            if wait is not None and stale and wait.guaranteed <= second.phase:
                self._early(second.barrier, wait, second.phase, first.parts[0])
                return True
        last = self._state.guards.get((second.cta, second.warp))
        if last is not None and not last.learnt and not first.engine and not second.engine:
            phase = _said_in(last, first)
            if phase is None and swapped and (first.cta, first.warp) in last.barrier.by:
                phase = last.barrier.phase  # it has not arrived since
            if phase is not None and phase >= last.guaranteed:
                self._early(last.barrier, last, phase, part)
                return True
        guard = second.guard
        early = second.writes and isinstance(guard, Wait) and not guard.learnt and 0 <= second.replaced < guard.at
        early = early and not _fill_two_stages(first, second)
        if early and (first.writes or _came_before(guard, first)):
            self._early(guard.barrier, guard, guard.guaranteed, part)
            return True
        return False

    def _early(self, barrier: Mbarrier, wait: Wait, phase: int, part: Part) -> None:
        returns_early(self._state, barrier, wait, lambda: phase, part.instr)

    def _is_reversed(self, first: Record, earlier: Part, second: Record, part: Part) -> bool:  # noqa: PLR0911
        """Whether the access that this run made second should have come first."""
        if second.writes and second.engine and not first.writes and second.replaced < 0:
            return True  # it was read before anything was filled
        if self._is_of_later_code(first, earlier, second, part):
            return True
        if not first.writes or second.writes:
            return not first.writes and second.writes and self._wrote_before(first, earlier, second, part)
        if not first.engine:
            return second.rounds.numbers < first.rounds.numbers and first.rounds.names == second.rounds.names
        if first.replaced < 0:
            return False
        filled, read = first.rounds.numbers, second.rounds.numbers
        if first.rounds == second.rounds and (first.cta, first.warp) == (second.cta, second.warp) and not first.proxy:
            return (second.cta, second.warp) not in first.readers
        if first.rounds == second.rounds and self._has_seen(second, first.replaced):
            return (second.cta, second.warp) not in first.readers
        if filled and len(filled) == len(read):
            return read < filled
        return (second.cta, second.warp) not in first.readers

    def _is_of_later_code(self, first: Record, earlier: Part, second: Record, part: Part) -> bool:
        """Whether all threads come to the write before they come to the read, outside of loops, by barriers alone."""
        function, is_alone = self._state.launch.function, not (self._state.mbarriers or first.rounds or second.rounds)
        if function is None or not is_alone or first.writes or not second.writes or first.engine or second.engine:
            return False
        return first.cta == second.cta and is_before(function, part.instr, earlier.instr)

    def _has_seen(self, record: Record, event: int) -> bool:
        """Whether the warp of an access certainly comes after an event."""
        return bool(self._state.warps[record.cta, record.warp].seen >> event & 1)

    def _reads_again(self, first: Record, earlier: Part, second: Record, address: int) -> bool:
        """Whether a warp had read these bytes already, and reads them in a round of the later copy: it lacks a wait."""
        if first.writes or not second.writes or second.replaced < 0 or second.rounds.is_later(first.rounds):
            return False
        return any(
            each.instr is earlier.instr and each.covers(address, 1)
            for one in self._state.memory.records.reads_before(first, second)
            if one.rounds != first.rounds  # else it is of the same execution, by other lanes
            for each in one.parts
        )

    def _wrote_before(self, first: Record, earlier: Part, second: Record, part: Part) -> bool:
        """Whether the warp that read had executed the same write itself in this round: then the other's write is late.

        So is one of an earlier round. A barrier of the writers is missing before the read, and not one after it.
        """
        late = first.rounds == second.rounds or (first.engine and second.rounds.is_earlier(first.rounds))
        if (first.cta, first.warp) == (second.cta, second.warp) or not late:
            return False
        who = first.cta, first.warp
        records = self._state.memory.records
        before = [one for one in records.records if one is not None and one.event < first.event]
        before += (one for one in records.loose if one.event < first.event)
        before += (one for one in records.loose if one.event == first.event and id(earlier.instr) not in one.later_than)
        mine = (one for one in before if (one.cta, one.warp) == who)
        return any(
            one.writes and one.rounds == first.rounds and any(each.instr is part.instr for each in one.parts)
            for one in mine
        )

    def _relaxed(self, first: Record, second: Record) -> Arrival | None:
        """The relaxed arrival, by the warp of the first access, that the warp of the second one waited for."""
        guard = second.guard or self._state.guards.get((second.cta, second.warp))
        arrival = None if guard is None else guard.barrier.by.get((first.cta, first.warp))
        if arrival is None or not is_relaxed(arrival.instr) or not arrival.seen >> first.event & 1:
            return None
        return arrival

    def _reason(self, first: Record, earlier: Part, second: Record, part: Part) -> str:
        him = "it" if (first.cta, first.warp) == (second.cta, second.warp) else self._name(second, part)
        if second.hidden >> first.event & 1:
            return f"other lanes of warp {second.warp} waited for it, and its lanes have not met since"
        if isinstance(first.barrier, Mbarrier):
            name = self._state.named(first.barrier, second.cta)
            return f"{him} has not waited for phase {first.phase} of {name}, which the copy completes"
        if first.engine:
            return f"nothing that {him} waited for comes after the end of {line(earlier.instr)}"
        return f"no barrier or mbarrier that {him} waited for comes after {line(earlier.instr)}"

    def _name(self, record: Record, part: Part) -> str:
        of = f" of CTA {record.cta}" if self._state.launch.ctas > 1 else ""
        return crew(part.instr, record.warp) + of


def _unmet(earlier: Part, part: Part) -> dict[str, object]:
    """What is said of a read of what lanes of its own warp may have stored, at places that data decides."""
    here, there = line(part.instr), line(earlier.instr)
    return {
        "reason": f"data decides where each lane of {there} stores, and no barrier comes after that",
        "fix": f"put k.barrier.sync() between {there} and {here}, or k.warp.sync() where each warp reads its own",
    }


def returns_early(
    state: State, barrier: Mbarrier, wait: Wait, phase: Callable[[], int | None], instr: MachineInstr
) -> None:
    """The finding of a wait that returned at once, where an instruction needs a phase; None where it does not."""
    over = f"phase {wait.guaranteed - 1} is over already, so it returns at once"
    if not wait.guaranteed:
        over = "it returns at once, before any phase is over"
    state.findings.add(
        *(PARITY, barrier.name, rules.PARITY, wait.instr),
        ((f"what relies on it: {instruction(instr)}", instr.location),),
        holds=lambda: phase() is not None, now=in_rounds(wait.rounds), warp=wait.warp, wanted=wait.wanted,
        barrier=barrier.name, fix=lambda: right_parity(phase() or 0),
        reason=lambda: f"{over}, and {instruction(instr)} of {line(instr)} needs phase {phase()}",
    )  # fmt: skip


def right_parity(phase: int) -> str:
    """The fix of a wait that needs a phase."""
    return (
        f"wait here for parity {phase & 1}, that of phase {phase}: it flips each time the barrier's index begins again "
        "at 0; or, where this is the right parity, let the warps that share the barrier come here in turns"
    )


def leaves(
    state: State, instr: MachineInstr, allocation: MemoryObject | None, touched: range, who: str, rounds: When
) -> None:
    """The finding of an access that leaves its allocation, at bytes counted from its start."""
    memory = "" if allocation is None else allocation.name
    said: dict[str, Any] = {"now": in_rounds(rounds), "second": who, "line": line(instr)}
    if allocation is None:
        place = f"shared address {touched.start:#x}; the kernel's memory ends at {state.launch.shared.stop:#x}"
    else:
        is_across = touched.start in range(allocation.bytes)
        bytes = f"bytes {touched.start} to {touched.stop - 1}" if is_across else f"byte {touched.start}"
        place = f"{bytes} of shared memory {memory}, which has {allocation.bytes} bytes"
    state.findings.add(ACCOUNTING, memory, rules.BEYOND, instr, (), place=place, **said)


def _said_in(wait: Wait, first: Record) -> int | None:
    """The phase of the arrival by which a warp says that its access is over, on the barrier of a wait."""
    for number, phase in enumerate([*wait.barrier.ended, wait.barrier.arrivals]):
        if any(one.seen >> first.event & 1 and (one.cta, one.warp) == (first.cta, first.warp) for one in phase):
            return number
    return None


def _came_before(guard: Wait, reader: Record) -> bool:
    """Whether the reader arrived before it read, in the phase that is waited for: that phase is too early."""
    phase = guard.barrier.ended[guard.guaranteed - 1] if guard.guaranteed else []
    return any(
        one.arrivals and one.at <= reader.event and (one.cta, one.warp) == (reader.cta, reader.warp) for one in phase
    )


def _fill_two_stages(first: Record, second: Record) -> bool:
    """Whether two copies that complete on different mbarriers fill the same bytes: a place is wrong, and no wait."""
    barriers = first.barrier, second.barrier
    return bool(first.engine and second.engine) and None not in barriers and barriers[0] is not barriers[1]


def _who(record: Record, part: Part, with_rounds: bool = False, *, cta: bool = False) -> str:
    rounds = after_rounds(record.rounds) if with_rounds else ""
    of = f" of CTA {record.cta}" if cta else ""
    return f"{instruction(part.instr)} of {crew(part.instr, record.warp)}{of}{rounds}"


def _mode(bytes: int | None) -> str:
    if not bytes:
        return "no swizzle"
    span, row = begins_at(bytes)
    return f"the swizzle of {span} bytes" + (f" and base offset {row}" if row else "")


def _is_one_phase(first: Record, second: Record) -> bool:
    """Whether copies of two CTAs bring other boxes in the same phase of the same mbarrier of several CTAs."""
    if first.cta == second.cta or first.source is None or second.source is None:
        return False
    if not first.writes or not isinstance(first.barrier, Mbarrier) or not isinstance(second.barrier, Mbarrier):
        return False
    return first.barrier.place[1] == second.barrier.place[1] and first.phase == second.phase


def _rule(first: Record, second: Record, earlier: Part) -> Rule:
    copies = instruction(earlier.instr).startswith(_COPY) and not first.proxy
    if first.writes and not second.writes:
        if not first.engine:
            return rules.MISSING_BARRIER
        return rules.COPY_READ_BEFORE_WAIT if copies else rules.READ_BEFORE_WAIT
    if second.engine:
        if not second.proxy or _is_one_phase(first, second):
            return rules.TWO_WRITERS if first.writes else rules.OVERWRITTEN_EARLY
        return rules.REFILL_IN_FLIGHT if first.engine and not first.writes else rules.REFILL
    if first.engine:
        return rules.WRITE_IN_FLIGHT
    return rules.TWO_WRITERS if first.writes else rules.OVERWRITTEN_EARLY
