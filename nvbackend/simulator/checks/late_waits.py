"""Waits that may come too late: a parity tells a phase from the next one alone.

A warp that waits for a phase must have passed before the phase after it completes: then the parity is as before, and
the wait hangs. So each wait comes before one of the arrivals of the next phase, in the order of the clocks. What
relaxed arrivals, waits and barriers order, the clocks do not know: nothing is said of waits that these may order.
"""

from __future__ import annotations

import numpy as np

from nvbackend.diagnostics import Location
from nvbackend.simulator.checks import rules
from nvbackend.simulator.checks.clocks import SEEN, Clocks
from nvbackend.simulator.events import Site, Sync
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.mbarriers import Mbarriers

Place = tuple[int, int]
"""The CTA in the wave, and the offset in its shared memory."""
_Wait = tuple[int, Site, int]
"""When a warp passed, where, and a thread of it."""


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
