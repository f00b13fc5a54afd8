"""What strong accesses order: a release at a place, and an acquire that reads there. PTX ISA 8.8 (causality order).

An access releases and acquires by its own order, or with a fence before a write and after a read. Relaxed ones without
a fence order nothing, and a fence orders only for the threads in its scope. Taken generously: a place is a word of 4
bytes, and what a fence did for one warp counts for those that a barrier orders after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.checks import rules
from nvbackend.simulator.checks.clocks import EVERYBODY, NARROW, SEEN, Clocks
from nvbackend.simulator.checks.lane_clocks import Times
from nvbackend.simulator.checks.shadow import Excused
from nvbackend.simulator.events import Access, By, Mask, Pending, Site
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave

_PLACE = 4
_RELEASES, _ACQUIRES = ("release", "acq_rel"), ("acquire", "acq_rel")
WEAK = ("weak", "", "nc")
"""The orders of accesses that order nothing."""
Place = tuple[str, int, int]
MOST_FLAGS = 16
"""Of how many places two CTAs may have read each other's writes; of more the first are forgotten."""
MOST_SENT = 256
"""So many writes of operations are kept, at most, until a thread accesses memory strongly."""
_RELEASES_NOTHING = "it releases nothing, and no fence{of_scope} is between the write and it"
_ACQUIRES_NOTHING = "it acquires nothing, and no fence{of_scope} comes after it"
_OF_SCOPE = " of a scope with both threads"
"""Where the program has fences of narrow scopes."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A strong write: by what instruction and warps, whether it releases, what was published with it, and when."""

    site: Site
    releases: bool
    warps: NDArray[np.int64]
    published: Times | None
    time: int
    seen: Times
    """What the warps had seen by then."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """What an operation wrote, and what was so when it did: the time, and what it and its warps had done and seen."""

    access: Access
    row: Times
    time: int
    warps: NDArray[np.int64]
    seen: Times


@dataclass(frozen=True, slots=True)
class _Hint:
    """A read of what was written, by some warps, and why one of the two may order nothing, by its own order."""

    site: Site
    reason: str
    written: _Written
    read: Site
    readers: NDArray[np.int64]


def is_strong(access: Access) -> bool:
    """Whether it is an atomic, or has an order other than weak."""
    return access.kind == "atomic" or access.by.order not in WEAK


class StrongSites:
    """Which sites access strongly, and at what scope: they race with the threads that a scope leaves out.

    PTX ISA 8.7.1 (morally strong operations): each of two is in the scope of the other.
    """

    def __init__(self, wave: Wave) -> None:
        warps = -(-wave.cta_threads // WARP)
        self._groups = np.array([1, warps, warps * wave.cluster_size, 1 << 30])
        """The warps of each of the groups that a scope is within, by its level."""
        self._warps = wave.size // WARP
        self._is_strong: list[bool] = []
        self._levels: list[int] = []
        self._is_narrow = False

    def add(self, access: Access) -> None:
        """The next site, by one of its accesses."""
        self._is_strong.append(is_strong(access))
        by_threads = self._is_strong[-1] and access.by.operation is None
        self._levels.append(NARROW.get(access.by.scope, EVERYBODY) if by_threads else EVERYBODY)
        self._is_narrow |= self._levels[-1] != EVERYBODY

    def parted(self, access: Access) -> tuple[int, int] | None:
        """Of the atomics of one step two that change one address, of threads that their scope leaves out."""
        level = NARROW.get(access.by.scope)
        if level is None or access.kind != "atomic" or access.by.operation is not None or len(access.by.threads) < 2:
            return None
        groups = np.asarray(access.by.threads // WARP // self._groups[level])
        owners = np.broadcast_to(-1 if access.owners is None else access.owners, groups.shape)
        order = np.lexsort((groups, access.addresses, owners))
        same = (np.diff(access.addresses[order].astype(np.int64)) == 0) & (np.diff(owners[order]) == 0)
        apart = np.flatnonzero(same & (np.diff(groups[order]) != 0))
        return (int(order[apart[0]]), int(order[apart[0] + 1])) if len(apart) else None

    def is_strong(self, site: int) -> bool:
        """Whether a site's accesses are strong."""
        return self._is_strong[site]

    def are_strong(self, sites: NDArray[Any]) -> Mask:
        """Which of several sites access strongly."""
        found: Mask = np.array(self._is_strong)[sites]
        return found

    def excused(self, number: int) -> Excused | None:
        """What excuses earlier accesses where one of site `number` comes now; None where nothing does."""
        if not self._is_strong[number]:
            return None
        strong, levels = np.array(self._is_strong), np.array(self._levels)

        def excuses(sites: NDArray[np.int32], earlier: NDArray[Any], sources: NDArray[Any]) -> NDArray[np.bool_]:
            alike: NDArray[np.bool_] = strong[sites]
            if not self._is_narrow:
                return alike
            group = self._groups[np.minimum(levels[sites], levels[number])]
            engines = (earlier >= self._warps) | (sources >= self._warps)
            together: NDArray[np.bool_] = alike & (engines | (earlier // group == sources // group))
            return together

        return excuses


class Strong:
    """The order of one wave's strong accesses."""

    def __init__(self, wave: Wave, clocks: Clocks) -> None:
        self._wave = wave
        self._clocks = clocks
        of_scope = _OF_SCOPE if clocks.has_narrow_fences else ""
        self._releases_nothing = _RELEASES_NOTHING.format(of_scope=of_scope)
        self._acquires_nothing = _ACQUIRES_NOTHING.format(of_scope=of_scope)
        self._writers: dict[Place, dict[int, _Written]] = {}
        """Of each place: what the CTAs wrote there last."""
        self._sent: list[_Sent] = []
        self._hints: dict[tuple[int, int], dict[Place, _Hint]] = {}
        """Of two CTAs, the later and the earlier: accesses by which they met, without being ordered, and why not."""
        self._met: dict[tuple[int, int], dict[Place, _Hint]] = {}
        """The same where they do order, for the warps of the two that access it."""

    def before(self, access: Access) -> None:
        """What the access acquires. A reduction that gives nothing back reads nothing."""
        if access.by.operation is None and (access.kind == "read" or returns_old(access)):
            self._catch_up()
            acquires = access.by.order in _ACQUIRES
            each = access.by.threads[:, None] // WARP
            for place, warps, cta in self._places(access):
                threads = access.by.threads[(each == warps).any(axis=1)]
                for level, token in self._tokens(place, cta, access.by):
                    self._clocks.read_flag(threads, token, level, acquires=acquires)
                self._note_read(access.by, place, cta, warps, acquires)

    def after(self, access: Access) -> None:
        """What the access releases."""
        if access.kind == "read":
            return
        if access.by.operation is not None:
            self._send(access, access.by.operation)
            return
        self._catch_up()
        by, releases = access.by, access.by.order in _RELEASES
        # A compare-and-swap that finds another value writes nothing.
        swapped = None if access.kept is None or ".cas." not in by.site.text else ~access.kept
        warps = np.unique(by.threads // WARP)
        seen = self._clocks.rows[warps, SEEN]
        for place, cta, writers, known in self._writes(access, warps, seen, swapped):
            published = None
            for level, token in self._tokens(place, cta, by):
                published = self._clocks.write_flag(writers, token, level, releases=releases)
            written = _Written(by.site, releases, writers, published, self._clocks.now, known)
            self._writers.setdefault(place, {})[cta] = written
        if releases:
            self._clocks.lanes.tell(by.threads, self._clocks.now, by.site)
        self._clocks.now += 1

    def _send(self, access: Access, operation: Pending) -> None:
        """Keep what an operation writes until a thread accesses memory strongly: copies write many places."""
        warps = np.unique(access.by.threads // WARP)
        row, seen = self._clocks.of_operation(access.by, operation), self._clocks.rows[warps, SEEN]
        self._sent.append(_Sent(access, row, self._clocks.now, warps, seen))
        self._clocks.now += 1
        if len(self._sent) > MOST_SENT:
            self._catch_up()

    def _catch_up(self) -> None:
        """What operations have released by now."""
        for sent in self._sent:
            by, tokens = sent.access.by, list[Hashable]()
            for place, cta, writers, known in self._writes(sent.access, sent.warps, sent.seen):
                tokens += [token for _, token in self._tokens(place, cta, by)]
                written = _Written(by.site, True, writers, None, sent.time, known)
                self._writers.setdefault(place, {})[cta] = written
            self._clocks.publish(sent.row, tokens)
        self._sent.clear()

    def _writes(
        self, access: Access, warps: NDArray[np.int64], seen: Times, which: Mask | None = None
    ) -> Iterator[tuple[Place, int, NDArray[np.int64], Times]]:
        """The places, each with a CTA, those of its warps that write there, and what these had seen."""
        of_some: dict[tuple[int, ...], Times] = {}  # neighbouring places share what the same warps have seen
        for place, writers, cta in self._places(access, which):
            key = tuple(writers.tolist())
            if (known := of_some.get(key)) is None:
                known = of_some[key] = seen[np.searchsorted(warps, writers)].max(axis=0)
            yield place, cta, writers, known

    def have_met(self, first: int, second: int) -> bool:
        """Whether one of two CTAs has read what the other wrote, as a flag or in place of one."""
        pairs = (first, second), (second, first)
        return any(each.get(pair) for each in (self._hints, self._met) for pair in pairs)

    def hint(self, thread: int, warp: int, time: int) -> tuple[Rule, Site, str] | None:
        """An access by which a thread met the CTA of a source that did something at a time, and why it orders nothing.

        A source is a warp, or what it issued, for which nothing waited where the flag is right.
        """
        earlier = self._clocks.cta_of(warp)
        ctas = thread // self._wave.cta_threads, earlier
        is_operation = warp >= self._clocks.warps
        known = (self._hints.get(ctas) or self._met.get(ctas) or {}).values()
        # A flag says nothing of what came later. Of several the one is meant whose writer comes after the source.
        hints = [each for each in reversed(known) if is_operation or each.written.time >= time]
        if not hints:
            return None
        hint = max(hints, key=lambda each: (each.written.seen[warp] >= time, thread // WARP in each.readers))
        if is_operation:
            return (rules.FLAG_ORDER if hint.reason else rules.WRITE_IN_FLIGHT), hint.site, hint.reason
        published, is_other = hint.written.published, thread // self._wave.cta_threads != earlier
        seen = hint.written.seen[warp] >= time or warp in hint.written.warps
        if is_other and published is not None and not seen:
            reason = "no barrier orders the access of the other warp before the release by the warp that writes it"
            return rules.FLAG_BARRIER, hint.written.site, reason
        acquired = self._clocks.rows[hint.readers, SEEN, warp]
        if is_other and thread // WARP not in hint.readers and (acquired >= time).any():
            return (
                rules.FLAG_BARRIER,
                hint.read,
                "no barrier orders this access after the acquire by the warp that reads it",
            )
        if hint.reason == self._releases_nothing and published is not None and published[warp] >= time:
            # A fence releases it: what is missing is on the other side.
            return rules.FLAG_ORDER, hint.read, self._acquires_nothing
        return (rules.FLAG_ORDER, hint.site, hint.reason) if hint.reason else None

    def hint_after_wait(self, cta: int, source: int, time: int) -> tuple[Rule, Site, str] | None:
        """An access by which a CTA met that of an operation, after a wait for its end, and why it orders nothing."""
        hints = self._hints.get((cta, self._clocks.cta_of(source)), {}).values()
        hint = next((each for each in reversed(hints) if each.written.seen[source] >= time), None)
        return None if hint is None else (rules.FLAG_ORDER, hint.site, hint.reason)

    def _note_read(self, by: By, place: Place, cta: int, warps: NDArray[np.int64], acquires: bool) -> None:
        for writer, written in self._writers.get(place, {}).items():
            if not written.releases:
                site, reason = written.site, self._releases_nothing
            elif not acquires:
                site, reason = by.site, self._acquires_nothing
            else:
                site, reason = by.site, ""
                self._hints.get((cta, writer), {}).pop(place, None)
            of_two = (self._hints if reason else self._met).setdefault((cta, writer), {})
            of_two.pop(place, None)
            of_two[place] = _Hint(site, reason, written, by.site, warps)
            if len(of_two) > MOST_FLAGS:
                del of_two[next(iter(of_two))]

    def _places(self, access: Access, which: Mask | None = None) -> Iterator[tuple[Place, NDArray[np.int64], int]]:
        """The places, each with the warps of a CTA that access it; those of some of the addresses, where given."""
        within = np.arange(0, access.size, _PLACE)
        places = (access.addresses.astype(np.int64)[:, None] + within) // _PLACE
        threads, owners = (
            np.broadcast_to(np.reshape(each, (-1, 1)), places.shape)
            for each in (access.by.threads, -1 if access.owners is None else access.owners)
        )
        columns = [owners, places, threads // self._wave.cta_threads, threads // WARP]
        chosen = columns if which is None else [each[which] for each in columns]
        rows = np.unique(np.stack([each.ravel() for each in chosen]), axis=1)
        found: dict[tuple[Place, int], list[int]] = {}
        for owner, address, cta, warp in rows.T.tolist():
            found.setdefault(((access.space, owner, address), cta), []).append(warp)
        for (place, cta), warps in found.items():
            yield place, np.array(warps), cta

    def _tokens(self, place: Place, cta: int, by: By) -> Iterator[tuple[int, tuple[object, ...]]]:
        """Under what a place is published for, and read by, those in the scope: the CTA, the cluster, and all."""
        groups = (cta, cta // self._wave.cluster_size, 0)
        for level in range(1, NARROW.get(by.scope, EVERYBODY) + 1):
            yield level, (*place, level, groups[level - 1])


def returns_old(access: Access) -> bool:
    """Whether threads learn from an atomic which others came before theirs; `red` says nothing of it."""
    return access.kind == "atomic" and "atom." in access.by.site.text
