"""When no warp can go on: what each one waits for, what is missing there, and which of that is the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from nvbackend.diagnostics import Location
from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, DEADLOCK, INVERTED, Notes
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier
from nvbackend.dry_run.order.footprints import number
from nvbackend.dry_run.order.naming import counted, in_rounds, instruction, line, listed, warps
from nvbackend.dry_run.protocols.left_out import Astray, cause_in_turns, release_left_out
from nvbackend.dry_run.protocols.overruns import (
    arrivals_beside,
    as_many_rounds,
    filled_again,
    given_to_itself,
    gone_to_peers,
    in_peer,
    larger_than_its_tile,
    of_bytes,
    of_one_round,
    steps_of_both,
    way_back,
)
from nvbackend.dry_run.protocols.signals import Signals
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.protocols.synchronise import ThreadBarriers
from nvbackend.dry_run.seam import Step
from nvbackend.intrinsics.row.semantics import Budget, MbarrierUse, Scope
from nvbackend.isel.machine.function import MachineInstr


class Deadlocks:
    """Explains one deadlock."""

    def __init__(self, state: State, signals: Signals, threads: ThreadBarriers) -> None:
        self._state = state
        self._signals = signals
        self._threads = threads

    def explain(self, waiting: Sequence[Step]) -> None:
        """Find the cause: wrong counts first, else the first wait."""
        if self._state.findings.lost:
            return
        mbarriers = [(step, barrier) for step in waiting for barrier in self._barriers(step)]
        for step, barrier in self.first_waits(waiting):
            if given := given_to_itself(self._state, step, barrier):
                self._deadlock(ACCOUNTING, step, barrier, [other for other in waiting if other is not step], given)
                return
        self._bytes(mbarriers)
        if self._state.findings.may_hang:
            self._left_out(waiting)
            return
        pools = [step for step in waiting if step.instr.semantics.budget is Budget.RAISE]
        roots = self._roots(waiting)
        named = [step for step in roots if step.instr.semantics.barrier is not None]
        if pools:
            self._pool(pools[0])
        elif named:
            self._named(named, waiting)
        else:
            Astray(self._state).find([barrier for _, barrier in mbarriers])
            if self._state.findings.may_hang:
                return
            self._counts([pair for pair in mbarriers if pair[0] in roots] or mbarriers)
            if mbarriers and not self._state.findings.may_hang:
                self._mbarrier([pair for pair in mbarriers if pair[0] in roots] or mbarriers, waiting)

    def first_waits(self, waiting: Sequence[Step]) -> list[tuple[Step, Mbarrier]]:
        """The steps that wait, by parity, for the first phase of an mbarrier at which nobody has arrived."""
        pairs = ((step, barrier) for step in waiting for barrier in self._barriers(step))
        return [(step, one) for step, one in pairs if not one.phase and not one.by and _wanted(step) == (True, 0)]

    def tell(self, instr: MachineInstr, waiting: Sequence[Step]) -> None:
        """Say that the wait `instr`, which waits for a first phase, is what has the wrong parity."""
        step, barrier = next(pair for pair in self.first_waits(waiting) if pair[0].instr is instr)
        others = [other for other in waiting if other is not step]
        callers = instr.location.callers if instr.location is not None else ()
        here = f"the call of line {callers[0].line}" if callers else line(instr)
        self._deadlock(
            *(INVERTED, step, barrier, others),
            f"let {here} wait for parity 1 first, which passes before any arrival, and then in turn: the other parity, "
            "as in (round // stages & 1) ^ 1; with that all threads come to the end",
        )

    def _left_out(self, waiting: Sequence[Step]) -> None:
        """A counted barrier that some warp leaves out, where its accesses race with those of the warps that wait there.

        The hang is the cause then: no race makes a warp leave out a barrier.
        """
        for step in waiting:
            barrier = (
                self._threads.waits_at(self._state.warp(step)) if step.instr.semantics.barrier is not None else None
            )
            if barrier is None or barrier.count is None:
                continue
            came = {(one.cta, one.warp) for one in barrier.comers}
            if self._state.findings.are_all_between(self._comers(step), came):
                self._named([step], waiting, explains=True)
                return

    def _roots(self, waiting: Sequence[Step]) -> list[Step]:
        """The waiting steps that do not wait for one another, as far as earlier phases show who arrives.

        Where all wait for one another, those at a barrier of all threads are left out: they may wait at the end.
        """
        at = {(step.cta, warp): step for step in waiting for warp in step.warps}
        found = []
        for step in waiting:
            comers = self._comers(step)
            if not any(key in at and at[key] is not step for key in comers):
                found.append(step)
        return found or [step for step in waiting if not self._is_of_all(step)] or list(waiting)

    def _is_of_all(self, step: Step) -> bool:
        """Whether a step waits at a barrier of all threads."""
        barrier = self._threads.waits_at(self._state.warp(step)) if step.instr.semantics.barrier is not None else None
        return barrier is not None and barrier.count is None

    def _comers(self, step: Step) -> set[tuple[int, int]]:
        """The warps that came to the last phase of what a step waits for, and have not come to this one."""
        barrier = self._threads.waits_at(self._state.warp(step)) if step.instr.semantics.barrier is not None else None
        if barrier is not None:
            came = {(one.cta, one.warp) for one in barrier.comers}
            if barrier.count is None:
                ctas = range(barrier.cta, barrier.cta + (self._state.launch.cluster if barrier.number < 0 else 1))
                return {(cta, warp) for cta in ctas for warp in range(self._state.launch.warps)} - came
            return {(one.cta, one.warp) for one in barrier.last} - came
        return {
            (one.cta, one.warp)
            for mbarrier in self._barriers(step)
            for one in mbarrier.last
            if one.arrivals and (one.cta, one.warp) not in {(other.cta, other.warp) for other in mbarrier.arrivals}
        }

    def _barriers(self, step: Step) -> list[Mbarrier]:
        use = step.instr.semantics.mbarrier
        if use is None or not use & (MbarrierUse.WAIT | MbarrierUse.POLL):
            return []
        found = (self._state.mbarriers.get(place) for place, *_ in self._signals.places(step) or ())
        return [barrier for barrier in found if barrier is not None]

    def _bytes(self, mbarriers: Sequence[tuple[Step, Mbarrier]]) -> None:
        """Phases that got other bytes than they count."""
        for step, barrier in mbarriers:
            if barrier.pending or not barrier.bytes or self._is_held_up(barrier, mbarriers):
                continue
            if filled_again(self._state, step, barrier):
                return
            expected, brought = of_one_round(barrier.arrivals)
            first = next((one for one in barrier.arrivals if one.expected), barrier.arrivals[0])
            fix = f"announce {brought} bytes: what the copies bring to this CTA in one phase"
            copy = next((one.instr for one in barrier.arrivals if one.brought), None)
            if copy is not None and brought > expected and (tile := larger_than_its_tile(barrier.arrivals)):
                fix = f"correct the box of {line(copy)}, or the tile: {tile}; else {fix}"
            if not brought:
                fix = f"let the copies complete on {barrier.name}, or announce no bytes: k.mbarrier.arrive"
            notes: Notes = (*self._arrived(barrier), ("this waits for the phase", step.instr.location))
            astray = self._astray(barrier)
            if astray is not None:
                stray, other = astray
                names = self._state.named(barrier), self._state.named(other)
                fix = f"let {line(stray.instr)} complete on {names[0]}, not on {names[1]}, which gets its bytes"
                came = f"{instruction(stray.instr)} of {self._name(stray)} brings its bytes to {names[1]}"
                notes = (*notes, (came, stray.instr.location))
            self._state.findings.add(
                *(ACCOUNTING, barrier.name, rules.BYTES, first.instr, notes),
                now=in_rounds(first.rounds), phase=barrier.phase, barrier=self._state.named(barrier),
                expected=expected, brought=brought, fix=fix,
            )  # fmt: skip
            return

    def _astray(self, barrier: Mbarrier) -> tuple[Arrival, Mbarrier] | None:
        """A copy that brings to another mbarrier, where they are too many, just the bytes that this one lacks."""
        for other in self._state.mbarriers.values():
            copies = [one for one in other.arrivals if one.brought]
            if other is not barrier and barrier.bytes > 0 and other.bytes == -barrier.bytes and len(copies) == 1:
                return copies[0], other
        return None

    def _is_held_up(self, barrier: Mbarrier, mbarriers: Sequence[tuple[Step, Mbarrier]]) -> bool:
        """Whether who brought bytes to the last phase, and has brought none to this one, waits for another barrier."""
        brings, brought = (
            {(one.cta, one.warp) for one in phase if one.brought} for phase in (barrier.last, barrier.arrivals)
        )
        waiting = {(step.cta, warp) for step, other in mbarriers if other is not barrier for warp in step.warps}
        return not waiting.isdisjoint(brings - brought)

    def _name(self, arrival: Arrival) -> str:
        return f"warp {arrival.warp}{self._state.of_cta(arrival.cta)}"

    def _counts(self, mbarriers: Sequence[tuple[Step, Mbarrier]]) -> None:
        """Phases that got some of their arrivals and not all."""
        for step, barrier in mbarriers:
            adds = next((one.instr for one in barrier.arrivals if _adds(one.instr)), None)
            if adds is not None and barrier.pending:
                self._state.findings.add(
                    *(ACCOUNTING, barrier.name, rules.ARRIVALS, adds, (("this waits", step.instr.location),)),
                    now="", barrier=self._state.named(barrier), count=counted(barrier.count, "arrival"),
                    reason=f"this instruction adds each of its arrivals to the count before it makes it: "
                    f"{barrier.pending} stay missing",
                    fix="pass no_increment=True to k.cp_async.mbarrier_arrive: its arrivals are counted already",
                )  # fmt: skip
                return
        for step, barrier in mbarriers:
            if 0 < barrier.pending < barrier.count:
                came = barrier.count - barrier.pending
                self._state.findings.add(
                    *(ACCOUNTING, barrier.name, rules.ARRIVALS, step.instr, self._arrived(barrier)),
                    now=in_rounds(step.rounds()), barrier=self._state.named(barrier),
                    count=counted(barrier.count, "arrival"),
                    reason=f"phase {barrier.phase} gets only {came}: warp {step.warps[0]}"
                    f"{self._state.of_cta(step.cta)} waits for it forever",
                    fix=gone_to_peers(self._state, barrier)
                    or f"initialise {barrier.name} to {came}, or let {barrier.pending} more arrive in each phase: "
                    "k.mbarrier.arrive",
                )  # fmt: skip
                return

    def _arrived(self, barrier: Mbarrier) -> Notes:
        seen: dict[int, tuple[str, Location | None]] = {}
        for one in barrier.arrivals:
            text = f"{instruction(one.instr)} of warp {one.warp} in CTA {one.cta}"
            seen.setdefault(id(one.instr), (f"{text} comes in this phase", one.instr.location))
        return tuple(seen.values())[:3]

    def _mbarrier(self, mbarriers: Sequence[tuple[Step, Mbarrier]], waiting: Sequence[Step]) -> None:
        ordered = sorted(mbarriers, key=_first_to_tell)
        if any(self._repeated(barrier) for _, barrier in ordered):
            return
        waits = [(one, at) for one in waiting for at in self._barriers(one)]
        (step, barrier), fix = cause_in_turns(self._state, waits, _first_to_tell) or (ordered[0], "")
        sides = steps_of_both(self._state, step, barrier)
        if sides is None and not fix:
            more = ((pair, steps_of_both(self._state, *pair)) for pair in ordered[1:])
            (step, barrier), sides = next((one for one in more if one[1] is not None), ((step, barrier), None))
        if self._passed_by(step, barrier):
            return
        by_parity, wanted = _wanted(step)
        others = [other for other in waiting if other is not step]
        fix = release_left_out(self._state, step, barrier) or (fix if sides is None else sides.fix)
        fix = fix or self._arrive(step, barrier, wanted if by_parity else -1)
        self._deadlock(DEADLOCK, step, barrier, others, fix, "" if sides is None else sides.reason)

    def _deadlock(
        self, class_: int, step: Step, barrier: Mbarrier, others: Sequence[Step], fix: str, steps: str = ""
    ) -> None:
        by_parity, wanted = _wanted(step)
        who = f"warp {step.warps[0]}{self._state.of_cta(step.cta)}"
        words = f"parity {wanted & 1}" if by_parity else f"the token of phase {wanted}"
        came = barrier.count - barrier.pending
        over_ = {0: "no phase of it is", 1: "one phase of it is"}.get(
            barrier.phase, f"{barrier.phase} phases of it are"
        )
        state = f"{over_} over, and {came} of {barrier.count} arrivals of phase {barrier.phase} have come"
        state += of_bytes(barrier)
        notes = self._places(step, others)
        notes += [
            (f"an arrival of its last phase: {instruction(one.instr)}", one.instr.location) for one in barrier.last[:1]
        ]
        self._state.findings.add(
            *(class_, barrier.name, rules.DEADLOCK, step.instr, tuple(dict.fromkeys(notes))[:4]),
            now=in_rounds(step.rounds()), who=who, wanted=words, barrier=barrier.name,
            reason="; ".join([state, *([steps] if steps else []), self._whereabouts(others)]), fix=fix,
        )  # fmt: skip

    def _repeated(self, barrier: Mbarrier) -> bool:
        """Whether a warp came to a phase in several rounds, and to the one before in one: it did not wait between."""
        for before, several in pairwise([*barrier.ended, barrier.arrivals]):
            once = Counter((one.cta, one.warp) for one in before if one.arrivals)
            first: dict[tuple[int, int], Arrival] = {}
            for one in several:
                key = one.cta, one.warp
                earlier = first.setdefault(key, one) if one.arrivals else one
                if earlier.rounds != one.rounds and once[key] == 1:
                    phase = barrier.ended.index(before) + 1
                    self._signals.unwaited(one, barrier, phase, earlier)
                    return True
        return False

    def _passed_by(self, step: Step, barrier: Mbarrier) -> bool:
        """Whether a wait is for a phase that is over, as is the next one: nobody waits for who waits."""
        by_parity, wanted = _wanted(step)
        who, over = f"warp {step.warps[0]}{self._state.of_cta(step.cta)}", barrier.over(self._state.warp(step))
        if not by_parity or over & 1 != wanted & 1 or barrier.phase < over + 2 or not barrier.last:
            return False
        last = next((one for one in barrier.last if one.arrivals), barrier.last[0])
        other = self._name(last)
        self._state.findings.add(
            *(ACCOUNTING, barrier.name, rules.OVERRUN, step.instr),
            ((f"phase {barrier.phase - 1} is over by this {instruction(last.instr)}", last.instr.location),),
            now=in_rounds(step.rounds()), fix=way_back(who, line(step.instr), other, last),
            reason=f"{who} waits for phase {over} of {barrier.name}, and phases {over} to {barrier.phase - 1} are "
            f"over: nothing makes {other} wait for it",
        )  # fmt: skip
        return True

    def _places(self, step: Step, others: Sequence[Step]) -> list[tuple[str, Location | None]]:
        """Where the others wait: each place once."""
        at: dict[int, list[Step]] = {}
        for other in others:
            if other.instr is not step.instr:
                at.setdefault(id(other.instr), []).append(other)
        return [
            (f"{warps(warp for one in steps for warp in one.warps)} wait here", steps[0].instr.location)
            if len({warp for one in steps for warp in one.warps}) > 1
            else (f"warp {steps[0].warps[0]} waits here", steps[0].instr.location)
            for steps in at.values()
        ]  # fmt: skip

    def _whereabouts(self, others: Sequence[Step]) -> str:
        """What all other threads do."""
        if not others:
            return "all others have ended"
        names = {(other.cta, warp) for other in others for warp in other.warps}
        if self._state.launch.ctas == 1:
            who = warps(warp for _, warp in names)
        else:
            parts = [
                f"{warps(warp for cta, warp in names if cta == one)} of CTA {one}"
                for one in sorted({cta for cta, _ in names})
            ]
            who = listed(parts)
        return f"{who} wait{'s' if len(names) == 1 else ''} too"

    def _arrive(self, step: Step, barrier: Mbarrier, wanted: int) -> str:
        """What makes the phase end that a step waits for."""
        here = line(step.instr)
        cta, warp = step.cta, step.warps[0]
        twins = (one for one in self._state.mbarriers.values() if one.place[1] == barrier.place[1] and one.by)
        twin = None if barrier.by else next(twins, None)
        if twin is not None:
            return gone_to_peers(self._state, barrier) or in_peer(twin, barrier.place[0])
        if barrier.pending and barrier.unannounced:
            return f"announce these bytes before {here} waits for them: k.mbarrier.arrive with expect_tx"
        if (rounds := as_many_rounds(self._state, step, barrier)) is not None:
            return rounds
        if not barrier.by and (other := arrivals_beside(self._state, step, barrier)) is not None:
            return other
        if not barrier.by:
            first = f"; if {here} may go on before any arrival, let it wait for parity 1 first"
            own = f"; if warp {warp} itself arrives there after {here}, let another warp do that"
            begins = wanted == 0 and barrier.place not in self._state.waits[cta, warp]
            return (
                f"let a thread that does not wait for {here} arrive on {barrier.name}"
                f"{self._state.of_cta(barrier.place[0])}: k.mbarrier.arrive{first if begins else own}"
            )
        one = next(iter(barrier.by.values()))
        comers = sorted({warp for _, warp in barrier.by})
        are_over = all(self._state.warps[who].ended for who in barrier.by)
        ended = (
            f" ({counted(barrier.phase, 'round')} so far, and no more: all who arrive there have ended)"
            if are_over
            else ""
        )
        flip = (
            "" if wanted < 0 else f", or wait here for parity {1 - (wanted & 1)} if phase {barrier.phase - 1} is meant"
        )
        return (
            f"let {warps(comers)} arrive on {barrier.name}, as in {line(one.instr)}, once for each round that waits in "
            f"{here}{ended}{flip}"
        )

    def _named(self, named: Sequence[Step], waiting: Sequence[Step], *, explains: bool = False) -> None:
        """The hang at a barrier of threads; whether it `explains` what was found before."""
        step = named[0]
        barrier = self._threads.waits_at(self._state.warp(step))
        said = step.instr.semantics.barrier
        if barrier is None or said is None:
            return
        others = [other for other in waiting if self._threads.waits_at(self._state.warp(other)) is not barrier]
        notes = tuple(self._places(step, others))[:4]
        if said.scope is Scope.CLUSTER:
            self._state.findings.add(
                *(DEADLOCK, "cluster", rules.CLUSTER_HANGS, step.instr, notes),
                now=in_rounds(step.rounds()), who=f"warp {step.warps[0]}{self._state.of_cta(step.cta)}",
                reason=self._whereabouts(others) + (", and not at it" if others else ""),
            )  # fmt: skip
            return
        skipped = explains or (not others and barrier.phase > 0)
        needed = self._threads.needed(barrier)
        more = needed - barrier.arrived
        fix = f"let {counted(more, 'more thread')} come to {line(step.instr)}"
        if barrier.count is not None:
            fix = f"count {counted(barrier.arrived, 'thread')} at {line(step.instr)}, or let {more} more come to it"
        if skipped and (last := {one.warp for one in barrier.last} - {one.warp for one in barrier.comers}):
            comers = warps(one.warp for one in barrier.comers)
            fix = f"let {warps(last)} come to barrier {barrier.number} as often as {comers}"
        elif any(other.instr.semantics.barrier is not None for other in others):
            fix += "; where warps meet at several barriers, let all come to these in one order"
        self._state.findings.add(
            *(ACCOUNTING if skipped else DEADLOCK, f"barrier {barrier.number}", rules.BARRIER_HANGS, step.instr, notes),
            now=in_rounds(step.rounds()), barrier=barrier.number, count=needed, arrived=barrier.arrived,
            reason=self._whereabouts(others) + (", elsewhere" if others else ""), fix=fix,
        )  # fmt: skip

    def _pool(self, step: Step) -> None:
        state, group = self._state, step.warps[0] // 4
        count = step.instr.immediates["registers"]
        state.findings.add(
            *(DEADLOCK, "registers", rules.POOL, step.instr, ()),
            now=in_rounds(step.rounds()), count=count, group=group, needed=count - state.registers[step.cta, group],
            there=state.pools[step.cta],
        )  # fmt: skip


def _first_to_tell(waits: tuple[Step, Mbarrier]) -> tuple[bool, int, bool, bool]:
    """What sorts waits, the likely cause first: bytes that nobody has announced, early phases, threads alone."""
    step, barrier = waits
    return not barrier.unannounced, barrier.phase, step.lanes.bit_count() > 1, bool(barrier.arrivals)


def _adds(instr: MachineInstr) -> bool:
    """Whether an arrival is added to the phase in which it comes."""
    use = instr.semantics.mbarrier
    return use is not None and bool(use & MbarrierUse.RECOUNT) and instr.semantics.tracks is not None


def _wanted(step: Step) -> tuple[bool, int]:
    """Whether a wait is by parity, and for which, or for which phase."""
    by_parity = "parity" in step.facts.operands
    return by_parity, number(step.value("parity" if by_parity else "state"), step.lanes) or 0
