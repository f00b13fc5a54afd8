"""Accesses that nothing orders, and generic writes that the async proxy reads without a proxy fence.

Vector clocks (`clocks`) over warps and operations in flight; what last touched each byte (`shadow`) of shared memory of
every CTA and of global memory. Strong accesses and atomics do not race with one another: what they order is `strong`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.checks import rules
from nvbackend.simulator.checks.clocks import EVERYBODY, GLOBAL, NARROW, SEEN, SHARED, Clocks
from nvbackend.simulator.checks.late_waits import MissedPhases
from nvbackend.simulator.checks.race_reports import CP_ASYNC, RaceReports, Which
from nvbackend.simulator.checks.shadow import Alike, Conflict, Excused, Shadow, WarpMates
from nvbackend.simulator.checks.strong import WEAK, Strong, StrongSites, is_strong, returns_old
from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access, By, Mask, Pending, Site, Sync, Threads
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.mbarriers import MADE

_SHARED_READERS = 48
_GLOBAL_READERS = 4
_LARGEST = 1 << 26
"""Bytes of the largest allocation of global memory that is watched."""
_RELEASES = ("mbarrier_init", "acq_rel", "sc", "release")
_ASYNC, _WGMMA = "async", "wgmma"
_NON_COHERENT = "nc"


@dataclass(frozen=True, slots=True)
class Accessors:
    """Who accesses: the threads (n, or one for all), their sources and rows (n, 1), and what each row has seen.

    `alike` and `excused` say with what there is no conflict, as in `Shadow.unseen_write`.
    """

    threads: Threads
    sources: NDArray[np.int64]
    rows: NDArray[np.int64]
    seen: NDArray[np.int32]
    alike: Alike | None
    excused: Excused | None


class Races(Watching):
    """The observer of one wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._clocks = wave.part(Clocks)
        self._fenced: Mask = np.zeros(wave.size // WARP, bool)
        """Which warps have executed a fence: their relaxed arrivals at a cluster's barrier publish what they did."""
        self._made: dict[tuple[int, int], tuple[int, int, Site]] = {}
        """Of each mbarrier: the warp that initialised it, when, and where."""
        self._phases = MissedPhases(wave, self._clocks)
        self._shared: dict[int, Shadow] = {}
        self._global: dict[int, Shadow] = {}
        self._numbers: dict[tuple[int, str, str], int] = {}
        self._calls: list[tuple[object, str, str]] = []
        """Of each site, the line of the user's program, which may have made several: boxes of a tile, say."""
        self._same_call: dict[int, Mask] = {}
        self._together: list[bool] = []
        """Of each site, whether whole warps execute it together."""
        self._strong_sites = StrongSites(wave)
        self._strong = Strong(wave, self._clocks)
        self._reports = RaceReports(wave, self._clocks, self._strong_sites, self._strong)
        self._sites = self._reports.sites

    def release(self, sync: Sync) -> None:
        """Publish."""
        self._check_made(sync)
        if (phase := _phase(sync)) is not None:
            self._phases.came(sync, *phase)
        if sync.by.order != "relaxed" or not isinstance(sync.token, tuple) or sync.token[0] != "cluster":
            self._clocks.release(sync.by, sync.token)
            return
        self._phases.forget()
        fenced = self._fenced[sync.by.threads // WARP]
        self._clocks.release_start(sync.by, sync.token)
        for warp in np.unique(sync.by.threads[~fenced] // WARP).tolist():
            self._reports.relaxed[warp] = self._clocks.now, sync.by.site, sync.token
        self._clocks.now += 1
        if fenced.any():
            by = sync.by
            self._clocks.release(By(by.site, by.threads[fenced], None, by.proxy, by.order, by.scope), sync.token)

    def acquire(self, sync: Sync) -> None:
        """See what was published."""
        self._check_made(sync)
        self._clocks.acquire(sync.by.threads, sync.token)
        if isinstance(sync.token, tuple) and sync.token[0] == "cluster":
            self._reports.passed.update(dict.fromkeys(np.unique(sync.by.threads // WARP).tolist(), sync.token))
        if (phase := _phase(sync)) is not None:
            self._phases.waited(sync, *phase)

    def _check_made(self, sync: Sync) -> None:
        """Check that whatever uses an mbarrier comes after its initialisation."""
        if not isinstance(sync.token, tuple) or sync.token[0] not in ("mbarrier", MADE):
            return
        place, by = (int(sync.token[1]), int(sync.token[2])), sync.by
        if sync.token[0] == MADE:
            self._made[place] = int(by.threads[0]) // WARP, self._clocks.now, by.site
            self._phases.made(place)
            return
        warp, time, site = self._made[place]
        _, clocks = self._clocks.source_of(by)
        rows = self._clocks.places(by)
        early = (clocks[rows, SEEN, warp] < time) & (by.threads // WARP != warp)
        if early.any():
            lane = int(np.argmax(early))
            thread = self._wave.thread_name(int(by.threads[lane]))
            name = f"the mbarrier {self._wave.shared_name(place[1])} of CTA {place[0]}"
            notes = ((f"PTX {by.site}", None), (f"it is initialised here (PTX {site})", site.origin))
            made = f"PTX {site}"
            rules.NOT_READY.fail(at=by.site.location, notes=notes, thread=thread, place=name, made=made)

    def fence(self, by: By, kind: str) -> None:
        """A fence of the async proxy publishes to it; one of memory, to the strong accesses around it."""
        if kind == "warp":
            self._clocks.meet(by.threads, by.members)
            return
        level = NARROW.get(kind.rpartition(".")[2], EVERYBODY)
        if kind.startswith(_RELEASES) and (level > NARROW["cta"] or self._wave.cluster_size == 1):
            self._fenced[by.threads // WARP] = True
        if not kind.startswith(("proxy", "mbarrier_init")):
            self._clocks.fence_memory(by.threads, by.site, level)
        if kind.startswith("proxy.async"):
            parts = (GLOBAL,) if kind == "proxy.async.global" else (SHARED,)
            self._clocks.fence_proxy(by.threads, parts if "." in kind[len("proxy.async") :] else (SHARED, GLOBAL))

    def issued(self, operation: Pending) -> None:
        """It has seen what its threads have seen."""
        self._clocks.issue(operation)

    def completed(self, operation: Pending) -> None:
        """It can be waited for."""
        self._clocks.complete(operation)

    def access(self, access: Access) -> None:
        """Compare with what last touched the bytes, and take its place."""
        if access.space not in ("shared", "global") or not len(access.addresses):
            return
        strong = is_strong(access)
        if strong:
            if (parted := self._strong_sites.parted(access)) is not None:
                earlier, now = parted
                other = self._wave.thread_name(int(access.by.threads[earlier]))
                self._reports.raise_at(rules.SCOPE, access, now, f"the change by {other} at PTX {access.by.site}")
            self._strong.before(access)
        for shadow, bytes, here in self._pieces(access):
            self._look(access, shadow, bytes, here)
        if strong:
            self._strong.after(access)
            if len(access.by.threads) > 1 and returns_old(access):
                # The atomics of one step come one after another: the later ones see what the earlier ones publish.
                self._strong.before(access)
        elif access.lost is not None and len(access.by.threads) > 1:
            self._reports.fail_within(access, access.lost)

    def _pieces(self, access: Access) -> list[tuple[Shadow, NDArray[np.int64], Which]]:
        """The memory that the access touches, the bytes of each address there (n, size), and which addresses."""
        addresses = access.addresses.astype(np.int64)
        within = np.arange(access.size)
        if access.owners is not None:
            owners = np.broadcast_to(access.owners, addresses.shape)
            ctas = np.unique(owners)
            if len(ctas) == 1:
                return [(self._window(int(ctas[0])), addresses[:, None] + within, slice(None))]
            found: list[tuple[Shadow, NDArray[np.int64], Which]] = []
            for cta in ctas.tolist():
                here = np.flatnonzero(owners == cta)
                found.append((self._window(cta), addresses[here][:, None] + within, here))
            return found
        return self._global_pieces(addresses, within)

    def _global_pieces(
        self, addresses: NDArray[np.int64], within: NDArray[np.int64]
    ) -> list[tuple[Shadow, NDArray[np.int64], Which]]:
        left = np.arange(len(addresses))
        found: list[tuple[Shadow, NDArray[np.int64], Which]] = []
        while len(left):
            allocation = self._wave.memory.allocation(int(addresses[left[0]]))
            if allocation is None:
                break
            inside = (addresses[left] >= allocation.base) & (addresses[left] < allocation.end)
            here, left = left[inside], left[~inside]
            if not len(here):
                break
            if allocation.end - allocation.base <= _LARGEST:
                shadow = self._global.get(allocation.base)
                if shadow is None:
                    shadow = Shadow(allocation.end - allocation.base, _GLOBAL_READERS)
                    self._global[allocation.base] = shadow
                bytes = np.asarray((addresses[here] - allocation.base)[:, None] + within, np.int64)
                found.append((shadow, bytes, slice(None) if len(here) == len(addresses) else here))
        return found

    def _window(self, cta: int) -> Shadow:
        shadow = self._shared.get(cta)
        if shadow is None:
            shadow = self._shared[cta] = Shadow(self._wave.memory.shared.shape.size, _SHARED_READERS)
        return shadow

    def _look(
        self,
        access: Access,
        shadow: Shadow,
        bytes: NDArray[np.int64],
        here: Which,
    ) -> None:
        by = access.by
        sources, clocks = self._clocks.source_of(by)
        rows = self._clocks.places(by)
        if len(sources) > 1:
            sources, rows = sources[here], rows[here]
        else:
            sources, rows = (np.broadcast_to(each, (len(bytes),)) for each in (sources, rows))
        sources, rows = sources[:, None], rows[:, None]
        seen, number = clocks[:, SEEN], self._number(access)
        excused = self._strong_sites.excused(number)
        alike = None
        if access.kind != "read":
            kept = np.ones(len(bytes), bool) if access.changed is None else ~access.changed[here]
            alike = Alike(self._of_the_call(number), kept)
        mates, is_shared = self._mates(access, here), access.space == "shared"
        conflict = shadow.unseen_write(bytes, sources, rows, seen, alike, mates if is_shared else None, excused)
        if conflict is None and mates is not None and access.kind == "write":
            conflict = shadow.read_apart(bytes, mates)
        if conflict is None and access.kind != "read" and not _compares_and_swaps(access):
            conflict = shadow.unseen_read(bytes, sources, rows, seen, excused)
        if conflict is None:
            threads = by.threads[here] if len(by.threads) > 1 else by.threads
            who = Accessors(threads, sources, rows, seen, alike, excused)
            conflict = self._lanes_apart(access, shadow, bytes, who, mates)
        if conflict is not None:
            self._reports.report(access, conflict, here)
        if access.kind == "read":
            if by.order == _NON_COHERENT and (written := shadow.written(bytes)) is not None:
                self._reports.fail(rules.NON_COHERENT, access, written, here)
            self._check_proxy(access, shadow, bytes, rows, here)
            shadow.read(bytes, sources, self._clocks.now, number)
            if mates is not None and by.operation is None and is_shared:
                shadow.read_by(bytes, (mates.warps * WARP + mates.lanes)[:, 0], self._clocks.now)
            return
        self._check_proxy(access, shadow, bytes, rows, here)
        lanes = 0 if len(by.threads) == 1 else by.threads[here][:, None] % WARP
        if by.operation is None and len(by.threads) == 1:
            lanes = int(by.threads[0]) % WARP
        elif by.operation is not None:
            self._clocks.of(by.operation).written = self._clocks.now
        shadow.write(bytes, sources, self._clocks.now, number, lanes)

    def _mates(self, access: Access, here: Which) -> WarpMates | None:
        """The lanes that access memory: threads by ordinary accesses, or each of them by an operation on shared memory.

        The threads of other operations than those that are one of each thread have met for it.
        """
        by, lanes = access.by, self._clocks.lanes
        if access.kind == "atomic" or by.order not in WEAK or (by.operation and access.space != "shared"):
            return None
        threads = np.broadcast_to(by.threads, access.addresses.shape)[here][:, None]
        warps = threads // WARP
        if by.operation is None:
            bounds = lanes.bounds(warps[:, 0], threads[:, 0] % WARP)
            return WarpMates(warps, threads % WARP, lanes.met[warps], bounds)
        if len(by.threads) > 1 and by.operation.engine != CP_ASYNC:
            return None
        clock = self._clocks.of(by.operation)
        row = np.searchsorted(clock.warps, warps)
        bounds = None if clock.bounds is None else clock.bounds[row[:, 0], threads[:, 0] % WARP]
        return WarpMates(warps, threads % WARP, clock.met[row], bounds, clock.issued)

    def _lanes_apart(
        self, access: Access, shadow: Shadow, bytes: NDArray[np.int64], who: Accessors, mates: WarpMates | None
    ) -> Conflict | None:
        """An earlier access of a lane of which only others of its warp told, or for which only others waited."""
        lanes = self._clocks.lanes
        conflict = self._untold(access, shadow, bytes, who) if lanes.partial.any() else None
        if conflict is None and mates is not None and access.by.operation is None:
            if access.space == "global":  # atomics are rather ordered by what orders warps
                conflict = shadow.write_that(bytes, mates.apart, lambda sites, _: self._strong_sites.are_strong(sites))
            elif lanes.has_copies:
                conflict = shadow.write_that(bytes, partial(self._copied_apart, mates))
            if conflict is not None:
                conflict.is_of_warp = True
        deaf = lanes.deaf(who.threads) if access.by.operation is None else None
        if conflict is None and deaf is not None:
            conflict = self._unheard(access, shadow, bytes, who, np.flatnonzero(deaf))
        return None if conflict is not None and conflict.was_read and _compares_and_swaps(access) else conflict

    def _untold(self, access: Access, shadow: Shadow, bytes: NDArray[np.int64], who: Accessors) -> Conflict | None:
        def untold(others: NDArray[Any], lanes: NDArray[Any], times: NDArray[Any]) -> Mask:
            until = who.seen[who.rows, others]
            wrong = self._clocks.lanes.untold(others, lanes % WARP, times, until)
            wrong &= others != who.sources
            return wrong

        def excused(sites: NDArray[Any], others: NDArray[Any]) -> Mask:
            found: Mask = np.array(self._together)[sites]  # a warp has done together what one of its lanes tells of
            if who.excused is not None:
                found |= who.excused(sites, others, who.sources)
            return found if who.alike is None else found | who.alike.of(sites)

        conflict = shadow.write_that(bytes, untold, excused)
        if conflict is None and access.kind != "read":
            conflict = shadow.read_that(bytes, untold, excused)
        if conflict is not None:
            conflict.is_untold = True
        return conflict

    def _copied_apart(self, mates: WarpMates, others: NDArray[Any], lanes: NDArray[Any], times: NDArray[Any]) -> Mask:
        """Which of the copies of threads are of other lanes of the warp, which alone have waited for them."""
        wrong: Mask = (others == self._clocks.warps + mates.warps) & (lanes != mates.lanes)
        if wrong.any():
            own, mine = (np.broadcast_to(each, wrong.shape)[wrong] for each in (mates.warps, mates.lanes))
            wrong[wrong] = self._clocks.lanes.copied_apart(own, mine, lanes[wrong], times[wrong])
        return wrong

    def _unheard(
        self, access: Access, shadow: Shadow, bytes: NDArray[np.int64], who: Accessors, deaf: NDArray[np.int64]
    ) -> Conflict | None:
        """An earlier access for which only other lanes of the warp have waited than those that are `deaf`."""
        where = np.arange(len(bytes)) if len(who.threads) == 1 else deaf
        warps, rows = np.unique(who.threads[deaf] // WARP, return_inverse=True)
        rows = np.broadcast_to(rows.reshape(-1, 1), (len(where), 1))
        seen = np.stack([self._clocks.lanes.overlays[warp].seen for warp in warps.tolist()])
        few = bytes[where], who.sources[where], rows, seen
        alike = None if who.alike is None else who.alike.at(where)
        conflict = shadow.unseen_write(*few, alike, excused=who.excused)
        if conflict is None and access.kind != "read":
            conflict = shadow.unseen_read(*few, who.excused)
        if conflict is not None:
            conflict.place, conflict.is_unheard = int(where[conflict.place]), True
        return conflict

    def _check_proxy(
        self,
        access: Access,
        shadow: Shadow,
        bytes: NDArray[np.int64],
        rows: NDArray[np.int64],
        here: Which,
    ) -> None:
        """Whether generic writes among the bytes were published to the async proxy before it reads or writes them."""
        if access.by.proxy != _ASYNC:
            return
        _, clocks = self._clocks.source_of(access.by)
        published = clocks[:, SHARED if access.space == "shared" else GLOBAL]
        times, writers, numbers = shadow.writes_of(bytes)
        hidden = (times > published[rows, writers]) & (times > 0)
        if not hidden.any():
            return
        # Compilers do not fence what cp.async wrote before wgmma reads it, and their kernels are right.
        is_read_by_wgmma = access.by.operation is not None and access.by.operation.engine.startswith(_WGMMA)
        excused = CP_ASYNC if is_read_by_wgmma else None
        generic = np.array([proxy != _ASYNC and engine != excused for _, proxy, engine in self._sites])
        hidden &= generic[numbers]
        if hidden.any():
            place = int(np.flatnonzero(hidden.any(axis=1))[0])
            first = int(np.flatnonzero(hidden[place])[0])
            conflict = Conflict(place, int(numbers[place, first]), int(times[place, first]), False)
            self._reports.fail(rules.MISSING_FENCE, access, conflict, here)

    def _number(self, access: Access) -> int:
        by = access.by
        engine = "" if by.operation is None else by.operation.engine
        key = (id(by.site), by.proxy, engine)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sites)
            self._sites.append((by.site, by.proxy, engine))
            self._calls.append((by.site.origin or by.site, by.proxy, engine))
            self._together.append(".aligned" in by.site.text)
            self._strong_sites.add(access)
        return number

    def _of_the_call(self, number: int) -> Mask:
        """Of each site so far, whether the call of site `number` has made it."""
        same = self._same_call.get(number)
        if same is None or len(same) != len(self._calls):
            call = self._calls[number]
            same = self._same_call[number] = np.array([each == call for each in self._calls])
        return same


def _phase(sync: Sync) -> tuple[tuple[int, int], int] | None:
    """The place of an mbarrier and its phase, where that is what orders."""
    token = sync.token
    return ((token[1], token[2]), token[3]) if isinstance(token, tuple) and token[0] == "mbarrier" else None


def _compares_and_swaps(access: Access) -> bool:
    """A loop of atom.cas begins with an ordinary read of the word: where that is old, the swap fails."""
    return access.kind == "atomic" and ".cas." in access.by.site.text
