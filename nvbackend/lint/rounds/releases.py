"""Arrivals that let a stage be filled again while a wgmma of the same thread reads it, round by round.

An mbarrier guards the words that a copy fills after the wait for it, where that is the only wait since the copies
before, where it is so in each round that is apart, and where no copy completes its phases. A thread that arrives there
must have waited for its own wgmma that read those words; what others have waited for does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion, MbarrierUse
from nvbackend.isel.flow.dataflow import Site, solve, union
from nvbackend.lint.lifted.lift import PENDING
from nvbackend.lint.numbers.by_thread import CtaValues, Unknown
from nvbackend.lint.numbers.touched import Touched, said
from nvbackend.lint.rounds.stages import DRAINED, Late
from nvbackend.lint.rounds.written_out import WrittenOut
from nvbackend.ptx.syntax import Address

_OLDEST = 24
_NEAR = 16
"""Instructions between the address in another CTA and the arrival there, at most."""
_ASKS = MbarrierUse.WAIT | MbarrierUse.POLL


@dataclass(frozen=True, slots=True)
class _State:
    """The ages in groups of each wgmma, the waits since the last copies, and whether copies have come after them."""

    ages: Mapping[int, frozenset[int]] = field(default_factory=dict)
    asked: frozenset[int] = frozenset()
    has_filled: frozenset[bool] = frozenset((False,))


class Releases:
    """The question of one function, written out."""

    def __init__(self, out: WrittenOut, values: CtaValues) -> None:
        self._lines = out.lifted.lines
        self._values = values
        self._touched = Touched(self._lines, values)
        self._arrivals = {
            place
            for place, line in enumerate(self._lines)
            if said(line).mbarrier is MbarrierUse.ARRIVE and place not in out.later
        }
        self._later = out.later

    def find(self) -> Iterator[Late]:
        """The arrivals that come too early, by their places."""
        if not any(said(line).issues is Completion.MMA_GROUP for line in self._lines):
            return
        states = [*solve(self._values.function, self, self._matters).visit()]
        guarded = self._guarded(states)
        for site, state in states:
            guard = self._values.guard(site.position)
            is_arrival = site.position in self._arrivals and not (isinstance(guard, int) and not guard)
            words = guarded.get(self._barrier(site.position), 0) if is_arrival else 0
            reading = (place for place, ages in state.ages.items() if DRAINED not in ages)
            early = [place for place in reading if words and self._touched.of(place).reads & words]
            if early:
                yield Late("released", site.position, early[-1], min(state.ages[early[-1]]))

    def _guarded(self, states: list[tuple[Site, _State]]) -> dict[int, int]:
        """The words that each mbarrier guards, by its address, where they are the same after each wait for it."""
        filled: dict[int, int] = {}
        completed = {-1}
        for site, state in states:
            if self._fills(site):
                completed.add(self._completes(site.position))
            if self._fills(site) and len(state.asked) == 1:
                (asked,) = state.asked
                filled[asked] = filled.get(asked, 0) | self._touched.starts(site.position)
        guarded: dict[int, set[int]] = {}
        for asked, words in filled.items():
            if asked not in self._later:
                guarded.setdefault(self._barrier(asked), set()).add(words)
        known = guarded.keys() - completed
        return {barrier: guarded[barrier].pop() for barrier in known if len(guarded[barrier]) == 1}

    def _barrier(self, place: int) -> int:
        """The address of the mbarrier; -1 where it is not one number."""
        lines = self._lines
        register = lines[place].reads[:1]
        address = self._values.address(place)
        # The same mbarrier in another CTA of the cluster.
        before = reversed(range(max(place - _NEAR, 0), place)) if isinstance(address, Unknown) else ()
        writer = next((each for each in before if register == lines[each].writes), None)
        if writer is not None and lines[writer].instruction.parts[0] == "mapa":
            address = self._values.at(writer, 1)
        return address if isinstance(address, int) else -1

    def _completes(self, place: int) -> int:
        """The address of the mbarrier whose phase a copy completes."""
        operands = self._lines[place].instruction.operands
        last = max((index for index, operand in enumerate(operands) if isinstance(operand, Address)), default=0)
        address = self._values.at(place, last)
        return address if isinstance(address, int) else -1

    # -- for the solver -------------------------------------------------------------------------------------------

    def _matters(self, site: Site) -> bool:
        what = site.instr.semantics
        is_step = Completion.MMA_GROUP in (what.issues, what.commits, what.awaits)
        return is_step or site.position in self._arrivals or self._asks(site) or self._fills(site)

    def _asks(self, site: Site) -> bool:
        use = site.instr.semantics.mbarrier
        return use is not None and bool(use & _ASKS)

    def _fills(self, site: Site) -> bool:
        return site.instr.semantics.issues is Completion.BYTES

    def entry(self) -> _State:
        """Nothing is in flight, and nothing was waited for."""
        return _State()

    def join(self, left: _State, right: _State, /) -> _State:
        """What may be on either way."""
        ages = union(left.ages, right.ages)
        return _State(ages, left.asked | right.asked, left.has_filled | right.has_filled)

    def transfer(self, state: _State, site: Site, /) -> _State:
        """What may be in flight, and was waited for, after the instruction."""
        what = site.instr.semantics
        if self._asks(site):
            kept = frozenset[int]() if state.has_filled == {True} else state.asked
            return replace(state, asked=kept | {site.position}, has_filled=frozenset((False,)))
        if self._fills(site):
            return replace(state, has_filled=frozenset((True,)))
        if what.issues is Completion.MMA_GROUP:
            return replace(state, ages={**state.ages, site.position: frozenset((0,))})
        if what.commits is Completion.MMA_GROUP:
            older = {place: frozenset(map(_older, ages)) for place, ages in state.ages.items()}
            return replace(state, ages=older)
        if what.awaits is Completion.MMA_GROUP:
            pending = site.instr.immediates.get(PENDING, DRAINED)
            over = {
                place: frozenset(DRAINED if age > pending else age for age in ages)
                for place, ages in state.ages.items()
            }
            return replace(state, ages=over)
        return state


def _older(age: int) -> int:
    return age if age == DRAINED else min(age + 1, _OLDEST)
