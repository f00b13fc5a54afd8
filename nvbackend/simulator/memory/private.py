"""Memory that each CTA or each thread has its own of: shared and local windows, side by side in one array."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Addresses, Threads
from nvbackend.simulator.memory.allocations import Misfit, Store
from nvbackend.simulator.memory.windows import RANK_SHIFT

_LINE = 1024
_LOW = np.uint64((1 << RANK_SHIFT) - 1)
_WRITTEN = {size: np.uint64(0x0101010101010101 >> 64 - 8 * min(size, 8)) for size in (1, 2, 4, 8, 16, 32, 64, 128)}
_RIGHT = {1 << n: np.uint64(n) for n in range(8)}
_LEFT = {1 << n: np.uint64(64 - n) for n in range(1, 8)}


class Located(NamedTuple):
    """Words of private memory: whose they are, and their byte offsets in the window."""

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
        """A flag for each byte that was written; None where it is not needed, or all are."""
        if self.marks is not None:
            rows = self.marks.data.reshape(shape.owners, -1)
            rows[:, : shape.start] = rows[:, shape.size :] = 1
        self._reads = 0
        self._last: Threads | None = None
        self._owners: NDArray[np.int64] = np.zeros(0, np.int64)
        self._begins: Addresses = np.zeros(0, np.uint64)
        self._rows: dict[int, NDArray[np.int64]] = {}

    def locate(self, threads: Threads, addresses: Addresses, *, own: bool) -> Located:
        """Whose memory the addresses are in, of the threads' own window or of one that the rank names."""
        owners, begins = self._of(threads)
        if own or self.shape.group == 1:
            return Located(np.broadcast_to(owners, addresses.shape), addresses - begins + np.uint64(self.shape.start))
        rank = (addresses >> np.uint64(RANK_SHIFT)).astype(np.int64)
        return Located(owners - owners % self.shape.group + rank, addresses & _LOW)

    def words(self, threads: Threads, addresses: Addresses, size: int, *, own: bool) -> NDArray[np.int64]:
        """Which words of `size` bytes of the store the addresses are. Raises Misfit."""
        shape = self.shape
        owners, begins = self._of(threads)
        if own or shape.group == 1:
            inside = addresses - begins
            row = self._rows.get(size)
            if row is None:
                row = self._rows[size] = (owners * self.stride + shape.start) // size
        else:
            rank = (addresses >> np.uint64(RANK_SHIFT)).astype(np.int64)
            if (rank >= shape.group).any():
                raise Misfit(rank >= shape.group, f"the cluster has no CTA of that rank, only {shape.group}")
            inside = (addresses & _LOW) - np.uint64(shape.start)
            row = ((owners - owners % shape.group + rank) * self.stride + shape.start) // size
        # The bits of a misalignment go to the top: one comparison finds them too.
        word = inside >> _RIGHT[size] | inside << _LEFT[size] if size > 1 else inside
        wrong = word >= (shape.size - shape.start) // size
        if wrong.any():
            raise self._misfit(wrong, inside, addresses, size)
        return word.view(np.int64) + row

    def _of(self, threads: Threads) -> tuple[NDArray[np.int64], Addresses]:
        """Owners of threads, and where their own windows begin; those of the last threads are kept."""
        if threads is not self._last:
            self._last, self._rows = threads, {}
            self._owners = threads // self.shape.threads_each
            first = (self._owners % self.shape.group << RANK_SHIFT) + self.shape.start
            self._begins = first.view(np.uint64)
        return self._owners, self._begins

    def _misfit(self, wrong: NDArray[np.bool_], inside: Addresses, addresses: Addresses, size: int) -> Misfit:
        shape = self.shape
        place = int(np.broadcast_to(inside, wrong.shape)[wrong][0])
        if place + size <= shape.size - shape.start:
            return Misfit(wrong, Misfit.MISALIGNED)
        rank = int(addresses[wrong][0]) >> RANK_SHIFT
        extent = f"{shape.size - shape.start} bytes from {shape.start:#x} on"
        if self.name == "shared" and shape.size == shape.start:
            return Misfit(
                wrong, "the launch gives no shared memory: shared=BYTES, or --shared BYTES of the command line"
            )
        if shape.group > 1 and rank < shape.group:
            return Misfit(wrong, f"it is not in the CTA's own {extent}")
        return Misfit(wrong, f"{self.name} memory has {extent}")

    def unwritten(self, words: NDArray[np.int64], size: int) -> NDArray[np.bool_] | None:
        """Which of the words have no byte that was ever written; None where all have."""
        if self.marks is None:
            return None
        self._reads += 1
        if not self._reads & 63 and self.marks.data.all():
            self.marks = None
            return None
        marks = self.marks.words(size)[words]
        found = marks.any(axis=-1) if size > 8 else marks
        return None if found.all() else found == 0

    def mark(self, words: NDArray[np.int64], size: int) -> None:
        """The words are written."""
        if self.marks is not None:
            self.marks.words(size)[words] = _WRITTEN[size]

    def grow(self, size: int) -> None:
        """Make every window at least so large; what is in them stays."""
        shape = self.shape
        if size <= shape.size:
            return
        larger = Private(
            self.name,
            Shape(shape.owners, size, shape.start, shape.threads_each, shape.group),
            watches_writes=self.marks is not None,
        )
        for mine, new in ((self.store, larger.store), (self.marks, larger.marks)):
            if mine is not None and new is not None:
                old = mine.data.reshape(shape.owners, -1)[:, : shape.size]
                new.data.reshape(shape.owners, -1)[:, : shape.size] = old
        self.shape, self.stride, self.store, self.marks = larger.shape, larger.stride, larger.store, larger.marks
        self._last = None
