"""The threads of a CTA, of all CTAs of its cluster, as the three axes of a table of numbers.

The axes are the lane that elect.sync chooses (the same for every election in a warp: PTX ISA 9.7.13), the CTA's rank in
its cluster, and the thread. An axis of length 1 stands for a value that does not depend on it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nvbackend.builder.thread_tables.arithmetic import Numbers
from nvbackend.intrinsics.row.hierarchy import WARP_SIZE

AXES = ("x", "y", "z")


class Cta:
    """The shape of a CTA, None where only the number of its threads is known, and the CTAs of its cluster."""

    def __init__(self, threads: int, cluster: int = 1, shape: tuple[int, int, int] | None = None) -> None:
        self.threads = threads
        self.cluster = cluster
        self.shape = shape

    @cached_property
    def warps(self) -> int:
        """The warps, all of which are whole."""
        return self.threads // WARP_SIZE

    @cached_property
    def everyone(self) -> int:
        """All threads, a bit each."""
        return (1 << self.threads) - 1

    @cached_property
    def index(self) -> Numbers:
        """The number of each thread, by which warps are made of threads."""
        return np.arange(self.threads, dtype=np.uint64).reshape(1, 1, -1)

    @cached_property
    def lane(self) -> Numbers:
        """The lane of each thread."""
        return self.index % np.uint64(WARP_SIZE)

    @cached_property
    def leader(self) -> Numbers:
        """The lane that is elected."""
        return np.arange(WARP_SIZE, dtype=np.uint64).reshape(-1, 1, 1)

    @cached_property
    def elected(self) -> Numbers:
        """Whether each thread's lane is the one that is elected."""
        elected: Numbers = (self.lane == self.leader).astype(np.uint64)
        return elected

    @cached_property
    def rank(self) -> Numbers | None:
        """The rank of the CTA; None where the launch decides whether there is a cluster."""
        return np.arange(self.cluster, dtype=np.uint64).reshape(1, -1, 1) if self.cluster > 1 else None

    def along(self, axis: int) -> Numbers | None:
        """The index of each thread along an axis; None where the shape is not known."""
        if self.shape is None:
            return None
        x, y, _ = self.shape
        by, size = ((1, x), (x, y), (x * y, self.threads))[axis]
        return self.index // np.uint64(by) % np.uint64(size)
