"""Results on disk: what is found again, what is measured anew, and entries of anything else."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.codegen.cache import pack
from nvbackend.runtime import Timing
from nvbackend.runtime.simulated import SimulatedDevice
from nvbackend.tuning import kept, measuring
from tests.tuning.kernels import Bench, costing, fill

TIMES = b'{"a": [1.0, 2.0]}'
RULE = nvb.Rule("made-up.rule", "bad {what}", "do it right")


def test_the_second_time_nothing_runs(tmp_path: Path) -> None:
    candidates = {"slow": fill.with_(cost=5.0), "wrong": fill.with_(value=3.0), "unbuilt": fill.with_(cost=-1.0)}
    first, second = Bench(tmp_path), Bench(tmp_path)
    measured, again = first.tune(candidates), second.tune(candidates)
    assert (measured.measured, again.measured) == (True, False)
    assert second.prepared == []
    assert second.ticks[0] == 0
    assert (again.best, again.timings) == (measured.best, measured.timings)
    assert [(name, str(error)) for name, error in again.failed.items()] == [
        (name, str(error)) for name, error in measured.failed.items()
    ]
    again.kernel.launch(1, second.ticks, second.out)
    assert second.ticks[0] == 5.0


def test_the_best_is_that_of_the_disk(tmp_path: Path) -> None:
    """A clock that runs backwards would choose another one."""
    Bench(tmp_path).tune(costing(slow=5.0, fast=2.0))
    bench, said = Bench(tmp_path), []
    bench.milliseconds = lambda start, end: start - end  # type: ignore[method-assign]
    assert bench.tune(costing(slow=5.0, fast=2.0), progress=lambda *step: said.append(step)).best == "fast"
    assert said[-1] == (5, 5, "fast is the best, as measured before")


OTHERS: dict[str, dict[str, Any]] = {
    "constant": {"candidates": costing(a=1.0, b=3.0)},
    "name": {"candidates": costing(a=1.0, c=2.0)},
    "order": {"candidates": costing(b=2.0, a=1.0)},
    "one more": {"candidates": costing(a=1.0, b=2.0, c=3.0)},
    "key": {"key": (64,)},
    "text": {"key": "(32,)"},
    "rounds": {"rounds": 4},
    "repeats": {"repeats": 3},
    "warmup": {"warmup": 3},
    "unchecked": {"check": None},
    "target": {"target": "sm_90a"},
    "name of the device": {"limits": {"name": "another"}},
    "capability": {"limits": {"capability": (9, 1)}},
    "multiprocessors": {"limits": {"multiprocessors": 7}},
}


def device(**limits: Any) -> SimulatedDevice:
    made = SimulatedDevice(fill.target, ["ticks", "out"])
    made.limits = replace(made.limits, **limits)
    return made


@pytest.mark.parametrize("changed", OTHERS)
def test_what_a_result_depends_on(changed: str, tmp_path: Path) -> None:
    usual: dict[str, Any] = {"candidates": costing(a=1.0, b=2.0), "target": "sm_90"}
    other = {**usual, **OTHERS[changed]}
    limits = other.pop("limits", {})
    assert Bench(tmp_path).tune(**usual, device=device()).measured
    assert Bench(tmp_path).tune(**other, device=device(**limits)).measured
    assert not Bench(tmp_path).tune(**usual, device=device()).measured


def test_results_of_other_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured() -> bool:
        return Bench(tmp_path).tune(costing(a=1.0)).measured

    assert [measured(), measured()] == [True, False]
    monkeypatch.setattr(kept, "own_version", lambda: "1000.0")
    assert [measured(), measured()] == [True, False]
    monkeypatch.setattr(kept, "CudaDevice", SimulatedDevice)
    for version in (12080, 13000):
        monkeypatch.setattr(kept, "driver_version", lambda version=version: version)
        assert [measured(), measured()] == [True, False]


def test_the_key_has_the_cubin(tmp_path: Path) -> None:
    """One PTX, assembled by another ptxas or level."""
    chip = device()
    compiled = fill.compile(assemble=False)
    assert compiled.cubin is None
    hopper = nvb.codegen.find_ptxas()
    keys = {
        kept.key_of({"a": kernel}, chip, 32, rounds=1)
        for kernel in (compiled, fill.compile(tool=hopper), fill.compile(tool=hopper, ptxas_level=0))
    }
    assert len(keys) == 3


def test_an_entry_of_something_else_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "key_of", lambda *_, **more: "the key")
    bench = Bench(tmp_path)
    bench.cache.put("the key", b"something else")
    assert bench.tune(costing(a=1.0)).measured
    assert not bench.tune(costing(a=1.0)).measured
    assert bench.tune(costing(b=1.0)).measured


def entry(timings: bytes = TIMES, failed: Any = None, **more: bytes) -> bytes:
    return pack({"timings": timings, "failed": pickle.dumps({} if failed is None else failed), **more})


def test_an_entry_comes_back(tmp_path: Path) -> None:
    cache = nvb.Cache(tmp_path)
    error = nvb.DiagnosticError([RULE.diagnose(what=OSError(3))])
    kept.keep(cache, "key", kept.Measured({"a": Timing((1.0, 2.0))}, {"b": error}))
    found = kept.kept(cache, "key", dict.fromkeys("ab", fill))  # type: ignore[arg-type]
    assert found is not None
    assert found.timings == {"a": Timing((1.0, 2.0))}
    assert str(found.failed["b"]) == str(error)
    assert found.best == "a"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty"),
        pytest.param(pack({}), id="no parts"),
        pytest.param(pack({"timings": TIMES}), id="no failures"),
        pytest.param(entry(b"{}"), id="no candidate"),
        pytest.param(entry(b"{}", {"a": nvb.DiagnosticError([])}), id="none that runs"),
        pytest.param(entry(b'{"b": [1.0]}'), id="unknown candidate"),
        pytest.param(entry(b'{"a": [1.0], "b": [1.0]}'), id="one too many"),
        pytest.param(entry(b'{"a": []}'), id="no sample"),
        pytest.param(entry(b'{"a": [NaN]}'), id="not a number"),
        pytest.param(entry(b'{"a": ["x"]}'), id="text"),
        pytest.param(entry(b"[1.0]"), id="list"),
        pytest.param(entry(b"{"), id="no json"),
        pytest.param(entry(TIMES, {"a": nvb.DiagnosticError([])}), id="both"),
        pytest.param(pack({"timings": TIMES, "failed": b"x"}), id="no pickle"),
    ],
)
def test_entries_of_anything_else(payload: bytes, tmp_path: Path) -> None:
    cache = nvb.Cache(tmp_path)
    cache.put("key", payload)
    assert kept.kept(cache, "key", {"a": fill}) is None  # type: ignore[dict-item]
    cache.put("key", entry(TIMES, {"b": "why"}))
    assert kept.kept(cache, "key", {"a": fill, "b": fill}) is None  # type: ignore[dict-item]
    cache.put("key", entry())
    assert kept.kept(cache, "key", {"a": fill}) is not None  # type: ignore[dict-item]
