"""Which candidate is chosen, what becomes of those that fail, and what is said of wrong calls."""

from __future__ import annotations

from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.tuning import tune as tuning
from tests.support.runtime import FakeArray, FakeDevice
from tests.tuning.kernels import Bench, costing, fill


def rules(failed: dict[str, nvb.DiagnosticError]) -> dict[str, list[str]]:
    return {name: [diagnostic.rule_id for diagnostic in error.diagnostics] for name, error in failed.items()}


def test_the_least_median_is_chosen() -> None:
    bench = Bench()
    tuned = bench.tune(costing(slow=5.0, fast=2.0, middle=3.0))
    assert (tuned.best, tuned.measured, tuned.failed) == ("fast", True, {})
    assert {name: timing.samples for name, timing in tuned.timings.items()} == {
        "slow": (5.0,) * 3,
        "fast": (2.0,) * 3,
        "middle": (3.0,) * 3,
    }
    bench.out[:] = bench.ticks[:] = 0
    tuned.kernel.launch(1, bench.ticks, bench.out)
    assert bench.out.tolist() == [2.0] * 32
    assert bench.ticks[0] == 2.0


def test_a_fast_round_is_no_better_than_the_median() -> None:
    """The mean and the least sample would choose the other one."""
    bench = Bench()
    samples = {2.0: [3.0, 0.5, 8.0], 4.0: [2.0, 2.0, 50.0]}

    def milliseconds(start: float, end: float) -> float:
        return samples[end - start].pop()

    bench.milliseconds = milliseconds  # type: ignore[method-assign]
    tuned = bench.tune(costing(uneven=2.0, even=4.0), repeats=1)
    assert {name: timing.median for name, timing in tuned.timings.items()} == {"uneven": 3.0, "even": 2.0}
    assert tuned.best == "even"


def test_of_equal_ones_the_first() -> None:
    assert Bench().tune(costing(b=2.0, a=2.0, c=2.0)).best == "b"


def test_rounds_repeats_and_warmup_are_those_of_a_measurement() -> None:
    bench = Bench()
    bench.tune(costing(one=1.0), rounds=4, repeats=3, warmup=5)
    assert bench.ticks[0] == 1 + (4 + 5) * 3


def test_what_fails_is_left_out() -> None:
    bench = Bench()

    def prepare(name: str, loaded: Any) -> Any:
        return loaded.prepare(0, bench.ticks, bench.out) if name == "grid" else bench.prepare(name, loaded)

    candidates = {"wrong": fill.with_(value=3.0), "grid": fill, "unbuilt": fill.with_(cost=-1.0), "right": fill}
    tuned = bench.tune(candidates, prepare=prepare)
    assert list(tuned.timings) == ["right"]
    assert list(tuned.failed) == ["wrong", "grid", "unbuilt"]
    assert rules(tuned.failed) == {
        "wrong": ["tune.wrong-numbers"],
        "grid": ["launch.grid"],
        "unbuilt": ["shared.extent"],
    }


def test_what_cannot_run_is_left_out() -> None:
    """An access out of bounds, which the simulator finds in the run."""
    bench = Bench()
    little = np.zeros(8, np.float32)

    def prepare(name: str, loaded: Any) -> Any:
        return loaded.prepare(1, bench.ticks, little) if name == "beyond" else bench.prepare(name, loaded)

    tuned = bench.tune({"beyond": fill, "right": fill}, prepare=prepare)
    assert rules(tuned.failed) == {"beyond": ["simulator.bounds"]}


@pytest.mark.parametrize(("truth", "best"), [(np.False_, "b"), (0, "b"), (np.True_, "a"), (np.array(True), "a")])
def test_what_a_check_says_is_its_truth(truth: Any, best: str) -> None:
    assert Bench().tune(costing(a=1.0, b=2.0), check=lambda name: truth if name == "a" else True).best == best


def test_without_a_check_numbers_are_not_looked_at() -> None:
    assert Bench().tune({"wrong": fill.with_(value=3.0)}, check=None).failed == {}


def test_all_that_fail_are_named() -> None:
    candidates = {"unbuilt": fill.with_(cost=-1.0), "wrong": fill.with_(value=3.0)}
    with pytest.raises(nvb.DiagnosticError) as caught:
        Bench().tune(candidates)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "tune.no-candidate"
    assert "unbuilt: " in diagnostic.message
    assert "wrong: candidate 'wrong' gives wrong numbers" in diagnostic.message
    with pytest.raises(nvb.DiagnosticError, match=r"tune\.no-candidate.*unbuilt: "):
        Bench().tune(costing(unbuilt=-1.0))


def test_a_kernel_that_ends_in_an_error_of_the_device_ends_all() -> None:
    """Its context is lost: no other candidate can run."""
    device = FakeDevice(failing="synchronize")

    def prepare(name: str, loaded: Any) -> Any:
        return loaded.prepare(1, FakeArray((1,), "<f4"), FakeArray((32,), "<f4"))

    with pytest.raises(nvb.DiagnosticError, match=r"launch\.asynchronous-error"):
        Bench().tune(costing(a=1.0, b=2.0), device=device, prepare=prepare, check=None)
    assert len(device.named("launch")) == 1


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_candidates_compile_in_an_executor(kind: Any) -> None:
    bench = Bench()
    with kind(2) as executor:
        tuned = bench.tune(costing(slow=5.5, unbuilt=-1.0, fast=2.5), executor=executor)
    assert (tuned.best, list(tuned.timings)) == ("fast", ["slow", "fast"])
    assert rules(tuned.failed) == {"unbuilt": ["shared.extent"]}


def test_the_order_is_not_that_of_the_compiles() -> None:
    """Of equal ones the first given is chosen, not the first compiled."""
    second_is_there = Event()

    class Backwards(ThreadPoolExecutor):
        def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            def first() -> Any:
                second_is_there.wait()
                return function(*arguments, **named)

            is_first = function.__self__._bound["value"] == 2.0
            return super().submit(first) if is_first else super().submit(function, *arguments, **named)

    def progress(done: int, total: int, what: str) -> None:
        if what == "second is compiled":
            second_is_there.set()

    candidates = {"first": fill.with_(value=2.0), "second": fill.with_(value=1.0 + 1e-3)}
    with Backwards(2) as executor:
        tuned = Bench().tune(candidates, executor=executor, progress=progress, check=None)
    assert (tuned.best, list(tuned.timings)) == ("first", ["first", "second"])


class Late(Executor):
    """An executor that does the first of its work when that is asked for, and never begins the rest."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.work: list[Any] = []

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        if len(self.futures) == 1:
            future.set_running_or_notify_cancel()
            try:
                future.set_result(function(*arguments, **named))
            except Exception as error:  # noqa: BLE001
                future.set_exception(error)
        return future


def test_an_error_of_the_users_cancels_what_has_not_begun() -> None:
    executor = Late()
    with pytest.raises(KeyError, match="a mistake of the user's"):
        Bench().tune(costing(broken=0.0, second=1.0, third=1.0), executor=executor)
    assert [future.cancelled() for future in executor.futures] == [False, True, True]


def test_an_interrupt_cancels_what_has_not_begun() -> None:
    executor = Late()

    def interrupted(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Bench().tune(costing(first=1.0, second=1.0), executor=executor, progress=interrupted)
    assert [future.cancelled() for future in executor.futures] == [False, True]


def test_a_definition_without_a_pickle_is_no_failure_of_a_candidate() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def local(k: Any, ticks: nvb.Pointer[nvb.f32]) -> None:
        ticks[0] = 1.0

    with ProcessPoolExecutor(1) as executor, pytest.raises(nvb.DiagnosticError, match=r"call\.pickle"):
        Bench().tune({"local": local}, executor=executor)


def test_progress_is_told_of_each_step() -> None:
    bench, said = Bench(), []
    candidates = {**costing(a=1.0, unbuilt=-1.0), "wrong": fill.with_(value=3.0)}
    bench.tune(candidates, progress=lambda *step: said.append(step))
    assert said == [
        (1, 7, "a is compiled"),
        (3, 7, "unbuilt does not compile"),
        (4, 7, "wrong is compiled"),
        (5, 7, "a runs"),
        (6, 7, "wrong fails"),
        (7, 7, "a is the best"),
    ]


def test_the_report_has_a_line_for_each_candidate() -> None:
    bench = Bench()
    tuned = bench.tune({**costing(slow=5.0, fast=2.0, unbuilt=-1.0), "wrong": fill.with_(value=3.0)})
    first, *lines = tuned.report().split("\n")
    assert first == "fast is the best"
    assert lines[:2] == ["  fast     2 ms", "  slow     5 ms, 2.50 times the least"]
    assert [line.split()[:2] for line in lines[2:]] == [
        [name, f"{error.diagnostics[0].rule_id}:"] for name, error in tuned.failed.items()
    ]


def test_progress_on_standard_error_has_a_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    Bench().tune(costing(a=1.0), progress=True)
    assert capsys.readouterr() == ("", "1 of 3: a is compiled\n2 of 3: a runs\n3 of 3: a is the best\n")


def test_progress_on_a_terminal_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    Bench().tune(costing(a=1.0), progress=True)
    out, line = capsys.readouterr()
    assert out == ""
    assert line == "\r1 of 3: a is compiled\r2 of 3: a runs       \r3 of 3: a is the best\n"
    Bench().tune(costing(a=1.0))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert Bench().tune(costing(a=1.0), progress=True).best == "a"


@pytest.mark.parametrize(
    ("candidates", "problem"),
    [
        pytest.param({}, "its candidates are {}", id="empty"),
        pytest.param([fill], "its candidates are [<kernel fill for sm_90a, 32 threads>]", id="list"),
        pytest.param(None, "its candidates are None", id="none"),
        pytest.param({"a": fill, "b": print}, "candidate 'b' is ", id="function"),
        pytest.param({"a": fill, 64: fill}, "a candidate is called 64", id="number"),
    ],
)
def test_candidates_are_definitions_by_name(candidates: Any, problem: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        Bench().tune(candidates)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "call.argument"
    assert problem in diagnostic.message


@pytest.mark.parametrize(
    "wrong",
    [
        {"prepare": None},
        {"prepare": lambda name, loaded: loaded},
        {"prepare": lambda name, loaded: loaded.launch},
        {"prepare": lambda: None},
        {"check": "numbers"},
        {"check": lambda name: None},
        {"check": lambda name: np.ones(2)},
        {"check": lambda: True},
        {"executor": "threads"},
        {"progress": 3},
        {"progress": "bar"},
        {"key": [32]},
        {"key": (32, object)},
        {"key": np.int64(32)},
        {"columns": 64},
        {"chek": None},
        {"rounds": "many"},
        {"clock": None},
        {"clock": type},
    ],
    ids=lambda wrong: "-".join(map(str, wrong)),
)
def test_wrong_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        Bench().tune({"a": fill}, **wrong)
    assert [diagnostic.rule_id for diagnostic in caught.value.diagnostics] == ["call.argument"]


def test_a_large_result_of_a_check_is_cut() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        Bench().tune({"a": fill}, check=lambda name: np.ones((40, 40), bool))
    (diagnostic,) = caught.value.diagnostics
    assert "check('a') gives array([[ True" in diagnostic.message
    assert len(diagnostic.message) < 100 and "\n" not in diagnostic.message


def test_an_executor_that_is_closed() -> None:
    with ThreadPoolExecutor(1) as executor:
        pass
    with pytest.raises(nvb.DiagnosticError) as caught:
        Bench().tune({"a": fill}, executor=executor)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "call.argument"
    assert "executor takes no work: cannot schedule new futures after shutdown" in diagnostic.message
    assert "stays open until tune returns" in diagnostic.fix


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"repeats": 0}, {"warmup": -1}])
def test_nothing_to_measure(wrong: dict[str, Any]) -> None:
    bench = Bench()
    with pytest.raises(nvb.DiagnosticError, match=r"launch\.timing"):
        bench.tune({"a": fill}, **wrong)
    assert bench.prepared == []


def test_a_device_that_is_not() -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"launch\.device-name"):
        Bench().tune({"a": fill}, device="cpu")


@pytest.mark.parametrize("device", [None, "gpu"])
def test_without_a_gpu_nothing_has_a_time(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "no_gpu_reason", lambda: "there is no CUDA driver")
    with pytest.raises(nvb.DiagnosticError, match=r"call\.argument.*no GPU to measure on: there is no CUDA driver"):
        Bench().tune({"a": fill}, device=device, clock=None)


@pytest.mark.parametrize(
    "options", [{"target": "sm_90"}, {"debug": False}, {"optimize": 1}, {"constants": {"cost": 7.0}}]
)
def test_options_are_those_of_compile(options: dict[str, Any]) -> None:
    tuned = Bench().tune({"a": fill}, **options)
    assert tuned.timings["a"].median == options.get("constants", {"cost": 1.0})["cost"]
