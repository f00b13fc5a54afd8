"""What the lanes of a warp have accessed in shared memory, each for itself: an exchange without an order is a race."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.lane_order import SEVERAL, LaneOrder, Note, numbers
from nvbackend.isel.machine.function import MachineInstr

_SHIFT = 1
"""The logarithm of the bytes of a granule: smaller accesses are not followed."""
_BITS = 6
_LANE = (1 << _BITS) - 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """An access of one lane to what another one accesses: the earlier instruction, whether it wrote, and where."""

    earlier: MachineInstr
    wrote: bool
    address: int


class LaneShadow:
    """For each granule of one CTA's memory, the lanes that last read and wrote it, and in which moment of a warp."""

    def __init__(self, size: int) -> None:
        self._size = size
        count = (size >> _SHIFT) + 1
        self._written = np.zeros(count, np.int32)
        self._read = np.zeros(count, np.int32)

    def access(
        self, instr: MachineInstr, writes: bool, addresses: Any, size: int, lanes: int, order: LaneOrder
    ) -> Exchange | None:
        """Lanes of a warp access memory: what another lane did there that does not come before it."""
        places = self._places(addresses, size, lanes)
        if places is None:
            return None
        found = self._found(places, writes, lanes, order)
        self._note(instr, writes, places, lanes, order)
        return found

    def land(self, instr: MachineInstr, addresses: Any, size: int, lanes: int, order: LaneOrder) -> None:
        """Each of the lanes has waited for what it copied here: to the others that is a write of now."""
        places = self._places(addresses, size, lanes)
        if places is not None:
            self._note(instr, True, places, lanes, order)

    def _note(self, instr: MachineInstr, writes: bool, places: Any, lanes: int, order: LaneOrder) -> None:
        stamps = np.broadcast_to((order.now << _BITS | numbers(lanes))[:, None], places.shape)
        if writes:
            self._written[places] = stamps
            lost = self._written[places] != stamps
            if lost.any():
                self._written[places[lost]] = 0  # who writes it last is another question
            self._read[places] = 0
        else:
            several = order.now << _BITS | SEVERAL
            others = (self._read[places] >> _BITS == order.now) & (self._read[places] != stamps)
            self._read[places] = marks = np.where(others, several, stamps)
            together = self._read[places] != marks
            if together.any():
                self._read[places[together]] = several
        order.note(Note(self, instr, writes, places))

    def look(self, writes: bool, addresses: Any, size: int, lanes: int, order: LaneOrder) -> Exchange | None:
        """Each of the lanes issues an operation: what another lane did there that does not come before it."""
        places = self._places(addresses, size, lanes)
        return None if places is None else self._found(places, writes, lanes, order)

    def _places(self, addresses: Any, size: int, lanes: int) -> Any:
        """The granules of each lane; None where they are not followed."""
        first = np.full(lanes.bit_count(), addresses, np.int64) if isinstance(addresses, int) else addresses
        if (size | int(np.bitwise_or.reduce(first))) & ((1 << _SHIFT) - 1) or len(first) != lanes.bit_count():
            return None
        if first.min() < 0 or first.max() + size > self._size:
            return None
        return (first >> _SHIFT)[:, None] + np.arange(size >> _SHIFT)

    def _found(self, places: Any, writes: bool, lanes: int, order: LaneOrder) -> Exchange | None:
        found = self._other(self._written, places, lanes, True, order)
        return found or (self._other(self._read, places, lanes, False, order) if writes else None)

    def _other(self, shadow: Any, places: Any, lanes: int, wrote: bool, order: LaneOrder) -> Exchange | None:
        there = shadow[places]
        wrong = order.are_apart(numbers(lanes)[:, None], there >> _BITS, there & _LANE)
        if not wrong.any():
            return None
        place, moment = int(places[wrong][0]), int(there[wrong][0]) >> _BITS
        earlier = order.noted(self, moment, wrote, place)
        return None if earlier is None else Exchange(earlier, wrote, place << _SHIFT)
