"""Waits that never end, because everything that could end them comes after waits like them.

A thread that comes first to a wait for parity 0 passes when the first phase of the barrier has completed, and for that
its arrivals must come. `stuck` finds the largest set of such waits whose arrivals no thread can make without passing
one of the set: the first of them to end would need an arrival of a thread that had passed one before. All ways through
the program count as possible, for every thread and every CTA, so that what is found never ends wherever it is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.flow.loops import Loops
from nvbackend.isel.flow.paths import everyone, ways
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.protocols.mbarrier.counts import Counts
from nvbackend.isel.protocols.mbarrier.parity import Firsts
from nvbackend.isel.protocols.mbarrier.uses import Cell, Use, Uses

_MOST_TOLD = 8
"""Each reported mistake costs a walk through the function."""
_OF_DATA = MbarrierUse.EXPECT | MbarrierUse.COMPLETE


@dataclass(frozen=True, slots=True)
class Stuck:
    """A wait that does not end, the `others` like it, and the `arrivals` that they hold up; `have` of `count` come.

    `empties`: by all that is seen the barrier says that memory may be filled, and not that it is.
    """

    use: Use
    others: tuple[Use, ...]
    arrivals: tuple[Use, ...]
    have: int
    count: int | None
    empties: bool


class Deadlocks:
    """The waits of one function."""

    def __init__(self, function: MachineFunction, uses: Uses, loops: Loops, counts: Counts, firsts: Firsts) -> None:
        self._function = function
        self._uses = uses
        self._loops = loops
        self._counts = counts
        self._firsts = firsts

    def findings(self) -> Iterator[Stuck]:
        """A wait for each cause, with the barriers that data completes on last: those are waited for rightly."""
        suspected = [] if self._uses.lost else [*self._suspected()]
        for _ in range(_MOST_TOLD):
            walk = _Walk(self._function, self._uses, self._loops, self._counts, suspected)
            if not walk.held:
                return
            stuck = [use for use in suspected if use.site.position in walk.held]
            late = {cell: self._late(cell, walk) for cell in dict.fromkeys(use.cell for use in stuck)}
            few = {cell for cell, arrivals in late.items() if not arrivals}  # altogether, which is another mistake
            if not few:
                yield self._told(stuck, late, walk)
                few = {self._first(stuck).cell}
            suspected = [use for use in suspected if use.cell not in few]

    def _late(self, cell: Cell, walk: _Walk) -> list[Use]:
        """The arrivals that some thread could make if it were not for the waits."""
        return [use for use in self._uses.of(cell, MbarrierUse.ARRIVE) if use.site.position not in walk.made]

    def _first(self, stuck: Sequence[Use]) -> Use:
        return min(stuck, key=lambda use: (self._brings_data(use.cell), use.site.position))

    def _told(self, stuck: Sequence[Use], late: Mapping[Cell, Sequence[Use]], walk: _Walk) -> Stuck:
        first = self._first(stuck)
        return Stuck(
            first,
            tuple(use for use in stuck if use is not first),
            tuple(late[first.cell]),
            walk.arrived.get(first.cell, 0),
            self._counts.initial(first.cell),
            not self._brings_data(first.cell),
        )

    def _suspected(self) -> Iterator[Use]:
        for cell in self._uses.cells:
            waits = () if cell.object in self._uses.escaped else self._uses.of(cell, MbarrierUse.WAIT)
            if self._uses.of(cell, MbarrierUse.INIT) and self._uses.of(cell, MbarrierUse.ARRIVE):
                yield from (use for use in waits if self._firsts.parity(use) == 0)

    def _brings_data(self, cell: Cell) -> bool:
        return bool(self._uses.of(cell, _OF_DATA))


class _Walk:
    """The places that some thread can reach while the `held` waits block every thread that reaches them."""

    def __init__(
        self, function: MachineFunction, uses: Uses, loops: Loops, counts: Counts, suspected: Sequence[Use]
    ) -> None:
        self.held = {use.site.position for use in suspected}
        self.arrived: dict[Cell, int] = {}
        """The arrivals on a barrier that can be made, where they are counted."""
        self.made: set[int] = set()
        """The instructions that can arrive, by their positions."""
        self._function = function
        self._uses = uses
        self._loops = loops
        self._counts = counts
        self._waits: dict[Cell, list[Use]] = {}
        for use in suspected:
            self._waits.setdefault(use.cell, []).append(use)
        self._came: dict[str, int] = {}
        self._ways: list[tuple[str, int, int]] = []
        self._parked: dict[int, tuple[str, int, int]] = {}
        self._come(function.entry.name, everyone(function))
        while self._ways:
            self._follow(*self._ways.pop())

    def _come(self, block: str, threads: int) -> None:
        """Let more threads, a bit each, begin a block."""
        came = self._came.get(block, 0)
        if came | threads != came:
            self._came[block] = came | threads
            self._ways.append((block, 0, threads & ~came))

    def _follow(self, block: str, index: int, threads: int) -> None:
        """Go on in a block, at a place in the list of its uses."""
        uses = self._uses.by_block.get(block, ())
        for place in range(index, len(uses)):
            use = uses[place]
            position = use.site.position
            if position in self.held:
                if position in self._parked:
                    threads |= self._parked[position][2]
                self._parked[position] = (block, place, threads)
                return
            if position in self._uses.arrivals and position not in self.made:
                self._arrive(use)
        for successor, others in ways(self._function.blocks[block]):
            self._come(successor, threads & ~others)

    def _arrive(self, use: Use) -> None:
        """Let the waits go on whose barrier may have all its arrivals now."""
        self.made.add(use.site.position)
        count, part = self._counts.initial(use.cell), self._counts.arriving(use)
        if count is not None and part is not None and self._loops.innermost(use.site.block) is None:
            self.arrived[use.cell] = self.arrived.get(use.cell, 0) + part
            if self.arrived[use.cell] < count:
                return
        for wait in self._waits.pop(use.cell, ()):
            self.held.discard(wait.site.position)
            if wait.site.position in self._parked:
                self._ways.append(self._parked.pop(wait.site.position))
