"""The time of a report: a clock of each warp that counts its own instructions, moved on by what it waits for.

The simulator runs one group of threads after the other and completes copies as late as it can: its own order says
nothing about time. So each warp has a clock that counts a step for each of its instructions, as if all warps ran side
by side. An operation in flight takes a fixed number of steps from its issue, or from the end of those that it comes
after. A wait ends at the time of the last arrival, or of the operation's end; so it is long where the hardware's is
long, though a step is no cycle. (Lamport: Time, Clocks, and the Ordering of Events in a Distributed System, 1978.)
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import By, Pending, Site, Threads
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.program.blocks import Code

Times = NDArray[np.int64]
COPY_STEPS, PRODUCT_STEPS = 512, 64
"""How long a copy and a product of the tensor cores are in flight: about what they take in cycles, in a busy kernel."""
_STEPS = (
    *(("wgmma", PRODUCT_STEPS), ("tcgen05.mma", PRODUCT_STEPS), ("tcgen05.commit", 0)),
    *(("tcgen05.ld", 16), ("tcgen05.st", 16), ("tcgen05", PRODUCT_STEPS), ("cp.async.mbarrier", 0)),
    *(("TMA store", COPY_STEPS // 2), ("TMA reduction", COPY_STEPS // 2)),
)
"""By the beginning of an engine's name, the first that fits; anything else is a copy. A store is in flight twice: until
it has read, and until it has written."""
_QUEUES = {
    "wgmma": "wgmma",
    **dict.fromkeys(("tcgen05.mma", "tcgen05.cp", "tcgen05.shift", "tcgen05.commit"), "tcgen05"),
}
"""Engines that work in order: wgmma of each warp, tcgen05 of each CTA."""


def steps_of(engine: str) -> int:
    """How long an operation of the engine is in flight."""
    return next((steps for name, steps in _STEPS if engine.startswith(name)), COPY_STEPS)


@dataclass(eq=False, slots=True)
class Flight:
    """An operation in flight: the warps that issued it, and for each of them when it was issued, when those that it
    comes after are done, and when it is done."""

    site: Site
    engine: str
    warps: NDArray[np.int64]
    start: Times
    begin: Times
    end: Times


@dataclass(frozen=True, slots=True)
class Release:
    """The last that arrived: when, by which warp, and by which operation of it, if any."""

    time: int
    warp: int
    flight: Flight | None


@dataclass(eq=False, slots=True)
class Wait:
    """Warps that waited: from when to when, each; and for whom."""

    warps: NDArray[np.int64]
    start: Times
    end: Times
    release: Release


class Clock:
    """The clocks of the warps of a wave."""

    def __init__(self, wave: Wave) -> None:
        self._now: Times = np.zeros(wave.size // WARP, np.int64)
        self._tokens: dict[Hashable, Release] = {}
        self._flights: weakref.WeakKeyDictionary[Pending, Flight] = weakref.WeakKeyDictionary()
        self._offsets: dict[int, int] = {}
        """Of the block that runs: how many steps after its begin each instruction is."""
        self._last: dict[str, Times] = {}
        """Of engines that work in order: when the last operation of each warp is done."""
        self._cta_warps = wave.cta_threads // WARP
        self._running: NDArray[np.int64] | None = None
        self._of_codes: dict[int, dict[int, int]] = {}

    @property
    def ends(self) -> Times:
        """The time of each warp."""
        return self._now

    def begin(self, code: Code, first: int, lanes: Lanes) -> None:
        """The threads run a block from its step number `first` on."""
        offsets = self._of_codes.get(code.start)
        if offsets is None:
            offsets = {id(site): place for place, site in reversed(tuple(enumerate(code.sites)))}
            self._of_codes[code.start] = offsets
        self._offsets, self._running = offsets, lanes.warps
        self._now[lanes.warps] -= first

    def finish(self, steps: int) -> None:
        """They have run `steps` of the block."""
        if self._running is not None:
            self._now[self._running] += steps
        self._offsets, self._running = {}, None

    def stop(self, site: Site) -> None:
        """Some of them cannot go on at an instruction: that is as far as all have run now."""
        if self._running is not None:
            self.finish(self._offsets.get(id(site), 0) + 1)

    def of(self, by: By) -> tuple[NDArray[np.int64], Times]:
        """The warps of threads at an instruction, and their times."""
        warps = _warps(by.threads)
        return warps, self._now[warps] + self._offsets.get(id(by.site), 0)

    def issue(self, operation: Pending) -> Flight:
        """It is in flight from now on, and after those that it must come after."""
        by = By(operation.site, operation.threads)
        warps, start = self.of(by)
        ready = start.copy()
        for before in operation.after:
            earlier = self._flights.get(before)
            if earlier is not None:
                ready = np.maximum(ready, _at(earlier, warps))
        queue = _QUEUES.get(operation.engine)
        if queue is not None:
            ready = np.maximum(ready, self._last.setdefault(queue, np.zeros_like(self._now))[warps])
        flight = Flight(operation.site, operation.engine, warps, start, ready, ready + steps_of(operation.engine))
        if queue is not None:
            whole = warps if queue == "wgmma" else self._warps_of_ctas(warps)
            self._last[queue][whole] = np.repeat(flight.end, len(whole) // len(warps))
        self._flights[operation] = flight
        return flight

    def _warps_of_ctas(self, warps: NDArray[np.int64]) -> NDArray[np.int64]:
        """All warps of the CTA of each."""
        firsts = warps // self._cta_warps * self._cta_warps
        return (firsts[:, None] + np.arange(self._cta_warps)).ravel()

    def release(self, by: By, token: Hashable) -> None:
        """`by` has arrived at the token."""
        flight = self._flights.get(by.operation) if by.operation is not None else None
        warps, times = self.of(by) if flight is None else (flight.warps, flight.end)
        last = int(np.argmax(times))
        known = self._tokens.get(token)
        if known is None or times[last] >= known.time:
            self._tokens[token] = Release(int(times[last]), int(warps[last]), flight)

    def acquire(self, by: By, token: Hashable) -> Wait | None:
        """Threads go on when the token is complete: how long they have waited, if they have."""
        warps, start = self.of(by)
        flight = self._flights.get(token) if isinstance(token, Pending) else None
        if flight is not None:
            end = np.maximum(start, _at(flight, warps))
            release = Release(int(flight.end.max()), int(flight.warps[0]), flight)
        else:
            found = self._tokens.get(token)
            if found is None:
                return None
            release, end = found, np.maximum(start, found.time)
        self._now[warps] += end - start
        late = end > start
        return Wait(warps[late], start[late], end[late], release) if late.any() else None


def _warps(threads: Threads) -> NDArray[np.int64]:
    return np.unique(threads // WARP)


def _at(flight: Flight, warps: NDArray[np.int64]) -> Times:
    """When it is done, for each of some warps: for one that did not issue it when it is done for all."""
    places = np.minimum(np.searchsorted(flight.warps, warps), len(flight.warps) - 1)
    return np.where(flight.warps[places] == warps, flight.end[places], flight.end.max())
