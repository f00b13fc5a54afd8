"""Workers that die, hang, and report: a false worker does each by the name of a problem."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.sanitizer.heard import FOUND, Heard, Outcome, Result, reported
from tests.sanitizer.lines import Step, say
from tests.sanitizer.runs import Runs
from tests.sanitizer.said import Progress, not_clean, table

WORKER = """
import os, signal, sys, time
from tests.sanitizer.lines import Step, say

print("========= COMPUTE-SANITIZER")
found = False
for name in open(sys.argv[1]).read().split():
    say(Step.BEGUN, name)
    if name == "dies":
        print("Fatal Python error", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    say(Step.LAUNCHED, name)
    if name == "hangs":
        time.sleep(60)
    if name == "stops":
        os.close(1), os.close(2)
        time.sleep(60)
    if name == "stray":
        print("========= Invalid __shared__ read of size 4 bytes\\n=========     at wide+0x10 in gemm.py:7", flush=True)
        print("=========     by thread (1,0,0)\\n=========     Address 0x1 is out of bounds", flush=True)
        say(Step.RAISED, name, "CudaError: launch failure")
        sys.exit(99)
    say(Step.WRONG if name == "wrong" else Step.RIGHT, name, "an error of 1")
    if name == "late":
        print("========= Error: Race reported between Write access at a.py:1", flush=True)
        found = True
    if name == "silent":
        found = True
print("========= ERROR SUMMARY: 1 error")
sys.exit(99 if found else 0)
"""


def runs(folder: Path, worker: str = WORKER, *, jobs: int = 1, limit: float = 20, until: float = float("inf")) -> Runs:
    return Runs(lambda names: [sys.executable, "-c", worker, str(names)], folder, jobs=jobs, limit=limit, until=until)


def outcomes(results: list[Result]) -> dict[str, Outcome]:
    return {one.name: one.outcome for one in results}


def test_another_worker_goes_on_after_a_problem_that_ended_one(tmp_path: Path) -> None:
    names = ["a", "dies", "b", "stray", "c", "wrong", "late", "d"]
    results = runs(tmp_path).run(names)
    assert outcomes(results) == {
        **dict.fromkeys("abcd", Outcome.CLEAN),
        **dict.fromkeys(["stray", "late"], Outcome.REPORTED),
        "dies": Outcome.FAILED,
        "wrong": Outcome.WRONG,
    }
    assert [one.name for one in results] == names
    text = {one.name: one.text for one in results}
    assert text["dies"] == ("the process ended with status -11", "Fatal Python error")
    assert text["stray"] == (
        "Invalid __shared__ read of size 4 bytes",
        "    at wide+0x10 in gemm.py:7",
        "    by thread (1,0,0)",
    )
    assert text["late"] == ("Error: Race reported between Write access at a.py:1",)


@pytest.mark.parametrize("name", ["hangs", "stops"])
def test_a_problem_that_takes_too_long_is_ended(tmp_path: Path, name: str) -> None:
    began = time.monotonic()
    results = runs(tmp_path, limit=2).run(["a", name, "b"])
    assert outcomes(results) == {"a": Outcome.CLEAN, name: Outcome.FAILED, "b": Outcome.CLEAN}
    assert results[1].text == ("not ended after 2 s",)
    assert time.monotonic() - began < 50


def test_errors_that_the_tool_does_not_print_are_not_lost(tmp_path: Path) -> None:
    results = runs(tmp_path).run(["silent"])
    assert results == [Result("silent", Outcome.REPORTED, ("the tool ends with errors, and printed none",))]


def test_many_workers_run_each_problem_once(tmp_path: Path) -> None:
    told: list[Result] = []
    names = [f"n{number}" for number in range(100)]
    results = runs(tmp_path, jobs=3).run([*names, "dies"], told.extend)
    assert [one.name for one in results] == [*names, "dies"]
    assert sorted(told) == sorted(results)
    assert {one.outcome for one in results[:-1]} == {Outcome.CLEAN}


def test_a_worker_that_begins_nothing_fails_all_of_its_problems(tmp_path: Path) -> None:
    results = runs(tmp_path, "raise SystemExit('no module')").run(["a", "b"])
    assert outcomes(results) == {"a": Outcome.FAILED, "b": Outcome.FAILED}
    assert results[0].text == ("the process ended with status 1", "no module")


def test_no_problem_is_begun_after_the_time(tmp_path: Path) -> None:
    assert outcomes(runs(tmp_path, until=time.time() - 1).run(["a", "b"])) == dict.fromkeys("ab", Outcome.NOT_REACHED)
    ended = time.time() + 2
    worker = WORKER.replace("say(Step.BEGUN, name)", f"if time.time() > {ended}: break\n    say(Step.BEGUN, name)")
    slow = worker.replace("say(Step.LAUNCHED, name)", "say(Step.LAUNCHED, name); time.sleep(3)")
    assert outcomes(runs(tmp_path, slow, until=ended).run(["a", "b"])) == {
        "a": Outcome.CLEAN,
        "b": Outcome.NOT_REACHED,
    }


def test_a_worker_that_begins_nothing_because_of_the_time_has_not_failed(tmp_path: Path) -> None:
    slow = runs(tmp_path, "import time; time.sleep(2)", until=time.time() + 1)
    assert outcomes(slow.run(["a", "b"])) == dict.fromkeys("ab", Outcome.NOT_REACHED)


def test_what_is_said_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    say(Step.BEGUN, "gemm f16 1x2: a, b")
    say(Step.RAISED, "gemm f16 1x2: a, b", "two\nlines\tand tabs")
    heard = Heard(["gemm f16 1x2: a, b", "c"])
    assert [heard.hear(line) for line in capsys.readouterr().out.splitlines()] == [True, True]
    assert heard.left == ["c"]
    assert heard.end("", 0) == [Result("gemm f16 1x2: a, b", Outcome.FAILED, ("two lines and tabs",))]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("========= Warning: Race reported between Read", "Warning: Race reported between Read"),
        ("=========     at x", "    at x"),
        ("=========", ""),
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", ""),
        ("========= Error: process didn't terminate successfully", ""),
        ("========= Target application terminated before first instrumented API call", ""),
        ("Traceback", ""),
    ],
)
def test_which_lines_are_reports(line: str, text: str) -> None:
    assert reported(line + "\n") == text


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    some = [
        Result("a", Outcome.CLEAN, ("an error",)),
        Result("b", Outcome.REPORTED, ("Invalid read", "    at x")),
        Result("c", Outcome.NOT_REACHED),
    ]
    assert list(table({"memcheck": some})) == [
        "| tool | problems | clean | reports | wrong numbers | failed | not reached |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| memcheck | 3 | 1 | 1 | 0 | 0 | 1 |",
    ]
    assert list(not_clean({"memcheck": some})) == ["", "memcheck, reports: b", "    Invalid read", "        at x"]
    progress = Progress("memcheck", 40)
    progress(some)
    assert capsys.readouterr().err == ""
    progress(some)
    assert capsys.readouterr().err == "memcheck: 6 of 40, 4 not clean\n"


def test_the_status_of_the_tool_is_no_other_one() -> None:
    assert FOUND not in (0, 1, 2)
