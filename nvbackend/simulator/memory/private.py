"""Memory that each CTA or each thread has its own of: shared and local windows, side by side in one array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import Addresses, Threads
from nvbackend.simulator.memory.allocations import Misfit, Store
from nvbackend.simulator.memory.windows import RANK_SHIFT

_LINE = 1024
_WRITTEN = {size: np.uint64(0x0101010101010101 >> 64 - 8 * min(size, 8)) for size in (1, 2, 4, 8, 16, 32, 64, 128)}


class Located(NamedTuple):
    """Words of private memory: their places in the store, whose they are, and their byte offsets in the window."""

    words: NDArray[np.int64]
    owners: NDArray[np.int64]
    offsets: Addresses


@dataclass(frozen=True)
class Shape:
    """Who has how much: `owners` windows of `size` bytes, of which the first `start` are not to be used.

    Thread t belongs to owner `t // threads_each`. `group` owners that follow one another reach each other's windows by
    a rank in the upper bits of an address.
    """

    owners: int
    size: int
    start: int = 0
    threads_each: int = 1
    group: int = 1


class Private:
    """The windows of all owners of a wave."""

    def __init__(self, name: str, shape: Shape, *, watches_writes: bool = True) -> None:
        self.name = name
        self.shape = shape
        self.stride = -(-shape.size // _LINE) * _LINE
        self.store = Store(np.zeros(shape.owners * self.stride, np.uint8))
        self.marks = Store(np.zeros_like(self.store.data)) if watches_writes else None
        """One for each byte that was written."""
        self._last: Threads | None = None
        self._owners: NDArray[np.int64] = np.zeros(0, np.int64)
        self._ranked: Addresses = np.zeros(0, np.uint64)

    def locate(self, threads: Threads, addresses: Addresses, size: int, *, own: bool) -> Located:
        """The words of `size` bytes at the addresses, of the threads' own window or of one that the rank names."""
        shape = self.shape
        if threads is not self._last:
            self._last = threads
            self._owners = threads // shape.threads_each
            self._ranked = (self._owners % shape.group << RANK_SHIFT).astype(np.uint64)
        owners = self._owners
        offsets = addresses - self._ranked
        if not own and shape.group > 1:
            rank = (addresses >> np.uint64(RANK_SHIFT)).astype(np.int64)
            if (rank >= shape.group).any():
                raise Misfit(rank >= shape.group, f"the cluster has no CTA of that rank, only {shape.group}")
            owners = owners - owners % shape.group + rank
            offsets = addresses & np.uint64((1 << RANK_SHIFT) - 1)
        inside = offsets - np.uint64(shape.start)
        shift = size.bit_length() - 1
        # The bits of a misalignment go to the top: one comparison finds them too.
        word = inside >> np.uint64(shift) | inside << np.uint64(64 - shift) if shift else inside
        count = (shape.size - shape.start) >> shift
        if (word >= count).any():
            raise self._misfit(word >= count, inside, addresses, size)
        first = (owners * self.stride + shape.start) >> shift
        return Located(word.view(np.int64) + first, owners, offsets)

    def _misfit(self, wrong: NDArray[np.bool_], inside: Addresses, addresses: Addresses, size: int) -> Misfit:
        shape = self.shape
        place = int(np.broadcast_to(inside, wrong.shape)[wrong][0])
        if place + size <= shape.size - shape.start:
            return Misfit(wrong, Misfit.MISALIGNED)
        rank = int(addresses[wrong][0]) >> RANK_SHIFT
        if shape.group > 1 and rank < shape.group:
            return Misfit(
                wrong, f"it is not in the CTA's own {shape.size - shape.start} bytes from {shape.start:#x} on"
            )
        return Misfit(wrong, f"{self.name} memory has {shape.size - shape.start} bytes from {shape.start:#x} on")

    def unwritten(self, index: NDArray[np.int64], size: int) -> NDArray[np.bool_] | None:
        """Which of the words have no byte that was ever written; None where all have."""
        if self.marks is None:
            return None
        marks = self.marks.words(size)[index]
        found = marks.any(axis=-1) if size > 8 else marks
        return None if found.all() else found == 0

    def mark(self, index: NDArray[np.int64], size: int) -> None:
        """The words are written."""
        if self.marks is not None:
            self.marks.words(size)[index] = _WRITTEN[size]

    def grow(self, size: int) -> None:
        """Make every window at least so large; what is in them stays."""
        shape = self.shape
        if size <= shape.size:
            return
        larger = Private(self.name, Shape(shape.owners, size, shape.start, shape.threads_each, shape.group))
        for mine, new in ((self.store, larger.store), (self.marks, larger.marks)):
            if mine is not None and new is not None:
                new.data.reshape(shape.owners, -1)[:, : self.stride] = mine.data.reshape(shape.owners, -1)
        self.shape, self.stride, self.store = larger.shape, larger.stride, larger.store
        self.marks = larger.marks if self.marks is not None else None
