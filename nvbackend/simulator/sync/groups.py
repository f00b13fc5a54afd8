"""Groups of asynchronous operations: each thread collects its own, commits them, and waits for them in order.

`Groups` holds one kind of a wave: cp.async, bulk copies, wgmma. PTX ISA 9.7.9.25.3, 9.7.15.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import Mask, Pending, Threads
from nvbackend.simulator.machine.lanes import Lanes


@dataclass(frozen=True, slots=True)
class Member:
    """An operation, the threads that have it in a group of theirs, and the number of that group for each of them.

    `reading` is the part of it that reads its sources, where a wait may be for that alone.
    """

    operation: Pending
    threads: Threads
    groups: NDArray[np.int64]
    reading: Pending | None

    def awaited(self, read: bool) -> Pending:
        """What a wait is for."""
        return self.reading if read and self.reading is not None else self.operation


class Groups:
    """The groups of one kind of all threads of a wave.

    An operation that many threads issue in one step is one member for all of them.
    """

    __slots__ = ("_committed", "_members")

    def __init__(self, threads: int) -> None:
        self._committed = np.zeros(threads, np.int64)
        self._members: list[Member] = []

    def add(self, operation: Pending, threads: Threads, reading: Pending | None = None) -> None:
        """The operation joins the group that each of `threads` has not committed yet."""
        self._members = [member for member in self._members if not member.operation.done]
        self._members.append(Member(operation, threads, self._committed[threads], reading))

    def commit(self, lanes: Lanes) -> None:
        """What each of the lanes added since its last commit is a group, also an empty one."""
        self._committed[lanes.index] += 1

    def blocked(self, lanes: Lanes, leave: int, *, read: bool = False) -> Mask:
        """Which of the lanes have an operation in flight in a group before their `leave` most recent ones.

        With `read` an operation that has read its sources counts as done.
        """
        blocked = np.zeros(lanes.count, bool)
        for member, here, groups in self._of(lanes):
            if not member.awaited(read).done:
                blocked[here] |= groups < self._committed[lanes.threads[here]] - leave
        return blocked

    def awaited(self, lanes: Lanes, leave: int, *, read: bool = False) -> list[Pending]:
        """The operations in flight that a wait of these lanes is for."""
        return [
            member.awaited(read)
            for member, here, groups in self._of(lanes)
            if not member.awaited(read).done and (groups < self._committed[lanes.threads[here]] - leave).any()
        ]

    def covered(self, lanes: Lanes, leave: int) -> Iterator[tuple[Member, Threads]]:
        """The members that a wait of these lanes covers, done or not, with the threads of the lanes that have them."""
        for member, here, groups in self._of(lanes):
            threads = lanes.threads[here]
            old = groups < self._committed[threads] - leave
            if old.any():
                yield member, threads[old]

    def in_flight(self, threads: Threads) -> Iterator[tuple[Member, bool]]:
        """The members of `threads` that are not done, and whether they are in a committed group."""
        for member, here, groups in self._of(Lanes(threads)):
            if not member.operation.done:
                yield member, bool((groups < self._committed[threads[here]]).all())

    def _of(self, lanes: Lanes) -> Iterator[tuple[Member, NDArray[np.int64], NDArray[np.int64]]]:
        """The members of these lanes, where the lanes are among them, and their groups."""
        for member in self._members:
            _, here, there = np.intersect1d(lanes.threads, member.threads, assume_unique=True, return_indices=True)
            if len(here):
                yield member, here, member.groups[there]
