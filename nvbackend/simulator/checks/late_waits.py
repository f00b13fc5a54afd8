"""Waits that may come too late, and arrivals that may come too early.

A parity tells a phase from the next one alone. A warp that waits for a phase must have passed before the phase after it
completes: then the parity is as before, and the wait hangs. So each wait comes before one of the arrivals of the next
phase, in the order of the clocks. What relaxed arrivals, waits and barriers order, the clocks do not know: nothing is
said of waits that these may order.

A counter that is polled until it is one certain number must not count on before everybody has looked. A thread that has
left a barrier of the grid may count for the next round before another one has looked, if nothing orders its count after
that look. Nothing is said of threads that have written without a release since.

A named barrier opens when its count of threads has come, whichever these are. A warp that comes for one phase while the
phase before may still lack others counts in that one: some go on too early, and the others wait in the next phase. So
each warp comes after all that came for the last phase. Nothing is said of what relaxed writes may have told of.
"""

from __future__ import annotations

import re

import numpy as np

from nvbackend.diagnostics import Location
from nvbackend.simulator.checks import rules
from nvbackend.simulator.checks.clocks import SEEN, Clocks
from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access, By, Site, Sync
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Poll, Wave
from nvbackend.simulator.sync.ended import END
from nvbackend.simulator.sync.mbarriers import Mbarriers

_NOT_RELEASING = ("relaxed", "volatile")
_COUNTS = r"\.(add|inc)\b"
_Look = tuple[int, int, Site, Poll]
"""When a warp looked last, a thread of it, where, and what it compares."""
Place = tuple[int, int]
"""The CTA in the wave, and the offset in its shared memory."""
_Wait = tuple[int, Site, int]
"""When a warp passed, where, and a thread of it."""
_Comers = dict[int, tuple[int, Site]]
"""Of a phase: when each warp came, and where."""


class MissedPhases:
    """The last waits of each warp for the phases of each mbarrier, and who came last in a phase."""

    def __init__(self, wave: Wave, clocks: Clocks) -> None:
        self._wave = wave
        self._clocks = clocks
        self._barriers = wave.part(Mbarriers)
        self._waits: dict[Place, dict[int, dict[int, _Wait]]] = {}
        """Of each phase, the last wait of each warp."""
        self._came: dict[tuple[int, int, int], Site] = {}

    def made(self, place: Place) -> None:
        """A new object, which begins with phase 0."""
        self._waits.pop(place, None)

    def forget(self) -> None:
        """Something orders what has come so far that the clocks do not know."""
        self._waits.clear()

    def came(self, sync: Sync, place: Place, phase: int) -> None:
        """An arrival or bytes in a phase: those before it are complete."""
        self._check(place, phase - 1)
        self._came.pop((*place, phase - 3), None)
        self._came[*place, phase] = sync.by.site

    def waited(self, sync: Sync, place: Place, phase: int) -> None:
        """Threads have passed a phase."""
        self._check(place, phase)
        waits = self._waits.setdefault(place, {}).setdefault(phase, {})
        warps, first = np.unique(sync.by.threads // WARP, return_index=True)
        for warp, lane in zip(warps.tolist(), first.tolist(), strict=True):
            waits[warp] = self._clocks.now, sync.by.site, int(sync.by.threads[lane])

    def _check(self, place: Place, complete: int) -> None:
        """Compare the waits for the phase before a complete one with what the arrivals of that one had seen."""
        known = self._waits.get(place)
        if not known:
            return
        for phase in [one for one in known if one < complete]:
            waits = known.pop(phase)
            row = self._clocks.published(("mbarrier", *place, phase + 1))
            if row is None or self._barriers.has_relaxed:
                continue
            for warp, (time, site, thread) in waits.items():
                if row[SEEN, warp] < time:
                    self._fail(place, phase, site, thread)

    def _fail(self, place: Place, phase: int, site: Site, thread: int) -> None:
        came = self._came.get((*place, phase + 1))
        notes: tuple[tuple[str, Location | None], ...] = ((f"PTX {site}", None),)
        if came is not None:
            notes += ((f"this comes last in phase {phase + 1} (PTX {came})", came.origin),)
        rules.MISSED_PHASE.fail(
            at=site.location,
            notes=notes,
            thread=self._wave.thread_name(thread),
            place=f"the mbarrier {self._wave.shared_name(place[1])} of CTA {place[0]}",
            phase=phase,
            following=phase + 1,
        )


class MissedCounts(Watching):
    """The observer of one wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._clocks = wave.part(Clocks)
        self._looks: dict[int, dict[int, _Look]] = {}
        """By the address of the counter: the last look of each warp."""

    def access(self, access: Access) -> None:
        """A look at a counter, or a count on it."""
        by = access.by
        if access.space != "global" or by.operation is not None:
            return
        if access.kind == "read":
            if by.order == "acquire" and (poll := self._wave.polls().get(by.site)) is not None:
                self._look(access, poll)
        elif self._looks:
            if access.kind == "atomic" and re.search(_COUNTS, by.site.text):
                self._count(access)
            if by.order in _NOT_RELEASING:
                self._forget(access)

    def _look(self, access: Access, poll: Poll) -> None:
        by = access.by
        for thread, address in _pairs(access):
            self._looks.setdefault(address, {})[thread // WARP] = self._clocks.now, thread, by.site, poll

    def _count(self, access: Access) -> None:
        """Each thread that has seen its number has done so before the next count."""
        for thread, address in _pairs(access):
            for warp, (time, other, site, poll) in self._looks.get(address, {}).items():
                has_left = bool(self._wave.registers[poll.predicate][other]) is not poll.again
                if warp != thread // WARP and has_left and self._clocks.rows[thread // WARP, SEEN, warp] < time:
                    self._fail(access.by, thread, other, site)

    def _forget(self, access: Access) -> None:
        """Others may be ordered after these threads by what they write."""
        for looks in self._looks.values():
            for warp in np.unique(access.by.threads // WARP).tolist():
                looks.pop(warp, None)

    def _fail(self, by: By, thread: int, other: int, site: Site) -> None:
        rules.MISSED_COUNT.fail(
            at=site.location,
            notes=((f"PTX {site}", None), (f"it counts here (PTX {by.site})", by.site.origin)),
            thread=self._wave.thread_name(other),
            counting=self._wave.thread_name(thread),
        )


class CrowdedBarriers(Watching):
    """The observer of one wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._clocks = wave.part(Clocks)
        self._mbarriers = wave.part(Mbarriers)
        self._phases: dict[tuple[int, int], dict[int, _Comers]] = {}
        """By CTA and number: who came for the last two phases."""

    def release(self, sync: Sync) -> None:
        """Threads come to a barrier; what they did before is published after this."""
        if not isinstance(sync.token, tuple):
            return
        kind, *place = sync.token
        if kind == "barrier" and END not in place:
            cta, number, phase = map(int, place)
            self._come(sync.by, (cta, number), phase)
        elif kind == "cluster" and sync.by.order == "relaxed":
            self._phases.clear()

    def access(self, access: Access) -> None:
        """What a relaxed write may have told others of."""
        by = access.by
        if access.kind == "read" or by.operation is not None or by.order not in _NOT_RELEASING or not self._phases:
            return
        for warp in np.unique(by.threads // WARP).tolist():
            seen = self._clocks.rows[warp, SEEN]
            for phases in self._phases.values():
                for comers in phases.values():
                    for other in [one for one, (time, _) in comers.items() if one == warp or seen[one] >= time]:
                        del comers[other]

    def _come(self, by: By, key: tuple[int, int], phase: int) -> None:
        phases = self._phases.setdefault(key, {})
        for old in [one for one in phases if one < phase - 1]:
            del phases[old]
        last, now = phases.get(phase - 1, {}), phases.setdefault(phase, {})
        warps, first = np.unique(by.threads // WARP, return_index=True)
        for warp, lane in zip(warps.tolist(), first.tolist(), strict=True):
            if not self._mbarriers.has_relaxed:
                seen = self._clocks.rows[warp, SEEN]
                early = next((one for one, (time, _) in last.items() if one != warp and seen[one] < time), None)
                if early is not None:
                    self._fail(by, key, int(by.threads[lane]), early, last[early][1])
            now[warp] = self._clocks.now, by.site

    def _fail(self, by: By, key: tuple[int, int], thread: int, early: int, site: Site) -> None:
        notes: tuple[tuple[str, Location | None], ...] = ((f"PTX {by.site}", None),)
        notes += ((f"it comes for the phase before here (PTX {site})", site.origin),)
        rules.BARRIER_CROWD.fail(
            at=by.site.location,
            notes=notes,
            thread=self._wave.thread_name(thread),
            barrier=key[1],
            cta=key[0],
            other=self._wave.thread_name(early * WARP),
            site=site,
        )


def _pairs(access: Access) -> list[tuple[int, int]]:
    """The threads, each with its address."""
    threads = np.broadcast_to(access.by.threads, access.addresses.shape)
    return list(zip(threads.tolist(), access.addresses.tolist(), strict=True))
