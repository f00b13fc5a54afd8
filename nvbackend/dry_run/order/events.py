"""What happens before what, by sets of events: a Python int with a bit for each.

An event is what a warp accesses between two of its synchronisations, an asynchronous operation, an arrival, the end of
a phase, or the start of a CTA. A warp's `seen` are the events that certainly came before its next step, in whatever
order the warps run; `fenced` are those of them that a proxy fence came after, so that the async proxy sees them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.lane_order import LaneOrder, Moments
from nvbackend.dry_run.seam import ALL_LANES

Known = tuple[int, int]
"""Events that came before, and those of them that the async proxy sees."""
NOTHING_KNOWN: Known = (0, 0)


class Events:
    """The numbers of a run's events; the first are the starts of its CTAs."""

    def __init__(self, ctas: int) -> None:
        self.count = ctas
        self.moments = Moments()
        self.starts = (1 << ctas) - 1
        """Those that relaxed arrivals tell too, as they order no memory: starts of CTAs, ends of barrier phases."""

    def new(self) -> int:
        """The number of a new event."""
        self.count += 1
        return self.count - 1


@dataclass(slots=True, eq=False)
class Warp:
    """A warp, and what it knows. `flush` checks the accesses that it has made since its last synchronisation.

    `published` is what also a relaxed arrival tells, because a fence came after it, and `heard` what relaxed waits were
    for, which a fence makes known.
    """

    cta: int
    index: int
    events: Events
    flush: Callable[[Warp], None]
    seen: int = 0
    fenced: int = 0
    published: int = 0
    heard: Known = NOTHING_KNOWN
    inits: int = 0
    event: int = -1
    used: bool = False
    ended: bool = False
    of_lanes: dict[int, int] = field(default_factory=dict)
    """Proxy fences of some lanes since the warp last came to a barrier: what came before, by the lanes."""
    lanes: int = ALL_LANES
    """The lanes of the warp."""
    heard_by: dict[int, int] = field(default_factory=dict)
    """What some lanes alone have waited for since all met: the events, by the lanes."""
    apart: dict[tuple[int, int], int] = field(default_factory=dict)
    """What some lanes have done since all met, of which others could not tell: the events, by the lanes, and by those
    that have waited for it."""
    passed: int = 0
    """The events of its own waits for mbarriers, and those of the other warps of its warpgroup before the last
    instruction that all of them executed together: who waits for that knows that they have passed."""
    order: LaneOrder = field(init=False)
    """What its lanes have accessed since all met, each for itself."""

    def __post_init__(self) -> None:
        self.order = LaneOrder(self.events.moments, self.lanes)
        self.seen = 1 << self.cta
        self.event = self.events.new()

    def close(self) -> None:
        """End the warp's event: what it does from here on is another one."""
        if self.used:
            self.flush(self)
            self.seen |= 1 << self.event
            self.event = self.events.new()
            self.used = False

    def tell(self, lanes: int = ALL_LANES) -> Known:
        """What threads that continue after this know, which these lanes do."""
        self.close()
        fenced = self.fenced
        for events in self.of_lanes.values():
            fenced |= events
        return self.told_by(lanes), fenced

    def told_by(self, lanes: int) -> int:
        """What these lanes know of: not what others alone have done since all met."""
        found = self.seen
        for (others, heard), events in self.apart.items():
            if others & ~lanes and lanes & ~heard:
                found &= ~events
        return found

    def tell_operation(self, lanes: int) -> Known:
        """The events before an asynchronous operation of these lanes."""
        self.close()
        fenced = self.fenced
        for others, events in self.of_lanes.items():
            if others & lanes:
                fenced |= events
        return self.told_by(lanes) & ~self.hidden(lanes), fenced

    def hidden(self, lanes: int) -> int:
        """What other lanes have waited for, and not all of these."""
        found = 0
        for others, events in self.heard_by.items():
            if lanes & ~others:
                found |= events
        return found

    def alike(self, lanes: int) -> list[int]:
        """These lanes, in parts of which all have waited for the same."""
        parts = [lanes]
        for others in self.heard_by:
            parts = [part for one in parts for part in (one & others, one & ~others) if part]
        return parts

    def set_apart(self, lanes: int, event: int) -> None:
        """These lanes have done something of its own event, of which the others cannot tell before all meet."""
        self.seen |= 1 << event
        self.apart[lanes, 0] = self.apart.get((lanes, 0), 0) | 1 << event

    def narrow(self, lanes: int, left: int, event: int) -> None:
        """Of these lanes, whose accesses were set apart in an event, only some have not told of theirs."""
        for others, heard in [one for one, events in self.apart.items() if one[0] == lanes and events >> event & 1]:
            self.apart[others, heard] &= ~(1 << event)
            self.apart[left, heard] = self.apart.get((left, heard), 0) | 1 << event

    @property
    def is_apart(self) -> bool:
        """Whether some lanes have fenced, waited for or done something that others have not."""
        return bool(self.of_lanes or self.heard_by or self.apart)

    def meet(self) -> None:
        """All lanes of the warp have come together: what some fenced or waited for, all have."""
        if self.of_lanes:
            for events in self.of_lanes.values():
                self.fenced |= events
            self.of_lanes.clear()
        if self.heard_by:
            self.heard_by.clear()
        if self.apart:
            self.apart.clear()

    def tell_relaxed(self) -> Known:
        """What threads that continue after a relaxed arrival know: that the warp runs, and what a fence published."""
        self.close()
        return self.seen & self.events.starts | self.published, self.published & self.fenced

    def learn(self, known: Known, lanes: int = ALL_LANES) -> bool:
        """These lanes of the warp continue after `this`. Returns whether it learned anything."""
        seen, fenced = known
        self.order.learn(seen, lanes)
        new = seen & ~self.seen
        if self.heard_by or (new and self.lanes & ~lanes):
            self._hear(lanes, seen, new)
        if self.apart:
            self._hear_apart(lanes, seen)
        if not (new or fenced & ~self.fenced):
            return False
        if self.used:
            self.flush(self)
        self.seen |= seen
        self.fenced |= fenced
        return True

    def _hear(self, lanes: int, seen: int, new: int) -> None:
        heard = {lanes: new}
        for others, events in self.heard_by.items():
            for some, part in ((others | lanes, events & seen), (others, events & ~seen)):
                heard[some] = heard.get(some, 0) | part
        self.heard_by = {some: events for some, events in heard.items() if events and self.lanes & ~some}

    def _hear_apart(self, lanes: int, seen: int) -> None:
        apart: dict[tuple[int, int], int] = {}
        for (others, heard), events in self.apart.items():
            for some, part in ((heard | lanes, events & seen), (heard, events & ~seen)):
                if part and self.lanes & ~some:
                    apart[others, some] = apart.get((others, some), 0) | part
        self.apart = apart

    def mark(self) -> int:
        """An event of its own, for an arrival: its bit."""
        self.close()
        bit = 1 << self.events.new()
        self.seen |= bit
        return bit

    def mark_wait(self) -> int:
        """An event of its own, for a wait that it has passed: its bit."""
        bit = self.mark()
        self.passed |= bit
        return bit

    def fence_proxy(self, lanes: int) -> None:
        """The async proxy sees all that these lanes have seen and done."""
        self.close()
        if lanes == ALL_LANES:
            self.fenced = self.seen
        else:
            self.of_lanes[lanes] = self.seen

    def fence_memory(self) -> None:
        """A fence: relaxed arrivals now publish all that this warp has seen and done, and its relaxed waits count."""
        self.learn(self.heard)
        self.close()
        self.published = self.seen

    def fence_init(self) -> None:
        """From here on, relaxed arrivals also publish that the warp's mbarriers are initialised."""
        self.published |= self.inits
