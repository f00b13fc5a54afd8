"""Several launches of a candidate: all run in turns, as a CUDA graph where one can be made, and the time is of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.runtime.device import CudaDevice
from nvbackend.runtime.launch import PreparedLaunch
from nvbackend.runtime.module import LoadedKernel
from nvbackend.runtime.streams import stream_handle
from nvbackend.tuning.turns import timed
from tests.support.cuda import CUresult, CUstreamCaptureMode, FakeCuda
from tests.support.runtime import FakeCompiled, broken, signature
from tests.tuning.kernels import Bench, costing, fill

STREAM, OTHER = 0x7000, 0x8000


def several(bench: Bench, count: int = 3) -> Any:
    """A `prepare` of launches over outputs of their own, and these outputs."""
    outputs = [np.zeros(32, np.float32) for _ in range(count)]

    def prepare(name: str, loaded: LoadedKernel) -> list[PreparedLaunch]:
        return [loaded.prepare(1, bench.ticks, out) for out in outputs]

    return prepare, outputs


def test_all_launches_run_and_the_time_is_of_one() -> None:
    bench = Bench()
    prepare, outputs = several(bench)
    right = lambda name: all(np.all(out == 2.0) for out in outputs)  # noqa: E731
    tuned = bench.tune(costing(slow=5.0, fast=2.0), prepare=prepare, check=right, rounds=4, repeats=2, warmup=1)
    assert bench.ticks[0] == 3 * (5 + 2) * (1 + (4 + 1) * 2)
    assert {name: timing.samples for name, timing in tuned.timings.items()} == {"slow": (5.0,) * 4, "fast": (2.0,) * 4}
    assert tuned.best == "fast"


def test_candidates_may_have_one_launch_and_several() -> None:
    bench = Bench()
    prepare, _ = several(bench)
    mixed = lambda name, loaded: tuple(prepare(name, loaded)) if name == "a" else bench.prepare(name, loaded)  # noqa: E731
    tuned = bench.tune(costing(a=2.0, b=3.0), prepare=mixed, check=None)
    assert {name: timing.median for name, timing in tuned.timings.items()} == {"a": 2.0, "b": 3.0}


@pytest.mark.parametrize("given", [[], (), [None], "launch", ["launch"]], ids=repr)
def test_what_is_no_list_of_launches(given: Any) -> None:
    [diagnostic] = broken(lambda: Bench().tune({"a": fill}, prepare=lambda name, loaded: given))
    assert diagnostic.rule_id == "call.argument"
    assert "prepare('a', loaded) gives" in diagnostic.message


def test_the_simulator_has_no_graphs() -> None:
    bench = Bench()
    prepare = lambda name, loaded: [loaded.prepare(1, bench.ticks, bench.out, stream=STREAM)] * 2  # noqa: E731
    tuned = bench.tune(costing(a=2.0), prepare=prepare, check=None, stream=STREAM)
    assert tuned.timings["a"].median == 2.0


def test_a_list_has_nothing_but_launches() -> None:
    bench = Bench()
    given = lambda name, loaded: [bench.prepare(name, loaded), None]  # noqa: E731
    [diagnostic] = broken(lambda: bench.tune({"a": fill}, prepare=given))
    assert diagnostic.rule_id == "call.argument"


def test_launches_on_another_stream_are_not_timed() -> None:
    bench = Bench()

    def prepare(name: str, loaded: LoadedKernel) -> list[PreparedLaunch]:
        return [loaded.prepare(1, bench.ticks, bench.out, stream=stream) for stream in (STREAM, OTHER)]

    [diagnostic] = broken(lambda: bench.tune({"a": fill}, prepare=prepare, stream=STREAM))
    assert diagnostic.rule_id == "call.argument"
    assert "on another stream" in diagnostic.message


def test_one_launch_may_be_on_another_stream() -> None:
    bench = Bench()
    prepare = lambda name, loaded: loaded.prepare(1, bench.ticks, bench.out, stream=OTHER)  # noqa: E731
    assert bench.tune(costing(a=2.0), prepare=prepare, check=None, stream=STREAM).best == "a"


def prepared(cuda: FakeCuda, stream: Any) -> tuple[CudaDevice, list[PreparedLaunch]]:
    """Two launches of a kernel without arguments on the stand-in's device, of grids that differ."""
    device = CudaDevice()
    loaded = nvb.runtime.load(FakeCompiled(signature()), device=device)
    return device, [loaded.prepare(ctas, stream=stream) for ctas in (3, 5)]


def test_on_a_stream_of_its_own_they_are_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda().install(monkeypatch)
    device, launches = prepared(cuda, STREAM)
    with timed({"a": launches}, device, STREAM) as runs:
        assert cuda.launches == [], "a capture launches nothing"
        runs["a"]()
        runs["a"]()
        assert [len(graph) for graph in cuda.graphs] == [2]
    assert cuda.graphs == [], "graphs that nobody destroys stay until the context ends"
    assert [(handle, config.grid[0]) for handle, config, *_ in cuda.launches] == [(STREAM, 3), (STREAM, 5)] * 2
    assert cuda.named("cuStreamBeginCapture") == [(STREAM, CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)]
    assert len(cuda.named("cuGraphLaunch")) == 2
    assert len(cuda.named("cuGraphDestroy")) == 1


def test_on_a_default_stream_and_alone_they_are_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda().install(monkeypatch)
    for handle in (0, 1, 2):
        device, launches = prepared(cuda, handle)
        with timed({"a": launches}, device, handle) as runs:
            runs["a"]()
    device, (one, _) = prepared(cuda, STREAM)
    with timed({"a": one}, device, STREAM) as runs:
        runs["a"]()
    assert [config.grid[0] for _, config, *_ in cuda.launches] == [3, 5] * 3 + [3]
    assert cuda.named("cuStreamBeginCapture") == []


@pytest.mark.parametrize("function", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate"])
def test_a_graph_that_the_driver_refuses_is_a_diagnostic(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda().install(monkeypatch)
    device, launches = prepared(cuda, STREAM)
    cuda.fails[function] = CUresult.CUDA_ERROR_INVALID_VALUE

    def run() -> None:
        with timed({"a": launches}, device, STREAM):
            pass

    [diagnostic] = broken(run)
    assert diagnostic.rule_id == "launch.failed"
    assert "(grid (3, 1, 1)): as a CUDA graph: CUDA_ERROR_INVALID_VALUE" in diagnostic.message


@pytest.mark.gpu((9, 0))
def test_a_graph_on_a_gpu_runs_all_launches() -> None:
    from numba import cuda

    stream = cuda.stream()
    ticks = cuda.to_device(np.zeros(1, np.float32))
    outputs = [cuda.to_device(np.zeros(32, np.float32)) for _ in range(3)]
    loaded = nvb.runtime.load(fill.compile())
    launches = [loaded.prepare(1, ticks, out, stream=stream) for out in outputs]
    with timed({"a": launches}, CudaDevice(), stream_handle(stream)) as runs:
        runs["a"]()
        runs["a"]()
    stream.synchronize()
    assert ticks.copy_to_host()[0] == 6
    assert all(np.all(out.copy_to_host() == 2.0) for out in outputs)
