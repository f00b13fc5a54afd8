"""Vector clocks: how much of what the others did each warp, and each operation in flight, has seen.

Time is one counter of the wave, which each release moves on. A warp's clock has a time for each *source*: a warp, a
warp's own share of an operation that several warps issued together, and a few numbers of each CTA that operations take
in turn. What a source did at time t is seen where the clock has t or more for it. So an operation that takes a number
again passes on what its predecessor did: a mistake may be missed by that, none is made up. Lanes of one warp are one.

A second clock holds what has been published to the async proxy, by a proxy fence after it was seen.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.checks.lane_clocks import LaneClocks, Times
from nvbackend.simulator.checks.shadow import ALWAYS
from nvbackend.simulator.events import By, Pending, Site, Threads
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.ended import END
from nvbackend.simulator.sync.mbarriers import Mbarriers
from nvbackend.simulator.sync.members import ALL

COPIES_OF_THREADS = "cp.async"
"""The engine whose operations are many, one of each thread; others are one of all their threads."""
ARRIVALS_OF_COPIES = "cp.async.mbarrier.arrive"
NUMBERS = 64
"""The numbers of a CTA that operations take in turn."""
STARTED = 1
"""What is seen of a warp of which no more than its start is known."""
PARTS = 5
"""A clock: what was seen; what of it was published to the async proxy in shared and in global memory; what of it came
before a fence, which relaxed writes publish; and what relaxed reads met, which is seen after a fence."""
SEEN, SHARED, GLOBAL, FENCED, MET = range(PARTS)
NARROW = {"cta": 1, "cluster": 2}
EVERYBODY = 3
LEVELS = range(1, EVERYBODY + 1)
"""The levels of scopes: a CTA, its cluster, all."""
_PARTS_OF_NARROW = 4
"""FENCED and MET of the narrow levels, which follow the other parts where the program has fences of such a scope."""
_NARROW_FENCE = r"(@\S+\s+)?(fence\.(?!proxy|mbarrier)\S*\.(cta|cluster)|membar\.cta)\b"


@dataclass(slots=True)
class OperationClock:
    """What an operation had seen when it was issued, a row for each of its warps; `source` is its number."""

    warps: NDArray[np.int64]
    rows: NDArray[np.int32]
    """(warps, parts, sources)."""
    source: int
    issued: int
    met: Times
    """When the lanes of each of its warps had met last."""
    bounds: Times | None
    """What each lane of these knew of each lane, (warps, lanes, lanes), where that is more."""
    written: int = 0
    """When it wrote."""
    at_completion: Times | None = None
    has_waited: bool = False
    """Whether what the operation came after is part of its clock."""


class Clocks:
    """The clocks of a wave, (warps, parts, sources)."""

    def __init__(self, wave: Wave) -> None:
        self.warps = wave.size // WARP
        self.sources = 2 * self.warps + NUMBERS * wave.cta_count
        self.has_narrow_fences = any(re.match(_NARROW_FENCE, site.text) for site in wave.sites())
        self.parts = PARTS + _PARTS_OF_NARROW * self.has_narrow_fences
        self.rows: NDArray[np.int32] = np.zeros((self.warps, self.parts, self.sources), np.int32)
        each = np.arange(self.warps)
        self.rows[each, SEEN, each] = ALWAYS
        self.now = STARTED + 1
        self.lanes = LaneClocks(wave, STARTED)
        self._wave = wave
        self._issued = np.zeros(wave.cta_count, np.int64)
        self._tokens: dict[Hashable, Times] = {}
        self._phases: dict[Hashable, tuple[Any, Any]] = {}
        self._operations: weakref.WeakKeyDictionary[Pending, OperationClock] = weakref.WeakKeyDictionary()

    def issue(self, operation: Pending) -> None:
        """An operation begins with what its threads have seen."""
        warps = np.unique(operation.threads // WARP)
        cta = int(operation.threads[0]) // self._wave.cta_threads
        source = 2 * self.warps + NUMBERS * cta + int(self._issued[cta]) % NUMBERS
        self._issued[cta] += 1
        rows = self.rows[warps]
        if self.lanes.overlays and (deaf := self.lanes.deaf(operation.threads)) is not None and deaf.all():
            rows[:, SEEN] = [self.lanes.overlays[warp].seen for warp in warps.tolist()]
        rows[np.arange(len(warps)), SEEN, warps] = self.now
        known = self.lanes.met[warps], self.lanes.all_bounds(warps)
        self._operations[operation] = OperationClock(warps, rows, source, self.now, *known)
        self.lanes.tell(operation.threads, self.now, operation.site)
        if operation.engine == ARRIVALS_OF_COPIES:
            self.lanes.arrive_with_copies(operation.threads)
        self.now += 1

    def of(self, operation: Pending) -> OperationClock:
        """The clock of an operation; what it waited for is part of it."""
        clock = self._operations.get(operation)
        if clock is None:
            self.issue(operation)
            clock = self._operations[operation]
        if operation.after and not clock.has_waited:
            known = [self._operations.get(earlier) for earlier in operation.after]
            done = [one.at_completion for one in known if one is not None and one.at_completion is not None]
            clock.rows = np.maximum.reduce([clock.rows, *(np.broadcast_to(one, clock.rows.shape) for one in done)])
            clock.has_waited = all(earlier.done for earlier in operation.after)
        return clock

    def complete(self, operation: Pending) -> None:
        """What the operation did can be waited for."""
        self.of(operation).at_completion = self._published(operation, self._own(operation))
        self.now += 1

    def _own(self, operation: Pending) -> NDArray[np.int64]:
        clock = self.of(operation)
        return np.array([clock.source, *(self.warps + clock.warps)])

    def _published(self, operation: Pending, sources: NDArray[np.int64]) -> Times:
        row: Times = self.of(operation).rows.max(axis=0)
        row[SEEN, sources] = self.now
        return row

    def source_of(self, by: By) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Who accesses: the source of each thread (or the one), and the clocks (threads or 1, parts, sources)."""
        warps = by.threads // WARP
        if by.operation is None:
            return warps, self.rows
        clock = self.of(by.operation)
        if len(by.threads) == 1:
            return np.array([clock.source]), clock.rows
        return self.warps + warps, clock.rows

    def cta_of(self, source: int) -> int:
        """The CTA of a source: of a warp, of a warp's share of an operation, or of an operation."""
        if source >= 2 * self.warps:
            return (source - 2 * self.warps) // NUMBERS
        return source % self.warps * WARP // self._wave.cta_threads

    def places(self, by: By) -> NDArray[np.int64]:
        """Which row of `source_of` is that of each thread."""
        warps = by.threads // WARP
        if by.operation is None:
            return warps
        return np.minimum(np.searchsorted(self.of(by.operation).warps, warps), len(self.of(by.operation).warps) - 1)

    def published(self, token: Hashable) -> Times | None:
        """What has been published under a token; None for nothing."""
        return self._tokens.get(token)

    def release_start(self, by: By, token: Hashable) -> None:
        """Publish that the threads' warps have started, and nothing that they did."""
        row = np.zeros((self.parts, self.sources), np.int32)
        row[SEEN, by.threads // WARP] = STARTED
        known = self._tokens.get(token)
        self._tokens[token] = row if known is None else np.maximum(known, row)

    def release(self, by: By, token: Hashable) -> None:
        """Publish what the threads or the operation have done and seen."""
        known = self._tokens.get(token)
        if by.operation is not None:
            row = self.of_operation(by, by.operation)
        else:
            warps = np.unique(by.threads // WARP)
            row = self.rows[warps].max(axis=0)
            row[SEEN, warps] = self.now
            if _is_end(token):
                self.lanes.end(by.threads, self.now, by.site)
            else:
                self.lanes.tell(by.threads, self.now, by.site, whole=_is_of_barrier(token))
        if known is None:
            known = self._earlier_phase(token)
        self._tokens[token] = row if known is None else np.maximum(known, row)
        self.now += 1

    def publish(self, row: Times, tokens: Iterable[Hashable]) -> None:
        """Publish what an operation had done and seen under the tokens of places, which share one row.

        Copies write many places, and a row has the times of all warps.
        """
        together: dict[int, Times] = {}  # places that were written together before share what they have, too
        for token in tokens:
            known = self._tokens.get(token)
            if known is None:
                self._tokens[token] = row
                continue
            if (both := together.get(id(known))) is None:
                both = together[id(known)] = np.maximum(known, row)
            self._tokens[token] = both

    def of_operation(self, by: By, operation: Pending) -> Times:
        """What an operation, or some threads of one, have done and seen by now."""
        sources = self._own(operation) if len(by.threads) == 1 else self.warps + np.unique(by.threads // WARP)
        return self._published(operation, sources)

    def _earlier_phase(self, token: Hashable) -> Times | None:
        """What the phase before this one published, which is before this phase; older ones are forgotten."""
        if not isinstance(token, tuple) or not isinstance(token[-1], int):
            return None
        *key, phase = token
        self._tokens.pop((*key, phase - 3), None)
        return self._tokens.get((*key, phase - 1))

    def acquire(self, threads: Threads, token: Hashable) -> None:
        """The threads see what was published under the token, or what an operation that is the token did."""
        self.now += 1
        if isinstance(token, Pending):
            self._acquire_operation(threads, token)
            return
        if _is_of_barrier(token):
            self.lanes.meet(np.unique(threads // WARP), self.now)
        known = self._tokens.get(token)
        if known is not None:
            self.lanes.learn(threads, known[SEEN])
            self._join(threads, known)

    def meet(self, threads: Threads, members: NDArray[np.uint32] | None = None) -> None:
        """The lanes of the threads' warps have come together, or of each thread those that its `members` name."""
        self.now += 1
        if members is None or (members == ALL).all():
            self.lanes.meet(np.unique(threads // WARP), self.now)
        else:
            self.lanes.meet_members(threads, members, self.now)

    def _acquire_operation(self, threads: Threads, operation: Pending) -> None:
        clock, warps = self.of(operation), np.unique(threads // WARP)
        if clock.at_completion is None:
            return
        if operation.engine == COPIES_OF_THREADS and len(operation.threads) > 1:
            self.lanes.wait_for_copies(threads, clock.written, self.now)
        if len(clock.warps) == 1:
            self._join(threads, clock.at_completion)
            return
        # A wait is for the copies of one's own, or for the product of one's own warpgroup.
        alone = operation.engine == COPIES_OF_THREADS
        waiting, issuing = (each if alone else self._wave.warpgroup(each * WARP) for each in (warps, clock.warps))
        for group in np.unique(waiting).tolist():
            row = clock.at_completion.copy()
            row[SEEN, self.warps + clock.warps[issuing != group]] = 0
            row[SEEN, clock.source] = 0
            self._join(threads[np.isin(threads // WARP, warps[waiting == group])], row)

    def _join(self, threads: Threads, row: Times) -> None:
        warps = np.unique(threads // WARP)
        self.lanes.hear(threads, self.rows[:, SEEN], row[SEEN])
        self.rows[warps] = np.maximum(self.rows[warps], row)

    def _fenced(self, level: int) -> int:
        """The part of what came before a fence of a scope of this level, or of a wider one."""
        return PARTS + level - 1 if self.has_narrow_fences and level != EVERYBODY else FENCED

    def _met(self, level: int) -> int:
        """The part of what relaxed reads met that writes have published for this level."""
        return PARTS + level + 1 if self.has_narrow_fences and level != EVERYBODY else MET

    def fence_memory(self, threads: Threads, site: Site, level: int) -> None:
        """What the threads have seen, relaxed writes publish from here on; what relaxed reads met is seen.

        A fence of a narrow scope does that for the threads in it.
        """
        levels = range(1, level + 1) if self.has_narrow_fences else (EVERYBODY,)
        warps = np.unique(threads // WARP)
        if self._wave.part(Mbarriers).has_relaxed:
            self.meet(threads)  # by relaxed arrivals and waits between fences lanes may have come one after another
        self.lanes.tell(threads, self.now, site)
        rows = self.rows
        for met in map(self._met, levels):
            for warp in warps[(rows[warps, met] > rows[warps, SEEN]).any(axis=1)].tolist():
                self.lanes.hear(threads[threads // WARP == warp], rows[:, SEEN], rows[warp, met])
            rows[warps, SEEN] = np.maximum(rows[warps, SEEN], rows[warps, met])
        for fenced in map(self._fenced, levels):
            rows[warps, fenced] = np.maximum(rows[warps, fenced], rows[warps, SEEN])
            rows[warps, fenced, warps] = self.now
        self.now += 1

    def write_flag(self, warps: NDArray[np.int64], token: Hashable, level: int, *, releases: bool) -> Times | None:
        """A strong write publishes what its warps have done and seen; without a release, up to their last fence.

        It does that for those of a level. Gives that; None where there was no fence of such a scope.
        """
        row = self.rows[warps].max(axis=0)
        row[[*map(self._met, LEVELS)]] = 0  # what relaxed reads met is not seen before a fence
        fenced = self._fenced(level)
        if releases:
            row[SEEN, warps] = self.now
        elif row[fenced].any():
            row[SEEN] = row[fenced]
        else:
            return None
        known = self._tokens.get(token)
        self._tokens[token] = row if known is None else np.maximum(known, row)
        published: Times = row[SEEN]
        return published

    def read_flag(self, threads: Threads, token: Hashable, level: int, *, acquires: bool) -> None:
        """A strong read meets what writes of the same place have published for those of a level.

        It sees that at once if it acquires.
        """
        known = self._tokens.get(token)
        if known is None:
            return
        self.lanes.learn(threads, known[SEEN])
        met, part = known.copy(), self._met(level)
        met[part] = np.maximum(known[part], known[SEEN])
        met[[*map(self._fenced, LEVELS)]] = 0  # no fence of this warp has come after it
        if not acquires:
            met[SEEN] = 0
        self._join(threads, met)

    def fence_proxy(self, threads: Threads, parts: tuple[int, ...]) -> None:
        """What the threads have seen is published to the async proxy in shared or global memory."""
        warps = np.unique(threads // WARP)
        for part in parts:
            seen = np.maximum(self.rows[warps, part], self.rows[warps, SEEN])
            seen[np.arange(len(warps)), warps] = self.now
            self.rows[warps, part] = seen
        self.now += 1


def _is_of_barrier(token: Hashable) -> bool:
    """Whether whole warps come to it: a barrier of a CTA or a cluster, or the end of the kernel."""
    return isinstance(token, tuple) and token[0] in ("barrier", "cluster")


def _is_end(token: Hashable) -> bool:
    """Whether it is the end of a warp."""
    return isinstance(token, tuple) and token[-1] == END
