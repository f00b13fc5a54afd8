"""The sixteen named barriers of each CTA: counts, phases, reductions. PTX ISA 9.7.13.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import By, Mask, Sync, Threads
from nvbackend.simulator.machine.wave import Cause, Wave
from nvbackend.simulator.sync import rules
from nvbackend.simulator.sync.ended import EndedWarps
from nvbackend.simulator.sync.faults import fail, opcode

BARRIERS: Final = 16
WARP: Final = 32
Key = tuple[int, int]
"""A CTA of the wave and the number of one of its barriers."""


@dataclass(slots=True)
class _Barrier:
    """A barrier of a CTA. `count` is what the phase's first arrival gave, None for all threads of the CTA."""

    phase: int = 0
    count: int | None = None
    arrived: int = 0
    first: str = ""
    trues: int = 0
    voters: int = 0
    results: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of each phase that is over: how many of how many predicates were true."""
    ended: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    """Of each phase that is over and counted all threads: the warps that had ended."""


class Barriers:
    """`wave.part(Barriers)`. A thread that arrives by a `sync` is held until the phase it joined is over."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._ended = wave.part(EndedWarps)
        self._barriers: dict[Key, _Barrier] = {}
        self._joined = np.full(wave.size, -1, np.int64)

    def __iter__(self) -> Iterator[Key]:
        """The barriers that have been used, by CTA and number."""
        return iter(sorted(self._barriers))

    def joined(self, threads: Threads) -> Mask:
        """Which threads have arrived and not gone on."""
        mask: Mask = self._joined[threads] >= 0
        return mask

    def arrive(
        self,
        by: By,
        key: Key,
        count: int | None,
        threads: Threads,
        *,
        votes: Mask | None = None,
        by_warp: bool = True,
        stays: bool = True,
    ) -> None:
        """`threads` of a CTA arrive; those of a `sync` stay. `by_warp` counts a warp as 32 threads.

        Raises barrier.id, barrier.threads, simulator.barrier-counts, simulator.barrier-crowd.
        """
        cta, barrier = key
        if not 0 <= barrier < BARRIERS:
            fail(rules.BARRIER_ID, self._wave, by, given=barrier)
        if count is not None and (count <= 0 or count % WARP):
            fail(rules.BARRIER_THREADS, self._wave, by, threads=count)
        at = self._barriers.setdefault(key, _Barrier())
        coming = WARP * len(np.unique(threads // WARP)) if by_warp else len(threads)
        if at.arrived == 0:
            at.count, at.first = count, opcode(by.site.text)
        elif at.count != count:
            said, others = (each if each is not None else self._everybody(cta) for each in (count, at.count))
            if said != others:
                fail(
                    rules.BARRIER_COUNTS, self._wave, by, threads=said, barrier=barrier, earlier=at.first, others=others
                )
        if at.count is not None and at.arrived + coming > at.count:
            fail(
                rules.BARRIER_CROWD,
                self._wave,
                by,
                threads=coming,
                barrier=barrier,
                expected=at.count,
                arrived=at.arrived,
            )
        self._tell("release", by, key, at.phase, threads)
        at.arrived += coming
        if votes is not None:
            at.trues, at.voters = at.trues + int(votes.sum()), at.voters + len(votes)
        if stays:
            self._joined[threads] = at.phase
        self._advance(key, at)

    def _everybody(self, cta: int) -> int:
        """The threads of a CTA that have not ended, whole warps."""
        return self._wave.cta_threads - WARP * len(self._ended.among(self._threads(cta)))

    def _threads(self, cta: int) -> slice:
        return slice(cta * self._wave.cta_threads, (cta + 1) * self._wave.cta_threads)

    def _advance(self, key: Key, at: _Barrier) -> None:
        if at.arrived and at.arrived >= (self._everybody(key[0]) if at.count is None else at.count):
            at.results[at.phase] = at.trues, at.voters
            if at.count is None and len(ended := self._ended.among(self._threads(key[0]))):
                at.ended[at.phase] = ended
            at.phase += 1
            at.arrived = at.trues = at.voters = 0

    def passed(self, key: Key, threads: Threads) -> Mask:
        """Which of the threads that joined a phase of the barrier can go on."""
        at = self._barriers.get(key)
        if at is None:
            return np.zeros(len(threads), bool)
        self._advance(key, at)
        mask: Mask = (self._joined[threads] >= 0) & (self._joined[threads] < at.phase)
        return mask

    def leave(self, by: By, key: Key, threads: Threads) -> tuple[int, int]:
        """The threads go on; gives how many of how many predicates of their phase were true."""
        phase = int(self._joined[threads[0]])
        self._joined[threads] = -1
        self._tell("acquire", by, key, phase, threads)
        at = self._barriers[key]
        if phase in at.ended:
            self._ended.follow(By(by.site, threads), at.ended[phase])
        return at.results[phase]

    def text(self, key: Key) -> str:
        """The state of a barrier."""
        return f"barrier {key[1]} of CTA {key[0]}: {self._came(key)}"

    def cause(self, key: Key, threads: Threads) -> Cause:
        """Why threads wait there, for the report of a deadlock."""
        return Cause(threads, f"waits at barrier {key[1]} of its CTA, where {self._came(key)}")

    def _came(self, key: Key) -> str:
        at = self._barriers.get(key, _Barrier())
        count = at.count if at.count is not None else self._everybody(key[0])
        return f"{at.arrived} of {count} threads have arrived"

    def _tell(self, method: str, by: By, key: Key, phase: int, threads: Threads) -> None:
        if self._wave.observers:
            part = By(by.site, threads, by.operation, by.proxy, by.order, by.scope)
            for observer in self._wave.observers:
                getattr(observer, method)(Sync(part, ("barrier", *key, phase)))
