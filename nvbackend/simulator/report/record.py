"""Watches a run for its report: the observer of each wave, and the scheduler that says which block runs."""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access, By, Mask, Pending, Site, Sync
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.program.blocks import Program
from nvbackend.simulator.program.scheduler import Scheduler
from nvbackend.simulator.report.banks import sectors, wavefronts
from nvbackend.simulator.report.clock import Clock, Flight, Wait
from nvbackend.simulator.report.uses import Engine, Use

MOST_EVENTS = 20_000
"""Operations and waits of the first cluster that are kept for the timeline."""
WARPGROUP = 4
"""Its warps."""


@dataclass(frozen=True, slots=True)
class Span:
    """One warp's operation in flight, or its wait: from step to step, at an instruction."""

    site: Site
    warp: int
    """In the cluster."""
    start: int
    begin: int
    """Of an operation: when those that it comes after are done; else when it starts."""
    end: int
    what: str
    """The engine; of a wait what it is at: mbarrier, barrier, cluster, or an engine."""
    cause: Span | None = None
    """Of a wait: the operation that ended it; None where a warp did."""
    by: int = -1
    """Of a wait: the warp that ended it, or that issued what did."""
    place: str = ""
    """Of a wait for an mbarrier: where that is."""


@dataclass(slots=True)
class Record:
    """What the waves of a launch have done."""

    uses: dict[int, tuple[Site, Use]] = field(default_factory=dict)
    """By the identity of the site."""
    engines: dict[str, Engine] = field(default_factory=dict)
    waits: dict[str, Use] = field(default_factory=dict)
    """By what was waited for."""
    flights: list[Span] = field(default_factory=list)
    stalls: list[Span] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Of each warp of the first cluster: how many steps it took."""
    cta_warps: int = 1
    """Warps of a CTA."""
    dropped: int = 0
    """Events of the first cluster that were too many to keep."""
    steps: int = 0
    """Of the slowest warp of each wave, one wave after the other."""

    def use(self, site: Site) -> Use:
        """The counters of an instruction."""
        known = self.uses.get(id(site))
        if known is None:
            known = self.uses[id(site)] = site, Use()
        return known[1]

    def total(self) -> Use:
        """All instructions together."""
        found = Use()
        for _, use in self.uses.values():
            found.add(use)
        return found

    def end_of(self, cta: int) -> int:
        """How many steps a CTA of the first cluster took."""
        return max(self.ends[cta * self.cta_warps : (cta + 1) * self.cta_warps], default=0)


@dataclass(slots=True)
class _Waits:
    """The last wait of each warp: where, from when to when. One instruction waits for several operations in turn."""

    sites: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def add(self, site: Site, wait: Wait) -> tuple[Mask, NDArray[np.int64]]:
        """For each of its warps whether it goes on with the wait before, and how long the whole is."""
        warps = wait.warps
        goes_on: Mask = (self.sites[warps] == id(site)) & (self.ends[warps] == wait.start)
        self.starts[warps] = np.where(goes_on, self.starts[warps], wait.start)
        self.sites[warps], self.ends[warps] = id(site), wait.end
        return goes_on, wait.end - self.starts[warps]


class Recorder(Watching):
    """The observer of one wave. The events of the first cluster are kept with `keeps`."""

    def __init__(self, record: Record, wave: Wave, *, keeps: bool) -> None:
        self._record = record
        self.wave = wave
        self.clock = Clock(wave)
        self._kept_warps = wave.cluster_size * wave.cta_threads // WARP if keeps else 0
        self._spans: dict[Flight, dict[int, Span]] = {}
        """Of flights that are kept, by warp."""
        warps = wave.size // WARP
        self._waits = _Waits(*(np.zeros(warps, np.int64) for _ in range(3)))
        self._stalls: dict[int, int] = {}
        """Where the last wait of each warp that is kept is in the record."""

    def access(self, access: Access) -> None:
        """Count bytes, and what the access costs."""
        by = access.by
        if by.proxy == "tensormap":
            return
        count, space = len(access.addresses) * access.size, access.space
        use = self._record.use(by.site)
        if by.operation is None:
            if space == "shared" and access.owners is not None:
                self._shared(access, use)
                return
            self._bytes(use, access.kind, space, count)
            if space == "global" and access.kind != "atomic" and len(by.threads) == len(access.addresses) and count:
                use.global_.add(sectors(by.threads, access.addresses.astype(np.int64), access.size))
            return
        engine = self._record.engines.setdefault(by.operation.engine, Engine())
        for each in (use, engine):
            self._bytes(each, access.kind, space, count)

    def _shared(self, access: Access, use: Use) -> None:
        """Own and distributed shared memory."""
        threads = access.by.threads
        mine = self.wave.cta(threads) == access.owners
        near = int(np.count_nonzero(np.broadcast_to(mine, access.addresses.shape)))
        self._bytes(use, access.kind, "shared", near * access.size)
        self._bytes(use, access.kind, "distributed", (len(access.addresses) - near) * access.size)
        if near and access.kind != "atomic" and len(threads) == len(access.addresses):
            offsets = access.addresses.astype(np.int64)
            use.shared.add(wavefronts(threads[mine], offsets[mine], access.size))

    @staticmethod
    def _bytes(use: Use | Engine, kind: str, space: str, count: int) -> None:
        if count and kind != "write":
            use.read[space] += count
        if count and kind != "read":
            use.written[space] += count

    def release(self, sync: Sync) -> None:
        """The token's time."""
        self.clock.release(sync.by, sync.token)

    def acquire(self, sync: Sync) -> None:
        """A wait is over."""
        wait = self.clock.acquire(sync.by, sync.token)
        if wait is None:
            return
        what = sync.token.engine if isinstance(sync.token, Pending) else str(sync.token[0])  # type: ignore[index]
        goes_on, lengths = self._waits.add(sync.by.site, wait)
        waited = int((wait.end - wait.start).sum())
        found = Use(waits=int(np.count_nonzero(~goes_on)), waited=waited, longest=int(lengths.max()))
        self._record.use(sync.by.site).add(found)
        self._record.waits.setdefault(what, Use()).add(found)
        place = self.wave.shared_name(sync.token[2]) if what == "mbarrier" else ""  # type: ignore[index]
        self._keep(sync.by.site, what, wait, goes_on, place)

    def issued(self, operation: Pending) -> None:
        """It takes its time from here on."""
        flight = self.clock.issue(operation)
        whole = WARPGROUP if flight.engine.startswith("wgmma") else 1
        self._record.engines.setdefault(flight.engine, Engine()).operations += len(flight.warps) // whole
        spans = {}
        for place in np.flatnonzero(flight.warps < self._kept_warps).tolist():
            warp = int(flight.warps[place])
            start, begin, end = (int(each[place]) for each in (flight.start, flight.begin, flight.end))
            spans[warp] = Span(operation.site, warp, start, begin, end, flight.engine)
        if self._has_room(len(spans)):
            self._record.flights += spans.values()
            self._spans[flight] = spans

    def _has_room(self, events: int) -> bool:
        """Whether so many events more are kept."""
        record = self._record
        if len(record.flights) + len(record.stalls) + events <= MOST_EVENTS:
            return bool(events)
        record.dropped += events
        return False

    def _keep(self, site: Site, what: str, wait: Wait, goes_on: Mask, place: str) -> None:
        release, stalls = wait.release, self._record.stalls
        causes = self._spans.get(release.flight, {}) if release.flight is not None else {}
        for number in np.flatnonzero(wait.warps < self._kept_warps).tolist():
            warp, start, end = (int(each[number]) for each in (wait.warps, wait.start, wait.end))
            cause = causes.get(warp) or causes.get(release.warp)
            before = self._stalls.get(warp)
            if goes_on[number] and before is not None:
                start = stalls[before].start
                stalls[before] = Span(site, warp, start, start, end, what, cause, release.warp, place)
            elif self._has_room(1):
                self._stalls[warp] = len(stalls)
                stalls.append(Span(site, warp, start, start, end, what, cause, release.warp, place))

    def waited(self, by: By, _what: str) -> None:
        """They have come as far as that instruction."""
        self.clock.stop(by.site)

    def finish(self) -> None:
        """The wave has ended."""
        self._record.steps += int(self.clock.ends.max(initial=0))
        if self._kept_warps:
            self._record.ends = self.clock.ends[: self._kept_warps].tolist()
            self._record.cta_warps = self.wave.cta_threads // WARP


class RecordingScheduler(Scheduler):
    """Reports to a recorder which block runs."""

    def __init__(self, program: Program, wave: Wave, recorder: Recorder) -> None:
        super().__init__(program, wave)
        self._clock = recorder.clock

    def _block(self, place: int, lanes: Lanes) -> int | None:
        code = self._blocks[place]
        self._clock.begin(code, self._inside[place], lanes)
        following = super()._block(place, lanes)
        self._clock.finish(len(code.steps) + 1)
        return following
