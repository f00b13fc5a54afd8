"""The analysis of tensor memory against a second transcription: random programs, walked path by path."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from nvbackend.diagnostics import Location
from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.intrinsics.row.semantics import NOTHING
from nvbackend.isel.machine.function import (
    Access,
    MachineFunction,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
    MemoryUse,
    RegisterBlock,
    Touch,
)
from nvbackend.isel.protocols.tmem.protocol import check_tmem_protocol
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

OBJECTS = tuple(MemoryObject(number, name, "tmem", 64, 64) for number, name in ((1, "one"), (2, "two")))
ROUNDS = 3
"""How often a path comes through a block at most; facts need no more to reach one another."""

Word = tuple[str, int, int]
"""An operation, its allocation, and a column or another number."""


@dataclass
class Walk:
    """What is so on one path, in a program that somewhere gives `freed` back."""

    freed: frozenset[int] = frozenset()
    doubted: frozenset[int] = frozenset()
    """The mma that add to what some path has begun."""
    open: set[int] = field(default_factory=set)
    closed: set[int] = field(default_factory=set)
    relinquished: bool = False
    loading: set[int] = field(default_factory=set)
    storing: set[tuple[int, int]] = field(default_factory=set)
    issued: dict[tuple[int, int], int] = field(default_factory=dict)
    committed: set[tuple[int, int]] = field(default_factory=set)
    unordered: set[int] = field(default_factory=set)
    written: set[tuple[int, int]] = field(default_factory=set)
    used: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    overwritten: set[tuple[int, int, bool]] = field(default_factory=set)
    begun: set[tuple[int, int]] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    position: int = 0

    def run(self, word: Word, position: int) -> Iterator[str]:
        """The mistakes of one operation; each is taken for put right."""
        self.position = position
        operation, number, column = word
        if operation in ("ld", "st", "mma", "mma add"):
            if number in self.closed:
                yield "not-allocated"
                self.closed.discard(number)
            if operation != "st" and (number, column) in self.storing:
                yield "missing-wait-st"
                self.storing.discard((number, column))
        yield from getattr(self, f"do_{operation.replace(' ', '_')}")(number, column)

    def do_alloc(self, number: int, _: int) -> Iterator[str]:
        if self.relinquished:
            yield "alloc-after-relinquish"
        self.relinquished = False
        self.closed.discard(number)
        self.open.add(number)

    def do_dealloc(self, number: int, _: int) -> Iterator[str]:
        if number in self.closed:
            yield "double-dealloc"
        self.open.discard(number)
        self.closed.add(number)

    def do_relinquish(self, *_: int) -> Iterator[str]:
        self.relinquished = True
        yield from ()

    def do_ld(self, number: int, column: int) -> Iterator[str]:
        if (number, column) in self.issued:
            yield "missing-commit"
            del self.issued[number, column]
        if (number, column) in self.committed:
            yield "missing-wait"
            self.committed.discard((number, column))
        if number in self.unordered:
            yield "missing-fence-after"
            self.unordered.discard(number)
        self.loading.add(number)

    def do_read(self, number: int, _: int) -> Iterator[str]:
        if number in self.loading:
            yield "read-before-wait"
            self.loading.discard(number)

    def do_wait_ld(self, *_: int) -> Iterator[str]:
        self.loading.clear()
        yield from ()

    def do_st(self, number: int, column: int) -> Iterator[str]:
        self.storing.add((number, column))
        self.write(number, column)
        for (*place, mma), done in [*self.used.items()]:
            if place == [number, column]:
                self.overwritten.add((self.position, mma, done))
                if not done:
                    del self.used[number, column, mma]
        yield from ()

    def do_wait_st(self, *_: int) -> Iterator[str]:
        self.storing.clear()
        yield from ()

    def do_mma(self, number: int, column: int) -> Iterator[str]:
        self.write(number, column)
        self.used[number, column, self.position] = False
        self.issued[number, column] = self.position
        yield from ()

    def do_mma_add(self, number: int, column: int) -> Iterator[str]:
        place = number, column
        if place in self.begun:
            self.doubtful.add(self.position)
        if place not in self.written and self.position not in self.doubted:
            self.written.add(place)
            yield "undefined-accumulator"
        yield from self.do_mma(number, column)

    def write(self, number: int, column: int) -> None:
        if (number, column) not in self.written:
            self.begun.add((number, column))
        self.written.add((number, column))

    def do_commit(self, *_: int) -> Iterator[str]:
        self.committed |= {*self.issued}
        self.issued.clear()
        yield from ()

    def do_wait(self, *_: int) -> Iterator[str]:
        self.unordered |= {number for number, _ in self.committed}
        self.committed.clear()
        self.used = dict.fromkeys(self.used, True)
        yield from ()

    def do_fence(self, *_: int) -> Iterator[str]:
        self.unordered.clear()
        yield from ()

    def do_ret(self, *_: int) -> Iterator[str]:
        if self.open & self.freed:
            yield "missing-dealloc"


WORDS = ("ld", "read", "wait ld", "st", "wait st", "mma", "mma add", "commit", "wait", "fence", "dealloc", "alloc")


OF_ALL = (6, 3, 3, 2, 2, 5, 2, 4, 4, 3, 1, 0.4)
OF_STORES = (0.3, 0, 0, 4, 0.5, 4, 0.5, 4, 4, 0, 0, 0)
"""How often each word is there: all of them, or stores to what an mma may still use."""


def program(seed: int, weights: tuple[float, ...] = OF_ALL) -> dict[str, tuple[list[Word], list[str]]]:
    """Blocks in the order of the text with their operations and successors. The first allocates everything."""
    chance = random.Random(seed)
    names = [f"b{index}" for index in range(chance.randint(2, 5))]
    blocks: dict[str, tuple[list[Word], list[str]]] = {}
    for index, name in enumerate(names):
        words = [("alloc", number, 0) for number in (1, 2)] if index == 0 else []
        words += [
            (chance.choices(WORDS, weights)[0], chance.randint(1, 2), chance.choice((0, 32)))
            for _ in range(chance.randint(0, 7))
        ]
        if index and chance.random() < 0.1:
            words.append(("relinquish", 0, 0))
        later = names[index + 1 :]
        successors = chance.sample(later, min(len(later), chance.randint(1, 2)))
        if index and later and chance.random() < 0.3:
            successors = [*successors[:1], name]
        if index and chance.random() < 0.2:
            successors = []
        if not successors:
            words += [("dealloc", number, 0) for number in (1, 2) if chance.random() < 0.8]
            words.append(("ret", 0, 0))
        blocks[name] = (words, successors)
    return blocks


def machine(blocks: dict[str, tuple[list[Word], list[str]]]) -> MachineFunction:
    function = MachineFunction("kernel", Target.parse("sm_100a"))
    for name, (words, successors) in blocks.items():
        block = function.block(name)
        block.instructions = [instruction(*word) for word in words]
        block.successors = list(successors)
    return function


def instruction(operation: str, number: int, column: int) -> MachineInstr:
    opcode = {"read": "registers.read", "wait": "mbarrier.try_wait.parity", "ret": "ret", "mma add": "tcgen05.mma"}.get(
        operation, f"tcgen05.{operation.replace(' ', '.')}"
    )
    if operation == "relinquish":
        opcode = "tcgen05.relinquish_alloc_permit"
    uses = {
        "alloc": MemoryUse.DECLARE,
        "dealloc": MemoryUse.DECLARE,
        "ld": MemoryUse.ASYNC_READ,
        **dict.fromkeys(("st", "mma", "mma add"), MemoryUse.ASYNC_WRITE),
    }
    memory = ()
    if operation in uses:
        width = 64 if operation in ("alloc", "dealloc") else 32
        place = 0 if width == 64 else column
        memory = (MemoryTouch(OBJECTS[number - 1], uses[operation], "tmem", place, bytes=width),)
    access = {"ld": Access.WRITE, "read": Access.READ}.get(operation)
    return MachineInstr(
        opcode,
        tcgen05_memory.fence("after") if operation == "fence" else None,
        operands={"enable_d": str(int(operation == "mma add"))} if "mma" in operation else {},
        memory=memory,
        touches=(Touch(RegisterBlock(number, "load"), access),) if access else (),
        semantics=NOTHING if operation == "fence" else semantics_of(opcode),
    )


def mistakes(blocks: dict[str, tuple[list[Word], list[str]]]) -> set[tuple[str, int]]:
    """Rule and position of every mistake that some path makes."""
    starts, position = {}, 0
    for name, (words, _) in blocks.items():
        starts[name] = position
        position += len(words)
    left: dict[str, set[int]] = {}
    overwritten: set[tuple[int, int, bool]] = set()
    ways = [*paths(blocks, "b0", {})]
    doubted = doubts(blocks, starts, ways)
    reached = {
        (*word, starts[name] + offset)
        for name in {name for path in ways for name in path}
        for offset, word in enumerate(blocks[name][0])
    }
    freed = frozenset(number for operation, number, *_ in reached if operation == "dealloc")
    found = {
        ("missing-dealloc", position)
        for operation, number, _, position in reached
        if operation == "alloc" and number not in freed
    }
    for path in ways:
        walk = Walk(freed, doubted)
        for name in path:
            for position, word in enumerate(blocks[name][0], start=starts[name]):
                found |= {(rule, position) for rule in walk.run(word, position)}
        left.setdefault(path[-1], set()).update(walk.issued.values())
        overwritten |= walk.overwritten
    # Nothing is said of a store before which some path waits for the mma.
    found |= {
        ("write-in-flight", st) for st, mma, done in overwritten if not done and (st, mma, True) not in overwritten
    }
    # What nothing has committed at an end of the kernel is told once, at the last mma.
    found |= {("missing-commit", max(issued)) for issued in left.values() if issued}
    if any(rule == "missing-commit" for rule, _ in found):
        found = {one for one in found if one[0] not in ("missing-wait", "write-in-flight")}
    return found


def doubts(
    blocks: dict[str, tuple[list[Word], list[str]]], starts: dict[str, int], ways: list[list[str]]
) -> frozenset[int]:
    """The mma that add to what some path has begun, in whichever path they are: nothing is said of them."""
    doubted, found = frozenset[int](), frozenset({-1})
    while found - doubted:
        doubted |= found
        walks = [Walk(frozenset(), doubted) for _ in ways]
        for walk, path in zip(walks, ways, strict=True):
            for name in path:
                for position, word in enumerate(blocks[name][0], start=starts[name]):
                    list(walk.run(word, position))
        found = frozenset(position for walk in walks for position in walk.doubtful)
    return doubted


def paths(blocks: dict[str, tuple[list[Word], list[str]]], name: str, seen: dict[str, int]) -> Iterator[list[str]]:
    """The ways from a block to the end, through no block too often."""
    if seen.get(name, 0) >= ROUNDS:
        return
    seen = {**seen, name: seen.get(name, 0) + 1}
    successors = blocks[name][1]
    if not successors:
        yield [name]
    for successor in successors:
        for rest in paths(blocks, successor, seen):
            yield [name, *rest]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 600, 75))
def test_the_analysis_finds_what_walking_every_path_finds(first: int) -> None:
    for seed in range(first, first + 75):
        blocks = program(seed)
        assert findings(machine(blocks)) == mistakes(blocks), seed


@pytest.mark.parametrize("first", range(0, 330, 110))
def test_stores_to_what_some_path_has_waited_for(first: int) -> None:
    for seed in range(first, first + 110):
        blocks = program(seed, OF_STORES)
        assert findings(machine(blocks)) == mistakes(blocks), seed


def findings(function: MachineFunction) -> set[tuple[str, int]]:
    """What the analysis tells, with every instruction on a line of its own."""
    position = 0
    for block in function.blocks.values():
        for index, instr in enumerate(block.instructions):
            block.instructions[index] = replace(instr, location=Location("kernel.py", position, "kernel"))
            position += 1
    found = set()
    for one in check_tmem_protocol(function):
        assert one.location is not None
        found.add((one.rule_id.removeprefix("tcgen05."), one.location.line))
    return found


def test_every_rule_occurs_in_the_random_programs() -> None:
    rules = {rule for seed in range(600) for rule, _ in mistakes(program(seed))}
    assert rules == {
        *("not-allocated", "missing-wait-st", "alloc-after-relinquish", "double-dealloc", "missing-commit"),
        *("missing-wait", "missing-fence-after", "read-before-wait", "undefined-accumulator", "missing-dealloc"),
        "write-in-flight",
    }
