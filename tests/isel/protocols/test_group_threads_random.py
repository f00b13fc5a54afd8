"""Random chains of issues, commits and waits under conditions over the thread, against each thread walked by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nvbackend.diagnostics import Location
from nvbackend.intrinsics.row.semantics import Completion, Semantics
from nvbackend.isel.machine.function import Crew, MachineFunction, MachineInstr
from nvbackend.isel.protocols.groups.threads import check_group_threads
from nvbackend.isel.target.target import Target

THREADS = 64
ALL = frozenset(range(THREADS))
KINDS = (Completion.MMA_GROUP, Completion.COMMIT, Completion.BULK_GROUP, Completion.COPY_GROUP)
OF_EACH = Completion.COPY_GROUP
"""What each thread must complete itself: the others are issued by one thread of those that come."""
SETS = {
    "all threads": ALL,
    "thread 0": frozenset({0}),
    "thread 40": frozenset({40}),
    "threads 0 to 31": frozenset(range(32)),
    "threads 32 to 63": frozenset(range(32, 64)),
    "threads 20 to 40": frozenset(range(20, 41)),
    "some of threads 0 to 62": frozenset(range(0, 64, 2)),
}
STEPS = ("close", "end")


@dataclass(frozen=True)
class Line:
    """What is done of which kind; a track closes and ends at once."""

    what: str
    kind: Completion

    def does(self, step: str) -> bool:
        return self.what in (step, "track")


@dataclass(frozen=True)
class Part:
    """Lines that some threads run, by the name of the set, and how certain it is that all of them do."""

    name: str
    crew: str
    lines: list[Line]


def program(chance: random.Random) -> list[Part]:
    kinds = chance.sample(KINDS, chance.choice((1, 1, 1, 2)))
    return [
        Part(
            chance.choice([*SETS]),
            chance.choice(("all", "all", "all", "elected", "")),
            [
                Line(chance.choice(("issue", "issue", "close", "end", "end", "track")), chance.choice(kinds))
                for _ in range(chance.randint(0, 3))
            ],
        )
        for _ in range(chance.randint(2, 6))
    ]


def semantics(line: Line) -> Semantics:
    match line.what:
        case "issue":
            return Semantics(issues=line.kind)
        case "close":
            return Semantics(commits=line.kind)
        case "end":
            return Semantics(awaits=line.kind)
    return Semantics(tracks=line.kind)


def bits(threads: frozenset[int]) -> int:
    return sum(1 << thread for thread in threads)


def machine(parts: list[Part], *, loop: bool) -> MachineFunction:
    """Each part under a condition that decides for every thread; after the last one, perhaps the first again."""
    function = MachineFunction("f", Target.parse("sm_100a"), attributes={"threads": THREADS})
    heads = [f"head{index}" for index in range(len(parts))]
    place = 0
    for index, part in enumerate(parts):
        head, body = function.block(heads[index]), function.block(f"body{index}")
        following = heads[index + 1] if index + 1 < len(parts) else "last"
        head.successors, head.sides = [body.name, following], (bits(SETS[part.name]), bits(ALL - SETS[part.name]))
        body.successors = [following]
        body.crew = Crew(bits(SETS[part.name]), part.crew == "elected", body.name) if part.crew else None
        for line in part.lines:
            body.instructions.append(
                MachineInstr(line.what, semantics=semantics(line), location=Location("k.py", place, "k"))
            )
            place += 1
    function.block("last").successors = [heads[0], "end"] if loop else ["end"]
    function.block("end")
    return function


Told = tuple[int, int, str, str]
"""The lines of the commit or wait and of the issue; who executes the one, and who of those that execute the other."""


def expected(parts: list[Part], *, loop: bool) -> Iterator[Told]:
    """Of the last issue of a part: whom none of the steps after it is for, though others come to one."""
    starts = [sum(len(part.lines) for part in parts[:index]) for index in range(len(parts))]
    for kind in KINDS:
        there = [line for part in parts for line in part.lines if line.kind is kind]
        if not all(any(line.does(step) for line in there) for step in STEPS):
            continue  # one is missing, which is another mistake
        told: set[int] = set()
        for step in STEPS:
            for index, part in enumerate(parts):
                issues = [at for at, line in enumerate(part.lines) if line == Line("issue", kind)]
                if not issues or any(line.kind is kind and line.does(step) for line in part.lines[issues[-1] :]):
                    continue
                ahead = [*range(index + 1, len(parts)), *(range(index + 1) if loop else ())]
                steps = [
                    (starts[other] + at, parts[other].name)
                    for other in ahead
                    for at, line in enumerate(parts[other].lines)
                    if line.kind is kind and line.does(step)
                ]
                left = {thread for thread in SETS[part.name] if not any(thread in SETS[name] for _, name in steps)}
                if not steps or not left or (left != SETS[part.name] and not (kind is OF_EACH and part.crew == "all")):
                    continue
                place, (completion, name) = starts[index] + issues[-1], steps[0]
                if not told & {place, completion}:
                    yield completion, place, name, named(frozenset(left))
                told |= {place, completion}


def named(threads: frozenset[int]) -> str:
    if threads == ALL:
        return "all threads"
    first, last = min(threads), max(threads)
    if len(threads) == 1:
        return f"thread {first}"
    return f"{'' if len(threads) == last - first + 1 else 'some of '}threads {first} to {last}"


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("first", range(0, 450, 150))
def test_whom_no_commit_or_wait_is_for(first: int, loop: bool) -> None:
    count = 0
    for seed in range(first, first + 150):
        parts = program(random.Random(seed))
        told = [
            (
                one.location.line if one.location else -1,
                next(place.line for _, place in one.notes if place),
                one.values["others"],
                one.values["issuers"],
            )
            for one in check_group_threads(machine(parts, loop=loop))
        ]
        assert told == [*expected(parts, loop=loop)], (seed, parts)
        count += len(told)
    assert count > 10
