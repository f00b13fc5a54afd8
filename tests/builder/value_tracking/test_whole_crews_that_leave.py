"""Threads that end the kernel together leave nobody of their crew, or all of it: what follows is judged as before.

What is expected is written down from who comes: after an exit that all threads of the CTA take alike, a race of two of
them is certain; after one that some take, it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32

THREADS = 128
Step = Callable[[Any, Any, Any], None]
ALIKE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a parameter": lambda k, n, x: n > 0,
    "the CTA's index": lambda k, n, x: k.block_id() >= n,
    "both": lambda k, n, x: (k.block_id() >= n) | (n == 7),
}
APART: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a thread's index": lambda k, n, x: k.thread_id() >= n,
    "a number of each thread": lambda k, n, x: x[k.thread_id()] > 1.0,
}


def leaves(k, n, x, condition) -> None:
    k.return_if(condition(k, n, x))


def leaves_in_a_block(k, n, x, condition) -> None:
    with k.if_(n > 3), k.if_(condition(k, n, x)):
        k.return_()


def leaves_in_the_other_block(k, n, x, condition) -> None:
    with k.if_(condition(k, n, x)):
        x[k.thread_id()] = 2.0
    with k.else_():
        k.return_()


def leaves_in_a_loop(k, n, x, condition) -> None:
    with k.range(n):
        k.return_if(condition(k, n, x))


def leaves_from_half_of_the_threads(k, n, x, condition) -> None:
    with k.if_(k.thread_id() < THREADS // 2):
        k.return_if(condition(k, n, x))


WHOLE = (leaves, leaves_in_a_block, leaves_in_the_other_block, leaves_in_a_loop)


def found(leave, condition, *, barrier: bool) -> set[str]:
    @nvb.kernel("sm_90a", threads=THREADS)
    def kernel(k, n: i32, x: nvb.Pointer[f32]):
        row = k.shared(f32, THREADS)
        leave(k, n, x, condition)
        row[k.thread_id()] = 1.0
        if barrier:
            k.barrier.sync()
        x[k.thread_id()] = row[THREADS - 1 - k.thread_id()]

    try:
        return {one.rule_id for one in kernel.build(check=False).diagnostics}
    except nvb.DiagnosticError as error:
        return {one.rule_id for one in error.diagnostics}


@pytest.mark.parametrize("condition", ALIKE)
@pytest.mark.parametrize("leave", WHOLE)
def test_a_race_after_an_exit_of_all_is_certain(leave: Step, condition: str) -> None:
    assert found(leave, ALIKE[condition], barrier=False) == {"shared.missing-barrier"}
    assert found(leave, ALIKE[condition], barrier=True) == set()


@pytest.mark.parametrize("condition", [*ALIKE, *APART])
def test_after_an_exit_of_some_it_is_not(condition: str) -> None:
    said = found(leaves_from_half_of_the_threads, {**ALIKE, **APART}[condition], barrier=False)
    assert "shared.missing-barrier" not in said


@pytest.mark.parametrize("condition", APART)
@pytest.mark.parametrize("leave", WHOLE)
def test_nor_after_an_exit_that_threads_take_by_themselves(leave: Step, condition: str) -> None:
    assert "shared.missing-barrier" not in found(leave, APART[condition], barrier=False)
