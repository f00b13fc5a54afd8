"""What is pending in shared memory, against a second transcription: random programs, walked path by path.

The machine form is written by hand, so that a program is a few lines and thousands of them are walked. Each access is
of one place; places meet where their bytes do. Some places are at run-time values, which blocks set anew. On every path
each access is followed alone, so that the analysis must know exactly what some path brings: no more and no less.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from nvbackend.intrinsics.copy import tma_bulk
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.isel.flow.dataflow import solve
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.proxy import state as proxy_state
from nvbackend.isel.protocols.proxy.protocol import Reduced, _left_at_exit, reduce_function, unordered
from nvbackend.isel.protocols.proxy.state import HAZARDS, ProxyAnalysis, State, Step
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

BYTES = 64
TILE = 32
FIXED = MemoryObject(1, "fixed", "shared", BYTES, 4)
MOVING = MemoryObject(2, "moving", "shared", BYTES, 4)
TILED = MemoryObject(5, "tiled", "shared", BYTES, TILE)
FULL, OTHER = (MemoryObject(number, name, "shared", 8, 8) for number, name in ((3, "full"), (4, "other")))
BARRIERS = {"full": FULL, "other": OTHER, "": None}
PLACES = ((0, 16), (16, 16), (8, 16), (32, 8), (0, BYTES))
TILED_PLACES = ((0, 8), (8, 16), (0, TILE), (TILE, TILE), (40, 8), (0, BYTES))
"""Offsets and extents."""
SYMBOLS = {"": "", "b1": "%i@b1*4", "b2": "%j@b2*4"}
"""The run-time parts of places, by the block that sets them anew."""
MUST_NOT_MEET: Mapping[str, str] = {
    "write": "multiply multiply5 store send load",
    "copy": "read multiply multiply5 store send",
    "multiply": "write copy load",
    "store": "write copy load",
    "load": "read multiply multiply5 store send",
}
"""What what is pending must not meet: by another proxy before a fence, by anybody before it is done."""
GROUPS = {"multiply": "wgmma", "store": "cp.async.bulk", "copy": "cp.async"}
ACCESSES = ("write", "read", "copy", "load", "store", "send", "multiply", "multiply5", "receive")
FENCE = next(row for row in sync.rows() if row.ptx.startswith("fence.proxy.async") and "space" in row.axes)
STORED = tma_bulk.store_bulk().semantics
DONE = -1
OLDEST = 4
"""No wait leaves a group of this age."""


@dataclass(frozen=True)
class Line:
    """An access of a kind to a place of an allocation, or something else with a number or an mbarrier.

    The place lies where the block `moved` says, in the allocation or in the tile of its offset.
    """

    what: str
    memory: MemoryObject = FIXED
    place: tuple[int, int] = (0, 0)
    moved: str = ""
    number: int | None = None
    barrier: str = ""

    def meets(self, other: Line) -> str:
        """`sure` where both access the same byte, `perhaps` where they are in one tile, or a copy is anywhere."""
        (start, size), (another, extent) = self.place, other.place
        if self.memory is not other.memory:
            return ""
        if self.moved == other.moved:
            return "sure" if start < another + extent and another < start + size else ""
        if BYTES in (0 if self.moved else size, 0 if other.moved else extent):
            return "sure"
        if self.memory is TILED:
            if start // TILE != another // TILE:
                return ""
            return "sure" if TILE in (0 if self.moved else size, 0 if other.moved else extent) else "perhaps"
        return "perhaps" if "copy" in (self.what, other.what) else ""


Program = dict[str, tuple[list[Line], list[str]]]


def line(chance: random.Random) -> Line:
    kind = chance.choice([*ACCESSES, *ACCESSES, "commit", "wait", "commit", "wait", "fence", "mbarrier", "all"])
    if kind in ACCESSES:
        memory = chance.choice((FIXED, FIXED, MOVING, TILED))
        moved = {FIXED: "", MOVING: "b1", TILED: chance.choice((*SYMBOLS,))}[memory]
        if memory is MOVING and chance.random() < 0.2:
            moved = chance.choice(("", "b2"))
        barrier = chance.choice(("full", "full", "other", "")) if kind == "load" else ""
        place = chance.choice(TILED_PLACES if memory is TILED else PLACES)
        return Line(kind, memory, place, moved, barrier=barrier)
    if kind in ("commit", "wait"):
        return Line(f"{kind} {chance.choice([*GROUPS])}", number=chance.choice((0, 0, 1, 2, 3)))
    return Line(kind, barrier=chance.choice(("full", "other", "other", "")) if kind == "mbarrier" else "")


def program(seed: int) -> Program:
    """Blocks with any edges between them."""
    chance = random.Random(seed)
    names = [f"b{index}" for index in range(chance.randint(1, 4))]
    found: Program = {}
    for name in names:
        lines: list[Line] = []
        latest: dict[MemoryObject, str] = {}
        for one in (line(chance) for _ in range(chance.randint(0, 6))):
            if one.what not in ACCESSES:
                latest.clear()
            elif latest.get(one.memory) == one.what:
                continue  # would be one run with the last
            else:
                latest[one.memory] = one.what
            lines.append(one)
        ways = chance.sample(names, min(len(names), chance.randint(0, 2)))
        found[name] = (lines if ways else [*lines, Line("ret")], ways)
    return found


# -- the machine form -----------------------------------------------------------------------------------------------


def instruction(one: Line) -> MachineInstr:
    opcodes = {"write": "st.shared", "read": "ld.shared", "copy": "cp.async", "store": "cp.async.bulk", "ret": "ret"}
    opcodes |= {"multiply": "wgmma.mma_async", "multiply5": "tcgen05.mma", "all": "cp.async.wait_all"}
    opcodes |= {"mbarrier": "mbarrier.try_wait"}
    rows = {"load": tma_bulk.load_bulk(), "send": tma_bulk.copy_bulk(), "receive": tma_bulk.copy_bulk()}
    uses = dict.fromkeys(("write", "copy"), MemoryUse.WRITE) | {"read": MemoryUse.READ}
    uses |= dict.fromkeys(("load", "receive"), MemoryUse.ASYNC_WRITE)
    if one.what == "fence":
        return MachineInstr(FENCE.opcode, FENCE)
    kind, _, group = one.what.partition(" ")
    if group:
        immediates = {"pending": one.number or 0} if kind == "wait" else {}
        opcode = f"{GROUPS[group]}.{kind}_group"
        return MachineInstr(opcode, immediates=immediates, semantics=semantics_of(opcode))
    touches = []
    if kind in ACCESSES:
        use = uses.get(kind, MemoryUse.ASYNC_READ)
        touches.append(MemoryTouch(one.memory, use, "address", one.place[0], SYMBOLS[one.moved], one.place[1]))
    barrier = BARRIERS[one.barrier]
    if barrier is not None:
        touches.append(MemoryTouch(barrier, MemoryUse.SYNCHRONIZE, "barrier"))
    row = rows.get(kind)
    opcode = opcodes[kind] if row is None else row.opcode
    said = STORED if kind == "store" else semantics_of(opcode) if row is None else row.semantics
    return MachineInstr(opcode, row, memory=tuple(touches), semantics=said)


def machine(blocks: Program) -> MachineFunction:
    function = MachineFunction("kernel", Target.parse("sm_90a"))
    for name, (lines, ways) in blocks.items():
        block = function.block(name)
        block.instructions = [instruction(one) for one in lines]
        block.successors = ways
    return function


# -- the walk -------------------------------------------------------------------------------------------------------

Followed = frozenset[tuple[bool, int]]
"""The executions of one access that may be pending: whether its place is another one by now, and the age or DONE."""
Ages = Mapping[tuple[int, bool], frozenset[int]]
"""By the number of an access and whether its place is another one by now: how far it may be on some path."""
Place = tuple[str, int]


class Walk:
    """Every path, for each access that may be pending: what is `known` before each line of each block."""

    def __init__(self, blocks: Program) -> None:
        self.blocks = blocks
        self.numbers: dict[Place, int] = {}
        self.lines: list[Line] = []
        for name, (lines, _) in blocks.items():
            for index, one in enumerate(lines):
                if one.what in ACCESSES:
                    self.numbers[name, index] = len(self.lines)
                    self.lines.append(one)
        self.known: dict[Place, dict[tuple[int, bool], set[int]]] = {}
        for number, one in enumerate(self.lines):
            if one.what in MUST_NOT_MEET:
                self._follow(number, one)

    def _follow(self, number: int, first: Line) -> None:
        waiting: list[tuple[str, Followed]] = [(next(iter(self.blocks)), frozenset())]
        seen = set(waiting)
        while waiting:
            name, state = waiting.pop()
            if first.moved == name:
                state = frozenset((True, age) for _, age in state)
            lines, ways = self.blocks[name]
            for index, one in enumerate(lines):
                here = self.known.setdefault((name, index), defaultdict(set))
                for lost, age in state:
                    here[number, lost].add(age)
                state = self._after(state, first, one, self.numbers.get((name, index)) == number)
            fresh = {(way, state) for way in ways} - seen
            seen |= fresh
            waiting += fresh

    def _after(self, state: Followed, first: Line, one: Line, is_itself: bool) -> Followed:
        if one.what not in ACCESSES:
            return frozenset((lost, aged(first, age, one)) for lost, age in state)
        ends = first.meets(one) == "sure" and one.what in MUST_NOT_MEET[first.what].split()
        filled_again = one.what == "load" and first.what in ("write", "copy") and first.meets(one)
        left = frozenset((lost, age) for lost, age in state if not filled_again and (lost or not ends))
        return frozenset(one for one in left if one[0]) | {(False, 0)} if is_itself else left

    def ages(self, place: Place) -> Ages:
        return {key: frozenset(ages) for key, ages in self.known.get(place, {}).items()}

    def pairs(self) -> set[tuple[int, int]]:
        """The accesses that surely meet one that is done on no path to there; or may, and no such read is ordered."""
        found: dict[tuple[int, int], str] = {}
        ordered: set[int] = set()
        for place, number in self.numbers.items():
            other = self.lines[number]
            ordered |= self.waited_for(place, number)
            for (first, lost), ages in self.ages(place).items():
                how = self.lines[first].meets(other)
                if (
                    how
                    and not lost
                    and DONE not in ages
                    and other.what in MUST_NOT_MEET[self.lines[first].what].split()
                ):
                    found[first, number] = how
        writes = {number for number, one in enumerate(self.lines) if one.what in ("write", "copy")}
        loads = {number for number, one in enumerate(self.lines) if one.what == "load"}
        return {
            pair
            for pair, how in found.items()
            if how == "sure" or (pair[0] in writes - ordered and pair[1] not in loads)
        }

    def waited_for(self, place: Place, number: int) -> set[int]:
        """The writes of threads, to the memory that the access is of, that are done on some path to there."""
        other = self.lines[number]
        return {
            first
            for (first, _), ages in self.ages(place).items()
            if DONE in ages
            and (one := self.lines[first]).what in ("write", "copy")
            and one.memory is other.memory
            and other.what in MUST_NOT_MEET[one.what].split()
            and other.what != "load"
        }

    def left(self) -> set[int]:
        """The stores that some path leaves pending at an end, and none has waited for at that end."""
        found: set[int] = set()
        for name, (lines, _) in self.blocks.items():
            if lines and lines[-1].what == "ret":
                pending = on_every_path(self.ages((name, len(lines) - 1)))
                found |= {number for number in pending if self.lines[number].what == "store"}
        return found


def on_every_path(ages: Ages) -> dict[int, frozenset[int]]:
    """The accesses that are done on no path, with what they are on any."""
    found: dict[int, frozenset[int]] = {}
    for (number, _), some in ages.items():
        found[number] = found.get(number, frozenset()) | some
    return {number: some for number, some in found.items() if DONE not in some}


def aged(first: Line, age: int, event: Line) -> int:
    kind, _, group = event.what.partition(" ")
    ends = (kind == "fence" and first.what == "write") or (kind == "all" and first.what == "copy")
    if kind == "mbarrier":
        known = event.barrier and first.barrier
        mine = first.what == "load" and (not known or event.barrier == first.barrier)
        ends = first.what == "copy" or mine
    if kind == "wait" and group == first.what:
        ends = age > (event.number or 0)
    if kind == "commit" and group == first.what and age != DONE:
        return min(age + 1, OLDEST)
    return DONE if ends else age


# -- the analysis ---------------------------------------------------------------------------------------------------


def states(reduced: Reduced, analysis: ProxyAnalysis) -> Iterator[tuple[Place, State]]:
    """The states before each line."""
    lines: dict[str, int] = defaultdict(int)
    for site, state in solve(reduced.function, analysis).visit():
        if reduced.events[site.position].step is not Step.ENTER:
            yield (site.block, lines[site.block]), state
            lines[site.block] += 1


def ages_in(state: State) -> Ages:
    ages = {tuple(key): found for key, found in state.active.items()}
    done = {tuple(key): frozenset({DONE}) for keys in state.done.values() for key in keys}
    assert not ages.keys() & done.keys()
    return {**ages, **done}


def whole_analysis(reduced: Reduced) -> ProxyAnalysis:
    return ProxyAnalysis(
        [run for run in reduced.runs if run.kind in HAZARDS], reduced.events, OLDEST, reduced.threads, reduced.are_apart
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 1600, 400))
def test_the_analysis_knows_what_following_every_path_finds(first: int) -> None:
    for seed in range(first, first + 400):
        blocks = program(seed)
        walk, reduced = Walk(blocks), reduce_function(machine(blocks))
        analysis = whole_analysis(reduced)
        for place, state in states(reduced, analysis):
            ages = walk.ages(place)
            assert ages_in(state) == ages, (seed, place, blocks)
            assert {run.number: found for run, found in analysis.pending(state)} == on_every_path(ages), (seed, blocks)
            if place in walk.numbers:
                number = walk.numbers[place]
                assert analysis.waited_for(state, reduced.runs[number]) == walk.waited_for(place, number), seed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 1600, 400))
def test_it_reports_what_no_path_orders(first: int) -> None:
    for seed in range(first, first + 400):
        blocks = program(seed)
        walk, reduced = Walk(blocks), reduce_function(machine(blocks))
        assert pairs(reduced) == walk.pairs(), (seed, blocks)
        left = {run.number for run, _, _ in _left_at_exit(reduced, set())}
        assert left == walk.left(), (seed, blocks)


def pairs(reduced: Reduced) -> set[tuple[int, int]]:
    found = [(one.first.number, one.second.number) for one in unordered(reduced, frozenset(HAZARDS))]
    assert len(found) == len(set(found))
    return set(found)


def test_every_pair_of_kinds_occurs_in_the_random_programs() -> None:
    kinds: set[tuple[str, str]] = set()
    for seed in range(1600):
        walk = Walk(program(seed))
        kinds |= {(walk.lines[one].what, walk.lines[two].what) for one, two in walk.pairs()}
    assert kinds == {(first, second) for first, others in MUST_NOT_MEET.items() for second in others.split()}


def test_of_too_many_accesses_the_newest_are_followed_and_the_rest_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 2
    silenced = 0
    for seed in range(600):
        blocks = program(seed)
        reduced = reduce_function(machine(blocks))
        expected = pairs(reduced)
        with monkeypatch.context() as fewer:
            fewer.setattr(proxy_state, "_MOST_RUNS", most)
            analysis = whole_analysis(reduced)
            for _, state in states(reduced, analysis):
                kinds = [reduced.runs[number].kind for number, _ in ages_in(state)]
                assert all(kinds.count(kind) <= most for kind in kinds)
            reported = pairs(reduced)
            assert reported <= expected, seed
            assert all(first in analysis.silenced for first, _ in expected - reported), seed
        silenced += len(analysis.silenced)
        for number in analysis.silenced:  # each newer one is there twice at most: where it was, and lost
            kind = reduced.runs[number].kind
            assert 2 * sum(run.kind is kind for run in reduced.runs[number:]) > most
    assert silenced > 50
