"""Tensor memory of several warps against a small model: random straight programs, each warp walked by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from nvbackend.diagnostics import Location
from nvbackend.intrinsics.copy import tcgen05_memory
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
from nvbackend.isel.protocols.convergence.convergence import check_convergence
from nvbackend.isel.protocols.tmem.protocol import check_tmem_protocol
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

WARPS, LIMIT = 3, 512
SIZES = {"a": 300, "b": 310, "c": 212}
"""The first two are more together than an SM has, the outer two as many."""
MEMORIES = {name: MemoryObject(number, name, "tmem", size, 32) for number, (name, size) in enumerate(SIZES.items(), 1)}
MBARRIERS = {
    name: MemoryObject(number, name, "shared", 8, 8) for number, name in ((11, "full"), (12, "empty"), (13, "data"))
}
OPCODES = {
    "add": "tcgen05.mma",
    "perhaps": "tcgen05.mma",
    "relinquish": "tcgen05.relinquish_alloc_permit",
    "arrive": "mbarrier.arrive",
    "expect": "mbarrier.arrive.expect_tx",
    "wait": "mbarrier.try_wait",
    "read": "registers.read",
    "bar": "bar.sync",
    "lanes": "bar.warp.sync",
    "store": "st",
    "ret": "ret",
}
WEIGHTS = {
    "alloc": 2,
    "dealloc": 3,
    "relinquish": 0.6,
    "ld": 6,
    "read": 3,
    "wait.ld": 3,
    "st": 3,
    "wait.st": 2,
    "cp": 0.7,
    "mma": 5,
    "add": 3,
    "perhaps": 0.7,
    "commit": 4,
    "wait": 5,
    "after": 3,
    "before": 3,
    "arrive": 1,
    "expect": 0.7,
    "bar": 1,
    "leave": 1,
    "lanes": 0.5,
    "store": 1,
}
MULTIPLIES = ("mma", "add", "perhaps")
ACCESSES = ("ld", "st", "cp", *MULTIPLIES)


@dataclass(frozen=True)
class Cells:
    """Columns of an allocation: how many is not always known, nor where."""

    memory: str
    first: int = 0
    count: int | None = None
    known: bool = True

    @property
    def placed(self) -> bool:
        return self.known and self.count is not None

    def meets(self, other: Cells) -> bool:
        """Whether some column is certainly in both."""
        mine, theirs = (range(each.first, each.first + (each.count or 1)) for each in (self, other))
        return self.memory == other.memory and self.known and other.known and not {*mine}.isdisjoint(theirs)

    def may_meet(self, other: Cells) -> bool:
        both = self.placed and other.placed
        return self.memory == other.memory and (not both or self.meets(other))


@dataclass(frozen=True)
class Word:
    """An operation at a line of the program, with the memory and the mbarrier that it is about."""

    operation: str
    line: int
    memory: str = "a"
    cells: tuple[Cells, ...] = ()
    """The first is written, or read by a load; the second is A of an mma."""
    mbarrier: str | None = None
    given: int = 0
    """Columns of a dealloc."""
    block: int = 0
    """Registers that are read; a load fills those of the next number."""

    @property
    def result(self) -> tuple[Cells, ...]:
        return self.cells[:1]


Program = list[list[Word]]


def program(seed: int) -> Program:
    """The words of each warp; lines are counted through."""
    chance = random.Random(seed)
    line, warps = 0, []
    for _ in range(WARPS):
        words = []
        operations = chance.choices([*WEIGHTS], [*WEIGHTS.values()], k=chance.randint(0, 10))
        # Without a commit, of waits nothing is told.
        operations += ["commit"] * (chance.random() < 0.95 and not {*MULTIPLIES}.isdisjoint(operations))
        for operation in (*operations, "ret"):
            words.append(word(operation, line, chance))
            line += 1
        warps.append(words)
    return warps


def word(operation: str, line: int, chance: random.Random) -> Word:
    memory = chance.choice("aabc")
    cells: tuple[Cells, ...] = ()
    if operation in ACCESSES and (operation not in MULTIPLIES or chance.random() < 0.9):
        count = None if operation in MULTIPLIES and chance.random() < 0.15 else chance.choice((7, 13, 31))
        cells = (Cells(memory, chance.choice((0, 5, 11, 19, SIZES[memory] - 13)), count, known=chance.random() < 0.9),)
        if operation in MULTIPLIES and chance.random() < 0.3:
            cells += (Cells(chance.choice("aabc"), chance.choice((0, 11, 23)), 8, known=chance.random() < 0.8),)
    if operation in ("alloc", "dealloc") and (operation == "alloc" or chance.random() < 0.95):
        cells = (Cells(memory, 0 if operation == "alloc" or chance.random() < 0.95 else 3, SIZES[memory]),)
    if operation in ("expect", "wait") and chance.random() < 0.3:
        mbarrier = "data"
    given = SIZES[memory] if chance.random() < 0.9 else 17
    mbarrier = chance.choice(("full", "full", "empty", None)) if chance.random() < 0.5 else "full"
    return Word(operation, line, memory, cells, mbarrier, given, chance.randint(0, 4))


def machine(warps: Program) -> MachineFunction:
    """The first warp goes its way at the first branch, the others part at a second one; some may leave early."""
    function = MachineFunction("kernel", Target.parse("sm_100a"), attributes={"threads": 32 * WARPS})
    entry, rest, *blocks = (function.block(name) for name in ("entry", "rest", "one", "two", "three"))
    everyone = (1 << 32 * WARPS) - 1
    for branch, successors, bound in ((entry, ["one", "rest"], 32), (rest, ["two", "three"], 64)):
        below = (1 << bound) - 1
        branch.successors, branch.sides = successors, (below, everyone & ~below)
    for block, words in zip(blocks, warps, strict=True):
        here = block
        for each in words:
            if each.operation == "leave":
                end, here.successors = function.block(f"end{each.line}"), [f"end{each.line}", f"on{each.line}"]
                end.instructions = [instruction(replace(each, operation="ret"))]
                here = function.block(f"on{each.line}")
            else:
                here.instructions.append(instruction(each))
    return function


def instruction(each: Word) -> MachineInstr:
    name = each.operation
    fence = tcgen05_memory.fence(name) if name in ("after", "before") else None
    opcode = "tcgen05.fence" if fence else OPCODES.get(name, f"tcgen05.{name}")
    uses = {"ld": MemoryUse.ASYNC_READ, "alloc": MemoryUse.DECLARE, "dealloc": MemoryUse.DECLARE}
    memory = [
        MemoryTouch(
            MEMORIES[cells.memory],
            MemoryUse.ASYNC_READ if place else uses.get(name, MemoryUse.ASYNC_WRITE),
            "a" if place else "d",
            cells.first,
            "" if cells.known else "%i",
            cells.count,
        )
        for place, cells in enumerate(each.cells)
    ]
    if name in ("commit", "arrive", "expect", "wait") and each.mbarrier:
        memory.append(MemoryTouch(MBARRIERS[each.mbarrier], MemoryUse.SYNCHRONIZE, "barrier"))
    touches = [Touch(RegisterBlock(each.block, "r"), Access.READ)] if name in ("ld", "read") else []
    touches += [Touch(RegisterBlock(each.block + 1, "r"), Access.WRITE)] if name == "ld" else []
    enables = {"mma": "0", "add": "1", "perhaps": "%enable"}
    return MachineInstr(
        opcode,
        fence,
        operands={"enable_d": enables[name]} if name in enables else {"columns": str(each.given)},
        memory=tuple(memory),
        touches=tuple(touches),
        location=Location("kernel.py", each.line, "kernel"),
        semantics=fence.semantics if fence else semantics_of(opcode),
    )


def written(words: list[Word], *operations: str) -> set[str]:
    return {cells.memory for each in words if each.operation in operations for cells in each.result}


class Whole:
    """What one warp must know of all of them."""

    def __init__(self, warps: Program, number: int) -> None:
        own, every = warps[number], [each for words in warps for each in words]
        others = [each for words in warps[:number] + warps[number + 1 :] for each in words]
        frees = [each for each in every if each.operation == "dealloc"]
        self.freed_unknown = any(not each.cells for each in frees)
        self.freed = written(every, "dealloc")
        leaves = next((place for place, each in enumerate(own) if each.operation == "leave"), len(own))
        self.certain = written(own[:leaves], "alloc")
        own_freed = written(own, "dealloc")
        self.freed_elsewhere = self.freed - own_freed
        inherited = own_freed - written(own, "alloc")
        self.inherited = set() if self.freed_unknown else inherited
        self.owed = set() if self.freed_unknown else (self.certain & own_freed) | inherited
        self.foreign = written(others, *MULTIPLIES) - written(every, "st", "cp") - written(own, *MULTIPLIES)
        self.completed = {each.mbarrier for each in every if each.operation in ("commit", "arrive")}
        multiplied = [each for each in own if each.operation in MULTIPLIES]
        segment = 0
        self.behind: set[int] = set()
        """The barriers before which an mma may be: those of its own block count too."""
        for place, each in enumerate(own):
            segment = place if each.operation == "leave" else segment
            if each.operation in MULTIPLIES:
                self.behind |= {later.line for later in own[segment:]}
        self.blank: set[Cells] = set()
        for memory in written(own, *MULTIPLIES) - written(others, "st", "cp", "mma", "perhaps"):
            places = {cells for each in multiplied for cells in each.result if cells.memory == memory}
            whole = {Cells(memory, 0, SIZES[memory])}
            self.blank |= places if all(cells.placed for cells in places) else whole

    def may_be_done(self, each: Word) -> bool:
        """Whether some mma may be done after this wait: what completes the mbarrier is a commit, or hands one on."""
        return each.mbarrier is None or not self.completed.isdisjoint({each.mbarrier, None})


@dataclass
class Warp:
    """What is so of one warp while it runs."""

    whole: Whole
    open: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    relinquished: bool = False
    loading: set[int] = field(default_factory=set)
    storing: set[Cells] = field(default_factory=set)
    issued: list[tuple[int, Cells | None]] = field(default_factory=list)
    committed: list[Cells | None] = field(default_factory=list)
    in_use: list[Cells] = field(default_factory=list)
    unordered: set[str] = field(default_factory=set)
    reads: dict[int, str] = field(default_factory=dict)
    """By its line, how far a load of what another warp gives back has come."""

    def __post_init__(self) -> None:
        self.open = {*self.whole.inherited}
        self.foreign, self.blank = {*self.whole.foreign}, {*self.whole.blank}

    def run(self, each: Word) -> Iterator[tuple[str, int]]:
        """The mistakes of one operation; each is taken for put right."""
        if each.operation in ("ld", "read") and each.block in self.loading:
            yield "read-before-wait", each.line
            self.loading.discard(each.block)
        for cells in each.cells if each.operation in ACCESSES else ():
            if cells.memory in self.closed:
                yield "not-allocated", each.line
                self.closed.discard(cells.memory)
            if each.operation != "st" and any(cells.meets(one) for one in self.storing):
                yield "missing-wait-st", each.line
                self.storing = {one for one in self.storing if not cells.meets(one)}
        if each.operation in ("arrive", "expect", "bar", "lanes", "store"):
            self.reads = {line: "passed" for line, how in self.reads.items() if how != "fenced"}
        for rule in getattr(self, f"do_{each.operation.replace('.', '_')}", self.nothing)(each):
            yield rule if isinstance(rule, tuple) else (rule, each.line)

    def nothing(self, _: Word) -> Iterator[str]:
        yield from ()

    def do_alloc(self, each: Word) -> Iterator[str]:
        if self.relinquished:
            yield "alloc-after-relinquish"
        self.relinquished = False
        self.closed.discard(each.memory)
        self.open.add(each.memory)
        held = self.open & self.whole.certain
        if each.memory in held and sum(SIZES[memory] for memory in held) > LIMIT:
            yield "total-columns"

    def do_dealloc(self, each: Word) -> Iterator[str]:
        for cells in each.cells:
            if cells.memory in self.closed:
                yield "double-dealloc"
            if cells.first or each.given != SIZES[cells.memory]:
                yield "dealloc-columns"
            self.open.discard(cells.memory)
            self.closed.add(cells.memory)

    def do_relinquish(self, _: Word) -> Iterator[str]:
        self.relinquished = True
        yield from ()

    def do_ld(self, each: Word) -> Iterator[str]:
        [cells] = each.cells
        met = [one for one in self.issued if one[1] is not None and one[1].meets(cells)]
        if met:
            yield "missing-commit"
            self.issued = [one for one in self.issued if one not in met]
        running = [one for one in self.committed if one is not None and one.meets(cells)]
        if running or cells.memory in self.foreign:
            yield "missing-wait"
            self.committed = [one for one in self.committed if one not in running]
            self.foreign.discard(cells.memory)
        if cells.memory in self.unordered:
            yield "missing-fence-after"
            self.unordered.discard(cells.memory)
        if cells.memory in self.whole.freed_elsewhere:
            self.reads[each.line] = "untold"
        self.loading.add(each.block + 1)

    def do_wait_ld(self, _: Word) -> Iterator[str]:
        self.loading.clear()
        yield from ()

    def do_st(self, each: Word) -> Iterator[str]:
        met = [one for one in self.in_use for cells in each.cells if one.meets(cells)]
        if met:
            yield "write-in-flight"
            self.in_use = [one for one in self.in_use if one not in met]
        self.storing.update(each.cells)
        self.fill(each)

    def do_wait_st(self, _: Word) -> Iterator[str]:
        self.storing.clear()
        yield from ()

    def do_cp(self, each: Word) -> Iterator[str]:
        self.fill(each)
        yield from ()

    def fill(self, each: Word) -> None:
        self.blank = {one for one in self.blank if not any(one.may_meet(cells) for cells in each.result)}

    def do_mma(self, each: Word) -> Iterator[str]:
        self.fill(each)
        self.issued.append((each.line, each.cells[0] if each.cells else None))
        self.in_use += (cells for cells in each.cells if cells.count is not None)
        yield from ()

    do_perhaps = do_mma

    def do_add(self, each: Word) -> Iterator[str]:
        blank = {one for one in self.blank if any(one.meets(cells) for cells in each.result)}
        if blank:
            yield "undefined-accumulator"
        self.blank -= blank
        yield from self.do_mma(each)

    def do_commit(self, _: Word) -> Iterator[str]:
        self.committed += (cells for _, cells in self.issued)
        self.issued.clear()
        yield from ()

    def do_wait(self, each: Word) -> Iterator[str]:
        if self.whole.may_be_done(each):
            self.unordered |= self.foreign | {cells.memory for cells in self.committed if cells is not None}
            self.done()
        yield from ()

    def do_bar(self, each: Word) -> Iterator[str]:
        if each.line in self.whole.behind:
            self.done()
        yield from ()

    def done(self) -> None:
        self.committed.clear()
        self.foreign.clear()
        self.in_use.clear()

    def do_after(self, _: Word) -> Iterator[str]:
        self.unordered.clear()
        yield from ()

    def do_before(self, _: Word) -> Iterator[str]:
        self.reads = dict.fromkeys(self.reads, "fenced")
        yield from ()

    def do_ret(self, _: Word) -> Iterator[str | tuple[str, int]]:
        if self.open & self.whole.owed:
            yield "missing-dealloc"
        for line, how in self.reads.items():
            yield ("missing-fence-before" if how == "passed" else "missing-barrier", line)
        if self.issued:
            yield "missing-commit", self.issued[-1][0]

    do_leave = do_ret


def mistakes(warps: Program) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for number, words in enumerate(warps):
        warp = Warp(Whole(warps, number))
        for each in words:
            found |= {*warp.run(each)}
            for cells in each.cells if each.operation in ACCESSES else ():
                if cells.known and cells.first + (cells.count or 1) > SIZES[cells.memory]:
                    found.add(("bounds", each.line))
            if each.operation == "alloc" and each.memory not in warp.whole.freed and not warp.whole.freed_unknown:
                found.add(("missing-dealloc", each.line))
    if any(rule == "missing-commit" for rule, _ in found):
        found = {one for one in found if one[0] not in ("missing-wait", "write-in-flight")}
    if {"barrier.divergent", "barrier.skipped"} & {one.rule_id for one in check_convergence(machine(warps))}:
        # A barrier that not all threads come to is an error of its own: it may be the one that is missing.
        found = {one for one in found if one[0] != "missing-barrier"}
    return found


def told(warps: Program) -> set[tuple[str, int]]:
    found = check_tmem_protocol(machine(warps))
    return {(one.rule_id.removeprefix("tcgen05."), one.location.line if one.location else -1) for one in found}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 720, 90))
def test_each_warp_is_told_what_it_does_wrong(first: int) -> None:
    for seed in range(first, first + 90):
        warps = program(seed)
        assert told(warps) == mistakes(warps), seed
