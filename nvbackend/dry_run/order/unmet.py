"""What the lanes of a warp have accessed, each for itself, since all met: some tell of their own accesses alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.events import Warp
from nvbackend.dry_run.order.record import Part, Record

_MOST_APART = 64
"""Of the accesses of a warp that were set apart, older ones are forgotten."""


@dataclass(slots=True, eq=False)
class Own:
    """An access of the `lanes` to the memory of a CTA.

    `told` is the event that stands for it in what all of them have told others since, 0 where they have told nothing.
    Of one that was set apart, `origin` is the record that it is apart from.
    """

    record: Record
    cta: int
    part: Part
    lanes: int
    told: int = 0
    origin: Record | None = None


@dataclass(frozen=True, slots=True)
class Untold:
    """An access of which those that tell know their `own` part: that of other `lanes` is of an `event` of its own.

    Where it was set apart before, by others, its event is that already.
    """

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
        """What these lanes tell of accesses that are all theirs, beside the events of the warp: bits of events.

        The warp itself knows these accesses only when its lanes meet or have waited for them. So a lane that arrives
        later publishes only its own accesses. If the lanes arrive at several mbarriers, each gets the same events.
        """
        new, told = 0, 0
        for one in self.accesses:
            if one.origin is None and not one.lanes & warp.lanes & ~lanes:
                if not one.told:
                    new = new or warp.events.new()
                    one.told = new
                told |= 1 << one.told
        return told

    def untold(self, warp: Warp, lanes: int) -> Iterator[Untold]:
        """The accesses of other lanes than these, which tell something now."""
        self._forget_known(warp)
        known = warp.seen & ~warp.hidden(lanes)
        kept: list[Own] = []
        events: dict[int, int] = {}
        for one in self.accesses:
            by, is_apart = one.lanes & warp.lanes, one.origin is not None
            if not by & ~lanes or (one.told and known >> one.told & 1) or (is_apart and not by & lanes):
                kept.append(one)
            elif (parted := one.part.parted(by, lanes, writes=one.record.writes)) is not None:
                left = by & ~lanes
                if not is_apart and not one.told and left not in events:
                    events[left] = warp.events.new()
                event = one.record.event if is_apart else one.told or events[left]
                kept.append(one)
                yield Untold(one, event, *parted, left)
            elif is_apart:
                warp.narrow(one.lanes, 0, one.record.event)
        self.accesses = kept
        self._forget_old(warp)

    def _forget_old(self, warp: Warp) -> None:
        """What was set apart long ago counts as told."""
        apart = [one for one in self.accesses if one.origin is not None]
        for one in apart[:-_MOST_APART]:
            warp.narrow(one.lanes, 0, one.record.event)
            self.accesses.remove(one)

    def _forget_known(self, warp: Warp) -> None:
        """Drop what all lanes of the warp know to be over: they have waited for what came after it."""
        known = warp.seen & ~warp.hidden(warp.lanes)
        self.accesses = [one for one in self.accesses if not one.told or not known >> one.told & 1]
