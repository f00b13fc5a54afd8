"""Branches on floats go both ways, as those on integers do: the mistake is inside of one, or comes after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32
from tests.dry_run.refusals import refusals

_THREADS = 256
Condition = Callable[..., Any]
_EPS = 1e-3

CONDITIONS: dict[str, Condition] = {
    "parameter": lambda k, x, h, y, beta: beta != 0.0,
    "parameter_is_zero": lambda k, x, h, y, beta: beta == 0.0,
    "parameter_below": lambda k, x, h, y, beta: beta < -2.5,
    "memory": lambda k, x, h, y, beta: x[0] > 100.0,
    "half": lambda k, x, h, y, beta: h[0] * 2.0 > 0.5,
    "bits": lambda k, x, h, y, beta: x[0].bitcast(i32) > 7,
    "converted": lambda k, x, h, y, beta: x[1].to(i32) > 7,
    "chosen": lambda k, x, h, y, beta: k.select(x[0] > beta, x[0], beta) > 3.0,
    "root": lambda k, x, h, y, beta: k.math.sqrt(x[0]) > 2.0,
    "element": lambda k, x, h, y, beta: y.load(4)[2] > 5,
    "float_element": lambda k, x, h, y, beta: x.load(4)[1] > 5.0,
    "constant": lambda k, x, h, y, beta: k.constant.array([1, 2, 3], u32)[y[0].to(i32) % 3] > 1,
    "float_constant": lambda k, x, h, y, beta: k.constant.array([1.0, 2.5], f32)[y[0].to(i32) % 2] > 2.0,
    "reduced": lambda k, x, h, y, beta: k.cta.reduce("max", x[k.thread_id()]) > 1.5,
    "reduced_integers": lambda k, x, h, y, beta: k.cta.reduce("max", y[k.thread_id()]) > 3,
    "barrier_or": lambda k, x, h, y, beta: k.barrier.reduce("or", x[k.thread_id()] > 0.0),
    "barrier_popc": lambda k, x, h, y, beta: k.barrier.reduce("popc", x[k.thread_id()] > 0.0) > 9,
}


def _found(body: Callable[..., None]) -> set[str]:
    @nvb.kernel("sm_90a", threads=_THREADS)
    def kernel(
        k: Any,
        x: nvb.Pointer(f32, align=16),  # type: ignore[valid-type]
        h: nvb.Pointer[f16],
        y: nvb.Pointer(u32, align=16),  # type: ignore[valid-type]
        beta: f32,
    ) -> None:
        body(k, x, h, y, beta)

    return set(refusals(kernel))


def _hang(k: Any) -> None:
    with k.if_(k.warpgroup_id() == 1):
        k.barrier.sync(1, _THREADS)


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("inverted", [False, True])
def test_a_mistake_in_a_branch_is_found(name: str, inverted: bool) -> None:
    def body(k: Any, *given: Any) -> None:
        condition = CONDITIONS[name](k, *given)
        with k.if_(~condition if inverted else condition):
            _hang(k)

    assert _found(body) == {"dry-run.barrier-hangs"}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_mistake_after_a_branch_is_found(name: str) -> None:
    def body(k: Any, *given: Any) -> None:
        with k.if_(CONDITIONS[name](k, *given)):
            k.barrier.sync()
        _hang(k)

    assert _found(body) == {"dry-run.barrier-hangs"}


@pytest.mark.parametrize("name", CONDITIONS)
def test_all_threads_agree(name: str) -> None:
    """Warps that decide by the same value meet at the same barriers."""

    def body(k: Any, *given: Any) -> None:
        condition = CONDITIONS[name](k, *given)
        with k.if_(k.warpgroup_id() == 0):
            k.barrier.arrive(1, _THREADS)
            with k.if_(condition):
                k.barrier.sync(2, _THREADS)
        with k.else_():
            k.barrier.sync(1, _THREADS)
            with k.if_(condition):
                k.barrier.sync(2, _THREADS)

    assert not _found(body)


@pytest.mark.parametrize("wrong", [False, True])
def test_what_comes_after_an_iteration_is_judged(wrong: bool) -> None:
    def body(k: Any, x: Any, *_: Any) -> None:
        t = k.thread_id()
        with k.loop():
            k.break_if(k.cta.reduce("max", x[t]) < _EPS)
            x[t] = x[t] * 0.5
        if wrong:
            _hang(k)

    assert _found(body) == ({"dry-run.barrier-hangs"} if wrong else set())


@pytest.mark.parametrize("wrong", [False, True])
def test_what_comes_after_a_return_is_judged(wrong: bool) -> None:
    def body(k: Any, x: Any, *_: Any) -> None:
        k.return_if(x[0] > 0.0)
        if wrong:
            _hang(k)

    assert _found(body) == ({"dry-run.barrier-hangs"} if wrong else set())


RELATED: dict[str, tuple[Condition, Condition]] = {
    "mirrored": (lambda x, beta: x > 0.5, lambda x, beta: x > 0.5),
    "scaled": (lambda x, beta: x > 2.0, lambda x, beta: x * 0.5 > 1.0),
    "negated": (lambda x, beta: x > 0.0, lambda x, beta: -x < 0.0),
    "bits": (lambda x, beta: x == 1.0, lambda x, beta: x.bitcast(u32) == 0x3F800000),
    "two": (lambda x, beta: x < beta, lambda x, beta: beta > x),
    "converted": (lambda x, beta: x.to(i32) > 3, lambda x, beta: x >= 4.0),
}


@pytest.mark.parametrize("name", RELATED)
def test_two_conditions_on_one_number_agree(name: str) -> None:
    one, other = RELATED[name]

    def body(k: Any, x: Any, _h: Any, _y: Any, beta: Any) -> None:
        value = x[0]
        with k.if_(k.warpgroup_id() == 0), k.if_(one(value, beta)):
            k.barrier.sync(2, _THREADS)
        with k.else_(), k.if_(other(value, beta)):
            k.barrier.sync(2, _THREADS)

    assert not _found(body)


def test_what_a_barrier_gives_follows_from_known_predicates() -> None:
    """The first lane of each warp always holds: or is true, and is false, popc is the number of warps."""

    def body(k: Any, *_: Any) -> None:
        first = k.lane_id() == 0
        for wrong in (
            k.barrier.reduce("or", first) == False,  # noqa: E712
            k.barrier.reduce("and", first),
            k.barrier.reduce("popc", first) != _THREADS // 32,
        ):
            with k.if_(wrong):
                _hang(k)

    assert not _found(body)
