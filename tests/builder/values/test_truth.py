"""A run-time value has no truth: the fix names what to write in place of what asked for it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

Body = Callable[[nvb.KernelBuilder, Any, Any], None]


def _if(k, x, n):
    if n > 0:  # and what follows
        x[0] = 1.0


def _if_instead(k, x, n):
    with k.if_(n > 0):
        x[0] = 1.0


def _elif(k, x, n):
    if k is None:
        x[0] = 1.0
    elif n > 0:
        x[0] = 2.0


def _choice(k, x, n):
    x[0] = 1.0 if n > 0 else 2.0


def _choice_instead(k, x, n):
    x[0] = k.select(n > 0, 1.0, 2.0)


def _while(k, x, n):
    count = k.var(0)
    while count < n:
        count += 1


def _while_instead(k, x, n):
    count = k.var(0)
    with k.loop():
        k.break_if(count >= n)
        count += 1
    x[count] = 1.0


def _assert(k, x, n):
    assert n > 0


def _assert_instead(k, x, n):
    k.assert_(n > 0, "no elements")


def _and(k, x, n):
    x[0] = k.select(n > 0 and n < 5, 1.0, 2.0)


def _and_instead(k, x, n):
    x[0] = k.select((n > 0) & (n < 5), 1.0, 2.0)


def _not(k, x, n):
    x[0] = k.select(not n > 0, 1.0, 2.0)


def _not_instead(k, x, n):
    x[0] = k.select(~(n > 0), 1.0, 2.0)


def _chain(k, x, n):
    x[0] = k.select(0 < n < 5, 1.0, 2.0)


def _unparenthesised(k, x, n):
    x[0] = k.select(n > 0 & n < 5, 1.0, 2.0)


def _extreme(k, x, n):
    x[0] = max(x[0], 0.0)


def _extreme_instead(k, x, n):
    x[0] = k.math.max(x[0], 0.0)


def _if_and(k, x, n):
    if n > 0 and x[0] > 1.0:
        x[0] = 1.0


def _if_and_instead(k, x, n):
    with k.if_((n > 0) & (x[0] > 1.0)):
        x[0] = 1.0


def _part_of_a_statement(k, x, n):
    x[0] = k.select(
        bool(n > 0),
        1.0,
        2.0,
    )


IF, CHOICE, WHILE, ASSERT, LOGIC, CHAIN, EXTREMES, BINDS = ALL = (
    *("with k.if_(condition):`, or", "which computes both", "k.loop()", "k.assert_(condition, text)"),
    *("instead of and, or, not", "instead of a < b < c", "k.math.max", "each comparison in parentheses"),
)
FORMS = [
    (_if, _if_instead, {IF}),
    (_elif, _if_instead, {IF}),
    (_choice, _choice_instead, {CHOICE}),
    (_while, _while_instead, {WHILE}),
    (_assert, _assert_instead, {ASSERT}),
    (_and, _and_instead, {LOGIC}),
    (_not, _not_instead, {LOGIC}),
    (_chain, _and_instead, {CHAIN}),
    (_unparenthesised, _and_instead, {BINDS}),
    (_extreme, _extreme_instead, {EXTREMES}),
    (_if_and, _if_and_instead, {IF, LOGIC}),
    (_part_of_a_statement, _choice_instead, {IF, WHILE, LOGIC, EXTREMES}),
]


def build(body: Body) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k: nvb.KernelBuilder, x: nvb.Pointer[f32], n: i32) -> None:
        body(k, x, n)

    kernel.build()


@pytest.mark.parametrize(("wrong", "right", "uses"), FORMS, ids=[wrong.__name__[1:] for wrong, _, _ in FORMS])
def test_the_fix_is_for_what_the_line_has(wrong: Body, right: Body, uses: set[str]) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        build(wrong)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "value.truth"
    assert {part for part in ALL if part in diagnostic.fix} == uses
    build(right)
