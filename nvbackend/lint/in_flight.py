"""Registers that asynchronous instructions use, and shared memory that they read, until a wait has returned.

The state has for each instruction that issues an operation how far that may be on some path: its age in groups, 0 for
an open one, or DRAINED. A register refers to the instructions whose operation it may be part of; moves hand that on.
An access is a mistake where the operation is DRAINED on no path to there: conditions that belong together may exclude
the path on which it is not. What was never issued on some path does not matter. Where it is DRAINED on some paths, one
way of a branch is looked at alone (`one_way`): by what holds on every path through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import TypeVar

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion, FenceOf, Semantics
from nvbackend.isel.flow.dataflow import Site, solve, union
from nvbackend.lint.lifted.lift import PENDING, Lifted, Line, Register
from nvbackend.ptx.syntax import Vector

DRAINED, _NEVER = -1, -2
"""In place of an age: that the operation is complete, and that it was not issued, where every path is asked for."""
_OLDEST = 8
"""No wait leaves so many groups in flight."""
_IN_REGISTERS = (Completion.MMA_GROUP, Completion.LOAD_WAIT)
_FOLLOWED = (*_IN_REGISTERS, Completion.BULK_GROUP)
"""By what the operations complete that are followed."""
_NO, _YES, _SPENT = "no", "yes", "spent"
_CREDIT = frozenset((_NO,))
Positions = frozenset[int]
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Flying:
    """What may be true before an instruction.

    `flight` are the ages of the operations of each instruction that issued some, `held` the registers that they use.
    `credit` says whether an operation was waited for since memory was released last. `ever` says whether a wgmma.fence
    came before the first wgmma, and is empty after that; `lately` says whether one came since the last wait, and
    `accessed` are the registers that ordinary code computed on every path since.
    """

    flight: Mapping[int, frozenset[int]] = field(default_factory=dict)
    held: Mapping[Register, Positions] = field(default_factory=dict)
    credit: frozenset[str] = _CREDIT
    ever: frozenset[bool] = frozenset((False,))
    lately: frozenset[bool] = frozenset((False,))
    accessed: frozenset[Register] = frozenset()

    def running(self, position: int) -> frozenset[int]:
        """The ages of an instruction's operations, where they are drained on no path."""
        ages = self.flight.get(position, frozenset())
        return frozenset() if DRAINED in ages else ages - {_NEVER}

    def may_run(self, position: int) -> bool:
        """Whether an instruction's operations are drained on some path and not on another."""
        ages = self.flight.get(position, frozenset())
        return DRAINED in ages and len(ages) > 1


@dataclass(frozen=True, slots=True)
class InFlightMistake:
    """A mistake at a place: its kind, the instruction that issued the operation, its age there, the registers."""

    kind: str
    site: Site
    issuer: int
    age: int = 0
    registers: tuple[Register, ...] = ()


class InFlight:
    """The analysis, for the solver: the mistakes of the last turn at each position, and what may be one on some path.

    With `every_path` a register counts as used where it is on all paths, and an operation as issued.
    """

    def __init__(
        self, lifted: Lifted, releases: frozenset[int], cyclic: frozenset[str], *, every_path: bool = False
    ) -> None:
        self._lines = lifted.lines
        self._every_path = every_path
        self._releases = releases
        self._cyclic = cyclic
        self._relevant = _followed_registers(lifted)
        self.mistakes: dict[int, list[InFlightMistake]] = {}
        self.doubtful: dict[int, bool] = {}
        self.waited: dict[int, set[int]] = {}
        """At each end of the kernel the instructions whose operations are complete there, on some path."""

    def matters(self, site: Site) -> bool:
        """Whether the instruction changes the state, or may be a mistake."""
        said = site.instr.semantics
        line = self._lines[site.position]
        return (
            said.completion in _FOLLOWED
            or said.exits
            or said.fence is not None
            or site.position in self._releases
            or _hides(line)
            or any(register in self._relevant for register in (*line.reads, *line.writes))
        )

    def entry(self) -> Flying:
        """Nothing is in flight."""
        return Flying()

    def join(self, left: Flying, right: Flying, /) -> Flying:
        """What may be true on either way."""
        flight, held = union(left.flight, right.flight), union(left.held, right.held)
        if self._every_path:
            missing = left.flight.keys() ^ right.flight.keys()
            flight = {place: ages | {_NEVER} if place in missing else ages for place, ages in flight.items()}
            held = {register: held[register] for register in left.held if register in right.held}
        return Flying(
            flight,
            held,
            left.credit | right.credit,
            left.ever | right.ever,
            left.lately | right.lately,
            left.accessed & right.accessed,
        )

    def transfer(self, state: Flying, site: Site, /) -> Flying:
        """What may be true after the instruction."""
        line, said = self._lines[site.position], site.instr.semantics
        mistakes = self.mistakes[site.position] = []
        self.doubtful[site.position] = False
        if _hides(line):
            return _cleared(state)
        if site.position in self._releases:
            mistakes += self._release(state, site)
            state = replace(state, credit=frozenset((_SPENT if known == _YES else known) for known in state.credit))
        if said.completion in _FOLLOWED:
            return self._asynchronous(state, site, line, mistakes)
        if said.fence is not None and said.fence.of is FenceOf.REGISTERS:
            ever = frozenset((True,)) if state.ever else state.ever
            return replace(state, ever=ever, lately=frozenset((True,)), accessed=frozenset())
        if said.exits:
            mistakes += self._left(state, site)
            return state
        return self._ordinary(state, site, line, mistakes)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _asynchronous(self, state: Flying, site: Site, line: Line, mistakes: list[InFlightMistake]) -> Flying:
        said = site.instr.semantics
        if said.issues is not None:
            mistakes += self._unfenced(state, site, line)
            return self._issued(state, site, line)
        if said.commits is not None:
            return _committed(state, said, self._of(said.commits))
        pending = site.instr.immediates.get(PENDING)
        mistakes += self._uncommitted(state, site, pending)
        return self._waited(state, said, pending)

    def _ordinary(self, state: Flying, site: Site, line: Line, mistakes: list[InFlightMistake]) -> Flying:
        credit = frozenset((_YES,)) if line.instruction.parts[0] in ("ld", "ldmatrix") else state.credit
        held = dict(state.held)
        accessed = state.accessed
        if line.is_move:
            positions = frozenset[int]().union(*(held.get(register, frozenset()) for register in line.reads))
            if accessed.intersection(line.reads):
                accessed |= frozenset(line.writes)
        else:
            mistakes += self._touched(state, site, "read", line.reads)
            mistakes += self._touched(state, site, "written", line.writes)
            positions = frozenset()
            accessed |= frozenset(line.writes) & self._relevant
            for register in (*line.reads, *line.writes):
                held.pop(register, None)  # one mistake is found once
        for register in line.writes:
            held.pop(register, None)
            if positions:
                held[register] = positions
        return replace(state, held=held, credit=credit, accessed=accessed)

    def _touched(
        self, state: Flying, site: Site, how: str, registers: tuple[Register, ...]
    ) -> Iterator[InFlightMistake]:
        by_issuer: dict[int, list[Register]] = {}
        for register in dict.fromkeys(registers):
            held = state.held.get(register, frozenset())
            running = [issuer for issuer in held if state.running(issuer)]
            if any(state.may_run(issuer) for issuer in held):
                self.doubtful[site.position] = True
            elif running and not any(DRAINED in state.flight.get(issuer, ()) for issuer in held):
                by_issuer.setdefault(max(running), []).append(register)
        for issuer, some in by_issuer.items():
            yield InFlightMistake(how, site, issuer, min(state.running(issuer)), tuple(some))

    def _issued(self, state: Flying, site: Site, line: Line) -> Flying:
        if site.instr.semantics.issues is Completion.BULK_GROUP:
            is_certain = line.instruction.guard is None or not self._every_path
            ages = frozenset((0,) if is_certain else (0, _NEVER))
            return replace(state, flight={**state.flight, site.position: ages})
        here = frozenset((site.position,))
        held = {register: positions - here for register, positions in state.held.items()}
        held = {register: positions for register, positions in held.items() if positions}
        for register in _used(line):
            held[register] = held.get(register, frozenset()) | here
        ever = frozenset[bool]() if site.instr.semantics.issues is Completion.MMA_GROUP else state.ever
        return replace(state, flight={**state.flight, site.position: frozenset((0,))}, held=held, ever=ever)

    def _waited(self, state: Flying, said: Semantics, pending: int | None) -> Flying:
        flight = dict(state.flight)
        of_kind = self._of(said.awaits)
        for position in of_kind & flight.keys():
            ages = flight[position]
            flight[position] = frozenset(DRAINED if _is_over(age, pending) else age for age in ages)
        over = {position for position, ages in flight.items() if ages == {DRAINED}}
        held = {register: positions - over for register, positions in state.held.items()}
        state = replace(
            state, flight=flight, held={register: positions for register, positions in held.items() if positions}
        )
        if said.awaits is not Completion.MMA_GROUP:
            return state
        return replace(state, credit=frozenset((_YES,)), lately=frozenset((False,)), accessed=frozenset())

    def _of(self, completion: Completion | None) -> frozenset[int]:
        return frozenset(
            place
            for place, line in enumerate(self._lines)
            if line.row is not None and line.row.semantics.issues is completion
        )

    # -- mistakes -------------------------------------------------------------------------------------------------

    def _unfenced(self, state: Flying, site: Site, line: Line) -> Iterator[InFlightMistake]:
        if site.instr.semantics.issues is not Completion.MMA_GROUP:
            return
        computed = tuple(register for register in _used(line) if register in state.accessed)
        if state.ever == {False} or (computed and state.lately == {False}):
            yield InFlightMistake("unfenced", site, site.position, registers=computed)

    def _uncommitted(self, state: Flying, site: Site, pending: int | None) -> Iterator[InFlightMistake]:
        awaits = site.instr.semantics.awaits
        if awaits is Completion.LOAD_WAIT or pending != 0:
            return
        for issuer in sorted(self._of(awaits)):
            if state.running(issuer) == {0}:
                yield InFlightMistake("uncommitted", site, issuer)
                return

    def _left(self, state: Flying, site: Site) -> Iterator[InFlightMistake]:
        self.waited[site.position] = {issuer for issuer, ages in state.flight.items() if DRAINED in ages}
        for completion in (Completion.MMA_GROUP, Completion.BULK_GROUP):
            issuers = sorted(self._of(completion))
            left = [
                issuer for issuer in issuers if state.running(issuer) and _NEVER not in state.flight.get(issuer, ())
            ]
            if any(state.may_run(issuer) for issuer in issuers):
                self.doubtful[site.position] = True
            if left:
                age = min(state.running(left[-1]))
                yield InFlightMistake("left", site, left[-1], age)

    def _release(self, state: Flying, site: Site) -> Iterator[InFlightMistake]:
        if state.credit != {_NO}:
            return
        running = [issuer for issuer in self._of(Completion.MMA_GROUP) if state.running(issuer)]
        if running and (site.instr.semantics.mbarrier is not None or site.block in self._cyclic):
            yield InFlightMistake("released", site, max(running))


@dataclass(frozen=True, slots=True)
class Found:
    """The mistakes, in the order of the text, and the positions that are one on some paths and right on others."""

    mistakes: list[InFlightMistake]
    doubtful: set[int]


def find(
    lifted: Lifted, releases: frozenset[int], cyclic: frozenset[str] = frozenset(), *, every_path: bool = False
) -> Found:
    """What is found. `releases` are the instructions that let memory be filled again, `cyclic` the blocks of loops."""
    if not any(line.row is not None and line.row.semantics.issues in _FOLLOWED for line in lifted.lines):
        return Found([], set())
    analysis = InFlight(lifted, releases, cyclic, every_path=every_path)
    mistakes = [
        mistake
        for site, _ in solve(lifted.function, analysis, analysis.matters).visit()
        for mistake in analysis.mistakes[site.position]
    ]
    doubtful = {place for place, is_doubtful in analysis.doubtful.items() if is_doubtful}
    if not every_path:  # what one end of the kernel has no wait for, another may have: for the thread that issued it
        waited = set[int]().union(*analysis.waited.values())
        excused = [each for each in mistakes if each.kind == "left" and each.issuer in waited]
        doubtful |= {each.site.position for each in excused}
        mistakes = [each for each in mistakes if each not in excused]
    return Found(mistakes, doubtful)


def _committed(state: Flying, said: Semantics, of_kind: frozenset[int]) -> Flying:
    flight = dict(state.flight)
    for position in of_kind & flight.keys():
        flight[position] = frozenset(age if age < 0 else min(age + 1, _OLDEST) for age in flight[position])
    if said.commits is not Completion.MMA_GROUP:
        return replace(state, flight=flight)
    return replace(state, flight=flight, credit=frozenset(_NO if known == _SPENT else known for known in state.credit))


def _is_over(age: int, pending: int | None) -> bool:
    return age != _NEVER and (age == DRAINED or pending is None or age > pending)


def _hides(line: Line) -> bool:
    """Whether code that is not looked at runs here."""
    return line.instruction.parts[0] == "call"


def _cleared(state: Flying) -> Flying:
    """After code that is not looked at: it may have waited and fenced."""
    flight = {position: ages | {DRAINED} for position, ages in state.flight.items()}
    return Flying(flight, state.held, frozenset((_YES,)), frozenset((True,)), frozenset((True,)))


def _used(line: Line) -> tuple[Register, ...]:
    """The registers that an asynchronous operation uses: its results, and a fragment of A."""
    if line.row is not None and line.row.semantics.issues is Completion.LOAD_WAIT:
        return line.writes
    operands = line.instruction.operands[:2]
    count = sum(len(operand.elements) for operand in operands if isinstance(operand, Vector))
    return line.reads[:count]


def _followed_registers(lifted: Lifted) -> frozenset[Register]:
    """What asynchronous operations use, and what moves make of it."""
    followed = {
        register
        for line in lifted.lines
        if line.row is not None and line.row.semantics.issues in _IN_REGISTERS
        for register in _used(line)
    }
    moves = [line for line in lifted.lines if line.is_move]
    grown = True
    while grown:
        before = len(followed)
        for line in moves:
            if followed.intersection(line.reads):
                followed.update(line.writes)
            if followed.intersection(line.writes):
                followed.update(line.reads)
        grown = len(followed) > before
    return frozenset(followed)
