"""Loops written out: the first rounds of each apart, so that what a stage holds is known in each of them.

A ring of stages is a number that counts through them. Joined over all rounds it is any of them; in the first three
rounds it is 0, 1 and 2. The rounds after those stay one loop.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.flow.finished import finished
from nvbackend.isel.flow.graphs import postorder
from nvbackend.isel.flow.loops import Loop, loops_of
from nvbackend.isel.machine.function import MachineBlock
from nvbackend.lint.lifted.lift import Lifted, Register

_INNER, _OUTER = (8, 5, 3), 2
"""Rounds of a loop without loops in it, the most for which there is room, and of one with loops."""
_ROOM = 30_000
"""Instructions of the function written out."""
_POLL = 12
"""Instructions of a loop that only asks whether a phase has completed, at most."""
_ASKS = {MbarrierUse.POLL, MbarrierUse.WAIT}
_LATER = -1
"""The number of all rounds that are not apart."""
_Rounds = tuple[tuple[str, int], ...]
_Place = tuple[str, _Rounds]
_Graph = dict[_Place, list[_Place]]


@dataclass(frozen=True)
class WrittenOut:
    """The function with its rounds apart; `rounds` are those of the innermost loop by position, from 1; 0 is in none.

    Of loops that only poll there is one round. `later` are the positions of rounds that are not apart, `origin` those
    that the instructions had before. `waits` ask an mbarrier again and again until a phase of it has completed.
    """

    lifted: Lifted
    rounds: tuple[int, ...]
    later: frozenset[int]
    origin: tuple[int, ...]
    waits: frozenset[int]


def written_out(lifted: Lifted) -> WrittenOut | None:
    """`lifted` with its loops written out; None where a loop has several ways in, or there is no room."""
    blocks = lifted.function.blocks
    if not loops_of(lifted.function).regular:
        return None
    for inner in _INNER:
        rolled = _Rolled(lifted, inner)
        graph = rolled.graph()
        if sum(len(blocks[block].instructions) for block, _ in graph) <= _ROOM:
            return _written(lifted, graph, rolled.waits(), rolled.polls)
    return None


class _Rolled:
    """A function whose loops are to be written out, `inner` rounds of the innermost ones."""

    def __init__(self, lifted: Lifted, inner: int) -> None:
        self._blocks = lifted.function.blocks
        self._lines = lifted.lines
        loops = loops_of(lifted.function)
        self._around = {name: loops.around(name)[::-1] for name in self._blocks if loops.is_reachable(name)}
        every = {loop.header: loop for around in self._around.values() for loop in around}
        self._loops = every
        self.polls = {header for header, loop in every.items() if self._only_polls(loop)}
        nested = ([loop.header for loop in around if loop.header not in self.polls] for around in self._around.values())
        nests = {header for around in nested for header in around[:-1]}
        self._last = {header: _OUTER if header in nests else inner for header in every}

    def waits(self) -> frozenset[int]:
        """The only instruction of a loop that polls, where every way out of that is by its answer."""
        starts, count = {}, 0
        for name, block in self._blocks.items():
            starts[name] = count
            count += len(block.instructions)
        waits = set()
        for header in self.polls:
            loop = self._loops[header].blocks
            places = [starts[name] + at for name in loop for at in range(len(self._blocks[name].instructions))]
            asking = [place for place in places if self._lines[place].instruction.parts[0] == "mbarrier"]
            leaving = [name for name in loop if not loop.issuperset(self._blocks[name].successors)]
            answers = [self._answer(name, starts[name], loop) for name in leaving]
            if len(asking) == 1 and all(self._lines[asking[0]].writes[-1:] == (each,) for each in answers):
                waits.add(asking[0])
        return frozenset(waits)

    def _answer(self, name: str, start: int, loop: Container[str]) -> Register | None:
        """The register by which the last branch of a block leaves a loop where that is true."""
        block = self._blocks[name]
        line = self._lines[start + len(block.instructions) - 1] if block.instructions else None
        if line is None or line.instruction.guard is None or len(line.reads) != 1 or len(block.successors) != 2:
            return None
        is_leaving = block.successors[0] not in loop
        return line.reads[0] if is_leaving is not line.instruction.guard.negated else None

    def graph(self) -> _Graph:
        """The blocks in their rounds, each with what follows it, in reverse postorder."""
        entry = next(iter(self._blocks))
        start: _Place = (entry, tuple((loop.header, 0) for loop in self._around[entry]))
        graph: _Graph = {}
        waiting = [start]
        while waiting:
            place = waiting.pop()
            if place in graph:
                continue
            name, rounds = place
            ways = ((each, self._after(name, dict(rounds), each)) for each in self._blocks[name].successors)
            graph[place] = [(each, after) for each, after in ways if after is not None]
            waiting += graph[place]
        order = postorder([start], lambda place: reversed(graph[place]))[::-1]
        return {place: graph[place] for place in order}

    def _after(self, block: str, rounds: dict[str, int], successor: str) -> _Rounds | None:
        """The rounds of a successor; None for the way back of a loop that only polls, which changes nothing."""
        after: list[tuple[str, int]] = []
        for loop in self._around[successor]:
            header = loop.header
            is_later = any(number == _LATER for _, number in after)
            number = rounds[header] if block in loop.blocks else _LATER if is_later else 0
            if successor == header and block in loop.blocks:
                if header in self.polls:
                    return None
                number = _LATER if number in (_LATER, self._last[header] - 1) else number + 1
            after.append((header, number))
        return tuple(after)

    def _only_polls(self, loop: Loop) -> bool:
        instructions = [instr for name in loop.blocks for instr in self._blocks[name].instructions]
        uses = {instr.semantics.mbarrier for instr in instructions} - {None}
        others = (instr for instr in instructions if instr.semantics.mbarrier is None)
        is_short = len(instructions) <= _POLL
        return is_short and bool(uses) and uses <= _ASKS and all(instr.row is None for instr in others)


def _written(lifted: Lifted, graph: _Graph, waits: frozenset[int], polls: Container[str]) -> WrittenOut:
    starts, position = {}, 0
    for name, block in lifted.function.blocks.items():
        starts[name] = position
        position += len(block.instructions)
    names = {place: f"{place[0]}@{number}" for number, place in enumerate(graph)}
    origin: list[int] = []
    rounds: list[int] = []
    later: set[int] = set()
    blocks: dict[str, MachineBlock] = {}
    for place, following in graph.items():
        block = lifted.function.blocks[place[0]]
        if any(number == _LATER for _, number in place[1]):
            later.update(range(len(origin), len(origin) + len(block.instructions)))
        origin += range(starts[block.name], starts[block.name] + len(block.instructions))
        counted = [number for header, number in place[1] if header not in polls]
        rounds += [counted[-1] + 1 if counted else 0] * len(block.instructions)
        successors = [names[each] for each in following]
        blocks[names[place]] = replace(block, name=names[place], successors=successors)
    function = finished(replace(lifted.function, blocks=blocks))
    lines = [lifted.lines[at] for at in origin]
    waiting = frozenset(place for place, at in enumerate(origin) if at in waits)
    whole = replace(lifted, function=function, lines=lines)
    return WrittenOut(whole, tuple(rounds), frozenset(later), tuple(origin), waiting)
