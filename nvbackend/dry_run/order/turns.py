"""What a warp has accessed since it last synchronised, in the order of its program.

Its accesses are checked together, when it synchronises. What it stores later has not written what it reads.
"""

from __future__ import annotations

from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.record import Part, Record

_Place = tuple[int, Part]
"""A CTA, and the access of one instruction to its memory."""


@dataclass(frozen=True, slots=True)
class _Somewhere:
    """An access at a place that data decides: its number, its CTA, and whether it leaves nothing of what was there."""

    turn: int
    cta: int
    record: Record
    fills: bool
    scattered: bool

    def may_be_of(self, cta: int, part: Part) -> bool:
        """Whether it may access bytes of another access."""
        mine = self.record.parts[0]
        return self.cta == cta and part.first < mine.end and mine.first < part.end


@dataclass(frozen=True, slots=True)
class Fill:
    """A store of the warp that may have written what it reads."""

    record: Record
    scattered: bool
    """Whether nothing but data says which of several lanes stores what."""
    met: bool
    """Whether the lanes have met in between."""


@dataclass(slots=True)
class Turns:
    """The accesses of a warp, each with the number of those before the first time that it was made."""

    _reads: dict[_Place, int] = field(default_factory=dict)
    _writes: dict[_Place, int] = field(default_factory=dict)
    _somewhere: list[_Somewhere] = field(default_factory=list)
    _meetings: list[int] = field(default_factory=list)
    """For each meeting of its lanes, how many had been made."""
    _count: int = 0

    def note(self, cta: int, part: Part, *, writes: bool) -> None:
        """The warp reads or writes memory of a CTA."""
        (self._writes if writes else self._reads).setdefault((cta, part), self._count)
        self._count += 1

    def note_somewhere(self, cta: int, record: Record, *, fills: bool, scattered: bool) -> None:
        """The warp accesses a place that data decides."""
        self._somewhere.append(_Somewhere(self._count, cta, record, fills, scattered))
        self._count += 1

    def meet(self) -> None:
        """The lanes of the warp meet."""
        if self._somewhere and self._meetings[-1:] != [self._count]:
            self._meetings.append(self._count)

    def divide(self, cta: int, part: Part, into: tuple[Part, ...], *, writes: bool) -> None:
        """An access is several, of some lanes each."""
        kept = self._writes if writes else self._reads
        turn = kept.get((cta, part))
        if turn is not None:
            kept.update({(cta, one): turn for one in into})

    def written_before(self, cta: int, read: Part) -> list[Part]:
        """What the warp itself had written of a CTA's memory before it read there."""
        turn = self._reads.get((cta, read), 0)
        return [part for (where, part), number in self._writes.items() if where == cta and number < turn]

    def filled_before(self, cta: int, read: Part) -> list[Fill]:
        """Its stores before a read, at places that data decides, that may have written what is read."""
        turn = self._reads.get((cta, read), 0)
        return [
            Fill(one.record, one.scattered, any(one.turn < meeting <= turn for meeting in self._meetings))
            for one in self._somewhere
            if one.fills and one.turn < turn and one.may_be_of(cta, read)
        ]

    def may_fill(self, record: Record) -> bool:
        """Whether the warp may have written what it reads at a place that data decides, before it comes to that."""
        mine = next(one for one in self._somewhere if one.record is record)
        part = record.parts[0]
        direct = any(
            where == mine.cta and number < mine.turn and one.first < part.end and part.first < one.end
            for (where, one), number in self._writes.items()
        )
        return direct or any(
            one.fills and one.turn < mine.turn and one.may_be_of(mine.cta, part) for one in self._somewhere
        )
