"""Formulas of conditions, against the truth of the conditions for all values of what they are made of."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.machine.agreement import Formula

THREADS = 64
EVERYONE = (1 << THREADS) - 1
Truth = Callable[[bool, bool, int], bool]
Expression = tuple[str, Callable[[Any, Any, Any], Any], Truth]
"""Its text; it made of the parameters n, m and the thread's number; its truth by n > 3, m == 5 and the number."""
N, M, T = range(3)
LEAVES: list[Expression] = [
    ("n > 3", lambda n, m, t: n > 3, lambda big, five, thread: big),
    ("n <= 3", lambda n, m, t: n <= 3, lambda big, five, thread: not big),
    ("m == 5", lambda n, m, t: m == 5, lambda big, five, thread: five),
    ("m != 5", lambda n, m, t: m != 5, lambda big, five, thread: not five),
    ("t < 40", lambda n, m, t: t < 40, lambda big, five, thread: thread < 40),
    ("t >= 7", lambda n, m, t: t >= 7, lambda big, five, thread: thread >= 7),
    ("t == 41", lambda n, m, t: t == 41, lambda big, five, thread: thread == 41),
]
BOTH: dict[str, Callable[[Any, Any], Any]] = {"&": lambda a, b: a & b, "|": lambda a, b: a | b}


def drawn(draw: random.Random, depth: int) -> Expression:
    """A random expression."""
    if not depth or draw.random() < 0.2:
        return draw.choice(LEAVES)
    text, made, truth = drawn(draw, depth - 1)
    if draw.random() < 0.3:
        return f"~({text})", lambda n, m, t: ~made(n, m, t), lambda *known: not truth(*known)
    also, other, holds = drawn(draw, depth - 1)
    sign = draw.choice([*BOTH])
    return (
        f"({text} {sign} {also})",
        lambda n, m, t: BOTH[sign](made(n, m, t), other(n, m, t)),
        lambda *known: bool(BOTH[sign](truth(*known), holds(*known))),
    )


def formulas(expressions: Iterable[Callable[..., Any]], *, again: bool = False) -> list[Formula | None]:
    """What the branches of a kernel on these conditions say, which are asked once or `again` and again."""

    def kernel(k, n: i32, m: i32, x: nvb.Pointer[f32]):
        with k.range(n) if again else nullcontext():
            for number, expression in enumerate(expressions):
                with k.if_(expression(k, n, m, x)):
                    x[number] = 1.0

    machine = nvb.kernel("sm_90a", threads=THREADS)(kernel).build(check=False).machine
    return [
        None if block.branch is None else block.branch.formula
        for block in machine.blocks.values()
        if "then" in "".join(block.successors)
    ]


def test_a_formula_holds_where_its_condition_does() -> None:
    draw = random.Random(7)
    expressions = [*LEAVES, *(drawn(draw, 4) for _ in range(60))]
    found = formulas([lambda k, n, m, x, made=made: made(n, m, k.thread_id()) for _, made, _ in expressions])
    big, five = found[0], found[2]
    assert big is not None
    assert five is not None
    for (text, _, truth), formula in zip(expressions, found, strict=True):
        assert formula is not None, text
        assert {fact.fact for fact in formula.facts() if fact.sides is None} <= {big.fact, five.fact}, text
        assert all(fact.uniform >= Scope.CTA for fact in formula.facts() if fact.sides is None), text
        certain, never = EVERYONE, EVERYONE
        for first, second in itertools.product((False, True), repeat=2):
            known = {big.fact: first is not big.negated, five.fact: second is not five.negated}
            holds = sum(truth(first, second, thread) << thread for thread in range(THREADS))
            assert formula.threads(known, EVERYONE) == (holds, EVERYONE & ~holds), (text, first, second)
            certain, never = certain & holds, never & ~holds
        told, refused = formula.threads({}, EVERYONE)
        assert (told & ~certain, refused & ~never) == (0, 0), text
        facts = {fact.fact for fact in formula.facts() if fact.sides is None}
        for known in ({big.fact: True}, {five.fact: True}, {big.fact: True, five.fact: True}, {}):
            assert formula.is_by_index(known) == facts.issubset(known), text


def test_one_condition_or_the_other_and_not_both_is_a_fact_of_its_own() -> None:
    big, five, either, again, opposite = formulas(
        [
            lambda k, n, m, x: n > 3,
            lambda k, n, m, x: m == 5,
            lambda k, n, m, x: (n > 3) ^ (m == 5),
            lambda k, n, m, x: (n > 3) ^ (m == 5),
            lambda k, n, m, x: ~((n > 3) ^ (m == 5)),
        ]
    )
    assert None not in (big, five, either, again, opposite)
    assert either.fact not in (big.fact, five.fact)
    assert (again.fact, again.negated) == (either.fact, either.negated)
    assert (opposite.fact, opposite.negated) == (either.fact, not either.negated)


FIXED: dict[str, tuple[Callable[..., Any], bool]] = {
    "parameter": (lambda k, n, m, x: n > 3, True),
    "thread": (lambda k, n, m, x: k.thread_id() * n > 3, True),
    "block": (lambda k, n, m, x: k.block_id() + k.block_count() > m, True),
    "lane": (lambda k, n, m, x: k.lane_id() > 3, True),
    "rank": (lambda k, n, m, x: k.cluster.rank() == 0, True),
    "warp": (lambda k, n, m, x: k.warp_id() == n, True),
    "elected": (lambda k, n, m, x: k.elect(), True),
    "computed": (lambda k, n, m, x: k.math.min(n, m) > 3, True),
    "variable": (lambda k, n, m, x: k.var(n) > 3, True),
    "data": (lambda k, n, m, x: x[0] > 3.0, False),
    "of data": (lambda k, n, m, x: x[0].to(i32) + n > 3, False),
    "and data": (lambda k, n, m, x: (n > 3) & (x[0] > 3.0), False),
    "time": (lambda k, n, m, x: k.clock() > 3, False),
    "vote": (lambda k, n, m, x: k.warp.vote("any", x[k.thread_id()] > 3.0), False),
    "variable of data": (lambda k, n, m, x: k.var(x[0]) > 3.0, False),
}
"""Whether a thread finds the condition alike each time that it comes to one."""


@pytest.mark.parametrize("name", FIXED)
def test_what_may_change_has_no_formula(name: str) -> None:
    condition, is_fixed = FIXED[name]
    (formula,) = formulas([condition], again=True)
    assert (formula is not None) == is_fixed


@pytest.mark.parametrize("name", FIXED)
def test_what_is_asked_once_has_one_answer(name: str) -> None:
    condition, _ = FIXED[name]
    assert None not in formulas([condition])


def test_a_number_that_is_loaded_once_is_the_same_in_all_conditions_on_it() -> None:
    loaded: list[Any] = []

    def first(k: Any, n: Any, m: Any, x: Any) -> Any:
        loaded.append(x[0].to(i32))
        return loaded[0] > 3

    once = formulas([first, lambda k, n, m, x: loaded[0] <= 3, lambda k, n, m, x: (loaded[0] <= 3) & (n > 3)])
    assert None not in once
    (fact,), (opposite,), (part, _) = (list(formula.facts()) for formula in once if formula is not None)
    assert fact.fact == opposite.fact == part.fact
    assert (fact.negated, opposite.negated, part.negated) == (True, False, False)


@pytest.mark.parametrize("read", [lambda k, x: x[0].to(i32), lambda k, x: k.clock(), lambda k, x: k.clock("clock")])
def test_what_is_read_twice_may_be_another_number(read: Callable[..., Any]) -> None:
    more, less = formulas([lambda k, n, m, x: read(k, x) > 3, lambda k, n, m, x: (read(k, x) <= 3) & (n > 3)])
    assert more is not None
    assert less is not None
    assert {fact.fact for fact in more.facts()}.isdisjoint(fact.fact for fact in less.facts())


def test_a_variable_that_a_loop_changes_has_no_formula() -> None:
    def kernel(k, n: i32, x: nvb.Pointer[f32]):
        number = k.var(n)
        with k.range(n):
            with k.if_(number > 3):
                x[0] = 1.0
            number += 1

    machine = nvb.kernel("sm_90a", threads=THREADS)(kernel).build(check=False).machine
    (branch,) = (block.branch for block in machine.blocks.values() if "then" in "".join(block.successors))
    assert branch is not None
    assert branch.formula is None


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("depth", [3, 8, 9, 12])
def test_what_is_deeper_than_eight_operations_is_one_fact(depth: int, negated: bool) -> None:
    """The opposite of something is an operation, too."""

    def chain(k, n, m, x):
        whole = n > 3
        for step in range(depth):
            whole = ~(whole & (m > step)) if negated else whole & (m > step)
        return whole

    (formula,) = formulas([chain])
    assert formula is not None
    assert len({*(fact.fact for fact in formula.facts())}) == min(depth, 4 if negated else 8) + 1
