"""Guarded passes of loops that Python unrolls: those that no thread reaches are not judged, and all others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, i32, u32

Body = Callable[..., None]
THREADS = 64


def said(body: Body, limit: int) -> set[str]:
    """The rules that a kernel breaks whose passes are guarded by this limit."""

    @nvb.kernel("sm_90a", threads=THREADS)
    def kernel(k: Any, x: nvb.Pointer(u32, align=16)) -> None:  # type: ignore[valid-type]
        body(k, x, limit)

    try:
        kernel.build()
    except DiagnosticError as error:
        return {one.rule_id for one in error.diagnostics}
    return set()


def _filled(k: Any) -> Any:
    tile, t = k.shared(u32, 2 * THREADS), k.thread_id()
    tile[t] = 1
    tile[t + THREADS] = 1
    k.barrier.sync()
    return tile


def passes(k: Any, x: Any, limit: int) -> None:
    tile, t = _filled(k), k.thread_id()
    for step in range(3):
        with k.if_(t + step * THREADS < limit * THREADS):
            x[t + step * THREADS] = tile[t + step * THREADS]


def counted(k: Any, x: Any, limit: int) -> None:
    tile, t, step = _filled(k), k.thread_id(), k.var(0)
    for _ in range(3):
        with k.if_(step < limit):
            x[t] = tile[step * THREADS + t]
        step += 1


def barriers(k: Any, x: Any, limit: int) -> None:
    full, step = k.mbarrier.array(2, arrivals=THREADS), k.var(0)
    k.mbarrier.ready()
    for _ in range(3):
        with k.if_(step < limit):
            k.mbarrier.arrive(full + step)
            k.mbarrier.wait(full + step, 0)
        step += 1


def local(k: Any, x: Any, limit: int) -> None:
    own, step = k.local.array(u32, 2, fill=0), k.var(0)
    for _ in range(3):
        with k.if_(step < limit):
            x[0] = own[step]
        step += 1


def constant_place(k: Any, x: Any, limit: int) -> None:
    own = k.local.array(u32, 2, fill=0)
    with k.if_(k.const(limit, i32) > 2):
        x[0] = own[k.const(2, i32)]


def table(k: Any, x: Any, limit: int) -> None:
    numbers, step = k.constant.array([1, 2], u32), k.var(0)
    for _ in range(3):
        with k.if_(step < limit):
            x[0] = numbers[step]
        step += 1


def on_data(k: Any, x: Any, limit: int) -> None:
    tile, t = _filled(k), k.thread_id()
    with k.if_(k.const(2, i32) < limit), k.if_(x[0] > 3):
        x[t] = tile[2 * THREADS + t]


def under_data(k: Any, x: Any, limit: int) -> None:
    tile, t = _filled(k), k.thread_id()
    with k.range(x[1].to(i32)), k.if_(t + 2 * THREADS < limit * THREADS):
        x[t] = tile[2 * THREADS + t]


def after_return(k: Any, x: Any, limit: int) -> None:
    tile, t = _filled(k), k.thread_id()
    k.return_if(t + 2 * THREADS >= limit * THREADS)
    x[t] = tile[2 * THREADS + t]


def after_break(k: Any, x: Any, limit: int) -> None:
    own = k.local.array(u32, 2, fill=0)
    with k.loop():
        k.break_if(k.const(2, i32) >= limit)
        x[0] = own[2]
        k.break_if(x[1] > 3)


def after_both(k: Any, x: Any, limit: int) -> None:
    own = k.local.array(u32, 2, fill=0)
    with k.if_(x[1] > 3):
        k.return_()
    with k.else_():
        k.return_if(k.const(2, i32) >= limit)
        x[0] = own[2]


def in_rounds(k: Any, x: Any, limit: int) -> None:
    own, first = k.local.array(u32, 2, fill=0), k.var(2)
    with k.range(first, limit):
        x[0] = own[2]


def in_rounds_of_tile(k: Any, x: Any, limit: int) -> None:
    tile, t = _filled(k), k.thread_id()
    with k.range(2, limit):
        x[t] = tile[2 * THREADS + t]


def divided(k: Any, x: Any, limit: int) -> None:
    with k.if_(k.const(2, i32) < limit):
        x[0] = x[1] // 0


def shifted(k: Any, x: Any, limit: int) -> None:
    with k.if_(k.const(2, i32) < limit):
        x[0] = x[1] << 40


def barrier_number(k: Any, x: Any, limit: int) -> None:
    number = k.var(16)
    with k.if_(number < 14 + limit):
        k.barrier.sync(number, threads=THREADS)


def bytes_of_a_copy(k: Any, x: Any, limit: int) -> None:
    tile, full, size = k.shared(u32, 4, align=128), k.mbarrier.array(1, arrivals=1), k.var(0)
    k.mbarrier.ready()
    with k.one_thread(), k.if_(size > 2 - limit):
        k.bulk.load(tile, x, size, full)


def step(k: Any, x: Any, limit: int) -> None:
    stride = k.var(0)
    with k.if_(stride > 2 - limit), k.range(0, x[0].to(i32), stride):
        x[1] = 1


def assumed(k: Any, x: Any, limit: int) -> None:
    number = k.var(2)
    with k.if_(number < limit):
        k.assume(number < 2)
        x[0] = 1


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (on_data, "shared.bounds"),
        (under_data, "shared.bounds"),
        (after_return, "shared.bounds"),
        (after_break, "local.index"),
        (after_both, "local.index"),
        (in_rounds, "local.index"),
        (in_rounds_of_tile, "shared.bounds"),
        (divided, "value.constant"),
        (shifted, "value.constant"),
        (barrier_number, "barrier.id"),
        (bytes_of_a_copy, "tma.bulk-size"),
        (step, "control.step"),
        (assumed, "control.assume"),
        (passes, "shared.bounds"),
        (counted, "shared.bounds"),
        (barriers, "mbarrier.uninitialised"),
        (local, "local.index"),
        (constant_place, "local.index"),
        (table, "constant.index"),
    ],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_a_pass_is_judged_only_if_a_thread_comes_to_it(body: Body, rule: str) -> None:
    assert said(body, 2) == set()
    assert rule in said(body, 3)
