"""Which accesses of the lanes of a warp come before what others of its lanes do.

All come together, or one comes after another: those that wait for a phase come after what those had done that arrived
in it. A *moment* is what a warp accesses between two times at which lanes of it tell others what they have done.
"""

from __future__ import annotations

from collections.abc import Callable

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.granules import Pages
from nvbackend.dry_run.order.record import Part
from nvbackend.dry_run.values.lanes import lanes_in
from nvbackend.isel.machine.function import MachineInstr

_LANES = 32
SHIFT = 1
"""The logarithm of the bytes of a granule: smaller accesses are not followed."""
SEVERAL = _LANES
"""In place of the number of a lane."""
_MOST_MOMENTS = 16
"""Of a warp whose lanes do not meet, older ones are forgotten."""
_MOST_TOLD = 64
"""What is told after that is taken for a meeting."""


class Moments:
    """The numbers of the moments of all warps."""

    def __init__(self) -> None:
        self.count = 0


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """What lanes read or write of a CTA's memory, by the object that stands for it."""

    memory: object
    part: Part
    writes: bool
    lanes: int


class LaneOrder:
    """The moments of one warp since its lanes met, and which of them come before what each lane does next.

    Lane `i` comes after those moments of lane `j` that are less than `_known[i][j]`; the last column is the greatest of
    its row, but for its own. What lanes have told is such a row, under the event that stands for it.
    """

    def __init__(self, moments: Moments, lanes: int) -> None:
        self._every = moments
        self._lanes = lanes_in(lanes)
        self._moments: list[int] = []
        self._now = 0
        self._known: list[list[int]] | None = None
        self._told: dict[int, list[int]] = {}
        self._last = (0, 0)
        """The lanes that told last, and the event, if nothing has come since."""
        self._notes: dict[int, list[Note]] = {}
        self._reach: dict[tuple[object, bool], Pages] = {}
        """Of each memory, the granules that the lanes have written or read since they met, and more."""

    def meet(self) -> None:
        """All lanes have met: what they did before is ordered."""
        if self._moments:
            self._moments, self._now, self._known, self._last = [], 0, None, (0, 0)
            self._told.clear()
            self._notes.clear()
            self._reach.clear()

    @property
    def now(self) -> int:
        """The moment of what is accessed now."""
        if not self._now:
            self._every.count += 1
            self._now, self._last = self._every.count, (0, 0)
            self._moments.append(self._now)
            if len(self._moments) > _MOST_MOMENTS:
                self._forget_before(self._moments[1])
        return self._now

    def tell(self, lanes: int, new: Callable[[], int]) -> int:
        """These lanes tell what they have done, and what they know: the bit of an event that stands for it, or 0."""
        if len(self._told) > _MOST_TOLD:
            self.meet()
        if not self._moments:
            return 0
        if self._last[0] != lanes:
            own = lanes_in(lanes)
            row = [0] * (_LANES + 1) if self._known is None else _greatest([self._known[lane] for lane in own])
            for lane in own:
                row[lane] = self._every.count + 1
            event = new()
            self._told[event] = row
            self._now, self._last = 0, (lanes, event)
        return 1 << self._last[1]

    def learn(self, seen: int, lanes: int) -> None:
        """These lanes come after the events `seen`."""
        rows = [row for event, row in self._told.items() if seen >> event & 1] if self._told else []
        if not rows:
            return
        if self._known is None:
            self._known = [[0] * (_LANES + 1) for _ in range(_LANES)]
        for lane in lanes_in(lanes):
            row = self._known[lane] = _greatest([self._known[lane], *rows])
            row[SEVERAL] = max(*row[:lane], *row[lane + 1 : _LANES])
        self._last = (0, 0)
        every = self._lanes
        known = [self._known[lane][other] for lane in every for other in every if other != lane]
        self._forget_before(min(known, default=self._every.count + 1))

    def _forget_before(self, moment: int) -> None:
        """What came before a moment is ordered, or forgotten."""
        if self._moments and self._moments[0] < moment:
            self._moments = [one for one in self._moments if one >= moment]
            self._notes = {one: notes for one, notes in self._notes.items() if one >= moment}
            self._told = {event: row for event, row in self._told.items() if max(row) > moment}
            if not self._moments:
                self._now, self._known = 0, None

    def is_apart(self, lane: int, moment: int, other: int) -> bool:
        """Whether an access of another lane, in a moment, does not come before what a lane does now."""
        if other == lane or moment not in self._moments:
            return False
        return self._known is None or self._known[lane][other] <= moment

    def note(self, note: Note) -> int:
        """What accesses memory now. Returns the moment."""
        now = self.now
        self._notes.setdefault(now, []).append(note)
        reach = self._reach.setdefault((note.memory, note.writes), {})
        for page, bits in note.part.granules(SHIFT).pages.items():
            reach[page] = reach.get(page, 0) | bits
        return now

    @property
    def has_notes(self) -> bool:
        """Whether anything was accessed since the lanes met."""
        return bool(self._reach)

    def may_meet(self, memory: object, part: Part, *, writes: bool) -> bool:
        """Whether the lanes may have accessed, since they met, what they access now: not where both are reads.

        Accesses of less than a granule are not noted.
        """
        if not self._reach or part.bits & (1 << SHIFT) - 1:
            return False
        pages = part.granules(SHIFT).pages
        return any(
            bits & reach.get(page, 0)
            for wrote in ((True, False) if writes else (True,))
            if (reach := self._reach.get((memory, wrote)))
            for page, bits in pages.items()
        )

    def noted(self, memory: object, moment: int, wrote: bool, address: int) -> MachineInstr | None:
        """The last that accessed an address in a moment."""
        alike = (
            note for note in reversed(self._notes.get(moment, ())) if (note.memory, note.writes) == (memory, wrote)
        )
        return next((note.part.instr for note in alike if note.part.covers(address, 1)), None)


def _greatest(rows: list[list[int]]) -> list[int]:
    """The greatest number of each column."""
    return [max(column) for column in zip(*rows, strict=True)]
