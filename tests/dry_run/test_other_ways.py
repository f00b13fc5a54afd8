"""Branches that parameters or the size of the grid decide go both ways, where a value in the declared range does it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import i32, u32
from nvbackend.dry_run.scenario import other_ways
from tests.dry_run.refusals import refusals

_THREADS = 256
CONDITIONS_OF_ONE = 60


def _hang(k: Any) -> None:
    with k.if_(k.warpgroup_id() == 1):
        k.barrier.sync(1, _THREADS)


CONDITIONS: dict[str, Callable[..., Any]] = {
    "zero": lambda k, n, m, flag, mode: flag == 0,
    "some": lambda k, n, m, flag, mode: flag != 0,
    "seven": lambda k, n, m, flag, mode: flag == 7,
    "negative": lambda k, n, m, flag, mode: flag < 0,
    "bit": lambda k, n, m, flag, mode: (flag & 4) != 0,
    "no_bit": lambda k, n, m, flag, mode: (flag & 4) == 0,
    "least": lambda k, n, m, flag, mode: m == 0,
    "ragged": lambda k, n, m, flag, mode: n % 64 != 0,
    "whole": lambda k, n, m, flag, mode: n % 64 == 0,
    "both": lambda k, n, m, flag, mode: (flag == 3) & (mode == 5),
    "mode": lambda k, n, m, flag, mode: (mode & 1) == 1,
}


def _of(body: Callable[..., None]) -> Any:
    @nvb.kernel("sm_90a", threads=_THREADS)
    def kernel(
        k: Any,
        x: nvb.Pointer[u32],
        n: i32(minimum=1),  # type: ignore[valid-type]
        m: i32(minimum=0),  # type: ignore[valid-type]
        flag: i32,
        mode: u32(multiple_of=5),  # type: ignore[valid-type]
    ) -> None:
        body(k, n, m, flag, mode)

    return kernel


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("otherwise", [False, True])
def test_either_side_is_run(name: str, otherwise: bool) -> None:
    def body(k: Any, *given: Any) -> None:
        with k.if_(CONDITIONS[name](k, *given)):
            if not otherwise:
                _hang(k)
        if otherwise:
            with k.else_():
                _hang(k)

    assert refusals(_of(body)) == ["dry-run.barrier-hangs"]


@pytest.mark.parametrize(
    "condition", [lambda k, n, m, flag: (k.block_id() + 1) * 64 > m, lambda k, n, m, flag: flag > n]
)
def test_a_tile_that_is_cut_off_is_run(condition: Callable[..., Any]) -> None:
    def body(k: Any, n: Any, m: Any, flag: Any, _mode: Any) -> None:
        with k.if_(condition(k, n, m, flag)):
            full = k.mbarrier.array(2, arrivals=_THREADS)
            k.mbarrier.ready()
            with k.range(6) as i:
                k.mbarrier.arrive(full + i % 2)
                k.mbarrier.wait(full + i % 2, i & 1)

    assert refusals(_of(body)) == ["mbarrier.parity-counter"]


def test_a_branch_within_a_branch_is_reached() -> None:
    def body(k: Any, _n: Any, m: Any, flag: Any, mode: Any) -> None:
        with k.if_(flag == 2), k.if_(mode == 10), k.if_(m < 3):
            _hang(k)

    assert refusals(_of(body)) == ["dry-run.barrier-hangs"]


def test_the_message_names_the_numbers() -> None:
    def body(k: Any, _n: Any, m: Any, flag: Any, mode: Any) -> None:
        with k.if_(flag == -3), k.if_(m == 1):
            _hang(k)

    with pytest.raises(nvb.DiagnosticError, match=r"\(with flag = -3, m = 1\)"):
        _of(body).build(check=True)


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        (lambda n, m, flag, mode: n < 1, "n is 1 and more"),
        (lambda n, m, flag, mode: m == -1, "m is not negative"),
        (lambda n, m, flag, mode: mode == 6, "mode is a multiple of 5"),
    ],
)
def test_what_no_value_in_the_range_does_is_not_run(condition: Callable[..., Any], values: str) -> None:
    def body(k: Any, *given: Any) -> None:
        with k.if_(condition(*given)):
            _hang(k)

    assert not refusals(_of(body)), values


def test_what_is_assumed_rules_values_out() -> None:
    def body(k: Any, _n: Any, _m: Any, flag: Any, _mode: Any) -> None:
        k.assume(flag > 0)
        with k.if_(flag == 0):
            _hang(k)

    assert not refusals(_of(body))


GRIDS: dict[str, Callable[[Any], Any]] = {
    "all_but_the_last": lambda k: k.block_id() + 1 < k.block_count(),
    "all_but_the_first": lambda k: k.block_id() > 0,
    "the_last": lambda k: k.block_id() + 1 == k.block_count(),
    "the_first": lambda k: k.block_id() == 0,
    "more_than_one": lambda k: k.block_count() > 1,
    "alone": lambda k: k.block_count() == 1,
    "along_y": lambda k: k.block_id("y") + 1 < k.block_count("y"),
}


@pytest.mark.parametrize("name", GRIDS)
def test_every_place_of_the_grid_is_run(name: str) -> None:
    def body(k: Any, *_: Any) -> None:
        with k.if_(GRIDS[name](k)):
            _hang(k)

    assert refusals(_of(body)) == ["dry-run.barrier-hangs"]


ROLES: dict[str, Callable[..., Any]] = {
    "from_n_on": lambda k, n, m: k.block_id() >= n,
    "before_n": lambda k, n, m: k.block_id() < n,
    "third": lambda k, n, m: k.block_id() == 3,
    "far": lambda k, n, m: k.block_id() > 100,
    "third_row": lambda k, n, m: k.block_id("y") == 2,
    "second_row_of_a_column": lambda k, n, m: (k.block_id("y") == 1) & (k.block_id() == 0),
    "quotient": lambda k, n, m: k.block_id() // n == 1,
    "between": lambda k, n, m: (k.block_id() >= n) & (k.block_id() < n + m),
    "four_of_them": lambda k, n, m: k.block_count() == 4,
    "second_of_four": lambda k, n, m: (k.block_count() == 4) & (k.block_id() == 1),
    "cluster": lambda k, n, m: k.cluster.id() == 2,
}


def _roles(cluster: int, body: Callable[..., None]) -> Any:
    @nvb.kernel("sm_90a", threads=_THREADS, cluster=cluster)
    def kernel(k: Any, x: nvb.Pointer[u32], n: i32(minimum=1), m: i32(minimum=1)) -> None:  # type: ignore[valid-type]
        body(k, n, m)

    return kernel


@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("otherwise", [False, True])
def test_the_role_of_some_ctas_is_run(name: str, cluster: int, otherwise: bool) -> None:
    def body(k: Any, n: Any, m: Any) -> None:
        with k.if_(ROLES[name](k, n, m)):
            if not otherwise:
                _hang(k)
        if otherwise:
            with k.else_():
                _hang(k)

    assert refusals(_roles(cluster, body)) == ["dry-run.barrier-hangs"]


def test_a_role_within_a_role_is_run() -> None:
    def body(k: Any, n: Any, _m: Any) -> None:
        with k.if_(k.block_id() >= n), k.if_(k.block_id("y") == 2):
            _hang(k)

    assert refusals(_roles(1, body)) == ["dry-run.barrier-hangs"]


def test_the_message_names_the_place() -> None:
    def body(k: Any, _n: Any, _m: Any) -> None:
        with k.if_((k.block_id() == 6) & (k.block_id("y") == 1)):
            _hang(k)

    with pytest.raises(nvb.DiagnosticError, match=r'\(with k.block_id\(\) = 6, k.block_id\("y"\) = 1\)'):
        _roles(2, body).build(check=True)


@pytest.mark.parametrize(
    "condition",
    [
        lambda k, n, m: k.block_id() < 0,
        lambda k, n, m: k.block_id() >= k.block_count(),
        lambda k, n, m: k.block_id() == k.block_id() + n,
    ],
)
def test_a_place_that_no_grid_has_is_not_run(condition: Callable[..., Any]) -> None:
    def body(k: Any, n: Any, m: Any) -> None:
        with k.if_(condition(k, n, m)):
            _hang(k)

    assert not refusals(_roles(1, body))


def test_a_place_without_work_is_not_judged() -> None:
    """From n tiles on, a CTA of this kernel has none: a caller launches n CTAs at most."""

    def body(k: Any, n: Any, _m: Any) -> None:
        full = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.range(k.block_id(), n, k.block_count()) as tile:
            k.mbarrier.arrive(full, when=k.thread_id() == 0)
            k.mbarrier.wait(full, (tile - k.block_id()) // k.block_count() & 1)
            k.barrier.sync()
        with k.if_(k.block_id() >= n):
            k.mbarrier.wait(full, 0)

    assert not refusals(_roles(1, body))


def test_the_ways_of_a_run_are_looked_at_once(monkeypatch):
    """Each run of many turns one condition more: what the others showed is known by then."""
    looked: list[int] = []
    seen = other_ways.seen

    def counted(slot, ways):
        looked.append(slot)
        return seen(slot, ways)

    monkeypatch.setattr(other_ways, "seen", counted)

    @nvb.kernel("sm_90", threads=64)
    def kernel(k, out: nvb.Pointer[nvb.i32], n: nvb.i32):
        box = k.shared(nvb.i32, 64)
        box[k.thread_id()] = k.thread_id()
        k.barrier.sync()
        with ExitStack() as blocks:
            for number in range(CONDITIONS_OF_ONE):
                blocks.enter_context(k.if_(n > number))
            out[0] = box[0]

    kernel.build()
    assert len(looked) < CONDITIONS_OF_ONE**2
