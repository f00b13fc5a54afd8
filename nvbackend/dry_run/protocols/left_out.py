"""Arrivals that a warp leaves out, where its next ones complete the phases in their place, and those too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier
from nvbackend.dry_run.order.naming import counted, in_rounds, line, warps
from nvbackend.dry_run.protocols.overruns import stages
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr

_Line = int
"""An instruction, by its id."""
_Warp = tuple[int, int]
_Wait = tuple[Step, Mbarrier]
"""A step that waits, and where."""


class LeftOut:
    """Looks for the cause of races: a warp that comes to each second phase alone."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self) -> None:
        """The finding of the first mbarrier whose phases some warp completes by what belongs to the next one."""
        for barrier in self._state.mbarriers.values():
            if self._look(barrier):
                return

    def _look(self, barrier: Mbarrier) -> bool:
        """Whether some warps arrive by one line alone, and others by that and by another one that these leave out.

        All arrive together by the first in some phase, and in another the ones by the first, the others by the second:
        so those are a phase ahead. Only where their accesses have no order is that a mistake.
        """
        lines: dict[_Warp, set[_Line]] = {}
        phases = [_by_warp(phase) for phase in barrier.ended]
        for phase in phases:
            for warp, arrival in phase.items():
                lines.setdefault(warp, set()).add(id(arrival.instr))
        for number, phase in enumerate(phases):
            ahead, others = self._parted(phase, lines)
            if not ahead or not self._state.findings.is_between(ahead.keys(), others.keys()):
                continue
            early, late = next(iter(ahead.values())), next(iter(others.values()))
            if not any(_is_met_by(one, early, phase) for one in phases):
                continue
            who, there = warps(warp for _, warp in ahead), line(late.instr)
            rest = warps(warp for _, warp in others)
            self._state.findings.add(
                *(ACCOUNTING, barrier.name, rules.ARRIVALS, late.instr),
                ((f"what {who} arrives by in this phase", early.instr.location),),
                now=in_rounds(late.rounds), barrier=self._state.named(barrier), count=counted(barrier.count, "arrival"),
                reason=f"{who} leaves that of {there} out: its arrival of {line(early.instr)}, which belongs to phase "
                f"{number + 1}, completes phase {number}",
                fix=f"let {who} arrive on {barrier.name} in {there} too, as often as {rest}",
            )  # fmt: skip
            return True
        return False

    def _parted(
        self, phase: dict[_Warp, Arrival], lines: dict[_Warp, set[_Line]]
    ) -> tuple[dict[_Warp, Arrival], dict[_Warp, Arrival]]:
        """The warps of a phase that know one line alone, and those that know it too and arrived by another."""
        ahead = {warp: one for warp, one in phase.items() if lines[warp] == {id(one.instr)}}
        for known, several in groupby(ahead.values(), lambda one: id(one.instr)):
            others = {warp: one for warp, one in phase.items() if known in lines[warp] and id(one.instr) != known}
            if others and len({id(one.instr) for one in others.values()}) == 1:
                return {(one.cta, one.warp): one for one in several}, others
        return {}, {}


class TooMany:
    """Looks for the cause of races: rounds of a loop in which more arrive than a phase counts, so that it ends early.

    Phases that several of a round's arrivals complete in turn are meant: then each round has a multiple of the count.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self) -> None:
        """The finding of the first mbarrier with such a round whose arrivals and waits are of what was found."""
        for barrier in self._state.mbarriers.values():
            if self._explains(barrier) and self._look(barrier):
                return

    def _explains(self, barrier: Mbarrier) -> bool:
        """Whether something was found between who arrives and who waits, or at the mbarrier itself."""
        waiters = {who for who, waits in self._state.waits.items() if barrier.place in waits}
        findings = self._state.findings
        return findings.is_between(set(barrier.by), waiters) or findings.is_about(barrier.name)

    def _look(self, barrier: Mbarrier) -> bool:
        rounds: dict[When, list[Arrival]] = {}
        for one in (one for phase in (*barrier.ended, barrier.arrivals) for one in phase if one.arrivals):
            use = one.instr.semantics.mbarrier
            if not one.rounds or use is None or MbarrierUse.RECOUNT in use:
                return False
            rounds.setdefault(one.rounds, []).append(one)
        if len({when.names for when in rounds}) != 1:
            return False
        totals = {when: _total(several) for when, several in rounds.items()}
        most, usual = max(totals.values()), Counter(totals.values()).most_common(1)[0][0]
        if most <= barrier.count:
            return False
        if len(set(totals.values())) == 1 and most % barrier.count == 0:
            return self._of_several(barrier, rounds, most)
        when = next(one for one, total in totals.items() if total > barrier.count)
        found = self._extra(rounds[when], [one for several in rounds.values() for one in several])
        if found is not None:
            self._report(barrier, when, *found, totals[when], usual)
        return found is not None

    def _extra(self, several: list[Arrival], all_: list[Arrival]) -> tuple[Arrival, Arrival] | None:
        """Of the arrivals of a round one by a warp that arrives there by another line too: the rarer of the two."""
        often = Counter(id(one.instr) for one in all_)
        first: dict[_Warp, Arrival] = {}
        for one in several:
            other = first.setdefault((one.cta, one.warp), one)
            if other.instr is not one.instr:
                return (one, other) if often[id(one.instr)] <= often[id(other.instr)] else (other, one)
        return None

    def _of_several(self, barrier: Mbarrier, rounds: dict[When, list[Arrival]], total: int) -> bool:
        """Whether several warps come in each round, and each completes phases of which others wait for one a round."""
        first = next(iter(rounds.values()))
        came = {(one.cta, one.warp) for one in first}
        waits = [waits[barrier.place] for waits in self._state.waits.values() if barrier.place in waits]
        if len(came) == 1 or came & {(barrier.place[0], one.warp) for one in waits} or not barrier.waited:
            return False
        if any(one.guaranteed > len(rounds) for one in waits):
            return False
        who, one = warps(warp for _, warp in came), first[-1]
        self._state.findings.add(
            *(ACCOUNTING, barrier.name, rules.ARRIVALS, one.instr),
            tuple((f"warp {other.warp} arrives here", other.instr.location) for other in first[:-1][:2]),
            now=in_rounds(one.rounds), barrier=self._state.named(barrier), count=counted(barrier.count, "arrival"),
            reason=f"{total} come in each round, of {who}: the first of them completes the phase that others wait for",
            fix=f"initialise {barrier.name} to {total}, the arrivals of one round",
        )  # fmt: skip
        return True

    def _report(self, barrier: Mbarrier, when: When, extra: Arrival, other: Arrival, total: int, usual: int) -> None:
        here, there = line(extra.instr), line(other.instr)
        also = f", or initialise {barrier.name} to {total}" if total == usual else ""
        self._state.findings.add(
            *(ACCOUNTING, barrier.name, rules.ARRIVALS, extra.instr),
            ((f"warp {other.warp} arrives here too", other.instr.location),),
            now=in_rounds(when), barrier=self._state.named(barrier), count=counted(barrier.count, "arrival"),
            reason=f"{total} come in this round: warp {extra.warp} arrives in {there} and again in {here}, so the "
            "phase is over before all have done what they arrive after",
            fix=f"leave the arrival of {here} out{also}",
        )  # fmt: skip


class Astray:
    """Looks for the cause of arrivals that come early: bytes announced on another mbarrier than gets the copies."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, hung: Collection[Mbarrier] = ()) -> None:
        """The finding of the first announcement whose warp copies, each time, to another mbarrier.

        Only where something was found about one of the two, or threads have `hung` there.
        """
        copies: dict[tuple[_Warp, When], list[tuple[Mbarrier, Arrival]]] = {}
        for barrier, one in self._all():
            if one.brought:
                copies.setdefault(((one.cta, one.warp), one.rounds), []).append((barrier, one))
        astray: dict[_Line, list[tuple[Mbarrier, Arrival, Mbarrier, Arrival]]] = {}
        right: set[_Line] = set()
        for barrier, one in self._all():
            there = copies.get(((one.cta, one.warp), one.rounds), []) if one.expected else []
            others = [pair for pair in there if pair[0] is not barrier and pair[0].place[0] == barrier.place[0]]
            if not there or len(others) != len(there) or one.expected != sum(copy.brought for _, copy in others):
                right |= {id(one.instr)} if one.expected else set()
            elif len({id(other) for other, _ in others}) == 1:
                astray.setdefault(id(one.instr), []).append((barrier, one, *others[0]))
        for line_, several in astray.items():
            about = [barrier for first, _, other, _ in several for barrier in (first, other)]
            is_cause = any(one in hung or self._state.findings.is_about(one.name) for one in about)
            if line_ not in right and is_cause:
                self._report(*several[0])
                return

    def _all(self) -> Iterator[tuple[Mbarrier, Arrival]]:
        for barrier in self._state.mbarriers.values():
            for phase in (*barrier.ended, barrier.arrivals):
                yield from ((barrier, one) for one in phase)

    def _report(self, barrier: Mbarrier, one: Arrival, other: Mbarrier, copy: Arrival) -> None:
        here, there = line(one.instr), line(copy.instr)
        self._state.findings.add(
            *(ACCOUNTING, barrier.name, rules.WRONG_BARRIER, one.instr),
            ((f"it completes on {other.name}", copy.instr.location),),
            now=in_rounds(one.rounds), warp=f"{one.warp}{self._state.of_cta(one.cta)}", barrier=barrier.name,
            bytes=one.expected, copy=there, other=other.name, line=here,
        )  # fmt: skip


def cause_in_turns(state: State, waits: Sequence[_Wait], order: Callable[[_Wait], Any]) -> tuple[_Wait, str] | None:
    """Where consumers of a ring wait for their turns, the wait that is the cause, and what ends it, if that is known.

    Where none of the consumers is in its turn, the one before has not taken it. Else it is the first by `order` of the
    waits for stages; None where there are no such ones.
    """
    others = [pair for pair in waits if facts.TURN not in pair[0].instr.facts]
    if len(others) == len(waits):
        return None
    if all(step.lanes.bit_count() == 1 for step, _ in others):
        pair = min((pair for pair in waits if pair not in others), key=lambda pair: pair[1].phase)
        return pair, _of_the_one_before(state, *pair)
    pair = min(others, key=order)
    return pair, _OF_UNRELEASED if pair[0].lanes.bit_count() == 1 else ""


def release_left_out(state: State, step: Step, barrier: Mbarrier) -> str:
    """The fix of a wait for a stage that consumers keep; "" where they do not, or release it somewhere."""
    function = state.launch.function
    came = [one for each in stages(state, barrier) for one in each.by.values() if one.arrivals]
    if (
        function is None
        or not came
        or not all(one.instr.facts.get(facts.RELEASES) == facts.STAGE_BEFORE for one in came)
    ):
        return ""
    ring = {use.object for one in came for use in one.instr.memory}
    if any(_releases(one) and not ring.isdisjoint(use.object for use in one.memory) for one in function.instructions()):
        return ""
    who = warps(one.warp for one in came)
    drains = " and ".join(sorted({line(one.instr) for one in came}))
    return (
        f"put ring.release() after the loop of {drains}, and k.wgmma.wait_group(0) before it: ring.drain(in_flight=1) "
        f"keeps the last stage of {who}, and the wait of {line(step.instr)} for its release never ends"
    )


def _releases(instr: MachineInstr) -> bool:
    return instr.facts.get(facts.RELEASES) == facts.LAST_STAGE


def _of_the_one_before(state: State, step: Step, turn: Mbarrier) -> str:
    """What ends the wait for a turn that the consumer before has not taken."""
    taken = _OF_TURNS.format(line=line(step.instr))
    if not turn.by or not all(state.warps[who].ended for who in turn.by):
        return taken
    before, turns = warps(warp for _, warp in turn.by), counted(turn.phase, "turn")
    return (
        f"give each consumer the turn of the number by which its tiles are dealt: {before}, whose turn is before, have "
        f"ended after {turns}, and {warps(step.warps)} begins another; or {taken}"
    )


_OF_TURNS = (
    "let the consumer before take its turn too, as in {line}: turns go round, and one that has no "
    "tile takes an empty turn, `with ring.turn(warpgroup): pass`"
)
_OF_UNRELEASED = (
    "let each consumer give back the last stage of a turn before its next turn, k.wgmma.wait_group(0) and "
    "ring.release(), and put all steps of a tile in one turn"
)


def _total(several: Iterable[Arrival]) -> int:
    return sum(one.arrivals for one in several)


def _by_warp(phase: list[Arrival]) -> dict[_Warp, Arrival]:
    """The arrivals of a phase by their warps, of each the first."""
    found: dict[_Warp, Arrival] = {}
    for one in phase:
        if one.arrivals:
            found.setdefault((one.cta, one.warp), one)
    return found


def _is_met_by(phase: dict[_Warp, Arrival], early: Arrival, warps_of: dict[_Warp, Arrival]) -> bool:
    """Whether all these warps came to a phase by the same line as an arrival."""
    return phase.keys() == warps_of.keys() and all(one.instr is early.instr for one in phase.values())
