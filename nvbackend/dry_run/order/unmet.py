"""What the lanes of a warp have accessed, each for itself, since all met: some tell of their own accesses alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.record import Part, Record


@dataclass(slots=True)
class Own:
    """An access of the `lanes` to the memory of a CTA.

    `told` is the event that stands for it in what all of them have told others since, 0 where they have told nothing.
    """

    record: Record
    cta: int
    part: Part
    lanes: int
    told: int = 0


@dataclass(frozen=True, slots=True)
class Untold:
    """An access of which those that tell know their `own` part: that of other `lanes` is of an `event` of its own."""

    access: Own
    event: int
    own: Part | None
    other: Part
    lanes: int


@dataclass(slots=True)
class Unmet:
    """The accesses of one warp since all of its lanes met."""

    accesses: list[Own] = field(default_factory=list)

    def tell(self, warp: Warp, lanes: int) -> int:
        """What these lanes tell of accesses that are all theirs, beside the events of the warp: an event, or 0.

        The warp itself does not know it until its lanes meet or have waited for it: so one that tells later tells of
        its own alone.
        """
        event = 0
        for one in self.accesses:
            if not one.told and not one.lanes & warp.lanes & ~lanes:
                event = event or warp.events.new()
                one.told = event
        return 1 << event if event else 0

    def untold(self, warp: Warp, lanes: int) -> Iterator[Untold]:
        """The accesses of other lanes than these, which tell something now; they are told of after it."""
        self._forget_known(warp)
        known = warp.seen & ~warp.hidden(lanes)
        kept, event = [], 0
        for one in self.accesses:
            by = one.lanes & warp.lanes
            if not by & ~lanes or (one.told and known >> one.told & 1):
                kept.append(one)
            elif (parted := one.part.parted(by, lanes, writes=one.record.writes)) is not None:
                event = event if one.told else event or warp.events.new()
                yield Untold(one, one.told or event, *parted, by & ~lanes)
        self.accesses = kept

    def _forget_known(self, warp: Warp) -> None:
        """Drop what all lanes of the warp know to be over: they have waited for what came after it."""
        known = warp.seen & ~warp.hidden(warp.lanes)
        self.accesses = [one for one in self.accesses if not one.told or not known >> one.told & 1]
