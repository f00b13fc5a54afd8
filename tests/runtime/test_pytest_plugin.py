"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT

TEST = """
import numpy as np
import nvbackend as nvb
from nvbackend import f32


@nvb.kernel("sm_90a", threads=64)
def doubled(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
    y[k.thread_id()] = x[k.thread_id()] + x[k.thread_id()]


def test_doubled(simulated, simulator_seed):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    loaded = simulated(doubled)
    loaded.launch(1, x, y)
    assert (y == 2 * x).all()
    assert loaded.report.seed == simulator_seed


def test_nothing_else():
    pass
"""


@pytest.mark.parametrize("count", ["0", "-2", "x", "1.5"])
def test_a_number_of_seeds_is_one_or_more(count: str) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "nvbackend.pytest_plugin", f"--simulator-seeds={count}"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"--simulator-seeds: '{count}' is not a number of seeds, such as 20" in found.stderr


@pytest.mark.parametrize(("options", "passed"), [((), 2), (("--simulator-seeds", "3"), 4)])
def test_a_test_is_run_for_each_seed(tmp_path: Path, options: tuple[str, ...], passed: int) -> None:
    (tmp_path / "test_doubled.py").write_text(TEST, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "nvbackend.pytest_plugin",
        "-p",
        "no:cacheprovider",
        *options,
    ]
    found = subprocess.run(
        [*command, f"--rootdir={tmp_path}", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert f"{passed} passed" in found.stdout, found.stdout + found.stderr
