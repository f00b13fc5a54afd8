"""Variables that parts of the threads set, however deep: a barrier under a condition on one parts the threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import i32
from tests.support.runtime import rules


def nested(k, n: Any, v: Any, parting: Any) -> None:
    with k.if_(parting), k.if_(n > 0):
        v.set(1)


def other_side(k, n: Any, v: Any, parting: Any) -> None:
    with k.if_(parting):
        with k.if_(n > 0):
            k.nanosleep(20)
        with k.else_(), k.if_(n < -3):
            v.set(1)


def looping(k, n: Any, v: Any, parting: Any) -> None:
    with k.if_(parting), k.range(n) as i, k.if_(i > 2):
        v.set(1)


def both_sides(k, n: Any, v: Any, parting: Any) -> None:
    with k.if_(parting):
        with k.if_(n > 0):
            v.set(1)
        with k.else_():
            v.set(2)
    with k.else_(), k.if_(n > 4):
        v.set(3)


def rounds(k, n: Any, v: Any, parting: Any) -> None:
    with k.range(n):
        with k.if_(parting), k.if_(n > 5):
            v.set(1)
        with k.if_(n > 7):
            k.nanosleep(20)


SETTING: list[Callable[..., None]] = [nested, other_side, looping, both_sides, rounds]


@pytest.mark.parametrize("differs", [False, True])
@pytest.mark.parametrize("setting", SETTING, ids=lambda one: one.__name__)
def test_a_barrier_on_what_threads_set(setting: Callable[..., None], differs: bool) -> None:
    @nvb.kernel("sm_90a", threads=64)
    def kernel(k, n: i32, m: i32):
        v = k.var(0)
        setting(k, n, v, k.thread_id() < 16 if differs else m < 16)
        with k.if_(v == 1):
            k.barrier.sync()

    assert ("barrier.divergent" in rules(kernel.build)) is differs
