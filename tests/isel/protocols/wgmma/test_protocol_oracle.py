"""The WGMMA analysis against an interpreter that walks every path of small random programs with real group queues.

The interpreter knows nothing of ages or joins: it keeps the open group and the queue of committed groups as the PTX ISA
describes them, one path at a time. The analysis must report an instruction if and only if a path breaks a rule there,
with the history that some path has: the mma, the commit and the wait of the youngest groups, accesses and shapes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nvbackend.isel.flow.dataflow import sites_of
from nvbackend.isel.protocols.wgmma import rules
from nvbackend.isel.protocols.wgmma.protocol import check_wgmma_protocol, find_mistakes
from tests.support.machine import Program, lines_and_rules


@dataclass(frozen=True)
class Mma:
    """Of one in flight: its registers, and the lines of its history. `age` is that at `wait`, the last that left it."""

    accumulator: str
    fragments: tuple[str, ...]
    issue: int
    commit: int = 0
    wait: int = 0
    age: int = 0

    def registers(self) -> tuple[str, ...]:
        return self.accumulator, *self.fragments

    def uses(self, name: str) -> bool:
        return name in self.registers()

    def trail(self) -> tuple[int, int, int, int]:
        return self.issue, self.commit, self.wait, self.age


Line = tuple[int, list[str]]
MOST_STATES = 300


@dataclass
class Warpgroup:
    """One run: what the hardware has in its queue, and what the programmer has to remember."""

    open_group: set[Mma] = field(default_factory=set)
    queue: list[set[Mma]] = field(default_factory=list)
    dirty: dict[str, int] = field(default_factory=dict)
    shape_of: dict[str, tuple[str, int]] = field(default_factory=dict)
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
            dict(self.dirty),
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
            frozenset(self.dirty.items()),
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
            oldest = self.queue.pop(0)
            self.queue[0] |= oldest

    def groups(self) -> list[tuple[int, set[Mma]]]:
        """By age: 0 for the open one, 1 for the newest that is committed."""
        return [(0, self.open_group), *((age, group) for age, group in enumerate(reversed(self.queue), start=1))]


class Oracle:
    """Runs every path and collects (line, rule), and what is to be told of each."""

    def __init__(self, program: dict[str, tuple[list[str], list[Line]]]) -> None:
        self.broken: set[tuple[int, str]] = set()
        self.needed: set[int] = set()
        self.spare: dict[int, set[tuple[str, int]]] = {}
        self.found: dict[tuple[int, str, str], set[tuple[int, Mma]]] = {}
        """Mma in flight with their ages, by the line, the rule and the registers read or written there."""
        self.accesses: dict[int, set[int]] = {}
        self.shapes: set[tuple[int, str, str, str, int]] = set()
        self.program = program
        self.states = 0
        self._run()
        self.broken |= {(fence, "wgmma.needless-fence") for fence in {*self.spare} - self.needed}

    def _in_flight(self, number: int, rule: str, name: str, age: int, group: set[Mma], mma: Mma) -> None:
        self.broken.add((number, rule))
        self.found.setdefault((number, rule, name), set()).add((age, mma))
        group.discard(mma)

    def trails(self) -> dict[tuple[int, str, str], tuple[int, set[tuple[int, int, int, int]]]]:
        """The youngest group of each, and the histories of the mma in it."""
        youngest = {key: min(age for age, _ in found) for key, found in self.found.items()}
        return {
            key: (age, {mma.trail() for other, mma in self.found[key] if other == age}) for key, age in youngest.items()
        }

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
            for age, group in run.groups():
                for mma in [mma for mma in group if mma.uses(name)]:
                    self._in_flight(number, rule, name, age, group, mma)
            run.dirty[name] = number
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
        run.dirty_at_fence, run.dirty = {*run.dirty}, {}
        run.shape_at_fence = {name: shape for name, (shape, _) in run.shape_of.items()}
        run.shape_of = {}
        run.chain_at_fence = set(run.chain)

    def do_mma(self, run: Warpgroup, number: int, names: list[str]) -> None:
        accumulator, shape, *fragments = names
        used = {accumulator, *fragments}
        if not run.any_fence or used & {*run.dirty}:
            self.broken.add((number, "wgmma.missing-fence"))
            self.accesses.setdefault(number, set()).update(line for name, line in run.dirty.items() if name in used)
        earlier, place = run.shape_of.get(accumulator, (shape, 0))
        if earlier != shape:
            self.broken.add((number, "wgmma.shape-change"))
            self.shapes.add((number, accumulator, shape, earlier, place))
        if run.last_fence:
            if used & run.dirty_at_fence or run.shape_at_fence.get(accumulator, shape) != shape:
                self.needed.add(run.last_fence)
            if (accumulator, shape) in run.chain_at_fence:
                self.spare.setdefault(run.last_fence, set()).add((accumulator, number))
        run.any_fence = True
        run.dirty = {name: line for name, line in run.dirty.items() if name not in used}
        run.shape_of[accumulator] = shape, number
        run.chain.add((accumulator, shape))
        latest = Mma(accumulator, tuple(fragments), number)  # which is told of those in a group with its registers
        run.open_group = {mma for mma in run.open_group if mma.registers() != latest.registers()} | {latest}

    def do_commit(self, run: Warpgroup, number: int, names: list[str]) -> None:
        run.queue.append({replace(mma, commit=number) for mma in run.open_group})
        run.open_group = set()
        self._break_chain(run)

    def do_wait(self, run: Warpgroup, number: int, names: list[str]) -> None:
        pending, drained = int(names[0]), names[1:]
        if pending not in range(8):
            self.broken.add((number, "wgmma.wait-range"))
            pending = 7 if pending > 7 else 0
        while len(run.queue) > pending:
            run.queue.pop(0)
        for age, group in run.groups():
            for mma in [*group]:
                if mma.accumulator in drained or (age == 0 and pending == 0 and not drained):
                    rule = "wgmma.wait-leaves-group" if age else "wgmma.missing-commit"
                    self._in_flight(number, rule, "", age, group, mma)
                elif age:
                    group.discard(mma)
                    group.add(replace(mma, wait=number, age=age))
        self._break_chain(run)

    def do_ret(self, run: Warpgroup, number: int, names: list[str]) -> None:
        for age, group in run.groups():
            for mma in [*group]:
                self._in_flight(number, "wgmma.missing-wait" if age else "wgmma.missing-commit", "", age, group, mma)


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


@settings(max_examples=40, deadline=None)
@given(programs())
def test_the_analysis_finds_what_some_path_breaks(program: dict[str, tuple[list[str], list[Line]]]) -> None:
    oracle = Oracle(program)
    assume(oracle.states < MOST_STATES)
    assert_same(oracle)


def assert_same(oracle: Oracle) -> None:
    """The analysis has found the same, with the same histories."""
    function = Program(text_of(oracle.program)).function
    sites = [site for of_block in sites_of(function).values() for site in of_block]
    line = {-1: 0, **{site.position: site.instr.location.line for site in sites if site.instr.location}}
    found = find_mistakes(function)
    assert {(line[one.site.position], one.rule.id) for one in found} == oracle.broken, text_of(oracle.program)
    accesses: dict[int, set[int]] = {}
    shapes = set()
    trails = {}
    for one in found:
        place = line[one.site.position]
        lines = {line[position] for position in one.accesses}
        names = [block.name for block in one.blocks]
        if one.rule is rules.MISSING_FENCE:
            accesses[place] = lines
        elif one.rule is rules.SHAPE_CHANGE:
            shapes |= {(place, *names, str(one.shape[1]), str(one.earlier[1]), earlier) for earlier in lines}
        elif one.rule is rules.NEEDLESS_FENCE:
            assert (*names, *lines) in oracle.spare[place]
        elif one.trails:
            which = names[0] if "in-flight" in one.rule.id else ""
            ways = {(line[way.mma], line[way.commit], line[way.wait], way.age) for way in one.trails}
            trails[place, one.rule.id, which] = (one.age, ways)
    assert (accesses, shapes) == (oracle.accesses, oracle.shapes), text_of(oracle.program)
    assert trails == oracle.trails(), text_of(oracle.program)


@settings(max_examples=40, deadline=None)
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
    """A line, or a fence and its mma; or one that may be needless, or order an access before a chain."""
    accumulator, shape = chance.choice("pq"), chance.choice(("64", "64", "64", "128"))
    mma = ["mma", accumulator, shape, *(["f"] if chance.random() < 0.3 else [])]
    drained = [one for one in "pq" if chance.random() < 0.4]
    access = [chance.choice(("read", "write")), chance.choice("pqf")]
    wait = ["wait", chance.choice("0011238"), *drained]
    multiplied = ["mma", accumulator, shape, "f"]
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
            [access, ["mma", accumulator, shape], ["fence"], multiplied],
        )
    )


@pytest.mark.parametrize("first", range(0, 900, 300))
def test_the_analysis_finds_it_in_programs_by_chance(first: int) -> None:
    tried = 0
    for seed in range(first, first + 300):
        program = seeded(seed)
        oracle = Oracle(program)
        tried += oracle.states < MOST_STATES
        if oracle.states < MOST_STATES:
            assert_same(oracle)
    assert tried > 270
