"""Pairs of runs of accesses in random graphs, against a walk from each access on to what orders threads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nvbackend.intrinsics.row.semantics import Scope, Semantics
from nvbackend.isel.flow.accesses import AccessKind
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.shared.pairs import Pairs
from nvbackend.isel.target.target import Target

TILES = [MemoryObject(number, f"tile{number}", "shared", 64, 4) for number in (1, 2, 3)]
JUDGED = TILES[:2]
USES = {MemoryUse.READ: AccessKind.READ, MemoryUse.WRITE: AccessKind.WRITE}
HAZARDS = {AccessKind.WRITE: [AccessKind.READ, AccessKind.WRITE], AccessKind.READ: [AccessKind.WRITE]}
RELEASE, NOTHING = Semantics(releases=Scope.CTA), Semantics()


@dataclass(frozen=True)
class Line:
    """An access, what orders threads, what only releases, or nothing."""

    what: str
    memory: MemoryObject = TILES[0]
    use: MemoryUse = MemoryUse.READ
    atomic: bool = False

    @property
    def kind(self) -> AccessKind:
        return USES[self.use]


Program = dict[str, tuple[list[Line], list[str]]]
Place = tuple[str, int]


def line(chance: random.Random) -> Line:
    what = chance.choice(("access", "access", "access", "order", "release", "nothing"))
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
            [line(chance) for _ in range(chance.randint(0, 6))],
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
                memory=(MemoryTouch(one.memory, one.use, "address", 0, "", 4),) if one.what == "access" else (),
                semantics=Semantics(atomic=one.atomic)
                if one.what == "access"
                else RELEASE
                if one.what == "release"
                else NOTHING,
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
            if one.what != "access" or one.memory not in JUDGED:
                continue
            last = open_.get(one.memory.id)
            before = lines[last[-1][1]] if last else None
            if last and before is not None and (before.kind, before.atomic) == (one.kind, one.atomic):
                last.append((name, at))
            else:
                open_[one.memory.id] = run = [(name, at)]
                yield run


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


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_what_may_follow_with_nothing_in_between(first: int) -> None:
    count = 0
    for seed in range(first, first + 100):
        blocks = program(random.Random(seed))
        function = machine(blocks)
        places = [(name, at) for name, (lines, _) in blocks.items() for at in range(len(lines))]
        pairs = Pairs(function, JUDGED, HAZARDS, lambda instr: instr.opcode == "order")
        found = [tuple([places[site.position] for site, _ in run.accesses] for run in pair) for pair in pairs.find()]
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
        assert sorted(found) == sorted(expected), (seed, blocks)
        count += len(found)
    assert count > 60


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
