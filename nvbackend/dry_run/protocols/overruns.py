"""Warps that complete phases and do not wait for those who wait for them, or that have ended before these."""

from __future__ import annotations

from functools import partial

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, MISSED, ORDER
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier
from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.words import in_rounds, instruction, line, listed, warps
from nvbackend.dry_run.protocols.explain import returns_early
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step


def never_waits(state: State, step: Step, waiter: Warp, barrier: Mbarrier, phase: int) -> bool:
    """Whether those who came to a phase that a warp misses wait for nothing at all: then that is the mistake."""
    came = [one for one in barrier.ended[phase] if one.arrivals]
    if not came or any(state.waits[one.cta, one.warp] for one in came):
        return False
    first = came[0]
    who, other = (f"warp {one.index}{state.of_cta(one.cta)}" for one in (waiter, state.warps[first.cta, first.warp]))
    state.findings.add(
        *(ORDER, barrier.name, rules.OVERRUN, first.instr),
        ((f"{who} waits for the phase here", step.instr.location),),
        now=in_rounds(first.rounds), fix=lambda: _wait_for(state, waiter, other, who, first),
        reason=f"{instruction(first.instr)} of {other} comes in phase {phase} of {barrier.name}, and nothing makes "
        f"{other} wait for {who}, which waits for that phase",
    )  # fmt: skip
    return True


def may_be_missed(state: State, barrier: Mbarrier) -> None:
    """Waits for the phase before the one that has just ended, whose end nothing makes wait for them.

    A parity tells a phase from the next one alone: a warp that looks later waits for the phase after that.
    """
    over = barrier.phase - 1
    if state.is_relaxed:
        return
    for key, waits in state.waits.items():
        wait = waits.get(barrier.place)
        if wait is None or wait.guaranteed != over or not wait.event or wait.event & barrier.known[over][0]:
            continue
        came = [one for one in barrier.ended[over] if (one.cta, one.warp) != key]
        if wait.barrier is not barrier or not came:
            continue
        who, other = (f"warp {index}{state.of_cta(cta)}" for cta, index in (key, (came[-1].cta, came[-1].warp)))
        asks = f"waits for phase {over - 1} of {barrier.name}"
        asks = asks if over else f"waits for {wait.wanted} of {barrier.name}, which lets it go on until phase 0 is over"
        everybody = {key, *((one.cta, one.warp) for one in came)}
        state.findings.add(
            *(MISSED, barrier.name, rules.OVERRUN, wait.instr),
            ((f"{instruction(came[-1].instr)} of {other} comes in phase {over}", came[-1].instr.location),),
            now=in_rounds(wait.rounds), holds=partial(_have_no_atomics, state, everybody),
            reason=f"{who} {asks}, and nothing makes {other}, which comes in "
            f"phase {over}, wait until {who} has passed: later it would wait for phase {over + 1}",
            fix=f"let {other} wait for {who} before {line(came[-1].instr)}, by an mbarrier on which {who} arrives "
            f"after {line(wait.instr)}",
        )  # fmt: skip
        return


def _have_no_atomics(state: State, warps: set[tuple[int, int]]) -> bool:
    """Whether none of the warps waits for another one by atomics."""
    return not any(state.atomics.may_order(one) for one in warps)


def reads_too_early(state: State, barrier: Mbarrier, phase: int) -> bool:
    """Whether one who came to a phase had read what nothing has written, by a wait that returned before any phase."""
    came = {(one.cta, one.warp) for one in barrier.ended[phase] if one.arrivals}
    for record, part in state.memory.unwritten:
        if (who := (record.cta, record.warp)) not in came:
            continue
        before = [wait for wait in state.waits[who].values() if not wait.guaranteed and wait.at <= record.event]
        if before:
            last = max(before, key=lambda wait: wait.at)
            returns_early(state, last.barrier, last, lambda: 0, part.instr)
            return True
    return False


def taken_by_others(state: State, step: Step, barrier: Mbarrier, over: int) -> str:
    """The fix of a warp's first wait for an mbarrier, where others have used the phase by the same line before."""
    mine = {(step.cta, warp) for warp in step.warps}
    if not over or any(barrier.place in state.waits[who] for who in mine):
        return ""
    came = ((who, waits.get(barrier.place)) for who, waits in state.waits.items())
    others = [who for who, wait in came if wait is not None and wait.instr is step.instr and wait.guaranteed >= over]
    if not others:
        return ""
    who, waited = warps(step.warps), warps(warp for _, warp in others)
    return (
        f"mend the index of the barrier in {line(step.instr)}, where each phase is for one warp of those that come: "
        f"{waited} {'has' if len(others) == 1 else 'have'} used phase {over - 1}, for which {who} waits now, and the "
        f"index must count the rounds of both; or, where {who} is to wait for phase {over}, wait for parity {over & 1}"
    )


def _wait_for(state: State, waiter: Warp, other: str, who: str, arrival: Arrival) -> str:
    mine = [one for one in state.mbarriers.values() if (waiter.cta, waiter.index) in one.by and not one.waited]
    which = f"{mine[0].name}, where {who} arrives" if mine else f"an mbarrier on which {who} arrives"
    return f"let {other} wait for {which}, before {line(arrival.instr)}: k.mbarrier.wait"


def given_to_itself(state: State, step: Step, barrier: Mbarrier) -> str:
    """The arrival on another mbarrier of an array, by warps that wait for that one themselves, as a fix; "" for none.

    `step` waits for an mbarrier on which nobody has arrived.
    """
    for other in _stages(state, barrier):
        who = {(one.cta, one.warp): one for phase in (*other.ended, other.arrivals) for one in phase if one.arrivals}
        if not who or other.place[0] != barrier.place[0] or (step.cta, step.warps[0]) in who:
            continue
        if all(other.place in state.waits[one] and not other.brings for one in who):
            there = line(next(iter(who.values())).instr)
            mine = warps(warp for _, warp in who)
            return (
                f"let {mine} arrive on {barrier.name} in {there}, for which {warps(step.warps)} waits, and not on "
                f"{other.name}, for which {mine} wait{'s' if len(who) == 1 else ''} too"
            )
    return ""


def way_back(reader: str, here: str, other: str, arrival: Arrival) -> str:
    """How the warp that fills comes to wait for who reads, which waits in the line `here`."""
    return (
        f"let {reader} arrive on a second mbarrier after it has read what it waits for in {here} "
        f"(k.mbarrier.arrive), and {other} wait for that before {line(arrival.instr)} (k.mbarrier.wait)"
    )


def filled_again(state: State, step: Step, barrier: Mbarrier) -> bool:
    """Whether two rounds came to one phase, bytes and all: the warp that fills does not wait for the readers."""
    first: dict[tuple[int, int, int], Arrival] = {}
    again: list[tuple[Arrival, Arrival]] = []
    for one in barrier.arrivals:
        earlier = first.setdefault((id(one.instr), one.cta, one.warp), one)
        if earlier.rounds != one.rounds:
            again.append((one, earlier))
    filled = next((pair for pair in again if pair[0].brought), None)
    if filled is None or barrier.bytes != sum(one.expected - one.brought for one, _ in again):
        return False
    one, earlier = filled
    reader, other = (f"warp {who}{state.of_cta(cta)}" for who, cta in ((step.warps[0], step.cta), (one.warp, one.cta)))
    state.findings.add(
        *(ACCOUNTING, barrier.name, rules.OVERRUN, one.instr),
        (("this waits for the phase", step.instr.location),),
        now=in_rounds(one.rounds),
        fix=_by_a_way_back(state, barrier, again[0][0]) or way_back(reader, line(step.instr), other, one),
        reason=f"{instruction(one.instr)} of {other} brings bytes to phase {barrier.phase} of {state.named(barrier)}, "
        f"which has those of {earlier.rounds.spoken()} already: nothing makes it wait for {reader}",
    )  # fmt: skip
    return True


def _by_a_way_back(state: State, barrier: Mbarrier, filling: Arrival) -> str:
    """The wait that is missing before a warp fills again, where those who wait for its bytes arrive somewhere."""
    waits = state.waits[filling.cta, filling.warp]
    for one in state.mbarriers.values():
        if one.place[0] != filling.cta or one.brings or one.place in waits or not one.by:
            continue
        if all(barrier.place in state.waits[who] for who in one.by):
            who = warps(warp for _, warp in one.by)
            return (
                f"let warp {filling.warp}{state.of_cta(filling.cta)} wait for {one.name}, "
                f"on which {who} arrive{'s' if len(one.by) == 1 else ''} after reading, before {line(filling.instr)}: "
                "k.mbarrier.wait, for parity 1 first, which passes before any arrival"
            )
    return ""


def _stages(state: State, barrier: Mbarrier) -> list[Mbarrier]:
    """The mbarriers of a ring's array."""
    ring = barrier.name.partition("[")[0]
    return [one for one in state.mbarriers.values() if one.name.partition("[")[0] == ring]


def arrivals_beside(state: State, barrier: Mbarrier) -> str | None:
    """The fix of a wait for a stage on which nobody has arrived, where there are arrivals on another of its ring."""
    other = next((one for one in _stages(state, barrier) if one.by and one.place[0] == barrier.place[0]), None)
    if other is None:
        return None
    first = next(one for phase in (*other.ended, other.arrivals) for one in phase if one.arrivals)
    who = warps(warp for cta, warp in other.by if cta == first.cta)
    return f"let {who}{state.of_cta(first.cta)} arrive on {barrier.name} too, as on {other.name} in {line(first.instr)}"


def gone_to_peers(state: State, barrier: Mbarrier) -> str:
    """The fix of a phase that lacks arrivals, where some go to the same place of CTAs that wait for nothing there."""
    cta, offset = barrier.place
    first = state.cluster_of(cta)
    peers = (state.mbarriers.get((one, offset)) for one in range(first, first + state.launch.cluster))
    astray = [one for one in peers if one is not None and one.by and not one.waited]
    if not astray or not barrier.waited:
        return ""
    arrival, there = next(iter(astray[0].by.values())).instr, listed([f"CTA {one.place[0]}" for one in astray])
    return (
        f"let {line(arrival)} arrive on {barrier.name} of CTA {cta}, with rank={cta - first}: some of its arrivals are "
        f"on that of {there}, for which nobody waits"
    )


def as_many_rounds(state: State, step: Step, barrier: Mbarrier) -> str | None:
    """The fix of a wait in a later round than those who arrive at any stage of its ring made before they ended."""
    rounds, came = step.rounds(), [arrival for one in _stages(state, barrier) for arrival in one.by.values()]
    if not came or not all(state.warps[one.cta, one.warp].ended for one in came):
        return None
    last = max(came, key=lambda one: one.at)
    if len(last.rounds.numbers) != len(rounds.numbers) or not last.rounds.numbers < rounds.numbers:
        return None
    who = f"warp {last.warp}{state.of_cta(last.cta)}"
    return (
        f"make as many rounds in {line(step.instr)} as in {line(last.instr)}: {who}, which arrives there, has ended "
        f"after {last.rounds.spoken()}"
    )


def of_bytes(barrier: Mbarrier) -> str:
    """What is left of the bytes of a phase that does not end, after its arrivals."""
    if barrier.unannounced:
        return f", and its copies have brought {barrier.unannounced} bytes that nothing has announced"
    if barrier.bytes < 0:
        return f", and its copies have brought {-barrier.bytes} bytes more than are announced"
    return f", with {barrier.bytes} bytes still to come" if barrier.bytes else ""
