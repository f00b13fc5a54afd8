"""Groups of asynchronous operations: each thread collects its own, commits them, and waits for them in order.

`Groups` holds one kind of a wave: cp.async, bulk copies, wgmma. PTX ISA 9.7.9.25.3, 9.7.15.7.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Mask, Pending, Threads
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Wave


@dataclass(eq=False, slots=True)
class Member:
    """An operation, the threads that have it in a group of theirs, and the number of that group for each of them.

    `reading` is the part of it that reads its sources, where a wait may be for that alone. `waited` are the threads
    that have waited for all of it.
    """

    operation: Pending
    threads: Threads
    groups: NDArray[np.int64]
    reading: Pending | None
    waited: Mask

    def awaited(self, read: bool) -> Pending:
        """What a wait is for."""
        return self.reading if read and self.reading is not None else self.operation


class Groups:
    """The groups of one kind of all threads of a wave.

    An operation that many threads issue in one step is one member for all of them.
    """

    def __init__(self, wave: Wave) -> None:
        self._committed = np.zeros(wave.size, np.int64)
        self._members: list[Member] = []

    def add(self, operation: Pending, threads: Threads, reading: Pending | None = None) -> None:
        """The operation joins the group that each of `threads` has not committed yet."""
        waited = np.zeros(len(threads), bool)
        self._members.append(Member(operation, threads, self._committed[threads], reading, waited))

    def commit(self, lanes: Lanes) -> None:
        """What each of the lanes added since its last commit is a group, also an empty one."""
        self._committed[lanes.index] += 1

    def blocked(self, lanes: Lanes, leave: int, *, read: bool = False) -> Mask:
        """Which of the lanes have an operation in flight in a group before their `leave` most recent ones.

        With `read` an operation that has read its sources counts as done.
        """
        blocked = np.zeros(lanes.count, bool)
        for member, here, there in self._waited_by(lanes, leave):
            if not member.awaited(read).done:
                blocked[here] |= ~member.waited[there]
        return blocked

    def awaited(self, lanes: Lanes, leave: int, *, read: bool = False) -> list[Pending]:
        """The operations in flight that a wait of these lanes is for."""
        waited = (member.awaited(read) for member, _, _ in self._waited_by(lanes, leave))
        return [operation for operation in waited if not operation.done]

    def leave(self, lanes: Lanes, leave: int, *, read: bool = False) -> list[tuple[Pending, Threads]]:
        """The lanes go on after their wait: the operations that they have waited for now, each with its threads.

        What all of its threads have waited for is forgotten.
        """
        found = []
        for member, _, there in self._waited_by(lanes, leave):
            new = there[~member.waited[there]]
            if len(new):
                found.append((member.awaited(read), member.threads[new]))
                member.waited[new] = not read
        if found and not read:
            self._members = [member for member in self._members if not member.waited.all()]
        return found

    def in_flight(self, threads: Threads) -> list[tuple[Member, bool]]:
        """The members of `threads` that are not done, and whether they are in a committed group."""
        found = []
        for member, here, there in self._of(Lanes(threads)):
            if not member.operation.done:
                found.append((member, bool((member.groups[there] < self._committed[threads[here]]).all())))
        return found

    def _waited_by(self, lanes: Lanes, leave: int) -> Iterator[tuple[Member, NDArray[np.int64], NDArray[np.int64]]]:
        """The members in groups before the `leave` last ones of the lanes, and where the lanes and threads are."""
        for member, here, there in self._of(lanes):
            old = member.groups[there] < self._committed[lanes.threads[here]] - leave
            if old.any():
                yield member, here[old], there[old]

    def _of(self, lanes: Lanes) -> Iterator[tuple[Member, NDArray[np.int64], NDArray[np.int64]]]:
        """The members of these lanes, where the lanes are among them, and where their threads are in the member."""
        for member in self._members:
            if len(member.threads) == lanes.count and np.array_equal(member.threads, lanes.threads):
                every = np.arange(lanes.count)
                yield member, every, every
                continue
            _, here, there = np.intersect1d(lanes.threads, member.threads, assume_unique=True, return_indices=True)
            if len(here):
                yield member, here, there


class CpAsyncGroups(Groups):
    """Groups of cp.async: `wave.part(CpAsyncGroups)`."""


class BulkGroups(Groups):
    """Groups of bulk copies that complete by bulk_group: `wave.part(BulkGroups)`."""


class WgmmaGroups(Groups):
    """Groups of wgmma.mma_async: `wave.part(WgmmaGroups)`."""
