"""What a run found, and which findings are causes: each mistake gets one diagnostic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.events import Events
from nvbackend.dry_run.rules import MISSING_BARRIER, OVERRUN, REFILL, REFILL_IN_FLIGHT
from nvbackend.dry_run.rules import PARITY as PARITY_COUNTER
from nvbackend.isel.machine.function import MachineInstr

INVERTED, ACCOUNTING, ORDER, EXCHANGE, EARLY, UNWRITTEN, DEADLOCK, MISSED = range(8)
PARITY = ORDER
"""What explains what: a parity with which nothing begins all else, a wrong count makes waits pass early, a wait that
passes early leaves accesses unordered, and any of them may end in a deadlock. A phase that may be missed explains
nothing of what a run shows, which missed none."""
Notes = tuple[tuple[str, Location | None], ...]
_EXPLAIN_ALL = (PARITY_COUNTER, OVERRUN)
"""Mistakes of order by which warps go on too early: whatever they meet then is a consequence."""
_Warp = tuple[int, int]
"""A CTA and a warp of it."""
_Chain = tuple[Location, ...]
"""A line, and the lines by which it was reached: those of a helper count once for each call."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake, how far it explains others, and the memory or barrier that it is about.

    `lines` are those of its places, `since` the event of the access that others should have waited for, and `at` how
    many events there had been when it was found. Values that are functions are asked for when the run is over.
    """

    rule: Rule
    location: Location | None
    notes: Notes
    values: Mapping[str, object]
    class_: int
    about: str
    lines: frozenset[_Chain]
    since: int
    at: int
    holds: Callable[[], bool] | None
    crew: frozenset[_Warp] = frozenset()
    """The CTAs and warps of two accesses that nothing orders."""

    def diagnose(self) -> Diagnostic:
        """What is said about it."""
        values = {name: value() if callable(value) else value for name, value in self.values.items()}
        return self.rule.diagnose(at=self.location, notes=self.notes, **values)

    def is_apart(self, other: Finding) -> bool:
        """Whether one missing line cannot be the cause of both: one is over before the other begins."""
        if self._shares_a_line(other) or _root(self.about) == _root(other.about):
            return False
        if UNWRITTEN in (self.class_, other.class_):
            return True
        return self.since >= other.at or other.since >= self.at

    def _shares_a_line(self, other: Finding) -> bool:
        """Whether a line is of both; one of a helper that makes the same mistake in two calls counts for each."""
        if self.rule is other.rule:
            return bool(self.lines & other.lines)
        return bool({chain[0] for chain in self.lines} & {chain[0] for chain in other.lines})


class Findings:
    """The findings of a run, in the order in which they were made."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._found: list[Finding] = []
        self._keys: set[object] = set()
        self._unordered: set[str] = set()
        self.lost = False
        """Whether something was unknown on which everything after it depends."""

    def add(
        self,
        class_: int,
        about: str,
        rule: Rule,
        at: MachineInstr,
        notes: Notes,
        *,
        since: int | None = None,
        holds: Callable[[], bool] | None = None,
        crew: frozenset[_Warp] = frozenset(),
        **values: object | Callable[[], object],
    ) -> None:
        """Remember a mistake; the first of each rule and place counts. Whether it `holds` is asked at the end."""
        if self.lost:
            return
        if class_ == ORDER:
            self._unordered.add(_root(about))
        place = _chain(at.location) if at.location is not None else id(at)
        key = (class_ == EXCHANGE, holds is None, rule.id, place)
        if key in self._keys:
            return
        self._keys.add(key)
        places = (at.location, *(location for _, location in notes))
        lines = frozenset(_chain(place) for place in places if place is not None)
        count = self._events.count
        since = count if since is None else since
        self._found.append(Finding(rule, at.location, notes, values, class_, about, lines, since, count, holds, crew))

    @property
    def may_hang(self) -> bool:
        """Whether something was found that may be why warps wait forever: not that the lanes of one have not met."""
        return any(found.class_ not in (EXCHANGE, MISSED) for found in self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def are_all_between(self, some: Set[_Warp], others: Set[_Warp]) -> bool:
        """Whether each is of two accesses without an order, by one of some warps and one of the others."""
        return all(bool(found.crew & some and found.crew & others) for found in self._found)

    def is_between(self, some: Set[_Warp], others: Set[_Warp]) -> bool:
        """Whether some finding is of two accesses without an order, by one of some warps and one of the others."""
        return any(found.crew & some and found.crew & others for found in self._found)

    def is_about(self, name: str) -> bool:
        """Whether some finding is about this memory or barrier."""
        return any(found.about == name for found in self._found)

    def causes(self) -> list[Diagnostic]:
        """The first of the mistakes that explain the others, and all that certainly have nothing to do with it."""
        found_ = [found for found in self._found if found.holds is None or found.holds()]
        if not found_:
            return []
        least = min(found.class_ for found in found_)
        first = next(found for found in found_ if found.class_ == least)
        if least == ORDER and first.rule not in _EXPLAIN_ALL:
            first = _handed_over(_read_first(first, found_), found_)
        chosen = [first]
        for found in found_ if least == ORDER and chosen[0].rule not in _EXPLAIN_ALL else ():
            if found.rule is PARITY_COUNTER:
                continue
            apart = found.class_ == ORDER or (found.class_ == UNWRITTEN and _root(found.about) not in self._unordered)
            if apart and all(found.is_apart(one) for one in chosen):
                chosen.append(found)
        return [found.diagnose() for found in chosen]


def _read_first(first: Finding, found_: Sequence[Finding]) -> Finding:
    """The finding of a read too early, where that read was made before anything was written, and before the `first`."""
    early = [one for one in found_ if one.class_ == UNWRITTEN and one.at < first.at]
    for one in early:
        alike = (each for each in found_ if each.rule is MISSING_BARRIER and each.location == one.location)
        if (again := next((each for each in alike if _root(each.about) == _root(one.about)), None)) is not None:
            return again
    return first


def _handed_over(first: Finding, found_: Sequence[Finding]) -> Finding:
    """The finding that data was handed over with no order, where it explains that its memory is filled too early.

    Both name the line of the threads' own access: what copies the data away comes between that and the next fill.
    """
    if first.rule not in (REFILL, REFILL_IN_FLIGHT):
        return first
    alike = (one for one in found_ if one.rule is MISSING_BARRIER and one.crew == first.crew)
    return next((one for one in alike if _root(one.about) == _root(first.about) and one.lines & first.lines), first)


def _chain(place: Location) -> _Chain:
    return (place, *place.callers)


def _root(about: str) -> str:
    """The allocation or the ring of barriers, without an index."""
    return about.partition("[")[0]
