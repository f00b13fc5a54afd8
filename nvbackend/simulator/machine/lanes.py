"""Which threads take a step together: a set of threads of the wave, and their arrangement in warps."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import Bits, Mask, Threads

WARP, WARPGROUP = 32, 128
"""Their threads."""


class Lanes:
    """Threads that take a step together, in ascending order: of one warp, of several, of several CTAs.

    `threads` are their numbers in the wave: CTA is `thread // wave.cta_threads`, warp is `thread // 32`, lane is
    `thread % 32`. `index` selects them from an array with one element a thread of the wave. Every array that a step
    reads or writes has `count` elements, one for each of `threads`.
    """

    __slots__ = ("__dict__", "count", "full", "index", "threads", "whole")

    def __init__(self, threads: Threads, *, whole: bool = False, full: bool = False) -> None:
        self.threads = threads
        self.count = len(threads)
        self.whole = whole
        """Whether these are all threads that are still alive: a value may then be set for everybody."""
        self.full = full
        """Whether these are all places of the wave: then an array of one element each is a register's array."""
        self.index: slice | Threads = _index(threads)

    def where(self, mask: Mask) -> Lanes:
        """Those of them for which `mask` (one element for each of them) holds."""
        return self if mask.all() else Lanes(self.threads[mask])

    def without(self, others: Lanes) -> Lanes:
        """Those of them that are not among `others`."""
        return Lanes(np.setdiff1d(self.threads, others.threads, assume_unique=True))

    @cached_property
    def warps(self) -> NDArray[np.int64]:
        """The warps that have lanes here, ascending."""
        return np.unique(self.threads // WARP)

    @cached_property
    def slots(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each lane is in a (warps, 32) array."""
        return np.searchsorted(self.warps, self.threads // WARP), self.threads % WARP

    @cached_property
    def present(self) -> Mask:
        """(warps, 32): which lanes of each warp are here."""
        mask = np.zeros((len(self.warps), WARP), bool)
        mask[self.slots] = True
        return mask

    @property
    def full_warps(self) -> bool:
        """Whether every warp is here with all its 32 lanes."""
        return self.count == len(self.warps) * WARP

    def by_warp(self, values: Bits, fill: Any = 0) -> Bits:
        """(warps, 32) of an array with one element a lane; `fill` where a lane is not here."""
        if self.full_warps:
            return values.reshape(-1, WARP, *values.shape[1:])
        spread = np.full((len(self.warps), WARP, *values.shape[1:]), fill, values.dtype)
        spread[self.slots] = values
        return spread

    def __repr__(self) -> str:
        return f"<{self.count} threads of {len(self.warps)} warps>"


def _index(threads: Threads) -> slice | Threads:
    """A slice where the threads are a range: then reading is a view."""
    first = int(threads[0]) if len(threads) else 0
    if len(threads) and int(threads[-1]) - first + 1 == len(threads):
        return slice(first, first + len(threads))
    return threads


def one_lane(thread: int) -> Lanes:
    """A single thread."""
    return Lanes(np.array([thread], np.int64))
