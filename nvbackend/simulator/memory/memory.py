"""The memory that a wave sees: loads and stores of every space, checked, and reported to observers.

A load is of words: (n,) unsigned integers for 1 to 8 bytes, (n, k) uint64 beyond. See PTX ISA 5.1 (State Spaces).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.events import Access, Addresses, By, Kind, Mask, Observer
from nvbackend.simulator.memory import windows
from nvbackend.simulator.memory.allocations import Allocation, Heap, Misfit
from nvbackend.simulator.memory.failures import Failures, UnwrittenRead
from nvbackend.simulator.memory.private import Located, Private

Words = NDArray[Any]
Change = Callable[[Words, NDArray[np.int64]], Words]
Changes = tuple[Mask | None, ...]
"""Of the words of a write: which are new, which another one of them has overwritten, and of an atomic which it kept."""
_HEAPS = ("global", "const", "param")
_OWN = ("shared", "shared::cta", "local")


class Memory:
    """Global memory, constants and parameters of a launch; the shared and local memory of a wave."""

    def __init__(
        self, heaps: Sequence[Heap], shared: Private, local: Private, failures: Failures, observers: list[Observer]
    ) -> None:
        self.heaps = heaps
        """Of global memory, constants and parameters."""
        self.shared = shared
        self.local = local
        self.failures = failures
        self._observers = observers
        self._last: Allocation | None = None

    def load(self, by: By, space: str, addresses: Addresses, size: int) -> Words:
        """The words of `size` bytes at the addresses, (n,) of them, as a new array."""
        if space in _HEAPS or (not space and self._is_heap(addresses)):
            return self._load_heap(by, space, addresses, size)
        if not space:
            return self._load_generic(by, addresses, size)
        private = self._private(space)
        try:
            places = private.words(by.threads, addresses, size, own=space in _OWN)
            words = private.store.words(size).take(places, axis=0)
            unwritten = private.unwritten(places, size)
        except Misfit as misfit:
            self.failures.access(by, "reads", space, addresses, size, misfit)
        if unwritten is not None:
            self.failures.unwritten(UnwrittenRead(by, space, addresses, size, unwritten))
        if self._observers:
            self._tell_private(by, "read", space, addresses, size)
        return words

    def store(self, by: By, space: str, addresses: Addresses, words: Words, kind: Kind = "write") -> None:
        """Set the words at the addresses; of equal addresses the last one stays."""
        size = words.dtype.itemsize * (words.shape[1] if words.ndim > 1 else 1)
        if space in _HEAPS or (not space and self._is_heap(addresses)):
            self._store_heap(by, space, addresses, words, size, kind)
        elif not space:
            for part, window, inside in self._windows(addresses):
                self.store(_part_of(by, part), window, inside, words[part], kind)
        else:
            private = self._private(space)
            try:
                places = private.words(by.threads, addresses, size, own=space in _OWN)
            except Misfit as misfit:
                self.failures.access(by, "writes", space, addresses, size, misfit)
            changes = self._put(private.store.words(size), places, words)
            private.mark(places, size)
            if self._observers:
                self._tell_private(by, kind, space, addresses, size, changes)

    def _put(self, target: Words, places: NDArray[np.int64], words: Words) -> Changes | None:
        """Set words; which of them changed, and which another one of them has overwritten, where somebody watches."""
        if not self._observers:
            target[places] = words
            return None
        changed = target.take(places, axis=0) != words
        target[places] = words
        lost = target.take(places, axis=0) != words
        if words.ndim > 1:
            changed, lost = changed.any(axis=1), lost.any(axis=1)
        return changed, lost if lost.any() else None

    def update(self, by: By, space: str, addresses: Addresses, size: int, change: Change) -> Words:
        """Atomic: at each address, in order, `change(old words, which of the addresses)`; the old words."""
        observers, self._observers = self._observers, []
        try:
            keys = self._keys(by, space, addresses)
            _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
            if len(firsts) == len(addresses):
                old = self.load(by, space, addresses, size)
                self.store(by, space, addresses, change(old, np.arange(len(addresses))))
            else:
                before = self.load(by, space, addresses, size)
                old, words = _one_by_one(before, firsts, inverse, change)
                self.store(_part_of(by, firsts), space, addresses[firsts], words)
        finally:
            self._observers = observers
        if observers:
            same = change(old, np.arange(len(addresses))) == old
            kept = same.reshape(len(addresses), -1).all(axis=1)
            self._tell_atomic(by, space, addresses, size, kept)
        return old

    def _keys(self, by: By, space: str, addresses: Addresses) -> Addresses:
        """Equal for equal places: a shared address means another place in each cluster."""
        if space in _HEAPS:
            return addresses
        shape = self.shared.shape
        cluster = (by.threads // (shape.threads_each * shape.group)).astype(np.uint64) << np.uint64(48)
        if space:
            return addresses | cluster
        return np.where(addresses < windows.LOCAL, addresses, addresses | cluster)

    def _tell_atomic(self, by: By, space: str, addresses: Addresses, size: int, kept: Mask) -> None:
        whole = (np.arange(len(addresses)), space, addresses)
        for part, window, inside in [whole] if space else self._windows(addresses):
            mine = by if space else _part_of(by, part)
            changes = None, None, kept[part]
            if window in _HEAPS:
                self._tell(mine, "atomic", window, inside, size, None, changes)
            else:
                self._tell_private(mine, "atomic", window, inside, size, changes)

    def locate(self, by: By, space: str, addresses: Addresses) -> Located:
        """The CTA and the offset of addresses in shared memory, `space` being shared::cta, shared::cluster or empty."""
        if not space:
            addresses = addresses - np.uint64(windows.SHARED)
        try:
            self.shared.words(by.threads, addresses, 1, own=space in _OWN)
            return self.shared.locate(by.threads, addresses, own=space in _OWN)
        except Misfit as misfit:
            self.failures.access(by, "names", space or "shared", addresses, 1, misfit)

    def _load_heap(self, by: By, space: str, addresses: Addresses, size: int) -> Words:
        allocation = self._allocation(addresses)
        index = allocation.index(addresses, size) if allocation else None
        words = allocation.words(size) if allocation else None
        if index is None or words is None or (index.view(np.uint64) >= len(words)).any():
            return self._load_scattered(by, space, addresses, size)
        if self._observers:
            self._tell(by, "read", space or "global", addresses, size, None)
        return words.take(index, axis=0)

    def _load_scattered(self, by: By, space: str, addresses: Addresses, size: int) -> Words:
        """From several allocations; the addresses that are in none are an error."""
        parts = self._split(by, "reads", space, addresses, size)
        found: Words | None = None
        for part in parts:
            words = self._load_heap(_part_of(by, part), space, addresses[part], size)
            found = np.zeros((len(addresses), *words.shape[1:]), words.dtype) if found is None else found
            found[part] = words
        assert found is not None
        return found

    def _store_heap(self, by: By, space: str, addresses: Addresses, words: Words, size: int, kind: Kind) -> None:
        allocation = self._allocation(addresses)
        index = allocation.index(addresses, size) if allocation else None
        target = allocation.words(size) if allocation else None
        if allocation is None or target is None or index is None or (index.view(np.uint64) >= len(target)).any():
            for part in self._split(by, "writes", space, addresses, size):
                self._store_heap(_part_of(by, part), space, addresses[part], words[part], size, kind)
            return
        if not allocation.is_writable:
            self.failures.read_only(by, space or "global", addresses, size, allocation.name)
        changes = self._put(target, index, words)
        if self._observers:
            self._tell(by, kind, space or "global", addresses, size, None, changes)

    def _split(self, by: By, does: str, space: str, addresses: Addresses, size: int) -> list[NDArray[np.int64]]:
        """Which of the addresses are in which allocation. All must be in one."""
        by_allocation: dict[int, list[int]] = {}
        wrong = np.zeros(len(addresses), bool)
        problem = ""
        for place, address in enumerate(addresses.tolist()):
            allocation = self._at(address)
            if allocation is None or address < allocation.base or address + size > allocation.end:
                wrong[place] = True
                problem = problem or self._outside(allocation, address)
            elif address % size:
                wrong[place] = True
                problem = problem or Misfit.MISALIGNED
            else:
                by_allocation.setdefault(allocation.base, []).append(place)
        if wrong.any() or not len(addresses):
            self.failures.access(by, does, space or "generic", addresses, size, Misfit(wrong, problem))
        return [np.array(part, np.int64) for part in by_allocation.values()]

    def _outside(self, below: Allocation | None, address: int) -> str:
        """Where an address is, as seen from the nearest allocation: arrays have wide gaps between them."""
        if address < windows.CODE:
            return "it is a null pointer, which an empty array is given as, or a number near it"
        later = [found for heap in self.heaps if (found := heap.after(address)) is not None]
        above = min(later, key=lambda allocation: allocation.base, default=None)
        if above is not None and (below is None or above.base - address < address - below.end):
            return f"it is {above.base - address} bytes before the start of {above.name} ({len(above.data)} bytes)"
        if below is None:
            return "nothing is allocated there"
        size, after = len(below.data), address - below.base
        if after < size:
            return f"it begins inside {below.name} ({size} bytes) and ends past it"
        where = f"{after - size} bytes after" if after > size else "right at"
        return f"it is {where} the end of {below.name} ({size} bytes)"

    def _load_generic(self, by: By, addresses: Addresses, size: int) -> Words:
        found: Words | None = None
        for part, window, inside in self._windows(addresses):
            words = self.load(_part_of(by, part), window, inside, size)
            if len(part) == len(addresses):
                return words
            found = np.zeros((len(addresses), *words.shape[1:]), words.dtype) if found is None else found
            found[part] = words
        assert found is not None
        return found

    def _windows(self, addresses: Addresses) -> list[tuple[NDArray[np.int64], str, Addresses]]:
        """The parts of generic addresses by window: which, its space, and the addresses there."""
        shared = addresses - np.uint64(windows.SHARED)
        local = addresses - np.uint64(windows.LOCAL)
        in_shared, in_local = shared < windows.SHARED_BYTES, local < windows.LOCAL_BYTES
        each = (
            (in_shared, "shared::cluster", shared),
            (in_local, "local", local),
            (~(in_shared | in_local), "global", addresses),
        )
        return [(np.flatnonzero(mask), space, inside[mask]) for mask, space, inside in each if mask.any()]

    @staticmethod
    def _is_heap(addresses: Addresses) -> bool:
        return bool((addresses < windows.LOCAL).all())

    def _private(self, space: str) -> Private:
        return self.local if space == "local" else self.shared

    def allocation(self, address: int) -> Allocation | None:
        """The allocation of global memory, constants or parameters at an address, or the nearest below it."""
        return self._at(address)

    def _allocation(self, addresses: Addresses) -> Allocation | None:
        return self._at(int(addresses[0])) if len(addresses) else None

    def _at(self, address: int) -> Allocation | None:
        """The allocation at an address, or the nearest below it."""
        last = self._last
        if last is not None and last.base <= address < last.end:
            return last
        below = [found for heap in self.heaps if (found := heap.at(address)) is not None]
        self._last = max(below, key=lambda allocation: allocation.base, default=None)
        return self._last

    def _tell_private(
        self, by: By, kind: Kind, space: str, addresses: Addresses, size: int, changes: Changes | None = None
    ) -> None:
        private = self._private(space)
        located = private.locate(by.threads, addresses, own=space in _OWN)
        self._tell(by, kind, private.name, located.offsets, size, located.owners, changes)

    def _tell(
        self,
        by: By,
        kind: Kind,
        space: str,
        addresses: Addresses,
        size: int,
        owners: NDArray[np.int64] | None,
        changes: Changes | None = None,
    ) -> None:
        access = Access(by, kind, space, addresses, size, owners, *(changes or ()))
        for observer in self._observers:
            observer.access(access)


def _one_by_one(
    now: Words, firsts: NDArray[np.int64], inverse: NDArray[np.int64], change: Change
) -> tuple[Words, Words]:
    """What each sees of `now`, one after another where they meet, and the last words of each place."""
    seen, words = now.copy(), now[firsts]
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(len(firsts)))
    turn = np.empty(len(now), np.int64)
    turn[order] = np.arange(len(now)) - starts[inverse[order]]
    for number in range(int(turn.max()) + 1):
        which = np.flatnonzero(turn == number)
        seen[which] = words[inverse[which]]
        words[inverse[which]] = change(seen[which], which)
    return seen, words


def _part_of(by: By, part: NDArray[np.int64]) -> By:
    threads = by.threads if len(by.threads) == 1 else by.threads[part]
    return By(by.site, threads, by.operation, by.proxy, by.order, by.scope)
