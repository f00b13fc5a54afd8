"""Threads that compile one kernel at once: one of them builds it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.again import builds_in_flight
from nvbackend.builder.kernel.again.builds_in_flight import BuildsInFlight
from nvbackend.builder.kernel.again.compiled_again import CompiledBefore
from nvbackend.builder.kernel.definition import KernelDefinition
from tests.support.compiled_again import BODY, OUT, Runs, compiled, defined, in_module

PATIENCE = 20.0
"""Seconds in which what is to happen has happened."""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


@pytest.fixture
def building(monkeypatch: pytest.MonkeyPatch, runs: Runs) -> Callable[[Callable[[], object]], None]:
    """What is called as each build begins."""
    build = KernelDefinition._build
    called: list[Callable[[], object]] = []

    def with_more(*given: Any, **named: Any) -> Any:
        for each in called:
            each()
        return build(*given, **named)

    monkeypatch.setattr(KernelDefinition, "_build", with_more)
    return called.append


def waiting(flight: BuildsInFlight) -> bool:
    """Whether a thread waits for a build of another one."""
    return any(each.ended._cond._waiters for each in list(flight._builds.values()))  # type: ignore[attr-defined]


@contextmanager
def another_builds(flight: BuildsInFlight, key: str, until_then: Callable[[], object] | None = None) -> Iterator[None]:
    """A block during which another thread builds `key`: to the block's end, or while it calls `until_then`."""
    begun, ended = threading.Event(), threading.Event()

    def build() -> None:
        with flight.build(key):
            begun.set()
            until_then() if until_then is not None else ended.wait(PATIENCE)

    thread = threading.Thread(target=build)
    thread.start()
    assert begun.wait(PATIENCE)
    try:
        yield
    finally:
        ended.set()
        thread.join()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """The results of calls in threads of their own, or what they raised."""

    def result(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 (what it is the tests say)
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return [each.result(PATIENCE * 2) for each in [pool.submit(result, call) for call in calls]]


def one() -> KernelDefinition:
    @defined
    def kernel(k: Any, out: OUT, *, n: float = 1.0) -> None:
        out[k.thread_id()] = k.const(n, nvb.f32)

    return kernel


def test_one_thread_builds_and_the_others_have_its_kernel(runs: Runs, building: Any) -> None:
    kernel = one()
    building(lambda: until(lambda: waiting(kernel._before._in_flight)))
    start = time.monotonic()
    made = together(*[lambda: compiled(kernel)] * 4)
    assert runs.count == 1
    assert time.monotonic() - start < builds_in_flight.LONGEST_SECONDS / 2
    assert len({each.ptx for each in made}) == 1
    assert sorted("build" in each.cached for each in made) == [False, True, True, True]
    assert compiled(kernel) is next(each for each in made if "build" in each.cached)


def test_other_kernels_are_built_at_the_same_time(runs: Runs, building: Any) -> None:
    kernel, both = one(), threading.Barrier(2)
    building(lambda: both.wait(PATIENCE))
    first, second = together(lambda: compiled(kernel, n=2.0), lambda: compiled(kernel, n=3.0))
    assert runs.count == 2
    assert first.ptx != second.ptx


def test_a_mistake_is_raised_in_each_thread_by_a_build_of_its_own(runs: Runs, building: Any) -> None:
    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[k.thread_id()] = k.const(1, nvb.f32) + k.const(1, nvb.i32)

    building(lambda: until(lambda: runs.count > 0 or waiting(kernel._before._in_flight)))
    first, second = together(*[lambda: compiled(kernel)] * 2)
    assert runs.count == 2
    assert isinstance(first, nvb.DiagnosticError)
    assert isinstance(second, nvb.DiagnosticError)
    assert first is not second
    assert str(first) == str(second)
    assert not kernel._before._in_flight._builds


def test_what_stops_one_thread_stops_no_other(building: Any) -> None:
    kernel, begun = one(), list[None]()

    def stopped() -> None:
        begun.append(None)
        if len(begun) == 1:
            until(lambda: waiting(kernel._before._in_flight))
            raise TimeoutError("of this thread")

    building(stopped)
    results = together(*[lambda: compiled(kernel)] * 2)
    assert sorted(type(each).__name__ for each in results) == ["CompiledKernel", "TimeoutError"]


def test_kernels_that_compile_each_other_do_not_wait_for_each_other(building: Any) -> None:
    """Two threads, each in a build, ask for what the other one builds."""
    first, second, both = one(), one(), threading.Barrier(2)
    others: dict[Any, KernelDefinition] = {first._function: second, second._function: first}
    thread = threading.local()

    def build_the_other(function: Any) -> Callable[[], None]:
        def inside() -> None:
            if getattr(thread, "builds", None) is function:
                thread.builds = None
                both.wait(PATIENCE)
                compiled(others[function])

        return inside

    for function in others:
        building(build_the_other(function))

    def of(kernel: KernelDefinition) -> Callable[[], Any]:
        def call() -> Any:
            thread.builds = kernel._function
            return compiled(kernel)

        return call

    start = time.monotonic()
    results = together(of(first), of(second))
    assert len({each.ptx for each in results}) == 1
    assert time.monotonic() - start < builds_in_flight.LONGEST_SECONDS


def test_a_build_inside_the_same_build_does_not_wait(building: Any) -> None:
    kernel, inside = one(), list[Any]()

    def once_more() -> None:
        if not inside:
            inside.append(None)
            inside.append(compiled(kernel))

    building(once_more)
    assert compiled(kernel).ptx == inside[1].ptx
    assert not kernel._before._in_flight._builds


def test_a_thread_that_holds_what_the_build_needs_builds_in_the_end(
    building: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds_in_flight, "LONGEST_SECONDS", 1)
    kernel, lock, begun, held = one(), threading.RLock(), threading.Event(), list[None]()

    def needs_the_lock() -> None:
        begun.set()
        with lock:
            pass

    building(needs_the_lock)

    def holds_the_lock() -> Any:
        with lock:
            held.append(None)
            assert begun.wait(PATIENCE)
            return compiled(kernel)

    def comes_second() -> Any:
        until(lambda: held)
        return compiled(kernel)

    first, second = together(holds_the_lock, comes_second)
    assert first.ptx == second.ptx


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_was_forked_during_a_build_builds() -> None:
    """The thread that builds is not in the child."""
    flight = BuildsInFlight()
    with another_builds(flight, "a"):
        child = os.fork()
        if child == 0:
            start = time.monotonic()
            with flight.build("a"):
                os._exit(time.monotonic() - start > 0.5)
        _, status = os.waitpid(child, 0)
    assert status == 0


def test_who_comes_after_the_end_builds_anew() -> None:
    flight = BuildsInFlight()
    for _ in range(2):
        with flight.build("a") as has_waited, flight.build("b") as waited_for_another:
            assert (has_waited, waited_for_another) == (False, False)
    assert not flight._builds


def test_a_build_inside_does_not_end_the_one_around_it() -> None:
    flight = BuildsInFlight()
    with flight.build("a"):
        around = dict(flight._builds)
        with flight.build("a") as has_waited:
            assert not has_waited
        assert flight._builds == around
        assert not around["a"].ended.is_set()


def test_a_thread_that_builds_waits_for_no_other_after_a_build_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds_in_flight, "LONGEST_SECONDS", 1)
    flight = BuildsInFlight()
    with another_builds(flight, "of another"), flight.build("a"):
        with flight.build("inside"):
            pass
        with flight.build("of another") as has_waited:
            assert not has_waited


def test_a_thread_that_has_built_waits_again() -> None:
    flight = BuildsInFlight()
    with flight.build("b"):
        pass
    with another_builds(flight, "a", lambda: until(lambda: waiting(flight))), flight.build("a") as has_waited:
        assert has_waited


@pytest.mark.parametrize(
    ("change", "builds"), [("N = lambda: [2.0]", 2), ("N = [2.0].copy", 3)], ids=["known", "not known"]
)
def test_what_changes_while_a_thread_waits_counts(
    change: str, builds: int, runs: Runs, building: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's kernel is of what was before; what cannot be followed is built each time."""
    module = in_module("N = lambda: [1.0]\n" + BODY + "N()[0]")
    before, keep = module.kernel.build().ir, CompiledBefore._keep
    runs.count = 0

    def kept(self: CompiledBefore, *given: Any) -> None:
        keep(self, *given)
        if runs.count == 1:
            exec(change, vars(module))

    monkeypatch.setattr(CompiledBefore, "_keep", kept)
    building(lambda: until(lambda: runs.count > 0 or waiting(module.kernel._before._in_flight)))
    made = together(*[lambda: compiled(module.kernel)] * 2)
    after = compiled(module.kernel)
    assert runs.count == builds
    assert sorted(each.ir == before for each in (*made, after)) == [False, False, True]
