"""The threads of a CTA, of all CTAs of its cluster, as the three axes of a table of numbers, and sets of them.

The axes are the lane that elect.sync chooses (the same for every election in a warp: PTX ISA 9.7.13), the CTA's rank in
its cluster, and the thread. An axis of length 1 stands for a value that does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from nvbackend.builder.thread_tables.arithmetic import Mask, Numbers
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.isel.machine.function import Crew

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


@dataclass(frozen=True)
class ThreadSet:
    """Which threads are `present`: by the lane that each warp elects, the CTA's rank, and the thread in its CTA.

    What is asked of one CTA is for sets that are the same in all of them.
    """

    present: Mask

    def where(self, holds: Mask) -> ThreadSet:
        """Those of them for which it holds."""
        return ThreadSet(self.present & holds)

    @cached_property
    def of_cta(self) -> ThreadSet | None:
        """Those of one CTA; None where they are not the same in all."""
        alike = self.present.shape[1] == 1 or bool((self.present == self.present[:, :1]).all())
        return self.in_cta(0) if alike else None

    def in_cta(self, rank: int) -> ThreadSet:
        """Those of the CTA of that rank."""
        if self.present.shape[1] == 1:
            return self
        return ThreadSet(self.present[:, rank : rank + 1])

    @cached_property
    def _by_warp(self) -> Numbers:
        """How many of each warp they are, by the lane that it elects."""
        leaders, _, threads = self.present.shape
        counts: Numbers = self.present.reshape(leaders, threads // WARP_SIZE, WARP_SIZE).sum(axis=-1)
        return counts

    @cached_property
    def count(self) -> int | None:
        """How many they are; None where that depends on who is elected."""
        return int(self._by_warp[0].sum()) if (self._by_warp == self._by_warp[:1]).all() else None

    @property
    def warps(self) -> int:
        """How many warps some of them may belong to."""
        return int((self._by_warp > 0).any(axis=0).sum())

    @cached_property
    def is_elected(self) -> bool:
        """Whether they are one lane of each of their warps, and which one it is is open."""
        counts = self._by_warp
        return not self.is_exact and bool(((counts == counts[:1]) & (counts <= 1)).all())

    @cached_property
    def is_exact(self) -> bool:
        """Whether they are the same threads whichever lane is elected."""
        return bool((self.present == self.present[:1]).all())

    @property
    def is_one_lane(self) -> bool:
        """Whether they are some, and no two of one warp."""
        return bool((self._by_warp <= 1).all()) and bool(self.present.any())

    @cached_property
    def bits(self) -> int:
        """A bit for each, or for the warp of each where one lane of it is elected."""
        if self.is_exact:
            return bits_of(self.present[0, 0])
        return sum(1 << warp * WARP_SIZE for warp, count in enumerate(self._by_warp[0]) if count)

    @property
    def exact(self) -> list[int]:
        """Their numbers; none where that depends on who is elected."""
        return np.flatnonzero(self.present[0, 0]).tolist() if self.is_exact else []

    @property
    def lanes(self) -> int:
        """The lanes that they are in their warps, a bit each."""
        return bits_of(self.present.reshape(-1, WARP_SIZE).any(axis=0))

    @property
    def is_of_whole_warps(self) -> bool:
        """Whether they are all threads of the warps that they are in."""
        return bool(((self._by_warp == 0) | (self._by_warp == WARP_SIZE)).all())

    def values(self, numbers: Numbers) -> tuple[int, ...]:
        """Which of the `numbers`, by elected lane, rank and thread, some have for every elected lane, each once."""
        shape = np.broadcast_shapes(self.present.shape, numbers.shape)
        present, wide = np.broadcast_to(self.present, shape)[:, 0], np.broadcast_to(numbers, shape)[:, 0]
        found: dict[int, None] = {}
        for start in range(0, shape[2], WARP_SIZE):
            warp = slice(start, start + WARP_SIZE)
            rows = [row[here].tolist() for here, row in zip(present[:, warp], wide[:, warp], strict=True)]
            certain = set[int].intersection(*map(set, rows))
            found |= dict.fromkeys(one for one in rows[0] if one in certain)
        return tuple(found)

    @property
    def candidates(self) -> list[list[int]] | None:
        """The threads of which each is one of those elected, or itself; None for other sets."""
        if not self.is_exact and not self.is_elected:
            return None
        threads = np.flatnonzero(self.present[:, 0].any(axis=0)).tolist()
        if self.is_exact:
            return [[thread] for thread in threads]
        return [list(warp) for _, warp in groupby(threads, lambda thread: thread // WARP_SIZE)]

    def crew(self, anchor: str) -> Crew | None:
        """What the machine form says of them; None where there is no word for it."""
        if not self.is_exact and not self.is_elected:
            return None
        return Crew(self.bits, not self.is_exact, anchor)


def bits_of(mask: Mask | np.bool_) -> int:
    """A bit for each place where one is set."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")
