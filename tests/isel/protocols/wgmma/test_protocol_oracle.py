"""The WGMMA analysis against an interpreter that walks every path of small random programs with real group queues.

The interpreter knows nothing of ages or joins: it keeps the open group and the queue of committed groups as the PTX ISA
describes them, one path at a time. The analysis must report an instruction if and only if a path breaks a rule there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nvbackend.isel.protocols.wgmma.protocol import check_wgmma_protocol, find_mistakes
from tests.support.machine import Program, lines_and_rules

Mma = tuple[str, tuple[str, ...]]
Line = tuple[int, list[str]]
MOST_STATES = 4000


@dataclass
class Warpgroup:
    """One run: what the hardware has in its queue, and what the programmer has to remember."""

    open_group: set[Mma] = field(default_factory=set)
    queue: list[set[Mma]] = field(default_factory=list)
    dirty: set[str] = field(default_factory=set)
    shape_of: dict[str, str] = field(default_factory=dict)
    any_fence: bool = False
    chain: set[tuple[str, str]] = field(default_factory=set)
    last_fence: int = 0
    dirty_at_fence: set[str] = field(default_factory=set)
    shape_at_fence: dict[str, str] = field(default_factory=dict)
    chain_at_fence: set[tuple[str, str]] = field(default_factory=set)

    def copy(self) -> Warpgroup:
        return Warpgroup(
            set(self.open_group),
            [set(group) for group in self.queue],
            set(self.dirty),
            dict(self.shape_of),
            self.any_fence,
            set(self.chain),
            self.last_fence,
            set(self.dirty_at_fence),
            dict(self.shape_at_fence),
            set(self.chain_at_fence),
        )

    def key(self) -> object:
        # What is older than any wait can leave is alike, so that endless loops of commits come to an end.
        recent, old = self.queue[-8:], self.queue[:-8]
        return (
            frozenset(self.open_group),
            frozenset().union(*old),
            tuple(frozenset(group) for group in recent),
            frozenset(self.dirty),
            frozenset(self.shape_of.items()),
            self.any_fence,
            frozenset(self.chain),
            self.last_fence,
            frozenset(self.dirty_at_fence),
            frozenset(self.shape_at_fence.items()),
            frozenset(self.chain_at_fence),
        )

    def trim(self) -> None:
        while len(self.queue) > 8:
            self.queue[1] |= self.queue.pop(0)


class Oracle:
    """Runs every path and collects (line, rule)."""

    def __init__(self, program: dict[str, tuple[list[str], list[Line]]]) -> None:
        self.broken: set[tuple[int, str]] = set()
        self.needed: set[int] = set()
        self.spare: set[int] = set()
        self.program = program
        self.states = 0
        self._run()
        self.broken |= {(fence, "wgmma.needless-fence") for fence in self.spare - self.needed}

    def _run(self) -> None:
        start = next(iter(self.program))
        seen: set[object] = set()
        todo = [(start, Warpgroup())]
        while todo and self.states < MOST_STATES:
            name, warpgroup = todo.pop()
            if (name, warpgroup.key()) in seen:
                continue
            seen.add((name, warpgroup.key()))
            self.states += 1
            successors, lines = self.program[name]
            for number, (operation, *names) in lines:
                getattr(self, f"do_{operation}")(warpgroup, number, names)
                warpgroup.trim()
            todo += [(successor, warpgroup.copy()) for successor in successors]

    def do_read(self, run: Warpgroup, number: int, names: list[str], rule: str = "wgmma.read-in-flight") -> None:
        for name in names:
            for group in [run.open_group, *run.queue]:
                for mma in list(group):
                    if name == mma[0] or name in mma[1]:
                        self.broken.add((number, rule))
                        group.discard(mma)
            run.dirty.add(name)
            run.shape_of.pop(name, None)
        self._break_chain(run)

    def do_write(self, run: Warpgroup, number: int, names: list[str]) -> None:
        self.do_read(run, number, names, "wgmma.write-in-flight")

    def _break_chain(self, run: Warpgroup) -> None:
        run.chain.clear()
        run.chain_at_fence.clear()

    def do_fence(self, run: Warpgroup, number: int, names: list[str]) -> None:
        if not run.chain:
            self.needed.add(number)
        run.any_fence = True
        run.last_fence = number
        run.dirty_at_fence, run.dirty = run.dirty, set()
        run.shape_at_fence, run.shape_of = run.shape_of, {}
        run.chain_at_fence = set(run.chain)

    def do_mma(self, run: Warpgroup, number: int, names: list[str]) -> None:
        accumulator, shape, *fragments = names
        used = {accumulator, *fragments}
        if not run.any_fence or used & run.dirty:
            self.broken.add((number, "wgmma.missing-fence"))
        if run.shape_of.get(accumulator, shape) != shape:
            self.broken.add((number, "wgmma.shape-change"))
        if run.last_fence:
            if used & run.dirty_at_fence or run.shape_at_fence.get(accumulator, shape) != shape:
                self.needed.add(run.last_fence)
            if (accumulator, shape) in run.chain_at_fence:
                self.spare.add(run.last_fence)
        run.any_fence = True
        run.dirty -= used
        run.shape_of[accumulator] = shape
        run.chain.add((accumulator, shape))
        run.open_group.add((accumulator, tuple(fragments)))

    def do_commit(self, run: Warpgroup, number: int, names: list[str]) -> None:
        run.queue.append(run.open_group)
        run.open_group = set()
        self._break_chain(run)

    def do_wait(self, run: Warpgroup, number: int, names: list[str]) -> None:
        pending, drained = int(names[0]), names[1:]
        if pending not in range(8):
            self.broken.add((number, "wgmma.wait-range"))
            pending = 7 if pending > 7 else 0
        while len(run.queue) > pending:
            run.queue.pop(0)
        for mma in list(run.open_group):
            if mma[0] in drained or (pending == 0 and not drained):
                self.broken.add((number, "wgmma.missing-commit"))
                run.open_group.discard(mma)
        for group in run.queue:
            for mma in list(group):
                if mma[0] in drained:
                    self.broken.add((number, "wgmma.wait-leaves-group"))
                    group.discard(mma)
        self._break_chain(run)

    def do_ret(self, run: Warpgroup, number: int, names: list[str]) -> None:
        if run.open_group:
            self.broken.add((number, "wgmma.missing-commit"))
        if any(run.queue):
            self.broken.add((number, "wgmma.missing-wait"))


ACCUMULATORS = st.sampled_from(["p", "q"])
FRAGMENTS = st.sampled_from(["", "", "f"])
SHAPES = st.sampled_from(["64", "64", "64", "128"])
ACCESSES = st.tuples(st.sampled_from(["read", "write"]), st.sampled_from(["p", "q", "f"]))
MMAS = st.builds(
    lambda accumulator, shape, fragment: ("mma", accumulator, shape, *([fragment] if fragment else [])),
    ACCUMULATORS,
    SHAPES,
    FRAGMENTS,
)
WAITS = st.builds(
    lambda pending, drained: ("wait", str(pending), *drained),
    st.sampled_from([0, 0, 1, 1, 2, 3, 8]),
    st.lists(ACCUMULATORS, max_size=2, unique=True),
)
SINGLE = st.one_of(ACCESSES, MMAS, MMAS, WAITS, st.sampled_from([("fence",), ("commit",), ("commit",)]))
REGIONS = st.builds(
    lambda mmas, wait: [("fence",), *mmas, ("commit",), *wait],
    st.lists(MMAS, min_size=1, max_size=2),
    st.lists(WAITS, max_size=1),
)
BODIES = st.lists(st.one_of(SINGLE.map(lambda one: [one]), REGIONS), max_size=4).map(
    lambda parts: [one for part in parts for one in part]
)


@st.composite
def programs(draw: st.DrawFn) -> dict[str, tuple[list[str], list[Line]]]:
    """Blocks with successors and numbered lines: up to four blocks, any edges between them."""
    count = draw(st.integers(1, 4))
    names = [f"b{index}" for index in range(count)]
    program = {}
    number = 1
    for name in names:
        successors = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        body = draw(BODIES) + ([] if successors else [("ret",)])
        program[name] = (successors, [(number + index, list(one)) for index, one in enumerate(body, start=1)])
        number += len(body) + 1
    return program


def text_of(program: dict[str, tuple[list[str], list[Line]]]) -> str:
    """The program in the notation of `tests.support.machine`, each line where its number says."""
    text = []
    for name, (successors, lines) in program.items():
        text.append(f"{name} -> {' '.join(successors)}")
        for _, (operation, *names) in lines:
            words = names
            if operation == "mma":
                accumulator, shape, *fragment = names
                words = [accumulator, f"n={shape}", *(f"a={one}" for one in fragment)]
            text.append(f"  {operation} {' '.join(words)}")
    return "\n".join(text)


@settings(max_examples=400, deadline=None)
@given(programs())
def test_the_analysis_finds_what_some_path_breaks(program: dict[str, tuple[list[str], list[Line]]]) -> None:
    oracle = Oracle(program)
    assume(oracle.states < MOST_STATES)
    function = Program(text_of(program)).function
    found = {(one.site.instr.location.line, one.rule.id) for one in find_mistakes(function) if one.site.instr.location}
    assert found == oracle.broken, text_of(program)


@settings(max_examples=200, deadline=None)
@given(programs())
def test_what_is_told_is_found_and_nothing_is_told_twice(program: dict[str, tuple[list[str], list[Line]]]) -> None:
    function = Program(text_of(program)).function
    told = [str(one) for one in check_wgmma_protocol(function)]
    places = lines_and_rules(check_wgmma_protocol(function))
    found = {(one.site.instr.location.line, one.rule.id) for one in find_mistakes(function) if one.site.instr.location}
    assert len(told) == len(set(told))
    assert places <= found
    assert {rule for _, rule in places} == {rule for _, rule in found}


def seeded(seed: int) -> dict[str, tuple[list[str], list[Line]]]:
    """The same by chance alone, with chains that go on from block to block and waits that leave what is shared."""
    chance = random.Random(seed)
    names = [f"b{index}" for index in range(chance.randint(1, 5))]
    program, number = {}, 1
    for name in names:
        ways = chance.sample(names, min(len(names), chance.choice((0, 1, 1, 2))))
        body = [line for _ in range(chance.randint(0, 3)) for line in sentence(chance)] + [["ret"]] * (not ways)
        program[name] = (ways, [(number + index, one) for index, one in enumerate(body, start=1)])
        number += len(body) + 1
    return program


def sentence(chance: random.Random) -> list[list[str]]:
    """A line, or a fence and its mma."""
    accumulator, shape = chance.choice("pq"), chance.choice(("64", "64", "64", "128"))
    mma = ["mma", accumulator, shape, *(["f"] if chance.random() < 0.3 else [])]
    drained = [one for one in "pq" if chance.random() < 0.4]
    access = [chance.choice(("read", "write")), chance.choice("pqf")]
    wait = ["wait", chance.choice("00112"), *drained]
    return chance.choice(
        (
            [mma],
            [mma],
            [["fence"]],
            [["commit"]],
            [["commit"], wait],
            [wait],
            [access],
            [["fence"], mma],
            [mma, ["fence"]],
        )
    )


@pytest.mark.parametrize("first", range(0, 900, 300))
def test_the_analysis_finds_it_in_programs_by_chance(first: int) -> None:
    for seed in range(first, first + 300):
        program = seeded(seed)
        oracle = Oracle(program)
        if oracle.states < MOST_STATES:
            found = find_mistakes(Program(text_of(program)).function)
            places = {(one.site.instr.location.line, one.rule.id) for one in found if one.site.instr.location}
            assert places == oracle.broken, text_of(program)
