"""The life of mbarriers in random programs, walked path by path: what may be initialised, seen, fenced, invalidated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from nvbackend.intrinsics.row.row import RegisterClass
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.flow.dataflow import solve
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.mbarrier.life import LifeAnalysis
from nvbackend.isel.protocols.mbarrier.uses import find_uses
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

RING, LONE = MemoryObject(1, "ring", "shared", 16, 8), MemoryObject(2, "lone", "shared", 8, 8)
OPCODES = {
    "init": "mbarrier.init",
    "inval": "mbarrier.inval",
    "arrive": "mbarrier.arrive",
    "wait": "mbarrier.try_wait",
    "fill": "cp.async.bulk",
    "cta": "bar.sync",
    "cluster": "barrier.cluster.wait",
    "fence": "fence.mbarrier_init.release.cluster",
    "write": "st.shared",
}
ORDERS = ("cta", "cluster", "fence")
AT_A_PEER = next(
    row
    for row in mbarrier.rows()
    if row.opcode == OPCODES["arrive"] and row.operand("barrier").register is RegisterClass.SHARED_CLUSTER
)


LOST = "init of one that is not known"
INIT = next(row for row in mbarrier.rows() if row.opcode == OPCODES["init"])


@dataclass(frozen=True)
class Line:
    """What is done, with which mbarrier (offset None: some one), by how many threads and which (None: not known)."""

    what: str
    memory: MemoryObject = RING
    offset: int | None = 0
    size: int = 0
    known: dict[str, int] = field(default_factory=dict)
    remote: bool = False

    def meets(self, other: Line) -> bool:
        return self.memory is other.memory and (None in (self.offset, other.offset) or self.offset == other.offset)

    def is_exactly(self, other: Line) -> bool:
        return (self.memory, self.offset) == (other.memory, other.offset)


Program = dict[str, tuple[list[Line], list[str]]]


def line(chance: random.Random, *, arrays: bool) -> Line:
    what = chance.choice(
        ("init", "init", "init", "arrive", "arrive", "wait", "fill", "fill", "inval", "write", *ORDERS)
    )
    if what in ORDERS:
        return Line(what)
    memory = chance.choice((RING, RING, LONE))
    places = (0, 8, None) if arrays else (0, 8)
    offset = chance.choice(places) if memory is RING else 0
    if what == "write":
        return Line(what, memory, chance.choice((0, 4, 8, None)), chance.choice((0, 4, 8)))
    known = {facts.THREADS: chance.choice((1, 1, 1, 64, None)), facts.THREAD: chance.choice((0, 0, 5, None))}
    remote = what == "arrive" and chance.random() < 0.3
    return Line(what, memory, offset, 0, {name: one for name, one in known.items() if one is not None}, remote)


def program(seed: int) -> Program:
    chance = random.Random(seed)
    names = [f"b{index}" for index in range(chance.randint(1, 4))]
    arrays = chance.random() < 0.4
    lost = [Line(LOST)] if chance.random() < 0.1 else []
    return {
        name: (
            [line(chance, arrays=arrays) for _ in range(chance.randint(0, 7))] + lost * (name == names[-1]),
            chance.sample(names, min(len(names), chance.choice((0, 1, 1, 2)))),
        )
        for name in names
    }


def instruction(one: Line) -> MachineInstr:
    if one.what in ORDERS:
        return MachineInstr(OPCODES[one.what], semantics=semantics_of(OPCODES[one.what]))
    if one.what == LOST:
        return MachineInstr(INIT.opcode, INIT)
    use = MemoryUse.WRITE if one.what == "write" else MemoryUse.SYNCHRONIZE
    symbol = "%i@b0*8" if one.offset is None else ""
    touch = MemoryTouch(one.memory, use, "barrier", one.offset or 0, symbol, one.size or None)
    opcode = OPCODES[one.what]
    if one.what == "write":  # nothing is said of what it reads
        read = replace(touch, use=MemoryUse.READ, offset=0, symbol="", bytes=None)
        return MachineInstr(opcode, memory=(read, touch), semantics=semantics_of(opcode))
    if one.remote:
        return MachineInstr(opcode, AT_A_PEER, memory=(touch,), facts=one.known)
    return MachineInstr(opcode, memory=(touch,), facts=one.known, semantics=semantics_of(opcode))


def machine(blocks: Program) -> MachineFunction:
    function = MachineFunction("kernel", Target.parse("sm_90a"))
    for name, (lines, ways) in blocks.items():
        function.block(name).instructions = [instruction(one) for one in lines]
        function.block(name).successors = ways
    return function


Marks = frozenset[int]
PARTS = ("begun", "live", "dead", "unseen", "unseen by peers", "unfenced")
UNDONE = PARTS[1:2] + PARTS[3:]
"""What an initialisation begins, beside that it was."""


class Walk:
    """Every path, with sets of the positions of what initialises and invalidates; `before` is what some path finds."""

    def __init__(self, blocks: Program) -> None:
        starts, self.lines = {}, []
        for name, (lines, _) in blocks.items():
            starts[name] = len(self.lines)
            self.lines += lines
        self.before: dict[int, dict[str, set[int]]] = {}
        seen: set[tuple[str, tuple[Marks, ...]]] = set()
        waiting = [(next(iter(blocks)), tuple(Marks() for _ in PARTS))]
        while waiting:
            name, state = waiting.pop()
            if (name, state) in seen:
                continue
            seen.add((name, state))
            sets = {part: set(marks) for part, marks in zip(PARTS, state, strict=True)}
            for position, one in enumerate(blocks[name][0], start=starts[name]):
                known = self.before.setdefault(position, {part: set() for part in PARTS})
                for part in PARTS:
                    known[part] |= sets[part]
                self.step(sets, one, position)
            waiting += ((way, tuple(map(frozenset, sets.values()))) for way in blocks[name][1])

    def step(self, sets: dict[str, set[int]], one: Line, position: int) -> None:
        met = {mark for mark in sets["begun"] | sets["dead"] if self.lines[mark].meets(one)}
        exactly = {mark for mark in met if self.lines[mark].is_exactly(one)}
        sure = facts.THREADS in one.known
        if one.what == "init":
            sets["dead"] -= met
            sets["begun"].add(position)
            for part in UNDONE if sure else ():
                sets[part] -= exactly
                sets[part].add(position)
        elif one.what == "inval":
            for part in UNDONE:
                sets[part] -= met
            if sure:
                sets["dead"] -= exactly
                sets["dead"].add(position)
        elif one.what == "cta":
            sets["unseen"].clear()
        elif one.what == "cluster":
            sets["unseen"].clear()
            sets["unseen by peers"].clear()
        elif one.what == "fence":
            sets["unfenced"].clear()

    def findings(self, cluster: int) -> Iterator[tuple[int, str, str, Marks]]:
        """Position, rule, what is missing, and what makes it wrong."""
        for position, sets in self.before.items():
            one = self.lines[position]
            met = {part: {mark for mark in marks if self.lines[mark].meets(one)} for part, marks in sets.items()}
            if one.what == "init":
                live = {mark for mark in met["live"] if self.lines[mark].is_exactly(one)}
                if live and one.offset is not None and facts.THREADS in one.known:
                    yield position, "double-init", "", Marks(live)
            elif one.what == "write":
                yield from self.overwritten(position, sets["live"])
            elif one.what not in (*ORDERS, LOST):
                if not met["begun"]:
                    yield from self.uninitialised(position)
                elif one.what != "inval" and met["dead"]:
                    yield position, "after-inval", "", Marks(met["dead"])
                elif one.what != "inval":
                    yield from self.not_ready(position, met, cluster)

    def overwritten(self, position: int, live: set[int]) -> Iterator[tuple[int, str, str, Marks]]:
        one = self.lines[position]
        if one.offset is None:
            return
        end = one.offset + (one.size or 1000)
        for mark in sorted(live):
            other = self.lines[mark]
            if (
                other.memory is one.memory
                and other.offset is not None
                and other.offset < end
                and one.offset < other.offset + 8
            ):
                alike = {each for each in live if self.lines[each].is_exactly(other)}
                yield position, "overwritten", "", Marks(alike)
                return

    def uninitialised(self, position: int) -> Iterator[tuple[int, str, str, Marks]]:
        """Told where no initialisation is anywhere, or one that comes later; not where others may make it one."""
        one = self.lines[position]
        if any(each.what == LOST for each in self.lines):
            return
        array = any(
            each.memory is one.memory and each.offset is None
            for each in self.lines
            if each.what not in (*ORDERS, LOST, "write")
        )
        inits = [each for each in self.lines if each.what == "init" and each.memory is one.memory]
        later = bool(inits) if array else any(each.is_exactly(one) for each in inits)
        written = any(each.what == "write" and each.memory is one.memory for each in self.lines)
        if later or not written:
            yield position, "uninitialised", "later" if later else "never", Marks()

    def not_ready(self, position: int, met: dict[str, set[int]], cluster: int) -> Iterator[tuple[int, str, str, Marks]]:
        one = self.lines[position]
        unseen = Marks(mark for mark in met["unseen"] if by_others(self.lines[mark], one))
        if unseen:
            yield position, "not-ready", "no barrier of the CTA", unseen
        elif met["unfenced"] and one.what == "fill":
            yield position, "not-ready", "no fence.mbarrier_init", Marks(met["unfenced"])
        elif met["unseen by peers"] and cluster > 1 and one.remote:
            yield position, "not-ready", "no barrier of the cluster", Marks(met["unseen by peers"])


def by_others(init: Line, use: Line) -> bool:
    """Whether some thread uses it that is not the one which initialised it, for certain."""
    threads, others = init.known.get(facts.THREADS), use.known.get(facts.THREADS)
    if threads is None or others is None:
        return False
    one, two = init.known.get(facts.THREAD), use.known.get(facts.THREAD)
    return threads > 1 or others > 1 or (None not in (one, two) and one != two)


@pytest.mark.parametrize("first", range(0, 1200, 300))
def test_the_analysis_finds_what_walking_every_path_finds(first: int) -> None:
    said: set[tuple[str, str]] = set()
    for seed in range(first, first + 300):
        blocks, cluster = program(seed), seed % 2 + 1
        function = machine(blocks)
        analysis = LifeAnalysis(function, find_uses(function), cluster)
        found = [
            (one.site.position, one.rule.id.removeprefix("mbarrier."), one.missing, one.causes)
            for site, state in solve(function, analysis, analysis.matters).visit()
            for one in analysis.findings(state, site)
        ]
        assert sorted(found, key=repr) == sorted(Walk(blocks).findings(cluster), key=repr), (seed, blocks)
        said |= {(rule, missing) for _, rule, missing, _ in found}
    assert len(said) == 8
