"""Benchmarks end with a reason where they cannot measure, before they compile, and where an argument is wrong."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec

import pytest

import nvbackend as nvb
from benchmarks import attention, gemm, gemm_shapes, launch, rows
from benchmarks.tables import __main__ as tables
from benchmarks.turns import Took

MEASURE = (attention, gemm, gemm_shapes, launch, rows, tables)


@pytest.mark.parametrize("benchmark", MEASURE, ids=lambda one: one.__name__)
@pytest.mark.parametrize("lacking", ["PyTorch", "a GPU"])
def test_the_machine_lacks_something(benchmark, lacking: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    spec = None if lacking == "PyTorch" else ModuleSpec("torch", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(nvb.runtime, "no_gpu_reason", lambda: "there is no GPU")
    monkeypatch.setattr(sys, "argv", ["benchmark"])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    reason = "PyTorch is not installed" if lacking == "PyTorch" else "there is no GPU"
    assert ended.value.code == f"error: this measures on a GPU, beside PyTorch: {reason}"
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("256x512", "'256x512' is not MxNxK"),
        ("256x512xa", "'256x512xa' is not MxNxK"),
        ("256x512x-1", "K = -1 of 256x512x-1 is not a positive number"),
        ("0x512x512", "M = 0 of 0x512x512 is not a positive number"),
        ("--middle 256x512x512", "--few and --middle name shapes"),
        ("--most 3", "--most is for --all and --tuned"),
    ],
)
def test_an_argument_is_wrong(words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(sys, "argv", ["gemm_shapes", *words.split()])
    with pytest.raises(SystemExit):
        gemm_shapes.main()
    assert said in capsys.readouterr().err


def test_a_spread_is_half_of_the_range_between_quartiles() -> None:
    took = Took.of([10.0, 9.0, 11.0, 8.0, 100.0])
    assert took == 10.0
    assert took.spread == pytest.approx((11.0 - 9.0) / 2 / 10.0)
