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


@pytest.mark.parametrize(
    ("body", "rule"),
    [
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
