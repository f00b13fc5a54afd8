"""Warps that complete phases and do not wait for those who wait for them, or that have ended before these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, MISSED, ORDER
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier, Wait
from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.naming import counted, in_rounds, instruction, line, listed, warps
from nvbackend.dry_run.protocols.explain import returns_early
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.isel.machine.function import MemoryUse

_GROUP = WARPGROUP_SIZE // WARP_SIZE
_LARGEST_ELEMENT = 16
"""Bytes of the largest element of an array; a tile, the part of an array of them, has more."""
_Warp = tuple[int, int]


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


def may_be_missed(state: State, barrier: Mbarrier, who: _Warp, wait: Wait, came: Sequence[Arrival]) -> None:
    """The finding of a wait for the phase before the one that has just ended, to which those who `came` do not wait."""
    over = barrier.phase - 1
    warp, other = (f"warp {index}{state.of_cta(cta)}" for cta, index in (who, (came[-1].cta, came[-1].warp)))
    asks = f"waits for phase {over - 1} of {barrier.name}"
    asks = asks if over else f"waits for {wait.wanted} of {barrier.name}, which lets it go on until phase 0 is over"
    everybody = {who, *((one.cta, one.warp) for one in came)}
    state.findings.add(
        *(MISSED, barrier.name, rules.OVERRUN, wait.instr),
        ((f"{instruction(came[-1].instr)} of {other} comes in phase {over}", came[-1].instr.location),),
        now=in_rounds(wait.rounds), holds=partial(_have_no_atomics, state, everybody),
        reason=f"{warp} {asks}, and nothing makes {other}, which comes in "
        f"phase {over}, wait until {warp} has passed: later it would wait for phase {over + 1}",
        fix=f"let {other} wait for {warp} before {line(came[-1].instr)}, by an mbarrier on which {warp} arrives "
        f"after {line(wait.instr)}",
    )  # fmt: skip


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
        f"correct the index of the barrier in {line(step.instr)}, where each phase is for one warp of those that come: "
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
    for other in stages(state, barrier):
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


def stages(state: State, barrier: Mbarrier) -> list[Mbarrier]:
    """The mbarriers of a ring's array."""
    ring = barrier.name.partition("[")[0]
    return [one for one in state.mbarriers.values() if one.name.partition("[")[0] == ring]


def arrivals_beside(state: State, step: Step, barrier: Mbarrier) -> str | None:
    """The fix of a wait for a stage on which nobody has arrived, where there are arrivals on another of its ring."""
    other = next((one for one in stages(state, barrier) if one.by and one.place[0] == barrier.place[0]), None)
    if other is None:
        return None
    first = next(one for phase in (*other.ended, other.arrivals) for one in phase if one.arrivals)
    if (step.cta, step.warps[0]) in other.by:
        own = f"warp {step.warps[0]}{state.of_cta(step.cta)}"
        return (
            f"let {own} wait for {other.name}, on which it arrives in {line(first.instr)}; no thread both fills and "
            "drains a ring of k.pipeline: fill it in another warp, or use ring.steps(count, fetch)"
        )
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
    rounds, came = step.rounds(), [arrival for one in stages(state, barrier) for arrival in one.by.values()]
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


def of_one_round(arrivals: Sequence[Arrival]) -> tuple[int, int]:
    """The bytes that one round announces in a phase, and those that its copies bring.

    Bytes that are announced wrongly let the copies of the next round come in the same phase.
    """
    first: dict[tuple[int, int, int], Arrival] = {}
    for one in arrivals:
        first.setdefault((id(one.instr), one.cta, one.warp), one)
    rounds = [one for one in arrivals if one.rounds == first[id(one.instr), one.cta, one.warp].rounds]
    expected, brought = (sum(counts) for counts in zip(*((one.expected, one.brought) for one in rounds), strict=True))
    if expected == brought:
        return sum(one.expected for one in arrivals), sum(one.brought for one in arrivals)
    return expected, brought


def larger_than_its_tile(arrivals: Sequence[Arrival]) -> str:
    """The first copy that brings more than there is room for in its part of an array."""
    for one in arrivals:
        for touch in one.instr.memory if one.brought else ():
            size = touch.object.element_bytes
            if touch.use is MemoryUse.ASYNC_WRITE and _LARGEST_ELEMENT < size < one.brought:
                return f"it brings {one.brought} bytes to {touch.object.name}, whose parts have {size}"
    return ""


def in_peer(twin: Mbarrier, peer: int) -> str:
    """The fix of what arrives on one CTA's mbarrier and not on that of another CTA at the same place."""
    arrival = next(iter(twin.by.values())).instr
    how = f"rank={peer} in another arrival" if arrival.semantics.tracks is None else f"bit {peer} of its multicast_mask"
    return f"let {line(arrival)} arrive on {twin.name} of CTA {peer} too, as on that of CTA {twin.place[0]}: {how}"


class Unequal(NamedTuple):
    """What both sides did, and a fix."""

    reason: str
    fix: str


def steps_of_both(state: State, step: Step, barrier: Mbarrier) -> Unequal | None:
    """The steps of both sides of a ring, where a step waits for more, and all who arrive there have ended."""
    ring = stages(state, barrier)
    last = _arrived(ring)
    over, who = sum(one.phase for one in ring), (step.cta, step.warps[0])
    waited = _waited(state, ring, who)
    if state.launch.ctas > 1 or not over or not last or not waited.keys().isdisjoint(last):
        return None
    if not all(state.warps[one].ended for one in last):
        return None
    here, there = line(step.instr), line(next(iter(last.values()))[-1].instr)
    if not _dealt_to(waited, over) and over not in (waited[who], waited[who] - len(ring)):
        return None
    came = _each({one: len(several) for one, several in last.items()}, over)
    done, was = counted(over, "step"), "was" if over == 1 else "were"
    if waited[who] <= over:
        reason = f"{done} {was} filled in {there}{came}, which {_have(last)} ended"
        return Unequal(reason, _of_drained(waited, last, over, here, there))
    reason = f"{done} {was} given back in {there}{came}, which {_have(last)} ended"
    rounds = _as_many_rounds(last, over, waited.keys(), there, here)
    return Unequal(reason, _of_filled(state, who, last, here, there) or rounds)


def _of_drained(
    waited: Mapping[_Warp, int], last: Mapping[_Warp, Sequence[Arrival]], over: int, here: str, there: str
) -> str:
    """The fix of a ring whose readers begin a step more than is filled."""
    several = _dealt_to(waited, over)
    if not several:
        return _as_many_rounds(last, over, waited.keys(), here, there)
    return (
        f"let {_named(waited)} take only steps of their own in {here}, where these took {over} together"
        f"{_each(waited, over)}: deal the tiles: of k.range(first, tiles, step) each takes "
        f"k.range(first + warpgroup * step, tiles, {several} * step); or fill as many in {there} as all of them take"
    )


def _of_filled(state: State, who: _Warp, last: Mapping[_Warp, Sequence[Arrival]], here: str, there: str) -> str:
    """The fix of stages that readers have waited for and not given back; "" where they have given back all."""
    filled = [one for one in state.mbarriers.values() if who in one.by]
    taken = {one: sum(state.passed[one, each.place] for each in filled) for one in last}
    kept = {one: taken[one] - len(several) for one, several in last.items() if taken[one] > len(several)}
    if not kept:
        return ""
    more = sum(kept.values())
    return (
        f"give back in {there} each step that is filled in {here}: {counted(more, 'step')} "
        f"{'was' if more == 1 else 'were'} kept{_each(kept, more)}"
    )


def _as_many_rounds(last: Collection[_Warp], over: int, others: Collection[_Warp], shorter: str, longer: str) -> str:
    """That both loops shall make as many rounds."""
    begin = "begins" if len(others) == 1 else "begin"
    return (
        f"make as many rounds in {shorter} as in {longer}: {_named(last)} {_have(last)} ended after "
        f"{counted(over, 'step')}, and {_named(others)} {begin} another"
    )


def _arrived(ring: Sequence[Mbarrier]) -> dict[_Warp, list[Arrival]]:
    """The arrivals of each warp at a ring."""
    found: dict[_Warp, list[Arrival]] = {}
    for one in ring:
        for arrival in (arrival for phase in (*one.ended, one.arrivals) for arrival in phase if arrival.arrivals):
            found.setdefault((arrival.cta, arrival.warp), []).append(arrival)
    return found


def _waited(state: State, ring: Sequence[Mbarrier], who: _Warp) -> dict[_Warp, int]:
    """How many of the waits of each warp for a ring have passed; `who` waits there now."""
    found = {one: sum(state.passed[one, each.place] for each in ring) for one in state.warps}
    return {one: number for one, number in found.items() if number or one == who}


def _dealt_to(waited: Mapping[_Warp, int], over: int) -> int:
    """To how many warpgroups, or warps, the steps were dealt; 0 where several had the same one."""
    groups = {(cta, warp // _GROUP): number for (cta, warp), number in waited.items()}
    is_alike = all(groups[cta, warp // _GROUP] == number for (cta, warp), number in waited.items())
    for numbers in (groups.values(), waited.values()) if is_alike else (waited.values(),):
        if len(numbers) > 1 and sum(numbers) == over and max(numbers) < over:
            return len(numbers)
    return 0


def _named(several: Iterable[_Warp]) -> str:
    return warps(warp for _, warp in several)


def _have(several: Collection[_Warp]) -> str:
    return "has" if len(several) == 1 else "have"


def _each(numbers: Mapping[_Warp, int], all_: int) -> str:
    """How many of them each warp has, or each warpgroup whose warps have as many: ", 3 by warp 4 and 5 by warp 8"."""
    by_warp = sum(numbers.values()) == all_  # else each number is of a whole warpgroup
    groups: dict[tuple[int, int, int], list[int]] = {}
    for (cta, warp), number in sorted(numbers.items()):
        groups.setdefault((cta, warp if by_warp else warp // _GROUP, number), []).append(warp)
    if len(groups) == 1 and all(number == all_ for _, _, number in groups):
        return f" by {_named(numbers)}"
    return ", " + listed([f"{number} by {warps(several)}" for (_, _, number), several in groups.items()])
