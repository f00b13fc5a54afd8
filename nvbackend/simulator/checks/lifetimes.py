"""Lives of CTAs: bulk copies without a wait, and accesses to a CTA that has ended or not started."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Rule
from nvbackend.simulator.checks import rules
from nvbackend.simulator.checks.clocks import SEEN, Clocks
from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access, By, Pending, Sync, Threads
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.groups import BulkGroups

_LAST_PHASES = (
    "k.mbarrier.wait for the last phase of each of its mbarriers; k.cluster.sync() waits for threads, and not for what "
    "arrives later"
)
"""What else waits for the arrival of an operation."""


class Lifetimes(Watching):
    """The observer of one wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._clocks = wave.part(Clocks)
        self._reached: dict[tuple[int, int], tuple[int, By, int, str]] = {}
        """Of each CTA and source that has reached into its memory: when it did so last, who it was, and what it did."""
        self._filled: dict[tuple[int, int], tuple[int, By]] = {}
        """Of each CTA and source that has filled its memory by the async proxy: when it did so last, and who it was."""
        self._late: dict[Pending, tuple[By, int]] = {}
        """Operations that fill memory of a CTA which has ended."""
        self._arrived: dict[Hashable, NDArray[np.int32]] = {}
        """When each warp arrived in a phase of a cluster's barrier."""
        self._outlived: dict[int, NDArray[np.int32]] = {}
        """Of each CTA: when the warps arrived at the barriers of its cluster that it has waited at."""

    def exited(self, by: By) -> None:
        """A thread that ends has waited until its bulk stores have read their sources; its CTA, for what fills it."""
        for member, committed in self._wave.part(BulkGroups).in_flight(by.threads):
            reading = member.reading
            if reading is None or reading.done:
                continue
            thread = self._wave.thread_name(int(reading.threads[0]))
            rule = rules.NOT_WAITED if committed else rules.NOT_COMMITTED
            text = f"the {reading.engine} of PTX {reading.site}"
            rule.fail(at=reading.site.location, notes=((f"PTX {reading.site}", None),), thread=thread, operation=text)
        if self._wave.cluster_size > 1 or self._filled:
            for cta in np.unique(self._wave.cta(by.threads)).tolist():
                if not self._is_alive(cta):
                    self._ended(cta)

    def _is_alive(self, cta: int) -> bool:
        return bool(self._wave.alive.reshape(self._wave.cta_count, -1)[cta].any())

    def access(self, access: Access) -> None:
        """Shared memory of another CTA is accessed, or the own one filled by a copy."""
        if access.owners is None or access.space != "shared" or not len(access.addresses):
            return
        threads, owners = np.broadcast_arrays(access.by.threads, access.owners)
        if access.by.operation is not None and access.by.proxy == "async" and access.kind == "write":
            for cta in np.unique(owners[threads // self._wave.cta_threads == owners]).tolist():
                self._fill(access.by, cta)
        if self._wave.cluster_size > 1:
            does = "reads" if access.kind == "read" else "writes"
            self._reach(access.by, threads, owners, does, own=_is_sent(access))

    def _fill(self, by: By, cta: int) -> None:
        """A copy fills memory of the CTA that issued it, which must not have ended."""
        if not self._is_alive(cta):
            assert by.operation is not None
            self._late[by.operation] = by, cta
        sources, _ = self._clocks.source_of(by)
        self._filled[cta, int(sources[0])] = self._clocks.now, by

    def completed(self, operation: Pending) -> None:
        """What an operation has done is compared with other accesses by now: a read that is too early is the cause."""
        late = self._late.pop(operation, None)
        if late is not None:
            self._fail_left(*late)

    def _fail_left(self, by: By, cta: int) -> NoReturn:
        assert by.operation is not None
        who = f"the {by.operation.engine} of {self._wave.thread_name(int(by.threads[0]))}"
        rules.FILL_LEFT.fail(at=by.site.location, notes=((f"PTX {by.site}", None),), operation=who, cta=cta)

    def release(self, sync: Sync) -> None:
        """An arrival at an mbarrier of another CTA, or at the barrier of a cluster."""
        if self._wave.cluster_size == 1 or not isinstance(sync.token, tuple):
            return
        kind, place, *rest = sync.token
        if kind == "mbarrier":
            self._reach(sync.by, sync.by.threads, np.full(len(sync.by.threads), place), "arrives at an mbarrier in")
        elif kind == "cluster":
            arrived = self._arrived.setdefault((place, *rest), np.zeros(self._clocks.sources, np.int32))
            arrived[sync.by.threads // WARP] = self._clocks.now

    def acquire(self, sync: Sync) -> None:
        """Threads go on after the barrier of their cluster: their CTA outlives what came before the arrivals."""
        if self._wave.cluster_size > 1 and isinstance(sync.token, tuple) and sync.token[0] == "cluster":
            arrived = self._arrived[tuple(sync.token[1:])]
            for cta in np.unique(self._wave.cta(sync.by.threads)).tolist():
                self._outlived[cta] = np.maximum(self._outlived.get(cta, arrived), arrived)

    def _reach(self, by: By, threads: Threads, owners: NDArray[np.int64], does: str, *, own: bool = False) -> None:
        """Threads, or an operation of theirs, touch the memory of CTAs, which must have started and not ended.

        With `own`, that of their own CTA is looked at too.
        """
        wave = self._wave
        remote = np.flatnonzero((threads // wave.cta_threads != owners) | own)
        if not len(remote):
            return
        sources, clocks = self._clocks.source_of(by)
        rows = self._clocks.places(by)
        for place in _firsts(threads[remote] // WARP, owners[remote]):
            lane = int(remote[place])
            cta, at = int(owners[lane]), lane if len(by.threads) > 1 else 0
            warps = self._warps(cta)
            if not self._is_alive(cta):
                self._fail(_late(does), by, lane, cta, does, "and every thread of that CTA has ended")
            if not clocks[rows[at], SEEN, warps].any():
                self._fail(rules.NOT_STARTED, by, lane, cta, does, "and nothing before it waits for that CTA")
            self._reached[cta, int(sources[at])] = self._clocks.now, by, lane, does

    def _warps(self, cta: int) -> slice:
        each = self._wave.cta_threads // WARP
        return slice(cta * each, (cta + 1) * each)

    def _ended(self, cta: int) -> None:
        """Every thread of a CTA has ended: what reached into its memory came before, or is a mistake."""
        seen = self._clocks.rows[self._warps(cta), SEEN].max(axis=0)
        for source in [source for target, source in self._filled if target == cta]:
            time, by = self._filled.pop((cta, source))
            if seen[source] < time:
                self._fail_left(by, cta)
        outlived = self._outlived.get(cta, seen)
        for source in [source for target, source in self._reached if target == cta]:
            time, by, lane, does = self._reached.pop((cta, source))
            if seen[source] < time and outlived[self._warp_of(by, lane)] < time:
                self._fail(_late(does), by, lane, cta, does, "which ends without waiting for that")

    def _warp_of(self, by: By, lane: int) -> int:
        return int(by.threads[0 if len(by.threads) == 1 else lane]) // WARP

    def _fail(self, rule: Rule, by: By, lane: int, cta: int, does: str, reason: str) -> NoReturn:
        thread = self._wave.thread_name(int(by.threads[0 if len(by.threads) == 1 else lane]))
        who = thread if by.operation is None else f"the {by.operation.engine} of {thread}"
        other = "k.cluster.sync() in all threads" if by.operation is None else _LAST_PHASES
        notes = ((f"PTX {by.site}", None),)
        rule.fail(at=by.site.location, notes=notes, operation=who, does=does, cta=cta, reason=reason, other=other)


def _is_sent(access: Access) -> bool:
    """Whether a bulk copy reads memory of its CTA: that must outlive it, though it may complete in another CTA."""
    operation = access.by.operation
    return access.kind == "read" and operation is not None and operation.engine.startswith("cp.")


def _late(does: str) -> Rule:
    return rules.EXIT_BEFORE_PEERS if "mbarrier" in does else rules.EXIT_BEFORE_ACCESS


def _firsts(warps: NDArray[np.int64], owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first place of each pair of a warp and a CTA."""
    found: NDArray[np.int64] = np.unique((warps << 32) + owners, return_index=True)[1]
    return found
