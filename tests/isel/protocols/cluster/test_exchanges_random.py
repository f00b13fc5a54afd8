"""Random exchanges between the CTAs of a cluster, against the order of their accesses in all runs of a small model.

The model runs each CTA by itself: a list of accesses, each with the arrivals before it and the waits before it. An
access comes before one of another CTA where it precedes an arrival (of a release, if it is a write) whose wait precedes
the other (PTX ISA 8 and 9.7.13.3).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

RACE = "cluster.missing-barrier"
THREADS = 64
ROUNDS = (0, 1, 2, 3)
"""What the run-time number of rounds may be."""


@dataclass
class Access:
    """A word of each thread in a CTA's memory, its own or that of the next CTA: where the condition holds."""

    writes: bool
    peers: bool
    where: str = "always"
    word: int = 0

    def __str__(self) -> str:
        does, whose = "write" if self.writes else "read", "the next" if self.peers else "its own"
        return f"{does} of {whose} at {self.word}, {self.where}"


@dataclass
class Loop:
    """A body that is run for some rounds: `n` of them, two, or at least one until n have been run."""

    kind: str
    body: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.kind} ({'; '.join(map(str, self.body))})"


CONDITIONS: dict[str, tuple[Callable[..., Any], Callable[[int], bool | None]]] = {
    "always": (lambda k, data: None, lambda rank: True),
    "first": (lambda k, data: k.cluster.rank() == 0, lambda rank: rank == 0),
    "others": (lambda k, data: k.cluster.rank() > 0, lambda rank: rank > 0),
    "data": (lambda k, data: data[k.thread_id()] > 0.0, lambda rank: None),
}
"""Of the kernel's builder, and of the model: None where either may be."""


def drawn(draw: random.Random, depth: int, where: Sequence[str] = ("always", *CONDITIONS)) -> list[Any]:
    """Random steps, with loops so deep."""
    steps: list[Any] = []
    for _ in range(draw.choice([2, 3, 4])):
        kind = draw.choice(["access"] * 8 + ["sync", "sync", "relaxed", "cta"] + ["loop"] * 2 * bool(depth))
        if kind == "access":
            steps.append(Access(draw.random() < 0.5, draw.random() < 0.5, draw.choice(where), draw.choice([0, 0, 1])))
        else:
            steps.append(
                Loop(draw.choice(["n", "two", "least"]), drawn(draw, depth - 1, where)) if kind == "loop" else kind
            )
    return steps


# -- the model ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """An access of one run: the CTA and the word, the arrivals and releases before it, the waits before it."""

    writes: bool
    place: tuple[int, int]
    arrived: int
    waited: int


def trace(steps: list[Any], rank: int, size: int, n: int, data: Iterator[bool]) -> tuple[list[Made], list[bool]]:
    """What one CTA does, and which of its arrivals release."""
    made: list[Made] = []
    releases: list[bool] = []

    def run(body: list[Any]) -> None:
        for step in body:
            if isinstance(step, Loop):
                for _ in range({"n": n, "two": 2, "least": max(n, 1)}[step.kind]):
                    run(step.body)
            elif isinstance(step, Access):
                holds = CONDITIONS[step.where][1](rank)
                if next(data) if holds is None else holds:
                    owner = (rank + 1) % size if step.peers else rank
                    made.append(Made(step.writes, (owner, step.word), len(releases), len(releases)))
            elif step != "cta":
                releases.append(step == "sync")

    run(steps)
    return made, releases


def is_race(steps: list[Any], size: int, n: int, *, data: bool) -> bool:
    """Whether two CTAs access a word, one of them writing it, and neither access comes before the other."""
    runs = [trace(steps, rank, size, n, itertools.repeat(data)) for rank in range(size)]

    def before(first: Made, releases: list[bool], second: Made) -> bool:
        return any(releases[arrival] or not first.writes for arrival in range(first.arrived, second.waited))

    return any(
        one.place == other.place
        and (one.writes != other.writes)
        and not before(one, releases, other)
        and not before(other, others, one)
        for (mine, releases), (theirs, others) in itertools.combinations(runs, 2)
        for one in mine
        for other in theirs
    )


# -- the kernel -----------------------------------------------------------------------------------------------------


def said(steps: list[Any], size: int) -> set[str]:
    """What is said of the kernel of these steps."""

    def kernel(k, out: nvb.Pointer[f32], data: nvb.Pointer[f32], n: i32):
        own = k.shared(f32, 2 * THREADS)
        peer, thread = k.cluster.map_shared_rank(own, (k.cluster.rank() + 1) % size), k.thread_id()

        def emit(body: list[Any]) -> None:
            for step in body:
                if isinstance(step, Access):
                    condition = CONDITIONS[step.where][0](k, data)
                    with ExitStack() as around:
                        if condition is not None:
                            around.enter_context(k.if_(condition))
                        memory = peer if step.peers else own
                        if step.writes:
                            memory[thread + step.word * THREADS] = 1.0
                        else:
                            out[thread] = memory[thread + step.word * THREADS]
                elif isinstance(step, Loop) and step.kind == "least":
                    rounds = k.var(0)
                    with k.loop():
                        emit(step.body)
                        rounds += 1
                        k.break_if(rounds >= n)
                elif isinstance(step, Loop):
                    with k.range(n if step.kind == "n" else 2):
                        emit(step.body)
                elif step == "cta":
                    k.barrier.sync()
                else:
                    k.cluster.sync(relaxed=step == "relaxed")

        k.cluster.sync()
        emit(steps)
        k.cluster.sync()

    try:
        return {one.rule_id for one in nvb.kernel("sm_90a", threads=THREADS, cluster=size)(kernel).build().diagnostics}
    except nvb.DiagnosticError as error:
        return {one.rule_id for one in error.diagnostics}


# -- the tests ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_without_loops_every_race_is_told_and_nothing_else(seed):
    draw = random.Random(seed)
    size = draw.choice([2, 3])
    steps = drawn(draw, 0, ("always", "always", "first", "others"))
    assert said(steps, size) == ({RACE} if is_race(steps, size, 1, data=False) else set()), "; ".join(map(str, steps))


@pytest.mark.parametrize("seed", range(30))
def test_of_each_round_of_a_loop_every_race_is_told_and_nothing_else(seed):
    draw = random.Random(seed)
    size = draw.choice([2, 3])
    steps = [Loop("n", drawn(draw, 0, ("always",)))]
    assert said(steps, size) == ({RACE} if is_race(steps, size, 3, data=False) else set()), "; ".join(map(str, steps))


@pytest.mark.parametrize("seed", range(30))
def test_what_is_told_of_loops_in_loops_and_of_data_is_a_race_in_some_run(seed):
    draw = random.Random(seed)
    size = draw.choice([2, 3])
    steps = drawn(draw, 2)
    possible = any(is_race(steps, size, n, data=data) for n in ROUNDS for data in (False, True))
    assert said(steps, size) <= ({RACE} if possible else set()), "; ".join(map(str, steps))


OWN, NEXT = Access(writes=True, peers=False), Access(writes=False, peers=True)
SYNCS = {
    "two after": [Loop("n", [OWN, "sync", NEXT, Loop("two", ["sync"])])],
    "two before": [Loop("n", [Loop("two", ["sync"]), OWN, "sync", NEXT])],
    "as many as rounds": [Loop("n", [OWN, "sync", NEXT, Loop("n", ["sync"])])],
    "at least one": [Loop("n", [OWN, "sync", NEXT, Loop("least", ["sync"])])],
    "between": [Loop("n", [OWN, Loop("two", ["sync"]), NEXT, "sync"])],
    "all in loops": [Loop("n", [OWN, Loop("two", ["sync"]), NEXT, Loop("two", ["sync"])])],
    "all in loops, the read first": [Loop("two", [NEXT, Loop("two", ["sync"]), OWN, Loop("two", ["sync"])])],
    "around": [Loop("n", ["sync", Loop("two", [OWN]), "sync", NEXT])],
}


@pytest.mark.parametrize("name", SYNCS)
def test_barriers_in_a_loop_inside_are_between_as_others_are(name):
    steps = SYNCS[name]
    assert not any(is_race(steps, 2, n, data=False) for n in ROUNDS)
    assert said(steps, 2) == set()


def test_a_loop_inside_that_has_no_barrier_changes_nothing():
    steps = [Loop("n", [OWN, "sync", NEXT, Loop("two", ["cta"])])]
    assert is_race(steps, 2, 2, data=False)
    assert said(steps, 2) == {RACE}


def test_accesses_before_and_after_a_barrier_are_told_apart():
    """The second write is the race; the first one is ordered."""
    assert said([OWN, "sync", OWN, NEXT], 2) == {RACE}
    assert said([OWN, "sync", NEXT, "sync", OWN], 2) == set()


@pytest.mark.parametrize("far", [False, True])
def test_each_access_between_two_barriers_counts(far):
    """Those of one kind in a row: what the last of them writes is read as well."""
    others = [Access(writes=True, peers=False, word=1), OWN]
    read = Access(writes=False, peers=True, word=int(far))
    assert said([*others, read], 2) == {RACE}
    assert said([*others, "sync", read], 2) == set()


def built(program: Callable[..., None]) -> set[str]:
    """What is said of a program between two barriers of a cluster of two."""

    def kernel(k, out: nvb.Pointer[f32], n: i32):
        own, other, full = k.shared(f32, THREADS), k.shared(f32, THREADS), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        program(k, own, other, full, out, n)
        k.cluster.sync()

    try:
        return {one.rule_id for one in nvb.kernel("sm_90a", threads=THREADS, cluster=2)(kernel).build().diagnostics}
    except nvb.DiagnosticError as error:
        return {one.rule_id for one in error.diagnostics}


FORMS = {
    "neither": ("own peer", True),
    "both": ("if(own peer)", True),
    "the second": ("own if(peer)", True),
    "the first": ("if(own) peer", False),
    "each": ("if(own) if(peer)", False),
    "the first, reversed": ("if(peer) own", False),
    "the second, reversed": ("peer if(own)", True),
    "either": ("if(own) else(peer)", False),
}
"""Which of the two is under a condition of the host's, and whether whoever makes one certainly makes the other."""


@pytest.mark.parametrize("name", FORMS)
def test_a_condition_of_the_host(name):
    form, is_certain = FORMS[name]

    def program(k, own, other, full, out, n):
        peer, thread = k.cluster.map_shared_rank(own, k.cluster.peer_rank()), k.thread_id()
        for part in form.replace("own peer", "own+peer").split():
            with ExitStack() as around:
                if "if" in part:
                    around.enter_context(k.if_(n > 0))
                if "else" in part:
                    around.enter_context(k.else_())
                if "own" in part:
                    own[thread] = 1.0
                if "peer" in part:
                    out[thread] = peer[thread]

    assert built(program) == ({RACE} if is_certain else set())


@pytest.mark.parametrize(("first", "second", "is_certain"), [(0, 0, True), (0, 1, False), (1, 0, False), (1, 1, False)])
def test_an_mbarrier_on_some_way_may_order_the_ctas(first, second, is_certain):
    """Also where only one of two ways waits there."""

    def program(k, own, other, full, out, n):
        own[k.thread_id()] = 1.0
        for waits, branch in ((first, k.if_(n > 0)), (second, k.else_())):
            with branch:
                if waits:
                    k.mbarrier.wait(full, 0)
                else:
                    out[0] = 0.0
        out[k.thread_id()] = k.cluster.map_shared_rank(own, k.cluster.peer_rank())[k.thread_id()]

    assert (RACE in built(program)) == is_certain


@pytest.mark.parametrize("known", [False, True])
def test_a_peer_that_nobody_knows_beside_one_that_is_known(known):
    def program(k, own, other, full, out, n):
        thread = k.thread_id()
        own[thread] = other[thread] = 1.0
        k.cluster.sync()
        out[thread] = k.cluster.map_shared_rank(other, k.cluster.peer_rank())[thread]
        own[thread] = 2.0
        rank = k.cluster.peer_rank() if known else n
        out[thread] = k.cluster.map_shared_rank(own, rank)[thread]

    assert built(program) == ({RACE} if known else set())
