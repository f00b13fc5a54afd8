"""Allocations at generic addresses: global memory, constants, parameters."""

from __future__ import annotations

import bisect
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.events import Addresses
from nvbackend.simulator.memory.windows import GAP

Bytes = NDArray[np.uint8]
_UNITS: dict[int, tuple[Any, int]] = {
    1: (np.uint8, 1),
    2: (np.uint16, 1),
    4: (np.uint32, 1),
    8: (np.uint64, 1),
    **{8 << n: (np.uint64, 1 << n) for n in (1, 2, 3, 4)},
}
"""Access sizes in bytes: the type and number of the words that hold one."""


class Misfit(Exception):
    """An access outside of its memory, or misaligned: which of its addresses are wrong, and how."""

    MISALIGNED = "misaligned"

    def __init__(self, wrong: NDArray[np.bool_], problem: str) -> None:
        super().__init__(problem)
        self.wrong = wrong
        self.problem = problem


@dataclass(eq=False)
class Store:
    """Bytes with views of them as words of each size."""

    data: Bytes
    _views: dict[int, NDArray[Any]] = field(default_factory=dict)

    def words(self, size: int) -> NDArray[Any]:
        """The bytes as words of `size`: (n,) unsigned integers up to 8 bytes, (n, k) uint64 beyond."""
        view = self._views.get(size)
        if view is None:
            dtype, count = _UNITS[size]
            view = self.data[: len(self.data) // size * size].view(dtype)
            view = view if count == 1 else view.reshape(-1, count)
            self._views[size] = view
        return view


class Allocation(Store):
    """Bytes at an address. `name` is what messages call it."""

    def __init__(self, name: str, base: int, data: Bytes, *, is_writable: bool = True) -> None:
        super().__init__(data)
        self.name = name
        self.base = base
        self.is_writable = is_writable
        self._base = np.uint64(base)

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.base + len(self.data)

    def index(self, addresses: Addresses, size: int) -> NDArray[np.int64]:
        """Which word of `size` bytes each address is. Misaligned addresses come out outside of the words."""
        offsets = addresses - self._base
        if size > 1:
            shift = size.bit_length() - 1
            # The bits of a misalignment go to the top.
            offsets = offsets >> np.uint64(shift) | offsets << np.uint64(64 - shift)
        return offsets.view(np.int64)


class Heap:
    """Allocations, none of which touches another one."""

    def __init__(self, base: int, gap: int = GAP) -> None:
        self._gap = gap
        self.next = base
        """Where the next allocation may begin."""
        self.allocations: list[Allocation] = []
        self._bases: list[int] = []

    def add(self, name: str, data: Bytes, *, is_writable: bool = True, align: int = GAP) -> Allocation:
        """Give bytes an address, a multiple of `align`."""
        return self.put(name, -(-self.next // align) * align, data, is_writable=is_writable)

    def put(self, name: str, base: int, data: Bytes, *, is_writable: bool = True) -> Allocation:
        """Give bytes the address `base`, after all that have one."""
        allocation = Allocation(name, base, data, is_writable=is_writable)
        self.next = base + len(data) + self._gap
        self.allocations.append(allocation)
        self._bases.append(base)
        return allocation

    def after(self, address: int) -> Allocation | None:
        """The first allocation that begins after an address."""
        place = bisect.bisect_right(self._bases, address)
        return self.allocations[place] if place < len(self.allocations) else None

    def at(self, address: int) -> Allocation | None:
        """The allocation that an address is in, or the last one below it; None below all."""
        place = bisect.bisect_right(self._bases, address) - 1
        return self.allocations[place] if place >= 0 else None
