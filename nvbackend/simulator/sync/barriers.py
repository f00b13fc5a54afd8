"""Named barriers of CTAs, and the barrier of a cluster: counts, phases, reductions. PTX ISA 9.7.13.1, 9.7.13.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import By, Mask, Sync, Threads
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync import rules
from nvbackend.simulator.sync.faults import fail

BARRIERS = 16
WARP = 32


@dataclass(slots=True)
class _Barrier:
    """One barrier of a CTA. `count` is that of the phase's first arrival, 0 before it; -1 counts all of the CTA."""

    phase: int = 0
    count: int = 0
    arrived: int = 0
    first: str = ""
    tally: int = 0


class Barriers:
    """`wave.part(Barriers)`: the sixteen barriers of each CTA.

    A thread that arrives by a `sync` is held until the phase it arrived in is over.
    """

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._barriers: dict[tuple[int, int], _Barrier] = {}
        self._tallies: dict[tuple[int, int, int], int] = {}

    def arrive(self, by: By, cta: int, barrier: int, count: int | None, threads: Threads, tally: int = 0) -> int:
        """`threads` of a CTA arrive, whole warps; gives the phase. `tally` adds up over the phase, for a reduction.

        Raises barrier.id, barrier.threads, simulator.barrier-counts, simulator.barrier-crowd.
        """
        if not 0 <= barrier < BARRIERS:
            fail(rules.BARRIER_ID, self._wave, by, given=barrier)
        if count is not None and (count <= 0 or count % WARP):
            fail(rules.BARRIER_THREADS, self._wave, by, threads=count)
        at = self._barriers.setdefault((cta, barrier), _Barrier())
        expected = count if count is not None else self._wave.block_threads
        coming = WARP * len(np.unique(threads // WARP))
        if at.arrived == 0:
            at.count, at.first = expected, by.site.text
        elif at.count != expected:
            fail(
                rules.BARRIER_COUNTS,
                self._wave,
                by,
                threads=expected,
                barrier=barrier,
                earlier=at.first,
                others=at.count,
            )
        if at.arrived + coming > -(-at.count // WARP) * WARP:
            fail(
                rules.BARRIER_CROWD,
                self._wave,
                by,
                threads=coming,
                barrier=barrier,
                expected=at.count,
                arrived=at.arrived,
            )
        self._tell(by, cta, barrier, at.phase, threads, "release")
        at.arrived += coming
        at.tally += tally
        phase = at.phase
        self._end_phase(cta, barrier, at)
        return phase

    def _end_phase(self, cta: int, barrier: int, at: _Barrier) -> None:
        if at.arrived >= at.count:
            self._tallies[cta, barrier, at.phase] = at.tally
            at.phase += 1
            at.arrived = at.tally = 0

    def passed(self, cta: int, barrier: int, phase: int) -> bool:
        """Whether that phase is over."""
        return self._barriers[cta, barrier].phase > phase

    def tally(self, cta: int, barrier: int, phase: int) -> int:
        """What the arrivals of a phase that is over added up to."""
        return self._tallies[cta, barrier, phase]

    def acquire(self, by: By, cta: int, barrier: int, phase: int, threads: Threads) -> None:
        """The threads see what came before the arrivals of the phase."""
        self._tell(by, cta, barrier, phase, threads, "acquire")

    def text(self, cta: int, barrier: int) -> str:
        """The state, for the report of a deadlock."""
        at = self._barriers.get((cta, barrier), _Barrier())
        return f"barrier {barrier} of CTA {cta}: {at.arrived} of {at.count} threads have arrived"

    def _tell(self, by: By, cta: int, barrier: int, phase: int, threads: Threads, method: str) -> None:
        if self._wave.observers:
            part = By(by.site, threads, by.operation, by.proxy, by.order, by.scope)
            sync = Sync(part, ("barrier", cta, barrier, phase))
            for observer in self._wave.observers:
                getattr(observer, method)(sync)


class ClusterBarrier:
    """`wave.part(ClusterBarrier)`: the barrier of each cluster of the wave.

    `arrive` and `wait` are of any lanes; threads that have ended count as arrived.
    """

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        clusters = wave.cta_count // wave.cluster_size
        self._phase = np.zeros(clusters, np.int64)
        self._arrived = np.zeros(clusters, np.int64)
        self._pending = np.zeros(wave.cta_count * wave.cta_threads, bool)
        self._phases = np.zeros(wave.cta_count * wave.cta_threads, np.int64)

    def cluster(self, threads: Threads) -> NDArray[np.int64]:
        """The cluster of each thread."""
        return self._wave.cta(threads) // self._wave.cluster_size

    def arrive(self, by: By, threads: Threads) -> None:
        """Raises cluster.arrived-twice."""
        twice = self._pending[threads]
        if twice.any():
            fail(rules.CLUSTER_ARRIVED_TWICE, self._wave, by, int(np.flatnonzero(twice)[0]))
        clusters = self.cluster(threads)
        self._pending[threads] = True
        self._phases[threads] = self._phase[clusters]
        self._tell(by, threads, clusters, "release")
        np.add.at(self._arrived, clusters, 1)
        self.advance(np.unique(clusters))

    def advance(self, clusters: NDArray[np.int64]) -> None:
        """End the phase of clusters whose threads have all arrived."""
        full = self._arrived[clusters] >= self._wave.block_threads * self._wave.cluster_size
        self._phase[clusters[full]] += 1
        self._arrived[clusters[full]] = 0

    def passed(self, by: By, threads: Threads) -> Mask:
        """Which threads need not wait any more. Raises cluster.wait-alone."""
        alone = ~self._pending[threads]
        if alone.any():
            fail(rules.CLUSTER_WAIT_ALONE, self._wave, by, int(np.flatnonzero(alone)[0]))
        done: Mask = self._phases[threads] < self._phase[self.cluster(threads)]
        return done

    def leave(self, by: By, threads: Threads) -> None:
        """Threads go on after their wait."""
        self._pending[threads] = False
        self._tell(by, threads, self.cluster(threads), "acquire")

    def text(self, thread: int) -> str:
        """The state, for the report of a deadlock."""
        cluster = int(self.cluster(np.array([thread]))[0])
        every = self._wave.block_threads * self._wave.cluster_size
        return f"the barrier of cluster {cluster}: {self._arrived[cluster]} of {every} threads have arrived"

    def _tell(self, by: By, threads: Threads, clusters: NDArray[Any], method: str) -> None:
        if not self._wave.observers:
            return
        for cluster in np.unique(clusters).tolist():
            mine = threads[clusters == cluster]
            phase = int(self._phases[mine[0]])
            part = By(by.site, mine, by.operation, by.proxy, by.order, by.scope)
            for observer in self._wave.observers:
                getattr(observer, method)(Sync(part, ("cluster", cluster, phase)))
