"""The barrier of a cluster: every thread that has not ended arrives, then waits. PTX ISA 9.7.13.3."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import By, Mask, Sync, Threads
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync import rules
from nvbackend.simulator.sync.ended import EndedWarps
from nvbackend.simulator.sync.faults import fail


class ClusterBarrier:
    """`wave.part(ClusterBarrier)`: the barriers of the clusters of a wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._ended = wave.part(EndedWarps)
        self._cluster_threads = wave.cta_threads * wave.cluster_size
        self._phase = np.zeros(wave.size // self._cluster_threads, np.int64)
        self._arrived = np.full(wave.size, -1, np.int64)
        """The phase that each thread has arrived in and not waited for, or -1."""
        self._ended_before: dict[int, NDArray[np.int64]] = {}
        """Of each cluster: the warps that had ended when its last phase was over."""

    def arrive(self, by: By, threads: Threads) -> None:
        """Relaxed arrivals are reported too, although they order no memory. Raises cluster.arrived-twice."""
        twice = np.flatnonzero(self._arrived[threads] >= 0)
        if len(twice):
            fail(rules.CLUSTER_ARRIVED_TWICE, self._wave, by, int(twice[0]))
        self._arrived[threads] = self._phase[threads // self._cluster_threads]
        self._tell("release", by, threads)

    def passed(self, by: By, threads: Threads) -> Mask:
        """Which threads need not wait any more. Raises cluster.wait-alone."""
        alone = np.flatnonzero(self._arrived[threads] < 0)
        if len(alone):
            fail(rules.CLUSTER_WAIT_ALONE, self._wave, by, int(alone[0]))
        clusters = threads // self._cluster_threads
        for cluster in np.unique(clusters).tolist():
            self._advance(cluster)
        mask: Mask = self._arrived[threads] < self._phase[clusters]
        return mask

    def _advance(self, cluster: int) -> None:
        """End the phase if every thread that has not ended has arrived in it."""
        mine = self._threads(cluster)
        if (self._arrived[mine][self._wave.alive[mine]] == self._phase[cluster]).all():
            self._phase[cluster] += 1
            self._ended_before[cluster] = self._ended.among(mine)

    def _threads(self, cluster: int) -> slice:
        return slice(cluster * self._cluster_threads, (cluster + 1) * self._cluster_threads)

    def leave(self, by: By, threads: Threads) -> None:
        """Threads go on after their wait."""
        self._tell("acquire", by, threads)
        for cluster, mine in self._parts(threads):
            self._ended.follow(By(by.site, mine), self._ended_before[cluster])
        self._arrived[threads] = -1

    def text(self, threads: Threads) -> str:
        """The states, for the report of a deadlock."""
        return "; ".join(map(self._text, np.unique(threads // self._cluster_threads).tolist()))

    def _text(self, cluster: int) -> str:
        mine = self._threads(cluster)
        alive = self._wave.alive[mine]
        arrived = int((self._arrived[mine][alive] == self._phase[cluster]).sum())
        return f"the barrier of cluster {cluster}: {arrived} of {int(alive.sum())} threads have arrived"

    def _tell(self, method: str, by: By, threads: Threads) -> None:
        for cluster, mine in self._parts(threads) if self._wave.observers else ():
            part = By(by.site, mine, by.operation, by.proxy, by.order, by.scope)
            for observer in self._wave.observers:
                getattr(observer, method)(Sync(part, ("cluster", cluster, int(self._arrived[mine[0]]))))

    def _parts(self, threads: Threads) -> Iterator[tuple[int, Threads]]:
        """The threads of each cluster."""
        clusters: NDArray[np.int64] = threads // self._cluster_threads
        for cluster in np.unique(clusters).tolist():
            yield cluster, threads[clusters == cluster]
