"""Copies to shared memory and reads of it that are in flight where its words are read or written, round by round.

The state has for each instruction of the function written out (`rounds`), which one thread runs once, how far its
operation may be on some path: its age in groups, or DRAINED. Something is a mistake where it holds on every path there:
words are read that copies in flight bring and nothing else has written, or words are written that operations in flight
read. Another thread may have waited where threads meet apart from the others; nothing is certain after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nvbackend.intrinsics.row.semantics import Completion, MbarrierUse
from nvbackend.isel.flow.dataflow import Site, solve
from nvbackend.lint.by_thread import CtaValues
from nvbackend.lint.lift import PENDING
from nvbackend.lint.rounds import WrittenOut
from nvbackend.lint.touched import ANYWHERE, SharedWords, Touched, said
from nvbackend.ptx.syntax import Integer

DRAINED = -1
_OLDEST = 24
_GROUPS = (Completion.COPY_GROUP, Completion.BULK_GROUP, Completion.MMA_GROUP)
_READING = (Completion.BULK_GROUP, Completion.MMA_GROUP)
_ASKS = MbarrierUse.WAIT | MbarrierUse.POLL


@dataclass(frozen=True, slots=True)
class Late:
    """A mistake: its kind, where it is, the instruction whose operation is in flight, and the age of that in groups."""

    kind: str
    position: int
    issuer: int
    age: int


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
        self.late: dict[int, Late] = {}

    def find(self) -> list[Late]:
        """The mistakes in rounds that are apart, by their places."""
        if not any(said(line).issues in _GROUPS for line in self._lines) or self._is_shared_with_others:
            return []
        for _ in solve(self._values.function, self, self._matters).visit():
            pass
        return [self.late[place] for place in sorted(self.late) if place not in self._out.later]

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
        """Whether a thread may tell others by an mbarrier what it waited for."""
        uses = ((said(line).mbarrier, line.instruction.opcode) for line in self._lines)
        return any(
            use is not None and bool(use & MbarrierUse.ARRIVE) and not name.startswith("tcgen05") for use, name in uses
        )

    # -- for the solver -------------------------------------------------------------------------------------------

    def _matters(self, site: Site) -> bool:
        what = site.instr.semantics
        is_step = what.completion in _GROUPS or what.barrier is not None or what.mbarrier is not None
        return is_step or self._touch(site.position) != SharedWords()

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
        what, place = site.instr.semantics, site.position
        self.late.pop(place, None)
        touch = self._touch(place)
        late = self._read_early(state, place, touch) or self._written_early(state, place, touch)
        if late is not None:
            self.late[place] = late
        if what.awaits in _GROUPS:  # cp.async.wait_all closes a group too
            return self._waited(state, what.awaits, site)
        if what.commits in _GROUPS:
            return self._aged(state, what.commits)
        if self._others_may_have_waited(site):
            return _Flying({each: ages | {DRAINED} for each, ages in state.ages.items()})
        return self._issued(state, place, touch)

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

    def _others_may_have_waited(self, site: Site) -> bool:
        """Whether other threads, which come from another place, may hand over here what they waited for."""
        what = site.instr.semantics
        if self._lines[site.position].instruction.parts[0] == "call":
            return True
        if what.mbarrier is not None and what.mbarrier & _ASKS:
            return self._arrivals
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


def _union(words: Iterable[int]) -> int:
    """All of the words."""
    every = 0
    for some in words:
        every |= some
    return every
