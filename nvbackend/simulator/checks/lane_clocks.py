"""What lanes of a warp know of one another. To `clocks`, which order warps, all lanes of one have done what one tells.

A release, or an operation that is issued, tells what its own lanes did, and what these know of other lanes: what those
did before all met, or before a release that a lane has waited for. So does an acquire tell its own lanes alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Mask, Site, Threads
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave

Times = NDArray[np.int32]
KEPT = 16
"""The releases of a warp that are kept; of older ones it is taken that they tell of all lanes."""
_COPIES = 64
"""The waits for copies of a warp's lanes that are kept."""


@dataclass(slots=True)
class Overlay:
    """What a warp had seen before some of its lanes, those that `heard`, waited for more."""

    seen: Times
    heard: Mask


@dataclass(frozen=True, slots=True)
class _Waited:
    """A wait of lanes for copies of their own, which were written at one time, and when it was."""

    written: int
    lanes: Mask
    time: int


class LaneClocks:
    """The lanes of a wave. A bound is the first time that it does not include."""

    def __init__(self, wave: Wave, now: int) -> None:
        warps = wave.size // WARP
        self._wave = wave
        self.met: Times = np.full(warps, now, np.int32)
        """When the lanes of each warp met last: a bound of what each did."""
        self._known: Times = np.zeros((warps, WARP, WARP), np.int32)
        """Of each lane the bounds of what it knows of the others, where that is more."""
        self._knows: Mask = np.zeros(warps, bool)
        """Which warps have such lanes."""
        self._times: Times = np.zeros((warps, KEPT), np.int32)
        self._rows: Times = np.zeros((warps, KEPT, WARP), np.int32)
        """When each warp released, and the bounds of what that and earlier ones tell of each lane."""
        self._sites: dict[tuple[int, int], Site] = {}
        self._count = np.zeros(warps, np.int64)
        self.partial: Mask = np.zeros(warps, bool)
        """Of which warps some release told of a part of the lanes."""
        self.overlays: dict[int, Overlay] = {}
        self._waited: dict[int, list[_Waited]] = {}
        self.has_copies = False
        """Whether threads have waited for copies of their own."""
        self._by_arrivals: set[int] = set()
        """Warps whose copies also arrive at mbarriers: of them it is not said who has waited for what."""

    def meet(self, warps: NDArray[np.int64], now: int) -> None:
        """All lanes of warps have come together."""
        self.met[warps] = now
        known = warps[self._knows[warps]]
        if len(known):
            self._known[known] = 0
            self._knows[known] = False
        if self.overlays:
            for warp in warps.tolist():
                self.overlays.pop(warp, None)

    def meet_members(self, threads: Threads, members: NDArray[np.uint32], now: int) -> None:
        """Of warps the lanes have come together that have the same `members`: they know what each of them did."""
        for warp, word in np.unique(np.stack([threads // WARP, members]), axis=1).T.tolist():
            group: Mask = np.zeros(WARP, bool)
            group[threads[(threads // WARP == warp) & (members == word)] % WARP] = True
            here = np.array([warp])
            alive = self._alive(here)[0]
            if (group | ~alive).all():
                self.meet(here, now)
                continue
            row = self.known(here)[0, group].max(axis=0)
            row[group] = now
            self._known[warp, group] = np.maximum(self._known[warp, group], row)
            self._knows[warp] = True
            overlay = self.overlays.get(warp)
            if overlay is not None and (overlay.heard & group).any():
                overlay.heard |= group
                if (overlay.heard | ~alive).all():
                    del self.overlays[warp]

    def _present(self, threads: Threads) -> tuple[NDArray[np.int64], Mask]:
        """The warps, and which of their lanes are among the threads."""
        warps = np.unique(threads // WARP)
        present: Mask = np.zeros((len(warps), WARP), np.bool_)
        present[np.searchsorted(warps, threads // WARP), threads % WARP] = True
        return warps, present

    def _alive(self, warps: NDArray[np.int64]) -> Mask:
        alive: Mask = self._wave.alive.reshape(-1, WARP)[warps]
        return alive

    def known(self, warps: NDArray[np.int64]) -> Times:
        """Of each lane of warps the bounds of what it knows of each lane, (n, lanes, lanes)."""
        return np.maximum(self._known[warps], self.met[warps, None, None])

    def tell(self, threads: Threads, now: int, site: Site, *, whole: bool = False) -> None:
        """Threads release what they have done; `whole` warps, where they come to a barrier of all."""
        warps, present = self._present(threads)
        present |= ~self._wave.exists.reshape(-1, WARP)[warps] | whole
        at = self._count[warps] % KEPT
        if present.all():
            self._rows[warps, at] = now + 1
        else:
            rows = np.where(present[:, :, None], self.known(warps), 0).max(axis=1)
            rows = np.where(present, now + 1, rows)
            self._rows[warps, at] = np.maximum(rows, self._rows[warps, at - 1])
            some = ~present.all(axis=1)
            self.partial[warps[some]] = True
            self._sites.update(dict.fromkeys(zip(warps[some].tolist(), at[some].tolist(), strict=True), site))
        self._times[warps, at] = now
        self._count[warps] += 1

    def end(self, threads: Threads, now: int, site: Site) -> None:
        """Threads end: the last of a warp tell of all."""
        warps, present = self._present(threads)
        if not (self._alive(warps) & ~present).any():
            self.tell(threads, now, site, whole=True)

    def _last(self, warps: NDArray[np.int64], until: NDArray[Any]) -> tuple[NDArray[np.int64], Mask]:
        """The last release of each warp that is not later than a time, and whether it is kept."""
        times = self._times[warps]
        found: Mask = (times <= until[:, None]) & (times > 0)
        return np.where(found, times, -1).argmax(axis=1), np.asarray(found.any(axis=1))

    def untold(self, warps: NDArray[Any], lanes: NDArray[Any], times: NDArray[Any], until: NDArray[Any]) -> Mask:
        """Which of what lanes did no release tells that is not later than `until`, though one of their warp is known.

        All have one shape.
        """
        wrong: Mask = np.zeros(warps.shape, bool)
        here = (warps < len(self.met)) & (times > 0) & (times <= until)
        here &= self.partial[np.minimum(warps, len(self.met) - 1)]
        if here.any():
            several = warps[here]
            at, kept = self._last(several, until[here])
            wrong[here] = kept & (self._rows[several, at, lanes[here]] <= times[here])
        return wrong

    def site_of(self, warp: int, until: int) -> Site | None:
        """The last release of a part of a warp's lanes that is not later than a time."""
        at, _ = self._last(np.array([warp]), np.array([until]))
        return self._sites.get((warp, int(at[0])))

    def learn(self, threads: Threads, seen: Times) -> None:
        """Threads have waited for releases: what these tell of other lanes of their warps, `seen` says by when."""
        warps, present = self._present(threads)
        until = seen[warps]
        at, kept = self._last(warps, until)
        rows = np.where(kept[:, None], self._rows[warps, at], 0)
        forgotten = ~kept & (self._count[warps] > KEPT)
        rows = np.where(forgotten[:, None], until[:, None] + 1, rows)
        all_present = (present | ~self._alive(warps)).all(axis=1)
        least = np.where(self._alive(warps), rows, np.iinfo(np.int32).max).min(axis=1)
        self.met[warps] = np.where(all_present, np.maximum(self.met[warps], least), self.met[warps])
        more = (rows > self.met[warps, None]).any(axis=1)
        for warp, row, which in zip(warps[more].tolist(), rows[more], present[more], strict=True):
            self._known[warp, which] = np.maximum(self._known[warp, which], row)
            self._knows[warp] = True

    def all_bounds(self, warps: NDArray[np.int64]) -> Times | None:
        """What each lane of warps knows of each lane, (n, lanes, lanes); None where that is when they met."""
        return self.known(warps) if self._knows[warps].any() else None

    def bounds(self, warps: NDArray[np.int64], lanes: NDArray[np.int64]) -> Times | None:
        """What each of these lanes knows of each lane of its warp, (n, lanes); None where that is when they met."""
        if not self._knows[warps].any():
            return None
        return np.maximum(self._known[warps, lanes], self.met[warps, None])

    # -- what some lanes alone have waited for ------------------------------------------------------------------------

    def hear(self, threads: Threads, seen: Times, more: Times) -> None:
        """Threads wait for `more` than their warps have `seen`, (warps, sources)."""
        warps, present = self._present(threads)
        some: Mask = np.logical_not((present | ~self._alive(warps)).all(axis=1))
        for warp, part, which in zip(warps.tolist(), some.tolist(), present, strict=True):
            overlay = self.overlays.get(warp)
            if not part:
                if overlay is not None:
                    overlay.seen = np.maximum(overlay.seen, more)
            elif overlay is not None:
                overlay.heard |= which
                if (overlay.heard | ~self._alive(np.array([warp]))[0]).all():
                    del self.overlays[warp]
            elif (more > seen[warp]).any():
                self.overlays[warp] = Overlay(seen[warp].copy(), which.copy())

    def deaf(self, threads: Threads) -> Mask | None:
        """Which threads have not waited for what others of their warp have; None where all have."""
        if not self.overlays:
            return None
        found: Mask = np.zeros(len(threads), bool)
        warps = threads // WARP
        for warp in np.unique(warps).tolist():
            overlay = self.overlays.get(warp)
            if overlay is not None:
                found |= (warps == warp) & ~overlay.heard[threads % WARP]
        return found if found.any() else None

    # -- copies of threads --------------------------------------------------------------------------------------------

    def arrive_with_copies(self, threads: Threads) -> None:
        """The copies of threads arrive at mbarriers."""
        self._by_arrivals.update(np.unique(threads // WARP).tolist())

    def wait_for_copies(self, threads: Threads, written: int, now: int) -> None:
        """Threads have waited for copies of their own, which were written at a time."""
        self.has_copies = True
        for warp, lanes in zip(*self._present(threads), strict=True):
            waits = self._waited.setdefault(int(warp), [])
            waits.append(_Waited(written, lanes, now))
            del waits[:-_COPIES]

    def copied_apart(self, warps: NDArray[Any], lanes: NDArray[Any], others: NDArray[Any], times: NDArray[Any]) -> Mask:
        """Which of what `others` copied, and waited for, do not come before what the lanes of their warps do now.

        All have one shape.
        """
        found: Mask = np.zeros(warps.shape, bool)
        for warp in np.unique(warps).tolist():
            if warp in self._by_arrivals:
                continue
            known, here = self.known(np.array([warp]))[0], warps == warp
            for wait in self._waited.get(warp, ()):
                apart = here & (times == wait.written) & wait.lanes[others]
                if apart.any():
                    found[apart] = known[lanes[apart], others[apart]] <= wait.time
        return found
