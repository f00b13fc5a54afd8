"""What is pending in shared memory, against a second transcription: random programs, walked path by path.

The machine form is written by hand, so that a program is a few lines and thousands of them are walked. Each access is
of one place; places meet where their bytes do. One allocation is at a run-time value that a block sets anew.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from nvbackend.intrinsics.copy import tma_bulk
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.proxy.protocol import Reduced, _left_at_exit, reduce_function, unordered
from nvbackend.isel.protocols.proxy.state import HAZARDS
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

BYTES = 64
FIXED, MOVING = (MemoryObject(number, name, "shared", BYTES, 4) for number, name in ((1, "fixed"), (2, "moving")))
FULL, OTHER = (MemoryObject(number, name, "shared", 8, 8) for number, name in ((3, "full"), (4, "other")))
BARRIERS = {"full": FULL, "other": OTHER, "": None}
PLACES = ((0, 16), (16, 16), (8, 16), (32, 8), (0, BYTES))
"""Offsets and extents."""
MUST_NOT_MEET: Mapping[str, str] = {
    "write": "multiply multiply5 store send",
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
    """An access of a kind to a place of an allocation, or something else with a number or an mbarrier."""

    what: str
    memory: MemoryObject = FIXED
    place: tuple[int, int] = (0, 0)
    number: int | None = None
    barrier: str = ""

    def meets(self, other: Line) -> bool:
        (start, size), (another, extent) = self.place, other.place
        return self.memory is other.memory and start < another + extent and another < start + size


Program = dict[str, tuple[list[Line], list[str]]]


def line(chance: random.Random) -> Line:
    kind = chance.choice([*ACCESSES, *ACCESSES, "commit", "wait", "commit", "wait", "fence", "mbarrier", "all"])
    if kind in ACCESSES:
        memory = chance.choice((FIXED, FIXED, MOVING)) if kind != "store" else FIXED
        barrier = chance.choice(("full", "full", "other", "")) if kind == "load" else ""
        return Line(kind, memory, chance.choice(PLACES), barrier=barrier)
    if kind in ("commit", "wait"):
        return Line(f"{kind} {chance.choice([*GROUPS])}", number=chance.choice((0, 0, 1, 2, 3)))
    return Line(kind, barrier=chance.choice(("full", "other", "other", "")) if kind == "mbarrier" else "")


def program(seed: int) -> Program:
    """Blocks with any edges between them; `b1` is where the moving allocation moves."""
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
        symbol = "%i@b1*64" if one.memory is MOVING else ""
        use = uses.get(kind, MemoryUse.ASYNC_READ)
        touches.append(MemoryTouch(one.memory, use, "address", one.place[0], symbol, one.place[1]))
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

Pending = dict[int, tuple[int, bool]]
"""By the number of an access: the age of its group or DONE, and whether its place has become another one."""


class Walk:
    """Every path: `pending` and `done` are pairs of accesses that meet with the first in that state on some path."""

    def __init__(self, blocks: Program) -> None:
        self.numbers: dict[tuple[str, int], int] = {}
        self.lines: list[Line] = []
        for name, (lines, _) in blocks.items():
            for index, one in enumerate(lines):
                if one.what in ACCESSES:
                    self.numbers[name, index] = len(self.lines)
                    self.lines.append(one)
        self.pending: set[tuple[int, int]] = set()
        self.done: set[tuple[int, int]] = set()
        self.left: dict[str, set[int]] = {}
        self.finished: dict[str, set[int]] = {}
        seen: set[object] = set()
        waiting: list[tuple[str, Pending]] = [(next(iter(blocks)), {})]
        while waiting:
            name, state = waiting.pop()
            if (name, frozenset(state.items())) in seen:
                continue
            seen.add((name, frozenset(state.items())))
            lines, ways = blocks[name]
            moves = {n for n, one in enumerate(self.lines) if one.memory is MOVING} if name == "b1" else set()
            state = {number: (age, lost or number in moves) for number, (age, lost) in state.items()}
            for index, one in enumerate(lines):
                state = self.step(state, one, name, self.numbers.get((name, index)))
            waiting += ((way, state) for way in ways)

    def step(self, state: Pending, one: Line, block: str, number: int | None) -> Pending:
        if one.what == "ret":
            for store, (age, _) in state.items():
                if self.lines[store].what == "store":
                    (self.finished if age == DONE else self.left).setdefault(block, set()).add(store)
            return state
        if number is None:
            return {first: (self.aged(self.lines[first], age, one), lost) for first, (age, lost) in state.items()}
        after: Pending = {}
        for first, (age, lost) in state.items():
            other = self.lines[first]
            meets = other.meets(one) and one.what in MUST_NOT_MEET[other.what].split() and not lost
            if meets:
                (self.done if age == DONE else self.pending).add((first, number))
            filled_again = one.what == "load" and other.what in ("write", "copy") and other.meets(one)
            if not meets and not filled_again:
                after[first] = (age, lost)
        if one.what in MUST_NOT_MEET:
            after[number] = (0, False)
        return after

    def aged(self, first: Line, age: int, event: Line) -> int:
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


@pytest.mark.parametrize("first", range(0, 1200, 200))
def test_the_analysis_finds_what_walking_every_path_finds(first: int) -> None:
    for seed in range(first, first + 200):
        blocks = program(seed)
        walk, reduced = Walk(blocks), reduce_function(machine(blocks))
        assert pairs(reduced) == walk.pending - walk.done, (seed, blocks)
        left = {run.number for run, _, _ in _left_at_exit(reduced, set())}
        assert left == set().union(*(some - walk.finished.get(end, set()) for end, some in walk.left.items())), seed


def pairs(reduced: Reduced) -> set[tuple[int, int]]:
    found = [(one.first.number, one.second.number) for one in unordered(reduced, frozenset(HAZARDS))]
    assert len(found) == len(set(found))
    return set(found)


def test_every_pair_of_kinds_occurs_in_the_random_programs() -> None:
    kinds: set[tuple[str, str]] = set()
    for seed in range(1200):
        walk = Walk(program(seed))
        kinds |= {(walk.lines[one].what, walk.lines[two].what) for one, two in walk.pending - walk.done}
    assert kinds == {(first, second) for first, others in MUST_NOT_MEET.items() for second in others.split()}
