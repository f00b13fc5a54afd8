"""`--tune`: what it measures, the table that it prints, and what it says where nothing can be measured."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.runtime import Timing
from samples import tuning, turns
from samples.attention import __main__ as attention
from samples.attention.choice import candidates as candidates_of_attention
from samples.gemm import __main__ as gemm
from samples.gemm import choice
from samples.gemm.forms import FORMS, problem_for
from samples.tuning import Candidate, How, Operands, table
from tests.support.process import ROOT, run_here

PROGRAM = ROOT / "samples" / "gemm" / "__main__.py"
SIZE = M, N, K = 8, 64, 64
WRONG = nvb.DiagnosticError([nvb.Rule("made-up.rule", "{what} is wrong", "mend it").diagnose(what="it")])


def rows(timings, model, failed=()):
    """The table for medians of microseconds, as lines."""
    timed = {name: Timing((time / 1e3,)) for name, time in timings.items()}
    return list(table(SimpleNamespace(timings=timed, failed=dict(failed)), model))


def test_the_table_has_the_fastest_first_and_times_over_that_of_the_models_choice():
    head, *lines, last, off = rows({"a": 10.0, "b": 8.0, "c": 12.0}, {"a": 9.0, "b": 10.0, "c": 12.0})
    assert head.split() == ["us", "of", "choice", "model,", "us"]
    assert [line.split() for line in lines] == [
        ["8.0", "0.800", "10.0", "b"],
        ["10.0", "1.000", "9.0", "*", "a"],
        ["12.0", "1.200", "12.0", "c"],
    ]
    assert last == "The choice (*) is number 2 of 3: it takes 1.250 of the least time."
    assert off == "The model is off by -10.0% for it, by 10.0% or less for half, by +25.0% at most."


def test_the_model_is_off_most_where_it_says_too_little():
    assert rows({"a": 10.0, "b": 8.0}, {"a": 11.0, "b": 2.0})[-1].endswith(", by -75.0% at most.")


def test_what_is_asked_of_the_tuner(monkeypatch):
    """Problems are told apart by their names, and processes that compile have no context of CUDA's."""

    class Asked(Exception):
        pass

    def ask(_, **given):
        raise Asked(given["key"][0], given["executor"]._mp_context.get_start_method())

    monkeypatch.setattr(nvb, "tune", ask)
    monkeypatch.setattr(nvb.runtime, "gpu_available", lambda: False)
    with pytest.raises(Asked) as asked:
        tuning.tune("a test", {}, dict, How.asked(most=None, jobs=1, device=None))
    assert asked.value.args == ("a test", "spawn")
    assert How.asked(jobs=None) == How()


def test_without_a_model_there_are_no_times_of_it():
    _, *lines, last = rows({"a": 10.0, "b": 8.0}, {"a": None, "b": None})
    assert [line.split() for line in lines] == [["8.0", "0.800", "b"], ["10.0", "1.000", "*", "a"]]
    assert last == "The choice (*) is number 2 of 2: it takes 1.250 of the least time."


def test_the_models_choice_is_in_the_table_wherever_it_is():
    timings = {f"n{number}": 100.0 - number for number in range(tuning.SHOWN + 4)}
    _, *lines, last, _ = rows(timings, dict.fromkeys(timings, 100.0))
    assert [line.split()[-1] for line in lines] == [*list(timings)[::-1][: tuning.SHOWN], "n0"]
    assert f"number {len(timings)} of {len(timings)}" in last


def test_what_is_left_out_is_named_also_where_it_is_the_models_choice():
    first, head, *lines, last = rows({"b": 8.0}, {"a": 9.0, "b": 10.0}, {"a": WRONG})
    assert first == "left out: a: it is wrong"
    assert head
    assert [line.split() for line in lines] == [["8.0", "10.0", "b"]]
    assert last == "The choice, a, is left out."


class OnTheHost(np.ndarray):
    """What `Operands` needs of an array on the GPU."""

    def copy_to_device(self, values):
        self[...] = values

    def copy_to_host(self):
        return np.array(self)


class Ticks:
    """A clock by which every launch takes as long as the one before."""

    def __init__(self):
        self.now = 0.0

    def mark(self):
        self.now += 1.0
        return self.now

    def milliseconds(self, start, end):
        return end - start


@pytest.fixture
def simulated(monkeypatch, tmp_path):
    """`nvb.tune` in the simulator, with operands on the host, in two sets, measured once."""
    usual = {"device": "simulator", "clock": Ticks(), "assemble": False, "cache": nvb.Cache(tmp_path)}
    measured = nvb.tune
    monkeypatch.setattr(nvb, "tune", lambda them, **given: measured(them, **{**given, **usual, "executor": None}))
    monkeypatch.setattr(nvb.runtime, "gpu_available", lambda: False)
    monkeypatch.setattr(tuning, "on_the_gpu", lambda array: array.copy().view(OnTheHost))
    monkeypatch.setattr(tuning, "turns_for", lambda size: 2)
    for name, value in (("ROUNDS", 1), ("REPEATS", 1), ("WARMUP", 0)):
        monkeypatch.setattr(tuning, name, value)


def test_every_candidate_is_measured_and_found_again(simulated, capsys):
    assert gemm.tuned("f16", *SIZE) == 0
    out = capsys.readouterr().out
    every = choice.candidates(*SIZE)
    assert out.startswith("f16 8 x 64 x 64 on ")
    assert f"{len(every)} candidates, measured now\n" in out
    assert sum(f" {one.label}\n" in out for one in every) in (tuning.SHOWN, tuning.SHOWN + 1)
    assert f"* {choice.choose(*SIZE).label}\n" in out
    assert "left out" not in out
    assert gemm.tuned("f16", *SIZE) == 0
    assert f"{len(every)} candidates, as measured before" in capsys.readouterr().out


def test_attention_is_measured_too(simulated, capsys):
    assert attention.tuned("narrow", 1, 72, most=2) == 0
    out = capsys.readouterr().out
    assert out.startswith("narrow attention 1 x 72 on ")
    assert "2 candidates, the first of 16, measured now\n" in out
    first, second = (one.label for one in candidates_of_attention(64, 72, causal=False)[:2])
    assert f"* {first}\n" in out
    assert f"  {second}\n" in out


def test_the_model_leaves_out_all_but_its_first(simulated, capsys):
    assert gemm.tuned("f16", *SIZE, most=2) == 0
    out = capsys.readouterr().out
    every = choice.candidates(*SIZE)
    assert f"2 candidates, the first of {len(every)}" in out
    assert [one for one in every if f" {one.label}\n" in out] == list(every)[:2]


@pytest.mark.parametrize("last", [(M, N, 0), (0, N, 1)], ids=["no step: sums are 0", "no row: nothing is written"])
def test_a_candidate_of_wrong_numbers_is_left_out(last, simulated, capsys):
    right, half = (choice.Thin(8, 1, split, 2) for split in (1, 2))

    def candidate(one, numbers):
        def prepare(loaded, arrays, stream):
            return loaded.prepare(one.split, *arrays, *numbers, stream=stream)

        return Candidate(one.kernel, prepare, 2.0)

    candidates = {"right": candidate(right, (M, N, 1)), "wrong": candidate(half, last)}
    assert tuning.tune("a test", candidates, lambda: problem_for(right, *SIZE), How(jobs=1)) == 1
    out = capsys.readouterr().out
    assert "left out: wrong: candidate 'wrong' gives wrong numbers" in out
    assert "number 1 of 1" in out


@pytest.mark.parametrize("stale", [False, True])
def test_numbers_are_right_in_every_set(stale):
    """Numbers equal to right ones are right without a second look, and what follows them is looked at."""
    problem = problem_for(choice.choose(*SIZE), *SIZE)
    operands = Operands(lambda: problem)
    exact = problem.expected.astype("float16").view(OnTheHost)
    second = problem.output.view(OnTheHost) if stale else exact.copy()
    operands.__dict__["sets"] = [(None, None, exact), (None, None, second)]
    assert operands.are_right() is not stale
    nothing = np.full_like(exact, np.nan).view(OnTheHost)
    operands.__dict__["sets"] = [(None, None, nothing)]
    assert not operands.are_right()


@pytest.mark.parametrize(("size", "count"), [(1, 24), (6 << 20, 24), (50_000_000, 4), (1 << 30, 2)])
def test_sets_of_operands_are_beyond_l2_or_many(size, count):
    assert turns.turns_for(size) == count


def test_without_a_gpu_the_reason_is_said(monkeypatch):
    monkeypatch.setattr(nvb.runtime, "no_gpu_reason", lambda: "there is no CUDA driver")
    done = run_here(PROGRAM, "f16", "200", "256", "256", "--tune")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: --tune measures on a GPU: there is no CUDA driver\n"
        "  fix: run it on a machine with a GPU, or leave --tune out\n"
    )


def test_the_simulator_has_no_time():
    done = run_here(PROGRAM, "f16", "200", "256", "256", "--tune", "--simulate")
    assert done.returncode == 2
    assert "--tune measures on a GPU, and the simulator has no time to measure: leave one of them out" in done.stderr


@pytest.mark.parametrize("word", ["--most", "--jobs"])
def test_what_is_for_measuring_alone_is_refused_without_it(word):
    done = run_here(PROGRAM, "200", "256", "256", word, "3")
    assert done.returncode == 2
    assert "--most and --jobs are for --tune, which is not there" in done.stderr


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (("0", "256", "256"), "M = 0 is not a positive number"),
        (("200", "-16", "256"), "N = -16 is not a positive number"),
        (("200", "256", "0"), "K = 0 is not a positive number"),
    ],
)
def test_a_size_that_the_sample_does_not_take_is_named(size, said):
    done = run_here(PROGRAM, *size)
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: {said}\n")


@pytest.mark.parametrize("words", [("--most", "0"), ("--jobs", "-1"), ("--most", "few")])
def test_numbers_that_are_not_positive(words):
    done = run_here(PROGRAM, "200", "256", "256", "--tune", *words)
    assert done.returncode != 0
    assert "is not a positive number" in done.stderr


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("form", FORMS)
def test_all_candidates_are_right_on_a_gpu(form, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("NVBACKEND_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["gemm", form, "200", "272", "272", "--tune"])
    for when in ("measured now", "as measured before"):
        assert gemm.main() == 0
        out = capsys.readouterr().out
        assert when in out
        assert "left out" not in out
        assert "The choice (*) is number" in out


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("form", attention.FORMS)
def test_all_candidates_of_attention_are_right_on_a_gpu(form, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("NVBACKEND_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["attention", form, "4", "528", "--tune"])
    assert attention.main() == 0
    out = capsys.readouterr().out
    assert "left out" not in out
    assert "The choice (*) is number" in out
