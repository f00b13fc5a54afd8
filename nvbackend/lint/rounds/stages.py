"""Copies to shared memory and reads of it that are in flight where its words are read or written, round by round.

The state has for each instruction of the function written out (`written_out`), which one thread runs once, how far its
operation may be on some path: its age in groups, or DRAINED. Something is a mistake where it holds on every path there:
words are read that copies in flight bring and nothing else has written, or words are written that operations in flight
read. Another thread may have waited where threads meet apart from the others; nothing is certain after that. At an
mbarrier it may have waited for what is complete where threads arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion, MbarrierUse
from nvbackend.isel.flow.dataflow import Site, solve
from nvbackend.lint.lifted.lift import PENDING, Line
from nvbackend.lint.numbers.by_thread import CtaValues
from nvbackend.lint.numbers.touched import ANYWHERE, SharedWords, Touched, said
from nvbackend.lint.rounds.handovers import Handovers
from nvbackend.lint.rounds.overwrites import Overwrites
from nvbackend.lint.rounds.written_out import WrittenOut
from nvbackend.ptx.syntax import Integer

DRAINED = -1
_OLDEST = 24
_GROUPS = (Completion.COPY_GROUP, Completion.BULK_GROUP, Completion.MMA_GROUP)
_READING = (Completion.BULK_GROUP, Completion.MMA_GROUP)
_STORES = ("st", "stmatrix")
_ASKS = MbarrierUse.WAIT | MbarrierUse.POLL
_ASKING = (("mbarrier", "test_wait"), ("mbarrier", "try_wait"))


@dataclass(frozen=True, slots=True)
class Late:
    """A mistake: its kind, where it is, the instruction whose operation is in flight, and the age of that in groups.

    `ends` is the round after which a loop ends before it, 0 where any will do.
    """

    kind: str
    position: int
    issuer: int
    age: int
    ends: int = 0


@dataclass(frozen=True, slots=True)
class _Flying:
    """What was issued, and what was written, with the ages that each may have."""

    ages: Mapping[int, frozenset[int]] = field(default_factory=dict)


class Stages:
    """The analysis, for the solver."""

    def __init__(self, out: WrittenOut, values: CtaValues) -> None:
        self._out = out
        self._lines = out.lifted.lines
        self._values = values
        self._touched = Touched(self._lines, values)
        self._touches: dict[int, SharedWords] = {}
        self._apart = values.apart()
        self._handovers: Handovers | None = None
        self.late: dict[int, Late] = {}

    def find(self) -> list[Late]:
        """The mistakes in rounds that are apart, by their places."""
        if not any(said(line).issues in _GROUPS for line in self._lines) or self._is_shared_with_others:
            return []
        if self._arrivals:
            alone = solve(self._values.function, self, self._matters)
            complete = {
                site.position: self._complete(state, site)
                for site, state in alone.visit()
                if _is_arrival(self._lines[site.position])
            }
            self._handovers = Handovers(self._values.function, self._lines, complete)
        solution = solve(self._values.function, self, self._matters)
        late = [self.late[place] for place in sorted(self.late) if place not in self._out.later]
        if any(said(line).issues is Completion.COPY_GROUP for line in self._lines):
            stores = Overwrites(self._values.function, self._out, self, solution).find()
            late += [Late("overwritten", each.position, each.issuer, 1, each.ends) for each in stores]
        return late

    @cached_property
    def _is_shared_with_others(self) -> bool:
        """Whether other CTAs write the memory, at times that this one's instructions do not show."""
        for line in self._lines:
            parts = line.instruction.parts
            if said(line).multicast or (parts[0] in ("st", "red", "atom") and "shared::cluster" in parts):
                return True
        return False

    @cached_property
    def _arrivals(self) -> bool:
        """Whether a thread may hand over by an mbarrier what it waited for."""
        return any(_is_arrival(line) for line in self._lines)

    def _complete(self, state: _Flying, site: Site) -> list[int]:
        """What an arrival hands over: what its thread has waited for, and copies whose end makes the arrival."""
        tracked = site.instr.semantics.tracks
        return [
            place
            for place, ages in state.ages.items()
            if DRAINED in ages or (tracked is not None and said(self._lines[place]).issues is tracked)
        ]

    # -- for the solver -------------------------------------------------------------------------------------------

    def _matters(self, site: Site) -> bool:
        what, line = site.instr.semantics, self._lines[site.position]
        is_step = what.completion in _GROUPS or what.barrier is not None
        return is_step or _is_arrival(line) or _asks(line) or self._touch(site.position) != SharedWords()

    def _touch(self, place: int) -> SharedWords:
        if place not in self._touches:
            self._touches[place] = self._touched.of(place)
        return self._touches[place]

    def entry(self) -> _Flying:
        """Nothing is in flight."""
        return _Flying()

    def join(self, left: _Flying, right: _Flying, /) -> _Flying:
        """What may be on either way."""
        ages = dict(left.ages)
        for place, some in right.ages.items():
            ages[place] = ages[place] | some if place in ages else some
        return _Flying(ages)

    def transfer(self, state: _Flying, site: Site, /) -> _Flying:
        """What may be in flight after the instruction."""
        place = site.position
        self.late.pop(place, None)
        touch = self._touch(place)
        late = self._read_early(state, place, touch) or self._written_early(state, place, touch)
        if late is not None:
            self.late[place] = late
        return self.after(state, site)

    # -- for stores after loops -----------------------------------------------------------------------------------

    def after(self, state: _Flying, site: Site, /) -> _Flying:
        """What may be in flight after the instruction, whether it is a mistake or not."""
        what, place = site.instr.semantics, site.position
        touch = self._touch(place)
        if what.awaits in _GROUPS:  # cp.async.wait_all closes a group too
            return self._waited(state, what.awaits, site)
        if what.commits in _GROUPS:
            return self._aged(state, what.commits)
        if self._others_may_have_waited(site):
            return _Flying({each: ages | {DRAINED} for each, ages in state.ages.items()})
        if _asks(self._lines[place]):
            return self._after_asking(state, place)
        return self._issued(state, place, touch)

    def in_flight(self, state: _Flying, /) -> set[int]:
        """The positions of the operations that are complete on no path."""
        return {place for place, ages in state.ages.items() if DRAINED not in ages}

    def written(self, place: int, /) -> int:
        """The words that the instruction certainly writes, where they are known."""
        words = self._touch(place).writes
        return 0 if words == ANYWHERE else words

    # -- steps ----------------------------------------------------------------------------------------------------

    def _issued(self, state: _Flying, place: int, touch: SharedWords) -> _Flying:
        issues = said(self._lines[place]).issues
        is_reading = issues in _READING and touch.reads
        if not touch.writes and not is_reading:
            return state
        ages = dict(state.ages)
        if touch.writes not in (0, ANYWHERE) and self._lines[place].instruction.guard is None:
            for other in [each for each in ages if self._touch(each).writes == touch.writes]:
                del ages[other]
        is_flying = is_reading or issues is Completion.COPY_GROUP
        ages[place] = frozenset((0 if is_flying else DRAINED,))
        return _Flying(ages)

    def _aged(self, state: _Flying, kind: Completion | None) -> _Flying:
        return self._changed(state, kind, lambda age: age if age == DRAINED else min(age + 1, _OLDEST))

    def _waited(self, state: _Flying, kind: Completion | None, site: Site) -> _Flying:
        """After a wait: one without a number is for all operations, open groups too."""
        pending = site.instr.immediates.get(PENDING, DRAINED)
        return self._changed(state, kind, lambda age: DRAINED if age > pending else age)

    def _changed(self, state: _Flying, kind: Completion | None, change: Callable[[int], int]) -> _Flying:
        ages = dict(state.ages)
        for place, some in ages.items():
            if said(self._lines[place]).issues is kind:
                ages[place] = frozenset(map(change, some))
        return _Flying(ages)

    def _after_asking(self, state: _Flying, place: int) -> _Flying:
        """After a wait at an mbarrier."""
        handovers = self._handovers
        if handovers is None:
            return state
        flying = (each for each, ages in state.ages.items() if DRAINED not in ages)
        over = {each: state.ages[each] | {DRAINED} for each in flying if handovers.may_learn(place, each)}
        return _Flying({**state.ages, **over}) if over else state

    def _others_may_have_waited(self, site: Site) -> bool:
        """Whether other threads, which come from another place, may hand over here what they waited for."""
        what = site.instr.semantics
        if self._lines[site.position].instruction.parts[0] == "call":
            return True
        if what.barrier is None or not what.barrier.waits:
            return False
        operands = self._lines[site.position].instruction.operands
        is_common = all(isinstance(operand, Integer) and operand.value == 0 for operand in operands)
        return site.block in self._apart or not is_common or len(operands) > 1

    # -- mistakes -------------------------------------------------------------------------------------------------

    def _read_early(self, state: _Flying, place: int, touch: SharedWords) -> Late | None:
        if not touch.reads:
            return None
        written = {each: self._touch(each).writes for each in state.ages}
        flying = {each: words for each, words in written.items() if words > 0 and DRAINED not in state.ages[each]}
        exposed = touch.reads & _union(flying.values())
        if not exposed:
            return None
        exposed &= ~_union(words for each, words in written.items() if each not in flying)
        issuers = [each for each, words in flying.items() if words & exposed]
        return Late("read", place, issuers[-1], min(state.ages[issuers[-1]])) if issuers else None

    def _written_early(self, state: _Flying, place: int, touch: SharedWords) -> Late | None:
        words = touch.writes
        if words == ANYWHERE:
            is_fill = said(self._lines[place]).issues is Completion.BYTES
            words = self._touched.starts(place) if is_fill else 0
        if not words:
            return None
        for each, ages in state.ages.items():
            if DRAINED not in ages and said(self._lines[each]).issues in _READING and self._touch(each).reads & words:
                return Late("written", place, each, min(ages))
        return None


def _is_arrival(line: Line) -> bool:
    """Whether it hands over what its thread waited for; a commit of tcgen05 is of multiplications alone."""
    use, parts = said(line).mbarrier, line.instruction.parts
    if use is None:
        return parts[0] == "mbarrier" and parts[1].startswith("arrive")
    return bool(use & MbarrierUse.ARRIVE) and parts[0] != "tcgen05"


def _asks(line: Line) -> bool:
    """Whether it asks an mbarrier for a phase, in a spelling that the catalogue has or not."""
    use, parts = said(line).mbarrier, line.instruction.parts
    return parts[:2] in _ASKING if use is None else bool(use & _ASKS)


def _union(words: Iterable[int]) -> int:
    """All of the words."""
    every = 0
    for some in words:
        every |= some
    return every
