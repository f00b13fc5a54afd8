"""The order of accesses to tensor memory: waits of one warp, commits, and barriers with fences between warps.

Loads and stores of a warp are *sources* each, and so are the mma, cp and shift of a CTA or pair, which complete in
order. For each warp three vectors have a time for each source: what it comes after by waits and barriers (ORDERED),
what of that was published by a `before_thread_sync` of the one and is on its way (PUBLISHED), and what an
`after_thread_sync` has let in (SEEN). A commit publishes by itself. Where a kernel has no such fence at all, barriers
alone count: compilers write that, and their kernels run. Nothing is kept before the first access.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Rule
from nvbackend.simulator.checks import tensor_rules as rules
from nvbackend.simulator.checks.shadow import Conflict, Shadow
from nvbackend.simulator.checks.strong import is_strong
from nvbackend.simulator.checks.watching import Watching
from nvbackend.simulator.events import Access, By, Pending, Site, Sync
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Wave

Rows = NDArray[np.int32]
ORDERED, PUBLISHED, SEEN = range(3)
_LANES, _COLUMNS = 128, 512
_READERS = 16
_LOAD, _STORE, _COMMIT = "tcgen05.ld", "tcgen05.st", "tcgen05.commit"


class TensorOrder(Watching):
    """The observer of one wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._warps = wave.size // WARP
        self._rows: Rows | None = None
        """(warps, 3, sources); None before the first access."""
        self._now = 1
        self._has_fences = False
        self._tokens: dict[Hashable, Rows] = {}
        self._issued: weakref.WeakKeyDictionary[Pending, tuple[NDArray[np.int64], Rows, int]] = (
            weakref.WeakKeyDictionary()
        )
        """Of each operation its warps, what they had seen when it was issued, and when that was."""
        self._done: weakref.WeakKeyDictionary[Pending, int] = weakref.WeakKeyDictionary()
        self._cells: dict[int, Shadow] = {}
        self._sites: list[tuple[Site, str]] = []
        self._numbers: dict[tuple[int, str], int] = {}

    def issued(self, operation: Pending) -> None:
        """It comes after what its warps come after."""
        if self._rows is None:
            if not operation.engine.startswith("tcgen05."):
                return
            self._rows = np.zeros((self._warps, 3, 2 * self._warps + self._wave.cta_count), np.int32)
        warps = np.unique(operation.threads // WARP)
        self._issued[operation] = warps, self._rows[warps], self._now

    def completed(self, operation: Pending) -> None:
        """It can be waited for."""
        if self._rows is not None:
            self._done[operation] = self._now
            self._now += 1

    def fence(self, by: By, kind: str) -> None:
        """A tcgen05.fence."""
        if not kind.startswith("tcgen05.fence"):
            return
        self._has_fences = True
        if self._rows is None:
            return
        warps = np.unique(by.threads // WARP)
        source, target = (SEEN, PUBLISHED) if "before" in kind else (PUBLISHED, SEEN)
        self._rows[warps, target] = np.maximum(self._rows[warps, target], self._rows[warps, source])

    def release(self, sync: Sync) -> None:
        """Publish what is ordered, and what a fence published."""
        if self._rows is None:
            return
        operation = sync.by.operation
        row = self._rows[np.unique(sync.by.threads // WARP)].max(axis=0)
        if operation is not None:
            row = self._of_operation(operation)
        known = self._tokens.get(sync.token)
        self._tokens[sync.token] = row if known is None else np.maximum(known, row)

    def _of_operation(self, operation: Pending) -> Rows:
        """What an operation publishes: what it came after, and of a commit the mma before it too."""
        _, rows, time = self._known(operation)
        row: Rows = rows.max(axis=0)
        if operation.engine == _COMMIT:
            row[PUBLISHED] = np.maximum(row[PUBLISHED], row[SEEN])
            times = [time, *(self._done.get(one, 0) for one in operation.after)]
            row[[ORDERED, PUBLISHED], self._engine_of(operation)] = max(times)
        return row

    def acquire(self, sync: Sync) -> None:
        """Threads go on after a wait."""
        if self._rows is None:
            return
        warps = np.unique(sync.by.threads // WARP)
        if isinstance(sync.token, Pending):
            if sync.token.engine in (_LOAD, _STORE):
                own = warps + self._warps * (sync.token.engine == _STORE)
                done = self._done.get(sync.token, 0)  # operations of one warp may end in any order
                for part in (ORDERED, SEEN):
                    self._rows[warps, part, own] = np.maximum(self._rows[warps, part, own], done)
            return
        known = self._tokens.get(sync.token)
        if known is not None:
            for part in (ORDERED, PUBLISHED):
                self._rows[warps, part] = np.maximum(self._rows[warps, part], known[part])

    def access(self, access: Access) -> None:
        """Compare with what last touched the cells, and take its place; strong accesses of other memory order."""
        if self._rows is None:
            return
        if access.space != "tensor":
            self._meet(access)
        elif len(access.addresses) and access.owners is not None:
            self._look(access)

    def _meet(self, access: Access) -> None:
        if is_strong(access):
            sync = Sync(access.by, ("strong", access.space))
            if access.by.operation is None:
                self.acquire(sync)
            self.release(sync)

    def _look(self, access: Access) -> None:
        by, owners = access.by, access.owners
        assert owners is not None
        cta, source, row = int(owners[0]), self._source(by), self._row(by)
        shadow = self._cells.get(cta)
        if shadow is None:
            shadow = self._cells[cta] = Shadow(_LANES * _COLUMNS, _READERS)
        address = access.addresses.astype(np.int64)
        cells = ((address >> 16) * _COLUMNS + (address & 0xFFFF))[:, None]
        sources, rows = np.full((len(cells), 1), source), np.zeros((len(cells), 1), np.int64)
        seen = row[self._needs(by)][None]
        conflict = shadow.unseen_write(cells, sources, rows, seen)
        if conflict is not None:
            self._report(access, shadow, cells, conflict, row)
        if access.kind == "read":
            shadow.read(cells, sources, self._now, self._number(by))
            return
        conflict = shadow.unseen_read(cells, sources, rows, row[ORDERED][None])
        if conflict is not None:
            self._report(access, shadow, cells, conflict, row)
        # What gives the columns back leaves nothing there.
        time = self._now if by.operation is not None else 0
        shadow.write(cells, np.maximum(sources, 0), time, self._number(by))

    def _needs(self, by: By) -> int:
        """What an access comes after.

        An `after_thread_sync` is for asynchronous operations (PTX ISA 9.7.16.11.1), and a dealloc is none (9.7.16.6.1).
        """
        if not self._has_fences:
            return ORDERED
        return PUBLISHED if by.operation is None else SEEN

    def _known(self, operation: Pending) -> tuple[NDArray[np.int64], Rows, int]:
        if operation not in self._issued:
            self.issued(operation)
        return self._issued[operation]

    def _row(self, by: By) -> Rows:
        """What who accesses comes after."""
        warp = int(by.threads[0]) // WARP
        if by.operation is None:
            assert self._rows is not None
            row: Rows = self._rows[warp]
            return row
        warps, rows, _ = self._known(by.operation)
        found: Rows = rows[int(np.searchsorted(warps, warp))]
        return found

    def _source(self, by: By) -> int:
        warp = int(by.threads[0]) // WARP
        if by.operation is None:
            return -1
        if by.operation.engine in (_LOAD, _STORE):
            return warp + self._warps * (by.operation.engine == _STORE)
        return self._engine_of(by.operation)

    def _engine_of(self, operation: Pending) -> int:
        """The source of the mma, cp and shift of a CTA or of a pair."""
        cta = int(operation.threads[0]) // self._wave.cta_threads
        return 2 * self._warps + cta - cta % self._wave.cluster_size % 2

    def _number(self, by: By) -> int:
        engine = "" if by.operation is None else by.operation.engine
        number = self._numbers.get((id(by.site), engine))
        if number is None:
            number = self._numbers[id(by.site), engine] = len(self._sites)
            self._sites.append((by.site, engine))
        return number

    def _report(
        self, access: Access, shadow: Shadow, cells: NDArray[np.int64], conflict: Conflict, row: Rows
    ) -> NoReturn:
        by = access.by
        site, engine = self._sites[conflict.site]
        rule = self._rule(access, shadow, cells[conflict.place : conflict.place + 1], conflict, row)
        lane, column = divmod(int(cells[conflict.place, 0]), _COLUMNS)
        what = by.operation.engine if by.operation is not None else "tcgen05.dealloc"
        who = f"the {what} of {self._wave.thread_name(int(by.threads[0]))}"
        does = {"read": "reads", "write": "writes"}.get(access.kind, "changes")
        assert access.owners is not None
        where = f"lane {lane}, column {column} of the tensor memory of CTA {int(access.owners[0])}"
        notes = ((f"PTX {by.site}", None), (f"{engine} is here (PTX {site})", site.origin))
        earlier = f"the {engine} of PTX line {site.line}"
        rule.fail(at=by.site.location, notes=notes, now=f"{who} {does}", cells=where, earlier=earlier)

    def _rule(self, access: Access, shadow: Shadow, cell: NDArray[np.int64], conflict: Conflict, row: Rows) -> Rule:
        """Which piece of the order is missing."""
        _, engine = self._sites[conflict.site]
        if conflict.was_read:
            return rules.WRITE_IN_FLIGHT
        _, writers, _ = shadow.writes_of(cell)
        writer = int(writers[0, 0])
        if row[PUBLISHED, writer] >= conflict.time:
            return rules.MISSING_FENCE_AFTER
        if row[ORDERED, writer] >= conflict.time:
            return rules.MISSING_FENCE_BEFORE
        if engine == _STORE:
            own = writer - self._warps == int(access.by.threads[0]) // WARP
            return rules.MISSING_WAIT_ST if own else rules.MISSING_BARRIER
        return rules.MISSING_WAIT if access.kind == "read" else rules.WRITE_IN_FLIGHT
