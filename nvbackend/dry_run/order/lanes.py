"""What the lanes of a warp have accessed in shared memory since they last met: an exchange without a meeting is a
race."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from nvbackend.isel.machine.function import MachineInstr

_SHIFT = 1
"""The logarithm of the bytes of a granule: smaller accesses are not followed."""
_SEVERAL = 32
"""In place of the number of a lane."""
_BITS = 6


@dataclass(frozen=True, slots=True)
class Exchange:
    """An access of one lane to what another one accesses: the earlier instruction, whether it wrote, and where."""

    earlier: MachineInstr
    wrote: bool
    address: int


class LaneShadow:
    """For each granule of one CTA's memory, the lanes that last read and wrote it, and between which meetings."""

    def __init__(self, size: int) -> None:
        self._size = size
        count = (size >> _SHIFT) + 1
        self._written = np.zeros(count, np.int32)
        self._read = np.zeros(count, np.int32)
        self._by: dict[tuple[int, bool], list[tuple[MachineInstr, Any]]] = {}

    def access(
        self, instr: MachineInstr, writes: bool, addresses: Any, size: int, lanes: int, meeting: int
    ) -> Exchange | None:
        """Lanes of a warp access memory, after `meeting`: what another lane did there since."""
        first = np.full(lanes.bit_count(), addresses, np.int64) if isinstance(addresses, int) else addresses
        if (size | int(np.bitwise_or.reduce(first))) & ((1 << _SHIFT) - 1) or len(first) != lanes.bit_count():
            return None
        if first.min() < 0 or first.max() + size > self._size:
            return None
        places = (first >> _SHIFT)[:, None] + np.arange(size >> _SHIFT)
        stamps = np.broadcast_to((meeting << _BITS | _numbers(lanes))[:, None], places.shape)
        found = self._other(self._written, places, stamps, True, meeting)
        if writes:
            found = found or self._other(self._read, places, stamps, False, meeting)
            self._written[places] = stamps
            lost = self._written[places] != stamps
            if lost.any():
                self._written[places[lost]] = 0  # who writes it last is another question
            self._read[places] = 0
        else:
            others = (self._read[places] >> _BITS == meeting) & (self._read[places] != stamps)
            self._read[places] = np.where(others, meeting << _BITS | _SEVERAL, stamps)
        self._by.setdefault((meeting, writes), []).append((instr, first))
        return found

    def forget(self, meeting: int) -> None:
        """The lanes have met: what they did before is ordered."""
        self._by.pop((meeting, True), None)
        self._by.pop((meeting, False), None)

    def _other(self, shadow: Any, places: Any, stamps: Any, wrote: bool, meeting: int) -> Exchange | None:
        there = shadow[places]
        wrong = (there >> _BITS == meeting) & (there != stamps)
        if not wrong.any():
            return None
        address = int(places[wrong][0]) << _SHIFT
        for instr, first in reversed(self._by.get((meeting, wrote), ())):
            if ((first <= address + 1) & (first + 16 > address)).any():
                return Exchange(instr, wrote, address)
        return None


@lru_cache(maxsize=256)
def _numbers(lanes: int) -> Any:
    return np.array([lane for lane in range(32) if lanes >> lane & 1], np.int64)
