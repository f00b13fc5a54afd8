"""What the lanes of a warp have accessed in shared memory, each for itself: an exchange without an order is a race."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.lane_order import SEVERAL, LaneOrder, Note, numbers
from nvbackend.dry_run.order.record import Part
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
    """For each granule of one CTA's memory, the lanes that last read and wrote it, and in which moment of a warp.

    Accesses wait in their order until a warp comes to where it may have been since its lanes met: most never do.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._memory = object()
        """What notes say that they are of: they wait here, and go with this."""
        count = (size >> _SHIFT) + 1
        self._written = np.zeros(count, np.int32)
        self._read = np.zeros(count, np.int32)
        self._waiting: list[tuple[Note, int]] = []

    def access(self, writes: bool, part: Part, lanes: int, order: LaneOrder) -> Exchange | None:
        """Lanes of a warp access memory: what another lane did there that does not come before it."""
        if not self._follows(part, lanes):
            return None
        found = self._found(part, writes, lanes, order)
        self._wait(part, writes, lanes, order)
        return found

    def land(self, part: Part, lanes: int, order: LaneOrder) -> None:
        """Each of the lanes has waited for what it copied here: to the others that is a write of now."""
        if self._follows(part, lanes):
            self._wait(part, True, lanes, order)

    def look(self, writes: bool, part: Part, lanes: int, order: LaneOrder) -> Exchange | None:
        """Each of the lanes issues an operation: what another lane did there that does not come before it."""
        may = order.may_meet(self._memory, part, writes=writes) and self._follows(part, lanes)
        return self._found(part, writes, lanes, order) if may else None

    def _follows(self, part: Part, lanes: int) -> bool:
        """Whether each lane accesses granules of its own, all of them of this memory."""
        is_one = isinstance(part.addresses, int) or len(part.addresses) == lanes.bit_count()
        return is_one and not part.bits & ((1 << _SHIFT) - 1) and part.first >= 0 and part.end <= self._size

    def _wait(self, part: Part, writes: bool, lanes: int, order: LaneOrder) -> None:
        note = Note(self._memory, part, writes, lanes)
        self._waiting.append((note, order.note(note)))

    def _note(self, note: Note, now: int) -> None:
        """What is accessed in a moment."""
        places = _places(note.part, note.lanes)
        stamps = (now << _BITS | numbers(note.lanes))[:, None]
        if note.writes:
            self._written[places] = stamps
            lost = self._written[places] != stamps
            if lost.any():
                self._written[places[lost]] = 0  # who writes it last is another question
            self._read[places] = 0
            return
        several, before = now << _BITS | SEVERAL, self._read[places]
        others = (before >> _BITS == now) & (before != stamps)
        self._read[places] = marks = np.where(others, several, stamps)
        together = self._read[places] != marks
        if together.any():
            self._read[places[together]] = several

    def _found(self, part: Part, writes: bool, lanes: int, order: LaneOrder) -> Exchange | None:
        if not order.may_meet(self._memory, part, writes=writes):
            return None
        for note, moment in self._waiting:
            self._note(note, moment)
        self._waiting.clear()
        places = _places(part, lanes)
        found = self._other(self._written, places, lanes, True, order)
        return found or (self._other(self._read, places, lanes, False, order) if writes else None)

    def _other(self, shadow: Any, places: Any, lanes: int, wrote: bool, order: LaneOrder) -> Exchange | None:
        there = shadow[places]
        wrong = order.are_apart(numbers(lanes)[:, None], there >> _BITS, there & _LANE)
        if not wrong.any():
            return None
        place, moment = int(places[wrong][0]), int(there[wrong][0]) >> _BITS
        earlier = order.noted(self._memory, moment, wrote, place << _SHIFT)
        return None if earlier is None else Exchange(earlier, wrote, place << _SHIFT)


def _places(part: Part, lanes: int) -> Any:
    """The granules of each lane."""
    one = isinstance(part.addresses, int)
    first = np.full(lanes.bit_count(), part.addresses, np.int64) if one else part.addresses
    return (first >> _SHIFT)[:, None] + np.arange(part.size >> _SHIFT)
