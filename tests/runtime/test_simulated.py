"""Kernels in the simulator: the options of `load`, and what a launch reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, runtime
from nvbackend.runtime import module
from tests.support.runtime import FakeDevice


@nvb.kernel("sm_90a", threads=64)
def doubled(k: nvb.KernelBuilder, x: nvb.Pointer[f32], y: nvb.Pointer[f32]) -> None:
    thread = k.thread_id()
    y[thread] = x[thread] + x[thread]


@pytest.fixture(scope="module")
def compiled() -> nvb.CompiledKernel:
    return doubled.compile()


def test_a_report_is_of_the_last_launch(compiled: nvb.CompiledKernel) -> None:
    loaded = runtime.load(compiled, device="simulator", seed=3, report=True)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert loaded.report is None
    loaded.launch(1, x, y)
    first = loaded.report
    assert (y == 2 * x).all()
    assert first is not None and first.seed == 3
    assert (first.total.read["global"], first.total.written["global"]) == (256, 256)
    lines = {place.source: use for place, use in first.by_line()}
    assert lines["y[thread] = x[thread] + x[thread]"].global_.requests == 4
    loaded.launch(2, x, y)
    assert loaded.report is not first


def test_an_array_has_the_name_of_its_parameter(compiled: nvb.CompiledKernel) -> None:
    loaded = runtime.load(compiled, device="simulator")
    with pytest.raises(nvb.DiagnosticError, match=r"simulator\.bounds.*the end of y \(128 bytes\)"):
        loaded.launch(1, np.zeros(64, np.float32), np.zeros(32, np.float32))


def test_there_is_a_name_for_each_argument(compiled: nvb.CompiledKernel) -> None:
    module = nvb.simulator.Simulator().load(compiled.ptx)
    arrays = [np.zeros(64, np.float32), np.zeros(32, np.float32)]
    with pytest.raises(nvb.DiagnosticError, match=r"simulator\.bounds.*the end of second \(128 bytes\)"):
        module.launch("doubled", block=(64,), args=arrays, names=("first", "second"))
    with pytest.raises(nvb.DiagnosticError, match=r"simulator\.launch.*it takes 2 arguments, and names=\['x'\] has 1"):
        module.launch("doubled", block=(64,), args=arrays, names=("x",))


def test_a_launch_that_fails_leaves_no_report(compiled: nvb.CompiledKernel) -> None:
    loaded = runtime.load(compiled, device="simulator", report=True)
    x = np.zeros(64, np.float32)
    loaded.launch(1, x, x.copy())
    with pytest.raises(nvb.DiagnosticError):
        loaded.launch(1, x, np.zeros(32, np.float32))
    assert loaded.report is None


@pytest.mark.parametrize("options", [{"seed": 0}, {"checks": False}, {"report": True}])
def test_a_gpu_takes_no_options_of_the_simulator(compiled: nvb.CompiledKernel, options: dict[str, Any]) -> None:
    with pytest.raises(nvb.DiagnosticError) as raised:
        runtime.load(compiled, device=FakeDevice(), **options)
    assert [one.rule_id for one in raised.value.diagnostics] == ["launch.simulator-option"]
    assert runtime.load(compiled, device=FakeDevice()).report is None


@pytest.mark.parametrize("reason", ["there is no CUDA driver", None])
@pytest.mark.parametrize("device", [None, "simulator"])
def test_where_a_kernel_runs_is_said_unless_it_was_asked_for(
    compiled: nvb.CompiledKernel,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    device: str | None,
    reason: str | None,
) -> None:
    monkeypatch.setattr(module, "no_gpu_reason", lambda: reason)
    monkeypatch.setattr(module, "CudaDevice", FakeDevice)
    loaded = runtime.load(compiled, device=device)
    is_said = device is None and reason is not None
    assert capsys.readouterr().err == (f"nvbackend: doubled runs in the simulator: {reason}\n" if is_said else "")
    if device == "simulator" or reason is not None:
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        loaded.launch(1, x, y)
        assert np.array_equal(y, x + x)


def test_shared_memory_has_the_names_of_the_program(tmp_path) -> None:
    """Of a stage, not of the one variable in which all of it lies; where the kernel comes from a cache, too."""

    @nvb.kernel("sm_90", threads=32)
    def waits(k, y: nvb.Pointer[nvb.f32], stage: nvb.Pointer[nvb.i32]):
        row = k.shared(nvb.f32, 64, align=128, name="row")
        first, second = k.mbarrier.array(2, arrivals=32, name="first"), k.mbarrier.array(3, arrivals=32, name="second")
        k.mbarrier.ready()
        row[k.thread_id()] = 1.0
        k.mbarrier.arrive(first)
        k.mbarrier.arrive(second + stage[1])
        k.mbarrier.wait(second + stage[0], 0)
        y[k.thread_id()] = row[31 - k.thread_id()]

    for _ in range(2):
        compiled = waits.compile(cache=nvb.Cache(tmp_path), assemble=False)
        with pytest.raises(nvb.DiagnosticError) as caught:
            nvb.runtime.load(compiled, device="simulator").launch(
                1, np.zeros(32, np.float32), np.array([1, 2], np.int32)
            )
        (found,) = caught.value.diagnostics
        assert found.rule_id == "simulator.deadlock"
        assert "the mbarrier second[1] (shared address 0x" in found.message
        assert "dynamic_shared" not in found.message
