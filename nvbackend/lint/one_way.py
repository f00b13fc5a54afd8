"""What every path through one way of a branch leads to, where paths through the other way are right.

A program takes each way of each branch in some run. Where all paths through a way have an operation in flight at an
access that certainly follows it, that run has the mistake. Paths that cannot be, because a branch on numbers that the
launch decides would go one way by what the other says, are left out: what is known where a thread takes the way holds
for the whole run. Nothing is known of numbers that loops change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.flow.dataflow import sites_of
from nvbackend.isel.flow.finished import finished, with_successors
from nvbackend.isel.flow.graphs import ControlFlow, Successors, reached
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.machine.function import MachineBlock
from nvbackend.lint.in_flight import InFlightMistake, find
from nvbackend.lint.lifted.lift import Lifted
from nvbackend.lint.numbers.by_thread import CtaValues, Unknown
from nvbackend.lint.numbers.facts import Facts, either

_KINDS = ("read", "written", "left")
_AFTER = "/after"
"""Ends the names of the blocks that come after the way: each block comes before it as well."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way of the branch at a position, which is taken or not."""

    position: int
    block: str
    successor: str
    is_taken: bool


@dataclass(frozen=True)
class OneWay:
    """The function with what comes after a way apart from what comes before it. `count` are its instructions."""

    way: Way
    lifted: Lifted
    count: int

    def is_after(self, position: int) -> bool:
        """Whether an instruction comes after the way."""
        return position >= self.count

    def origin(self, position: int) -> int:
        """Where the instruction is in the function."""
        return position % self.count


class Ways:
    """The ways of one function."""

    def __init__(self, lifted: Lifted) -> None:
        self._lifted = lifted
        self._blocks = lifted.function.blocks
        self._block_of = {site.position: name for name, sites in sites_of(lifted.function).items() for site in sites}

    def to(self, positions: set[int]) -> Iterator[OneWay]:
        """The function for each way that one of the positions certainly follows."""
        wanted = {self._block_of[position] for position in positions}
        for way in self._branches:
            following = self._following(way)
            if way.successor in following[way.block] and self._certain(way, following) & wanted:
                yield self._apart(way, following)

    def may_lead(self, issuer: int, access: int) -> bool:
        """Whether a run may come from one instruction to another: no way that comes before either excludes it.

        What a round of a loop may leave out may be in its last round alone: from there the loop does not go back.
        """
        first, second = self._block_of[issuer], self._block_of[access]
        every = {name: block.successors for name, block in self._blocks.items()}
        back = {*self._ways_back(first), *self._ways_back(second)}
        for way in [None, *self._branches]:
            if way is not None and not self._is_before(way, first, every) and not self._is_before(way, second, every):
                continue
            following = every if way is None else self._following(way)
            rounds = {name: [each for each in to if (name, each) not in back] for name, to in following.items()}
            is_straight = first == second and issuer < access
            if not is_straight and second not in reached(rounds[first], rounds.__getitem__):
                return False
        return True

    def _ways_back(self, block: str) -> Iterator[tuple[str, str]]:
        """The ways back of the loops whose rounds do not all run a block."""
        loops = loops_of(self._lifted.function)
        for loop in loops.around(block):
            if not loops.every_round(loop, block):
                yield from ((latch, loop.header) for latch in loop.latches)

    def _is_before(self, way: Way, block: str, every: Successors) -> bool:
        """Whether every path to a block comes through a way."""

        def around(name: str) -> Iterator[str]:
            return (each for each in every[name] if (name, each) != (way.block, way.successor))

        return block not in reached([self._lifted.function.entry.name], around)

    def _certain(self, way: Way, following: Successors) -> set[str]:
        """The blocks that certainly come after a way."""
        entry = self._lifted.function.entry.name
        flow = ControlFlow({entry: following[entry], **following})
        certain: set[str] = set()
        block: str | None = way.successor if way.block in flow.successors else None
        while block is not None and block not in certain:
            certain.add(block)
            block = flow.meeting.get(block)
        return certain

    def _apart(self, way: Way, following: Mapping[str, list[str]]) -> OneWay:
        before = with_successors(self._lifted.function, dict(following)).blocks
        blocks: dict[str, MachineBlock] = {}
        for name, block in before.items():
            to = [each + _AFTER if (name, each) == (way.block, way.successor) else each for each in block.successors]
            blocks[name] = replace(block, successors=to)
        for name, block in before.items():
            later = [each + _AFTER for each in block.successors]
            blocks[name + _AFTER] = replace(block, name=name + _AFTER, successors=later)
        function = finished(replace(self._lifted.function, blocks=blocks))
        lines = self._lifted.lines
        return OneWay(way, replace(self._lifted, function=function, lines=[*lines, *lines]), len(lines))

    # -- which ways may be taken in one run ------------------------------------------------------------------------

    @cached_property
    def _values(self) -> CtaValues:
        return CtaValues(self._lifted)

    @cached_property
    def _branches(self) -> list[Way]:
        ways: list[Way] = []
        for name, sites in sites_of(self._lifted.function).items():
            last = sites[-1].position if sites else -1
            following = self._blocks[name].successors
            if last >= 0 and len(following) == 2 and self._lifted.lines[last].instruction.parts[0] == "bra":
                ways += [Way(last, name, each, number == 0) for number, each in enumerate(following)]
        return ways

    def _following(self, way: Way) -> dict[str, list[str]]:
        """The successors of each block in runs that take a way."""
        following = {name: list(block.successors) for name, block in self._values.function.blocks.items()}
        for other in self._branches:
            if not self._may_both(way, other) and other.successor in following[other.block]:
                following[other.block].remove(other.successor)
        return following

    def _may_both(self, way: Way, other: Way) -> bool:
        """Whether a thread may take both ways."""
        first, second = self._known(way), self._known(other)
        return bool(self._threads(way, second) & self._threads(other, first))

    def _threads(self, way: Way, facts: Facts) -> int:
        """The threads that may take a way."""
        return either(self._values, facts, self._values.guard(way.position))[not way.is_taken]

    @cached_property
    def _known(self) -> Callable[[Way], Facts]:
        known: dict[Way, Facts] = {}

        def of(way: Way) -> Facts:
            if way not in known:
                guard = self._values.guard(way.position)
                truths = [(guard.expression, way.is_taken)] if isinstance(guard, Unknown) else []
                exact = [(predicate, holds) for predicate, holds in truths if predicate is not None]
                known[way] = Facts(self._values.expressions, self._values.threads, exact)
            return known[way]

        return of


def possible(lifted: Lifted, mistakes: list[InFlightMistake]) -> Iterator[InFlightMistake]:
    """Those whose operation and whose place may be in one run."""
    ways = Ways(lifted)
    return (each for each in mistakes if each.kind not in _KINDS or ways.may_lead(each.issuer, each.site.position))


def mistakes_of_one_way(lifted: Lifted, doubtful: set[int]) -> Iterator[tuple[InFlightMistake, Way]]:
    """What is certainly a mistake where one way of a branch is taken, at positions that are right on other paths."""
    if not doubtful:
        return
    for apart in Ways(lifted).to(doubtful):
        for mistake in find(apart.lifted, frozenset(), every_path=True).mistakes:
            place = apart.origin(mistake.site.position)
            if apart.is_after(mistake.site.position) and mistake.kind in _KINDS and place in doubtful:
                site = replace(mistake.site, position=place)
                yield replace(mistake, site=site, issuer=apart.origin(mistake.issuer)), apart.way
