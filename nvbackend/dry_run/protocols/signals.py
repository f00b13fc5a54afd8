"""Steps on mbarriers: initialise, arrive, expect bytes, bring them, wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ACCOUNTING, EARLY, PARITY
from nvbackend.dry_run.objects.mbarriers import Arrival, Invalidated, Mbarrier, Place, Wait
from nvbackend.dry_run.order.events import Known, Warp
from nvbackend.dry_run.order.footprints import lanes_of, multicast_mask, number
from nvbackend.dry_run.order.naming import after_rounds, counted, in_rounds, instruction, line, touch_of
from nvbackend.dry_run.order.record import Part
from nvbackend.dry_run.protocols.announcements import announced_in_time
from nvbackend.dry_run.protocols.lifetimes import MBARRIER_BYTES, Overwritten, is_none
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import BLOCKED, DONE, RANK_SHIFT, Outcome, Step, Unknown
from nvbackend.dry_run.values.lanes import lanes_in
from nvbackend.intrinsics.row.semantics import BARRIER, Completion, MbarrierUse

_FIELD = 1 << 32
_TRIES = 40
"""A loop that polls this often and goes on without success is one that gives up."""


class Signals:
    """The mbarriers of a run, and the waits for them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.overwritten = Overwritten(state)
        self._polled: dict[tuple[int, int], tuple[int, Place]] = {}
        """Each warp's last poll, if the warp has done nothing since."""
        self._spun: set[int] = set()
        self._tries = 0
        """How often the poll that is tried now still fails: at its first place often, since some give up."""

    def execute(self, step: Step) -> Outcome:
        """A warp does something with an mbarrier."""
        if step.facts.waits:
            return self._wait(step)
        use = step.instr.semantics.mbarrier
        assert use is not None
        if MbarrierUse.INIT in use:
            return self._init(step)
        return self._invalidate(step) if MbarrierUse.INVAL in use else self._change(step)

    def went_on(self, warp: Warp) -> None:
        """A warp does something other than polling."""
        if self._polled:
            self._polled.pop((warp.cta, warp.index), None)

    def places(
        self, step: Step, mask: int | None = None, *, of_pairs: bool = False
    ) -> Iterator[tuple[Place, int, int]] | None:
        """The mbarriers that a step uses, which lanes use each, and how often in all; None where that is not known.

        With `mask` that of each CTA, or `of_pairs` that of the CTA in its pair which has the parity of the barrier's.
        """
        value = lanes_of(step.value(BARRIER), step.lanes)
        if isinstance(value, Unknown):
            self._state.findings.lost = True
            return None
        if isinstance(value, int):
            found = [(value, step.lanes)]
        else:
            uses: dict[int, int] = {}
            for address, lane in zip(value, lanes_in(step.lanes), strict=True):
                uses[address] = uses.get(address, 0) | 1 << lane
            found = sorted(uses.items())
        if mask is None:
            return ((self._state.place(step, address), lanes, lanes.bit_count()) for address, lanes in found)
        ranks = [rank for rank in range(self._state.launch.cluster) if mask >> rank & 1]
        base, keep, odd = self._state.cluster_of(step.cta), ~1 if of_pairs else ~0, int(of_pairs)
        reached: dict[Place, tuple[int, int]] = {}
        for address, lanes in found:
            cta, offset = self._state.place(step, address)
            for rank in ranks:
                place = base + (rank & keep | cta - base & odd), offset
                others, times = reached.get(place, (0, 0))
                reached[place] = others | lanes, times + lanes.bit_count()
        return ((place, *several) for place, several in reached.items())

    def at(self, step: Step, place: Place) -> Mbarrier | None:
        """The mbarrier at a place, known to be initialised to the warp of the step."""
        state, found = self._state, self._state.mbarriers.get(place)
        warp = state.warp(step)
        if place[1] >> RANK_SHIFT and state.launch.cluster > 1:
            state.findings.lost = True  # it may be a peer's, of a rank computed from parameters that the run chose
            return None
        extents = state.memory.extents
        if not extents.holds(step.instr, BARRIER, place[1], MBARRIER_BYTES):
            from nvbackend.dry_run.protocols.explain import leaves

            outside = extents.leaves(Part(step.instr, place[1], MBARRIER_BYTES, BARRIER))
            assert outside is not None
            who = f"{instruction(step.instr)} of warp {warp.index}"
            leaves(state, step.instr, *outside, who, step.rounds())
            state.findings.lost = True
            return None
        if found is None and not state.mbarriers and not state.invalidated:
            state.findings.lost = True  # a part of a kernel, whose mbarriers others initialise
            return None
        if found is None:
            is_none(state, step, place)
            state.findings.lost = True
            return None
        if not warp.seen & found.init:
            state.findings.add(
                *(ACCOUNTING, str(place), rules.NOT_READY, step.instr),
                (("it is initialised here", found.instr.location),),
                now=in_rounds(step.rounds()), instruction=instruction(step.instr), warp=warp.index, cta=warp.cta,
                barrier=found.name, line=line(found.instr),
            )  # fmt: skip
        return found

    def _init(self, step: Step) -> Outcome:
        count, places = number(step.value("count"), step.lanes), self.places(step)
        if count is None or places is None:
            self._state.findings.lost = True
            return DONE
        warp, touch = self._state.warp(step), touch_of(step.instr, BARRIER)
        for place, lanes, _ in places:
            if place[0] == warp.cta:
                self._state.memory.names.learn(touch, place[1])
            name = self._state.memory.names.name(touch, place[1])
            if touch is not None:
                self.overwritten.holds(touch.object)
            known = self._state.mbarriers.get(place)
            if known is not None or lanes & lanes - 1:
                reason = f"in {lanes.bit_count()} of its threads" if known is None else "which is an mbarrier already"
                notes = () if known is None else (("it is initialised here", known.instr.location),)
                self._state.findings.add(
                    *(ACCOUNTING, str(place), rules.DOUBLE_INIT, step.instr, notes),
                    now=in_rounds(step.rounds()), warp=warp.index, barrier=name, reason=reason,
                )  # fmt: skip
            event = warp.mark()
            warp.inits |= event
            self._state.mbarriers[place] = Mbarrier(place, name, count, event, step.instr, count)
        return DONE

    def _invalidate(self, step: Step) -> Outcome:
        for place, *_ in self.places(step) or ():
            barrier = self.at(step, place)
            if barrier is not None:
                warp = self._state.warp(step)
                del self._state.mbarriers[place]
                self._state.invalidated[place] = Invalidated(barrier.name, step.instr, warp.index, warp.mark())
        return DONE

    def _change(self, step: Step) -> Outcome:
        """Arrivals, announced bytes, and bytes that a thread completes itself."""
        said, facts = step.instr.semantics, step.facts
        mask = multicast_mask(step, self._state.launch.cluster)
        places = None if mask == -1 else self.places(step, mask)
        bytes = number(step.value("bytes"), step.lanes) if "bytes" in facts.operands else 0
        count = number(step.value("count"), step.lanes) if "count" in facts.operands else 1
        if places is None or bytes is None or count is None:
            self._state.findings.lost = True
            return DONE
        bytes = bytes - _FIELD if bytes >= _FIELD >> 1 else bytes
        warp, states = self._state.warp(step), 0
        for place, lanes, times in places:
            barrier = self.at(step, place)
            if barrier is None:
                return DONE
            states = barrier.phase
            told = self._state.memory.tells(warp, lanes, step.instr) if facts.arrives else 0
            told |= warp.order.tell(lanes, self._state.events.new)
            tracked = self._tracked(step, warp)
            arrival = Arrival(step.instr, step.rounds(), warp.cta, warp.index)
            if facts.arrives:
                self._early(step, warp, barrier)
                self._state.is_relaxed |= facts.is_relaxed
                known = warp.tell_relaxed() if facts.is_relaxed else warp.tell(lanes)
                barrier.tell((known[0] | tracked | told, known[1]), warp.mark())
                arrival.arrivals, arrival.at = times * count, self._state.events.count
                arrival.seen = warp.told_by(lanes) | told
            if facts.expects:
                arrival.expected = bytes * times
                arrival.announced = 0 if facts.arrives else warp.mark()
            if facts.completes:
                arrival.brought = bytes * times
                known = warp.tell()
                barrier.tell((known[0] | told, known[1]), warp.mark())
            drops = facts.recounts and said.tracks is None
            adds = facts.recounts and said.tracks is not None
            self.apply(
                *(step, warp, barrier, arrival),
                drops=arrival.arrivals if drops else 0,
                adds=arrival.arrivals if adds else 0,
            )
        return {"state": states} if "state" in facts.operands else DONE

    def _tracked(self, step: Step, warp: Warp) -> int:
        """The events of the operations that the arrival waits for."""
        tracks = step.instr.semantics.tracks
        if tracks is Completion.COMMIT:
            from nvbackend.dry_run.protocols.hand_overs import tracked

            return tracked(self._state, step) | self._state.tensor_commits[warp.cta, warp.index]
        return 0 if tracks is None else self._state.groups_of(warp, tracks).tracked(step.lanes)

    def apply(
        self, step: Step, warp: Warp, barrier: Mbarrier, arrival: Arrival, *, drops: int = 0, adds: int = 0
    ) -> None:
        """What comes to the current phase: first bytes to come, then arrivals, then bytes that have come."""
        barrier.arrivals.append(arrival)
        if arrival.arrivals:
            barrier.by[arrival.cta, arrival.warp] = arrival
            key = id(arrival.instr), arrival.rounds
            barrier.together[key] = barrier.together.get(key, 0) + arrival.arrivals
        barrier.brings |= arrival.brought > 0
        barrier.bytes += arrival.expected - arrival.brought
        barrier.pending += adds
        left = arrival.arrivals
        if left > barrier.pending and not self._again(step, warp, barrier, arrival):
            came = barrier.count - barrier.pending
            self._state.findings.add(
                *(ACCOUNTING, barrier.name, rules.ARRIVALS, step.instr),
                tuple((f"{instruction(one.instr)} of warp {one.warp} arrives in the same phase", one.instr.location)
                      for one in barrier.arrivals[:-1][:2] if one.arrivals),
                now=in_rounds(arrival.rounds), barrier=self._state.named(barrier),
                count=counted(barrier.count, "arrival"),
                reason=f"{left} more come here in phase {barrier.phase}, after {came}",
                fix=partial(_fewer, barrier, barrier.count, arrival, barrier.arrivals[:-1]),
            )  # fmt: skip
        left = min(left, barrier.pending)
        barrier.count -= drops
        barrier.pending -= left
        if barrier.advance(warp):
            announced_in_time(self._state, barrier)
            if overtaken := self._state.overtaken(barrier):
                from nvbackend.dry_run.protocols.overruns import may_be_missed

                may_be_missed(self._state, barrier, *overtaken)

    def _again(self, step: Step, warp: Warp, barrier: Mbarrier, arrival: Arrival) -> bool:
        """Whether a warp that comes to a full phase came to it in another round: it does not wait for its end."""
        mine = [one for one in barrier.arrivals[:-1] if (one.cta, one.warp) == (warp.cta, warp.index)]
        before = next((one for one in mine if one.instr is step.instr and one.rounds != arrival.rounds), None)
        if before is None:
            return False
        if not self._announced_alone(barrier, before):
            self.unwaited(arrival, barrier, barrier.phase, before)
        return True

    def _announced_alone(self, barrier: Mbarrier, before: Arrival) -> bool:
        """Whether a warp announced bytes in the phase and brought none, as it did in others: it is stuck by that."""
        now = barrier.arrivals[:-1]
        mine = [
            one for phase in (*barrier.ended, now) for one in phase if (one.cta, one.warp) == (before.cta, before.warp)
        ]
        copies = [one for one in mine if one.brought]
        expected, brought = sum(one.expected for one in now), sum(one.brought for one in now)
        if not copies or expected <= brought or any(one in now for one in copies):
            return False
        first = next(one for one in now if one.expected)
        self._state.findings.add(
            *(ACCOUNTING, barrier.name, rules.BYTES, first.instr),
            (("a copy of another round", copies[-1].instr.location),),
            now=in_rounds(first.rounds), phase=barrier.phase, barrier=self._state.named(barrier),
            expected=expected, brought=brought,
            fix=f"announce bytes in {line(first.instr)} in those rounds alone in which {line(copies[-1].instr)} copies",
        )  # fmt: skip
        return True

    def unwaited(self, arrival: Arrival, barrier: Mbarrier, phase: int, before: Arrival) -> None:
        """The finding of a second arrival of a warp in a phase."""
        warp = self._state.warps[arrival.cta, arrival.warp]
        self._state.findings.add(
            *(ACCOUNTING, barrier.name, rules.UNWAITED, arrival.instr),
            ((f"an arrival of phase {phase}{after_rounds(before.rounds)}", before.instr.location),),
            now=in_rounds(arrival.rounds), warp=warp.index, barrier=self._state.named(barrier, warp.cta), last=phase,
            fix=self._after(warp, barrier, phase, line(arrival.instr)), waited=self._last_wait(warp, barrier),
        )  # fmt: skip

    def _after(self, warp: Warp, barrier: Mbarrier, phase: int, place: str) -> str:
        """How a warp comes after a phase. It cannot wait at an mbarrier of another CTA."""
        name, cta = self._state.named(barrier, warp.cta), barrier.place[0]
        if cta == warp.cta:
            return f"let warp {warp.index} wait for phase {phase} of {name} before {place}: k.mbarrier.wait"
        return (
            f"let CTA {cta} wait for phase {phase} there, and then tell warp {warp.index} of CTA {warp.cta}, by a copy "
            "to both (multicast=True) or by k.mbarrier.arrive with rank=, on an mbarrier for which it waits before "
            f"{place}"
        )

    def _last_wait(self, warp: Warp, barrier: Mbarrier) -> str:
        waited = self._state.waits[warp.cta, warp.index].get(barrier.place)
        return "it has never waited for it" if waited is None else f"its last wait is for {waited.wanted}"

    def _early(self, step: Step, warp: Warp, barrier: Mbarrier) -> None:
        """An arrival by a warp that may come one phase too early."""
        if barrier.knows_last(warp):
            return
        last = next((one for one in barrier.last if one.arrivals), None)
        rounds = step.rounds()
        many = any(one.instr is step.instr and one.rounds == rounds for one in barrier.last)
        twice = any(one.instr is other.instr and (one.cta, one.warp) == (other.cta, other.warp)
                    for at, one in enumerate(barrier.last) if one.arrivals for other in barrier.last[:at])  # fmt: skip
        many &= not twice
        guard = self._state.guards.get((warp.cta, warp.index))
        if guard is not None and not guard.learnt and guard.guaranteed and not many:
            from nvbackend.dry_run.protocols.explain import right_parity

            self._state.findings.add(
                *(PARITY, guard.barrier.name, rules.PARITY, guard.instr),
                ((f"what relies on it: {instruction(step.instr)}", step.instr.location),),
                now=in_rounds(guard.rounds), warp=warp.index, wanted=guard.wanted, barrier=guard.barrier.name,
                reason=f"phase {guard.guaranteed - 1} is over already, so it returns at once, and the arrival on "
                f"{self._state.named(barrier, warp.cta)} of {line(step.instr)} needs phase {guard.guaranteed}",
                fix=right_parity(guard.guaranteed),
            )  # fmt: skip
            return
        notes = () if last is None else ((f"an arrival of phase {barrier.phase - 1}", last.instr.location),)
        self._state.findings.add(
            *(EARLY, barrier.name, rules.UNWAITED, step.instr, notes),
            now=in_rounds(rounds), warp=warp.index, barrier=self._state.named(barrier, warp.cta),
            last=barrier.phase - 1, fix=self._after(warp, barrier, barrier.phase - 1, line(step.instr)),
            waited=self._last_wait(warp, barrier),
        )  # fmt: skip
        if not many:
            return
        key, count, over = (id(step.instr), rounds), barrier.count, barrier.phase - 1
        self._state.findings.add(
            *(ACCOUNTING, barrier.name, rules.ARRIVALS, step.instr, notes),
            holds=lambda: barrier.together[key] > count,
            now=in_rounds(rounds), barrier=self._state.named(barrier), count=counted(count, "arrival"),
            reason=lambda: f"{line(step.instr)} alone makes {barrier.together[key]} in one round: phase {over} is over "
            f"before warp {warp.index}{self._state.of_cta(warp.cta)} arrives",
            fix=lambda: f"initialise {barrier.name} to {barrier.together[key]}, the arrivals of one phase",
        )  # fmt: skip

    def _wait(self, step: Step) -> Outcome:
        by_parity, polls = "parity" in step.facts.operands, step.facts.polls
        warp = self._state.warp(step)
        warp.close()
        places = self.places(step)
        wanted = number(step.value("parity" if by_parity else "state"), step.lanes)
        if places is None or wanted is None:
            self._state.findings.lost = True
            return {"done": 1} if polls else DONE
        found = [(self.at(step, place), lanes) for place, lanes, _ in places]
        barriers = [barrier for barrier, _ in found]
        if any(barrier is None for barrier in barriers):
            return {"done": 1} if polls else DONE
        if step.instr is self._state.launch.inverted:
            wanted ^= 1
        if by_parity and wanted > 1:
            self._state.findings.add(
                *(ACCOUNTING, "parity", rules.PARITY_VALUE, step.instr, ()),
                now=in_rounds(step.rounds()), instruction=instruction(step.instr), warp=warp.index, wanted=wanted,
                barrier=barriers[0].name if barriers[0] is not None else "", right=wanted & 1,
            )  # fmt: skip
        for barrier in barriers:
            assert barrier is not None
            barrier.waited = True
        if polls:
            assert barriers[0] is not None
            key, poll = (warp.cta, warp.index), (id(step.instr), barriers[0].place)
            if self._polled.get(key) != poll:
                self._polled[key] = poll
                self._tries = 1 if poll[0] in self._spun else _TRIES
                self._spun.add(poll[0])
            self._tries -= 1
            if self._tries >= 0:
                self._state.asked.add((*key, barriers[0].place))
                return {"done": 0}
        if not all(_passes(barrier, wanted, by_parity) for barrier in barriers if barrier is not None):
            if by_parity:
                self._missed(step, warp, [barrier for barrier in barriers if barrier is not None], wanted & 1)
            return BLOCKED
        for barrier, lanes in found:
            assert barrier is not None
            self._leave(step, warp, barrier, wanted, lanes)
        self._polled.pop((warp.cta, warp.index), None)
        return {"done": 1} if polls else DONE

    def _missed(self, step: Step, warp: Warp, barriers: Sequence[Mbarrier], parity: int) -> None:
        """A wait for a phase that is known to be over, while the next one is over too: it comes too late."""
        for barrier in barriers:
            over = barrier.over(warp)
            if not barrier.has_passed(parity) and over & 1 != parity:
                from nvbackend.dry_run.protocols.explain import right_parity
                from nvbackend.dry_run.protocols.overruns import never_waits, reads_too_early, taken_by_others

                if never_waits(self._state, step, warp, barrier, over) or reads_too_early(self._state, barrier, over):
                    continue
                last = barrier.last[0]
                self._state.findings.add(
                    *(PARITY, barrier.name, rules.PARITY, step.instr),
                    ((f"{instruction(last.instr)} came in phase {barrier.phase - 1}", last.instr.location),),
                    now=in_rounds(step.rounds()), warp=warp.index, wanted=f"parity {parity}", barrier=barrier.name,
                    reason=f"it needs phase {over} now; this wait returns at once until that is over, and then waits "
                    f"for phase {over + 1}",
                    fix=taken_by_others(self._state, step, barrier, over) or right_parity(over),
                )  # fmt: skip

    def _leave(self, step: Step, warp: Warp, barrier: Mbarrier, wanted: int, lanes: int) -> None:
        over, by_parity = barrier.over(warp), "parity" in step.facts.operands
        guaranteed = (over if over & 1 != wanted & 1 else over + 1) if by_parity else wanted + 1
        guaranteed = min(guaranteed, barrier.phase)
        learnt = guaranteed > over
        if guaranteed:
            seen, fenced = barrier.known[guaranteed - 1]
            known: Known = seen, fenced
            if step.facts.is_relaxed:
                warp.heard = warp.heard[0] | seen, warp.heard[1] | fenced
                known = seen & self._state.events.starts, 0
            warp.learn(known, lanes)
        words = f"parity {wanted}" if by_parity else f"the token of phase {wanted}"
        self._state.asked.discard((warp.cta, warp.index, barrier.place))
        event, now = warp.mark_wait() if by_parity else 0, self._state.events.count
        wait = Wait(barrier, step.instr, step.rounds(), words, guaranteed, learnt, now, warp.index, event)
        self._state.waits[warp.cta, warp.index][barrier.place] = wait
        self._state.passed[(warp.cta, warp.index), barrier.place] += 1
        self._state.guards[warp.cta, warp.index] = wait


def _fewer(barrier: Mbarrier, count: int, last: Arrival, before: Sequence[Arrival]) -> str:
    """What mends arrivals, the `last` of them, that are too many for a phase, when the run is over: it shows all."""
    same = last.arrivals + sum(one.arrivals for one in before if one.instr is last.instr)
    others = sum(one.arrivals for one in before if one.instr is not last.instr)
    all_ = others + max(same, barrier.together[id(last.instr), last.rounds])
    return (
        f"initialise {barrier.name} to {all_}, or let fewer threads arrive, {count} in all: one of each warp, with "
        "when=k.elect(), or one of several warps"
    )


def _passes(barrier: Mbarrier, wanted: int, by_parity: bool) -> bool:
    return barrier.has_passed(wanted & 1) if by_parity else barrier.phase > wanted
