"""Pairs of runs of accesses in random graphs, against a walk from each access on to what orders threads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nvbackend.intrinsics.row.semantics import Completion, Scope, Semantics
from nvbackend.isel.flow.accesses import AccessKind
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.shared.pairs import Pairs
from nvbackend.isel.target.target import Target

TILES = [MemoryObject(number, f"tile{number}", "shared", 64, 4) for number in (1, 2, 3)]
JUDGED = TILES[:2]
USES = {MemoryUse.READ: AccessKind.READ, MemoryUse.WRITE: AccessKind.WRITE}
HAZARDS = {
    AccessKind.WRITE: [AccessKind.READ, AccessKind.WRITE],
    AccessKind.READ: [AccessKind.WRITE, AccessKind.COPY],
    AccessKind.COPY: [AccessKind.READ],
}
SAID = {
    "order": Semantics(),
    "release": Semantics(releases=Scope.CTA),
    "nothing": Semantics(),
    "wait": Semantics(awaits=Completion.COPY_GROUP),
    "wait for some": Semantics(awaits=Completion.COPY_GROUP),
    "track": Semantics(tracks=Completion.COPY_GROUP),
    "copy": Semantics(issues=Completion.COPY_GROUP),
}


@dataclass(frozen=True)
class Line:
    """An access or a copy, what orders threads, what only releases, what copies are done by, or nothing."""

    what: str
    memory: MemoryObject = TILES[0]
    use: MemoryUse = MemoryUse.READ
    atomic: bool = False

    @property
    def is_access(self) -> bool:
        return self.what in ("access", "copy")

    @property
    def kind(self) -> AccessKind:
        return AccessKind.COPY if self.what == "copy" else USES[self.use]


Program = dict[str, tuple[list[Line], list[str]]]
Place = tuple[str, int]


def line(chance: random.Random) -> Line:
    what = chance.choice((*["access"] * 5, "copy", "copy", "copy", "wait", "wait", "order", "order", *SAID))
    if what == "copy":
        return Line(what, chance.choice(JUDGED), MemoryUse.WRITE)
    return (
        Line(what, chance.choice(TILES), chance.choice([*USES]), chance.random() < 0.2)
        if what == "access"
        else Line(what)
    )


def program(chance: random.Random) -> Program:
    """Each block leads on, or back."""
    names = [f"b{index}" for index in range(chance.randint(1, 4))]
    return {
        name: (
            [line(chance) for _ in range(chance.choice((0, 3, 6, 9)))],
            [*names[index + 1 : index + 2], *([chance.choice(names[: index + 1])] if chance.random() < 0.4 else [])],
        )
        for index, name in enumerate(names)
    }


def machine(blocks: Program) -> MachineFunction:
    function = MachineFunction("f", Target.parse("sm_90a"))
    for name, (lines, ways) in blocks.items():
        function.block(name).successors = ways
        function.block(name).instructions = [
            MachineInstr(
                one.what,
                memory=(MemoryTouch(one.memory, one.use, "address", 0, "", 4),) if one.is_access else (),
                immediates={"pending": 1} if one.what == "wait for some" else {},
                semantics=SAID.get(one.what, Semantics(atomic=one.atomic)),
            )
            for one in lines
        ]
    return function


def runs(blocks: Program) -> Iterator[list[Place]]:
    """Accesses of a block to one tile in one way, with no other way and nothing that releases or orders in between."""
    for name, (lines, _) in blocks.items():
        open_: dict[int, list[Place]] = {}
        for at, one in enumerate(lines):
            if one.what in ("order", "release"):
                open_.clear()
            if not one.is_access or one.memory not in JUDGED:
                continue
            last = open_.get(one.memory.id)
            before = lines[last[-1][1]] if last else None
            if last and before is not None and (before.kind, before.atomic) == (one.kind, one.atomic):
                last.append((name, at))
            else:
                open_[one.memory.id] = run = [(name, at)]
                yield run


def landed(blocks: Program) -> Iterator[tuple[Place, list[Place]]]:
    """Waits for all copies of their thread, with those into each tile that threads were ordered after too early."""
    for name, (lines, _) in blocks.items():
        copied: list[Place] = []
        early: list[Place] = []
        for at, one in enumerate(lines):
            if one.what == "order":
                early = [*copied]
            elif one.what in ("wait", "wait for some", "track"):
                for tile in JUDGED if one.what == "wait" else ():
                    those = [place for place in early if lines[place[1]].memory is tile]
                    if those:
                        yield (name, at), those
                copied, early = [], []
            elif one.what == "copy" and one.memory in JUDGED:
                copied.append((name, at))


def passed(blocks: Program, target: Place) -> set[Place | None]:
    """What threads may have been ordered by last before it comes to a place; None for nothing."""
    found: set[Place | None] = set()
    seen: set[tuple[Place, Place | None]] = set()
    waiting: list[tuple[Place, Place | None]] = [((next(iter(blocks)), 0), None)]
    while waiting:
        place, last = waiting.pop()
        if (place, last) in seen:
            continue
        seen.add((place, last))
        (block, at), (lines, ways) = place, blocks[place[0]]
        if place == target:
            found.add(last)
        if lines and lines[at].what == "order":
            last = place
        waiting += [((block, at + 1), last)] if at + 1 < len(lines) else [((way, 0), last) for way in ways]
    return found


def is_ordered(blocks: Program, start: Place, target: Place) -> bool:
    """Whether threads are ordered on some way between the two that does not come by the first again."""
    seen: set[tuple[Place, bool]] = set()
    waiting = [(start, False)]
    while waiting:
        (block, at), ordered = waiting.pop()
        lines, ways = blocks[block]
        for place in [(block, at + 1)] if at + 1 < len(lines) else [(way, 0) for way in ways]:
            if place == target and ordered:
                return True
            here = blocks[place[0]][0]
            state = (place, ordered or (bool(here) and here[place[1]].what == "order"))
            if place != start and state not in seen:
                seen.add(state)
                waiting.append(state)
    return False


def unordered(blocks: Program, start: Place) -> set[Place]:
    """What may come after an access with nothing that orders in between."""
    found: set[Place] = set()
    waiting = [start]
    while waiting:
        block, at = waiting.pop()
        lines, ways = blocks[block]
        if lines and lines[at].what == "order":
            continue
        following = [(block, at + 1)] if at + 1 < len(lines) else [(way, 0) for way in ways]
        fresh = [place for place in following if place not in found]
        found.update(fresh)
        waiting += fresh
    return found


@pytest.mark.parametrize("first", range(0, 900, 300))
def test_what_may_follow_with_nothing_in_between(first: int) -> None:
    count = ordered = late = 0
    for seed in range(first, first + 300):
        blocks = program(random.Random(seed))
        function = machine(blocks)
        places = [(name, at) for name, (lines, _) in blocks.items() for at in range(len(lines))]
        pairs = Pairs(function, JUDGED, HAZARDS, lambda instr: instr.opcode == "order")
        runs_found = [*pairs.find()]
        found = [tuple([places[site.position] for site, _ in run.accesses] for run in pair) for pair in runs_found]
        those = list(runs(blocks))
        there = reached(blocks)
        expected = [
            (one, other)
            for one in those
            for other in those
            if one[0] in there and other[0] in unordered(blocks, one[0])
            if line_at(blocks, one).memory is line_at(blocks, other).memory
            if line_at(blocks, other).kind in HAZARDS[line_at(blocks, one).kind]
        ]
        expected += [
            ([wait] * len(copies), other)
            for wait, copies in landed(blocks)
            for other in those
            if wait in there and other[0] in unordered(blocks, wait)
            if line_at(blocks, copies).memory is line_at(blocks, other).memory
            if line_at(blocks, other).kind in HAZARDS[AccessKind.COPY]
        ]
        assert sorted(found) == sorted(expected), (seed, blocks)
        for run in (run for pair in runs_found for run in pair):
            last = {None if position < 0 else places[position] for position in pairs.last[run.number]}
            assert last == passed(blocks, places[run.site.position])
        for one, other in runs_found:
            some_way = is_ordered(blocks, places[one.site.position], places[other.site.position])
            assert pairs.is_ordered_somewhere(one, other) is some_way
            ordered += some_way
        late += sum(len(copies) for _, copies in landed(blocks))
        count += len(found)
    assert count > 60 and ordered > 5 and late > 5


def line_at(blocks: Program, run: list[Place]) -> Line:
    name, at = run[0]
    return blocks[name][0][at]


def reached(blocks: Program) -> set[Place]:
    """What the entry leads to."""
    found: set[str] = set()
    waiting = [next(iter(blocks))]
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting += [way for way in blocks[name][1] if way not in found]
    return {(name, at) for name in found for at in range(len(blocks[name][0]))}
