"""What the race analysis says of random kernels, against threads that are run one by one.

The oracle knows nothing of control-flow graphs: it runs each thread of the CTA, counts the barriers that it passes, and
compares all accesses. Two threads between the same two barriers are unordered, unless both execute a fence in between,
by which they may have a protocol of their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from nvbackend import KernelBuilder, i32, u32
from nvbackend.builder.values.values import Value
from nvbackend.isel.protocols.shared.races import Race, by_cause, check_shared_races, find_races
from nvbackend.signature import Parameter, Scalar

THREADS, WORDS = 96, 256
PLACES = {
    "own": lambda t, s: t,
    "mirrored": lambda t, s: 95 - t,
    "next": lambda t, s: t + 1,
    "other half": lambda t, s: t + 96,
    "of the warp": lambda t, s: t // 32,
    "in the warp": lambda t, s: t % 32,
    "pairs": lambda t, s: t * 2,
    "first": lambda t, s: 0 * t,
    "stage": lambda t, s: t + s % 2 * 96,
    "mirrored stage": lambda t, s: 95 - t + s % 2 * 96,
}
CONDITIONS = {
    "warp 0": lambda t: t < 32,
    "not warp 0": lambda t: t >= 32,
    "a few": lambda t: t < 5,
    "one": lambda t: t == 40,
}
RUNS = [(steps, lane) for steps in (0, 1, 2, 5) for lane in (0, 7)]


@dataclass
class Statement:
    """A statement: `kind` with its `choice` among the tables, and what is in it. Its own identity is its label."""

    kind: str
    choice: str = ""
    body: list[Statement] = field(default_factory=list)


class Random:
    """Programs: accesses, barriers, fences, and blocks of some threads, of all or none, and in rounds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def statements(self, depth: int, *, together: bool) -> list[Statement]:
        """Some; barriers only where all threads come `together`."""
        return [self.statement(depth, together=together) for _ in range(self.random.randint(1, 4))]

    def statement(self, depth: int, *, together: bool) -> Statement:
        kinds = ["load", "store"] * 3 + ["fence"] + ["barrier"] * 2 * together
        kinds += ["some", "uniform", "range", "loop"] * (depth > 0) + ["elected"] * together
        kind = self.random.choice(kinds)
        if kind in ("load", "store"):
            return Statement(kind, self.random.choice(list(PLACES)))
        if kind == "some":
            choice = self.random.choice(list(CONDITIONS))
            return Statement(kind, choice, self.statements(depth - 1, together=False))
        if kind == "elected":
            return Statement(kind, body=[Statement("load" if self.random.random() < 0.5 else "store", "first")])
        if kind in ("uniform", "range"):
            return Statement(kind, body=self.statements(depth - 1, together=together))
        if kind == "loop":
            choice = self.random.choice(list(CONDITIONS))
            return Statement(kind, choice, self.statements(depth - 1, together=False))
        return Statement(kind)


class Build:
    """The kernel of a program. `labels` are the statements of its accesses, by the identity of their instructions."""

    def __init__(self, program: list[Statement]) -> None:
        self.k = KernelBuilder("k", "sm_90", threads=THREADS, parameters=[Parameter("n", Scalar(i32))])
        (self.n,) = self.k.arguments
        self.buffer = self.k.shared(u32, WORDS)
        self.labels: dict[int, Statement] = {}
        self.statements(program, self.k.const(0, i32))
        self.k.return_()
        self.k.core.link()

    def statements(self, body: list[Statement], step: Value) -> None:
        for one in body:
            getattr(self, one.kind)(one, step)

    def access(self, statement: Statement, step: Value) -> None:
        place = self.buffer + PLACES[statement.choice](self.k.thread_id(), step)
        if statement.kind == "store":
            place.store(1)
        else:
            place.load()
        self.labels[id(self.k.machine.blocks[self.k.core.llvm.block.name].instructions[-1])] = statement

    load = store = access

    def barrier(self, statement: Statement, step: Value) -> None:
        self.k.barrier.sync()

    def fence(self, statement: Statement, step: Value) -> None:
        self.k.fence.membar("cta")

    def some(self, statement: Statement, step: Value) -> None:
        with self.k.if_(CONDITIONS[statement.choice](self.k.thread_id())):
            self.statements(statement.body, step)

    def elected(self, statement: Statement, step: Value) -> None:
        with self.k.one_thread(1):
            self.statements(statement.body, step)

    def uniform(self, statement: Statement, step: Value) -> None:
        with self.k.if_(self.n > 1):
            self.statements(statement.body, step)

    def range(self, statement: Statement, step: Value) -> None:
        with self.k.range(self.n) as inner:
            self.statements(statement.body, inner)

    def loop(self, statement: Statement, step: Value) -> None:
        with self.k.range(3) as inner:
            self.statements(statement.body, inner)
            self.k.break_if(CONDITIONS[statement.choice](self.k.thread_id()))


@dataclass(frozen=True)
class Event:
    """An access as it happened: between which barriers, and whether the thread fenced before and behind it there."""

    label: int
    thread: int
    word: int
    interval: int
    writes: bool
    fenced: tuple[bool, bool]


class Run:
    """One thread, run alone: its accesses in order, each with the number of fences before it."""

    def __init__(self, thread: int, steps: int, lane: int) -> None:
        self.thread, self.steps, self.lane = thread, steps, lane
        self.interval = 0
        self.fences = [0]
        self.found: list[tuple[Statement, int, int, int]] = []

    def run(self, body: list[Statement], step: int = 0) -> list[Event]:
        self._statements(body, step)
        return [
            Event(
                id(one), self.thread, word, interval, one.kind == "store", (fences > 0, self.fences[interval] > fences)
            )
            for one, word, interval, fences in self.found
        ]

    def _statements(self, body: list[Statement], step: int) -> None:
        for one in body:
            self._statement(one, step)

    def _statement(self, one: Statement, step: int) -> None:
        if one.kind in ("load", "store"):
            word = PLACES[one.choice](self.thread, step)
            self.found.append((one, word, self.interval, self.fences[-1]))
        elif one.kind == "barrier":
            self.interval += 1
            self.fences.append(0)
        elif one.kind == "fence":
            self.fences[-1] += 1
        elif one.kind == "loop":
            for inner in range(3):
                self._statements(one.body, inner)
                if CONDITIONS[one.choice](self.thread):
                    break
        elif one.kind == "range":
            for inner in range(self.steps):
                self._statements(one.body, inner)
        elif self._is_inside(one):
            self._statements(one.body, step)

    def _is_inside(self, one: Statement) -> bool:
        if one.kind == "some":
            return CONDITIONS[one.choice](self.thread)
        return self.thread == 32 + self.lane if one.kind == "elected" else self.steps > 1


def races(program: list[Statement], steps: int, lane: int) -> set[tuple[int, int]]:
    """The pairs of accesses, by label, that race when the kernel runs with these `steps`."""
    events = [event for thread in range(THREADS) for event in Run(thread, steps, lane).run(program)]
    places: dict[tuple[int, int], set[Event]] = {}
    for event in events:
        places.setdefault((event.interval, event.word), set()).add(event)
    return {
        (one.label, other.label)
        for meeting in places.values()
        for one in meeting
        for other in meeting
        if one.thread // 32 != other.thread // 32 and one.writes != other.writes and not _may_be_ordered(one, other)
    }


def _may_be_ordered(one: Event, other: Event) -> bool:
    return (one.fenced[1] and other.fenced[0]) or (other.fenced[1] and one.fenced[0])


def labels(build: Build, race: Race) -> Iterator[tuple[int, int]]:
    """The pairs of statements of a race."""
    for first, _ in race.first.accesses:
        for second, _ in race.second.accesses:
            yield id(build.labels[id(first.instr)]), id(build.labels[id(second.instr)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_said_is_a_race(seed: int) -> None:
    said = 0
    for number in range(40):
        program = Random(1000 * seed + number).statements(3, together=True)
        build = Build(program)
        found = find_races(build.k.machine)
        happens = set().union(*(races(program, *run) for run in RUNS)) if found else set()
        for race in found:
            assert not happens.isdisjoint(labels(build, race)), (program, race)
        said += bool(found)
    assert said, "nothing was tried"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_straight_is_found_whole(seed: int) -> None:
    """With one block, no fence and no other condition than on the thread's index, all races of two warps are found."""
    generator = random.Random(seed)
    for _ in range(30):
        kinds = generator.choices(("load", "store", "barrier"), (3, 3, 2), k=6)
        places = [name for name in PLACES if "stage" not in name]
        program = [Statement(kind, generator.choice(places) if kind != "barrier" else "") for kind in kinds]
        build = Build(program)
        order = {id(one): index for index, one in enumerate(program)}
        happens = {pair for pair in races(program, 1, 0) if order[pair[0]] < order[pair[1]]}
        found = find_races(build.k.machine)
        said = {pair for race in found for pair in labels(build, race)}
        assert happens <= said
        assert all(not happens.isdisjoint(labels(build, race)) for race in found)
        assert len(check_shared_races(build.k.machine)) == fewest([(order[one], order[two]) for one, two in happens])


def fewest(pairs: list[tuple[int, int]]) -> int:
    """The barriers that part all of these pairs of places: each time before the first second one that is left."""
    barriers: list[int] = []
    for first, second in sorted(pairs, key=lambda pair: pair[1]):
        if not barriers or barriers[-1] <= first:
            barriers.append(second)
    return len(barriers)


def parted(program: list[Statement], late: set[int]) -> list[Statement]:
    """The program with a barrier before each of these statements."""
    whole: list[Statement] = []
    for one in program:
        whole += [Statement("barrier")] if id(one) in late else []
        whole.append(Statement(one.kind, one.choice, parted(one.body, late)) if one.kind == "range" else one)
    return whole


@pytest.mark.parametrize("seed", range(4))
def test_what_is_told_of_rounds_is_told_once_and_put_right_at_once(seed: int) -> None:
    generator = random.Random(seed)
    told = 0
    for _ in range(30):
        kinds = generator.choices(("load", "store", "barrier"), (3, 3, 1), k=7)
        places = generator.sample(list(PLACES), 3)
        line = [Statement(kind, generator.choice(places) if kind != "barrier" else "") for kind in kinds]
        program = [*line[:2], Statement("range", body=line[2:5]), Statement("range", body=line[5:])]
        build = Build(program)
        causes = list(by_cause(find_races(build.k.machine)))
        assert len({race.second.site.position for race in causes}) == len(causes)
        told += len(causes)
        late = {id(build.labels[id(race.second.accesses[0][0].instr)]) for race in causes}
        assert find_races(Build(parted(program, late)).k.machine) == []
    assert told > 20
