"""Timing: the order of calls, and medians of what the clock says."""

from __future__ import annotations

from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.runtime import time_launches, timing


class Clock:
    """A clock that functions wind on themselves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def mark(self) -> float:
        return self.now

    def milliseconds(self, start: float, end: float) -> float:
        return end - start

    def takes(self, name: str, *times: float) -> object:
        remaining = list(times)

        def function() -> None:
            self.calls.append(name)
            self.now += remaining.pop(0) if len(remaining) > 1 else remaining[0]

        return function


def test_each_round_has_an_order_of_its_own() -> None:
    """Every function begins now and then, and follows every other one."""
    clock = Clock()
    functions = {name: clock.takes(name, 1.0) for name in "abc"}
    time_launches(functions, rounds=20, repeats=1, warmup=0, clock=clock)  # type: ignore[arg-type]
    rounds = ["".join(clock.calls[at : at + 3]) for at in range(0, 60, 3)]
    assert all(sorted(calls) == list("abc") for calls in rounds)
    assert {calls[0] for calls in rounds} == set("abc")
    assert {calls[at : at + 2] for calls in rounds for at in (0, 1)} == {"ab", "ac", "ba", "bc", "ca", "cb"}


def test_samples_are_means_of_a_round_without_the_warmup() -> None:
    clock = Clock()
    functions = {"a": clock.takes("a", 100.0, 100.0, 1.0, 3.0, 10.0, 20.0, 4.0), "b": clock.takes("b", 2.0)}
    timings = time_launches(functions, rounds=3, repeats=2, warmup=1, clock=clock)  # type: ignore[arg-type]
    assert timings["a"].samples == (2.0, 15.0, 4.0)
    assert (timings["a"].median, timings["a"].best) == (4.0, 2.0)
    assert timings["b"].samples == (2.0, 2.0, 2.0)
    assert clock.calls.count("a") == clock.calls.count("b") == 8


def test_a_clock_of_its_own_is_closed_and_a_given_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that nobody destroys stay until the context ends."""
    closed: list[Clock] = []

    class Owned(Clock):
        def __init__(self, stream: object = None) -> None:
            super().__init__()
            self.stream = stream

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr(timing, "EventClock", Owned)
    time_launches({"a": lambda: None}, rounds=1, repeats=1, warmup=0, stream=0x7000)
    assert [clock.stream for clock in closed] == [0x7000]  # type: ignore[attr-defined]
    time_launches({"a": lambda: None}, rounds=1, repeats=1, warmup=0, clock=Owned())  # type: ignore[arg-type]
    assert len(closed) == 1


def test_events_need_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "no_gpu_reason", lambda: "there is no CUDA driver")
    with pytest.raises(nvb.DiagnosticError, match=r"launch\.no-gpu.*there is no CUDA driver"):
        time_launches({"a": lambda: None})


@pytest.mark.parametrize("functions", [{}, None, print], ids=["empty", "none", "function"])
def test_what_is_timed_has_names(functions: Any) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        time_launches(functions, clock=Clock())
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "launch.timing"
    assert f"with functions={functions!r}" in diagnostic.message


class Marks:
    def __repr__(self) -> str:
        return "marks"

    def mark(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("clock", "problem"),
    [(Clock, "clock is the class Clock"), (Marks(), "clock is marks"), (0, "clock is 0"), ("gpu", "clock is 'gpu'")],
    ids=["class", "no-milliseconds", "number", "text"],
)
def test_what_is_no_clock(clock: Any, problem: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        time_launches({"a": lambda: None}, clock=clock)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "call.argument"
    assert problem in diagnostic.message


@pytest.mark.parametrize("given", [float("nan"), float("inf"), -1.0, "1", None, 10**400])
def test_a_clock_that_gives_no_time(given: Any) -> None:
    """Of NaN the least median would be chance: no number is less."""

    class Odd(Clock):
        def milliseconds(self, start: float, end: float) -> Any:
            return given

    with pytest.raises(nvb.DiagnosticError, match=r"launch\.timing.*a clock whose milliseconds are"):
        time_launches({"a": lambda: None}, clock=Odd())
