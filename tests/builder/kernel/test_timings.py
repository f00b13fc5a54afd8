"""How long each part of making a kernel took: against a clock whose readings tell their differences apart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.kernel import kernel as kernel_module


@nvb.kernel("sm_90a", threads=32)
def fill(k: Any, out: nvb.Pointer[f32]) -> None:
    out[k.thread_id()] = 1.0


@pytest.mark.parametrize("check", [True, False])
def test_each_part_has_its_own_time(check: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is read at the start, after the text, around what else is built, after the verifier, and around what
    is left: a text that has to wait for the verifier, and the dry run.
    """
    readings = iter((1.0, 3.0, 8.0, 21.0, 55.0, 144.0, 377.0))
    monkeypatch.setattr(kernel_module, "time", SimpleNamespace(perf_counter=lambda: next(readings)))
    timings = fill.build(check=check).timings
    assert timings == {"build": 2.0 + 13.0 + 89.0, "verify": 34.0, "check": 233.0}
    assert next(readings, None) is None
