"""Diagnostics call a loop as the user's Python does: by the variable of its with-statement, else by its line."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import Pointer, i32
from tests.support.runtime import broken


def first_line(function: Any) -> int:
    return function.__code__.co_firstlineno


def body(k: Any, words: Any, number: Any, x: Any) -> None:
    """In each second round there is no barrier after the reads."""
    words[k.thread_id()] = number
    k.barrier.sync()
    x[number * 64 + k.thread_id()] = words[63 - k.thread_id()]
    with k.if_(number & 1 == 0):
        k.barrier.sync()


def named(k, x, words):
    with k.range(4) as step:
        body(k, words, step, x)


def two_of_one_line(k, x, words):
    with k.range(2) as outer, k.range(4) as inner:
        body(k, words, outer * 4 + inner, x)


def on_several_lines(k, x, words):
    with (
        nullcontext(),
        k.range(
            4,
        ) as step,
    ):
        body(k, words, step, x)


def of_a_helper(k, x, words):
    def rows():
        return k.range(4, name="row")

    with rows() as mine:
        body(k, words, mine, x)


def two_of_a_helper(k, x, words):
    def rows(count):
        return k.range(count)

    with rows(2) as outer, rows(4) as inner:
        body(k, words, outer * 4 + inner, x)


def given_a_name(k, x, words):
    with ExitStack() as stack:
        body(k, words, stack.enter_context(k.range(4, name="row")), x)


def without_a_name(k, x, words):
    with ExitStack() as stack:
        body(k, words, stack.enter_context(k.range(4)), x)


def loop(k, x, words):
    row = k.var(0, i32)
    with k.loop():
        k.break_if(row == 4)
        body(k, words, row, x)
        row += 1


def beside_a_name_of_something_else(k, x, words):
    row = k.var(-1, i32)
    with k.range(4), nullcontext() as nothing:
        assert nothing is None
        row += 1
        body(k, words, row, x)


CASES = {
    named: "in round 2 of step, ",
    two_of_one_line: "in round 0 of outer, round 2 of inner, ",
    on_several_lines: "in round 2 of step, ",
    of_a_helper: "in round 2 of mine, ",
    two_of_a_helper: "in round 0 of outer, round 2 of inner, ",
    given_a_name: "in round 2 of row, ",
    without_a_name: f"in round 2 of the loop of line {first_line(without_a_name) + 2}, ",
    beside_a_name_of_something_else: (
        f"in round 2 of the loop of line {first_line(beside_a_name_of_something_else) + 2}, "
    ),
    loop: f"in round 2 of the loop of line {first_line(loop) + 2}, ",
}


@pytest.mark.parametrize("write", CASES, ids=lambda one: one.__name__)
def test_a_loop_is_called_as_the_user_calls_it(write: Any) -> None:
    @nvb.kernel("sm_90a", threads=64)
    def kernel(k, x: Pointer[i32]):
        write(k, x, k.shared(i32, 64))

    (found,) = broken(lambda: kernel.build(check=True))
    assert found.rule_id == "shared.overwritten-early"
    assert found.message.startswith(CASES[write]), found.message
