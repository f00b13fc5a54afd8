"""Clusters that are taken over from the launch: as many as the run's launch says, then none."""

from __future__ import annotations

from typing import Any

from nvbackend.dry_run.machine.memory import SharedNumbers
from nvbackend.dry_run.seam import RANK_SHIFT, Launch
from nvbackend.intrinsics.row.row import Row

_HALF = 8
"""Bytes of half an answer: whether a cluster was taken over, and the place of its first CTA along x."""


def is_taking(row: Row | None) -> bool:
    """Whether it asks for a cluster."""
    return row is not None and row.family == "launch_control" and row.semantics.issues is not None


class Taking:
    """What each CTA that asks is answered: the clusters that are left go to whoever of a cluster asks first."""

    def __init__(self, launch: Launch, numbers: SharedNumbers) -> None:
        self._launch = launch
        self._numbers = numbers
        self._asked: dict[int, int] = {}
        self._alone: dict[int, set[int]] = {}
        """Of each cluster, the CTAs that asked for themselves."""

    def ask(self, cta: int, address: Any, mask: int, *, multicast: bool) -> None:
        """A CTA asks for the next cluster; the answer goes to `address`, in all CTAs of its cluster by `multicast`."""
        cluster = cta // self._launch.cluster
        if not multicast:
            self._alone.setdefault(cluster, set()).add(cta)
        asked = self._asked[cluster] = self._asked.get(cluster, 0) + 1
        taken = int(asked <= self._launch.taken)
        place = (self._launch.first + asked) * self._launch.cluster_shape[0]
        ranks = range(self._launch.cluster) if multicast else (None,)
        for rank in ranks if type(address) is int else ():
            there = address if rank is None else address & (1 << RANK_SHIFT) - 1 | rank << RANK_SHIFT
            self._numbers.store(there, taken, _HALF, cta, mask)
            self._numbers.store(there + _HALF, place, _HALF, cta, mask)

    @property
    def is_of_each(self) -> bool:
        """Whether several CTAs of one cluster asked for themselves."""
        return any(len(ctas) > 1 for ctas in self._alone.values())
