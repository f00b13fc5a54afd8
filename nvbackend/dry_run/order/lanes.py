"""What the lanes of a warp have accessed in shared memory, each for itself: an exchange without an order is a race."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.lane_order import SEVERAL, SHIFT, LaneOrder, Note
from nvbackend.dry_run.order.record import Part
from nvbackend.dry_run.values.lanes import lanes_in
from nvbackend.isel.machine.function import MachineInstr

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
        self._written: dict[int, int] = {}
        self._read: dict[int, int] = {}
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
        return is_one and not part.bits & ((1 << SHIFT) - 1) and part.first >= 0 and part.end <= self._size

    def _wait(self, part: Part, writes: bool, lanes: int, order: LaneOrder) -> None:
        note = Note(self._memory, part, writes, lanes)
        self._waiting.append((note, order.note(note)))

    def _note(self, note: Note, now: int) -> None:
        """What is accessed in a moment."""
        made: dict[int, int] = {}
        count = 0
        for lane, run in _runs(note.part, note.lanes):
            made.update(dict.fromkeys(run, now << _BITS | lane))
            count += len(run)
        before = self._read.keys() & made.keys()
        if note.writes:
            if len(made) < count:
                made |= dict.fromkeys(_of_several(note), 0)  # who writes it last is another question
            self._written |= made
            for granule in before:
                del self._read[granule]
            return
        several = now << _BITS | SEVERAL
        if len(made) < count:
            made |= dict.fromkeys(_of_several(note), several)
        for granule in before:
            if self._read[granule] >> _BITS == now and self._read[granule] != made[granule]:
                made[granule] = several
        self._read |= made

    def _found(self, part: Part, writes: bool, lanes: int, order: LaneOrder) -> Exchange | None:
        if not order.may_meet(self._memory, part, writes=writes):
            return None
        for note, moment in self._waiting:
            self._note(note, moment)
        self._waiting.clear()
        found = self._other(self._written, part, lanes, True, order)
        return found or (self._other(self._read, part, lanes, False, order) if writes else None)

    def _other(self, shadow: dict[int, int], part: Part, lanes: int, wrote: bool, order: LaneOrder) -> Exchange | None:
        for lane, run in _runs(part, lanes):
            stamps = {*map(shadow.get, run)}
            wrong = {stamp for stamp in stamps if stamp and order.is_apart(lane, stamp >> _BITS, stamp & _LANE)}
            if wrong:
                granule = next(granule for granule in run if shadow.get(granule) in wrong)
                earlier = order.noted(self._memory, shadow[granule] >> _BITS, wrote, granule << SHIFT)
                return None if earlier is None else Exchange(earlier, wrote, granule << SHIFT)
        return None


def _runs(part: Part, lanes: int) -> Iterator[tuple[int, range]]:
    """The granules of each of the lanes."""
    every, count = lanes_in(lanes), part.size >> SHIFT
    firsts = (part.addresses,) * len(every) if isinstance(part.addresses, int) else part.addresses
    for lane, first in zip(every, firsts, strict=True):
        yield lane, range(first >> SHIFT, (first >> SHIFT) + count)


def _of_several(note: Note) -> list[int]:
    """The granules that several lanes access."""
    counts = Counter(granule for _, run in _runs(note.part, note.lanes) for granule in run)
    return [granule for granule, count in counts.items() if count > 1]
