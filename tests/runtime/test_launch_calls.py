"""Launches as users of numba, Triton and CuPy write them first, on every object from the definition to the launch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32, runtime
from tests.support.runtime import FakeDevice


@nvb.kernel("sm_90a", threads=96)
def scale(k, x: nvb.Pointer[f32], n: i32):
    x[0] = 1.0


BUILT = scale.build()
COMPILED = BUILT.compile(assemble=False, cache=nvb.Cache.disabled())


def loaded() -> runtime.LoadedKernel:
    return runtime.load(COMPILED, device=FakeDevice())


def prepared() -> runtime.PreparedLaunch:
    return runtime.load(empty.compile(assemble=False), device=FakeDevice()).prepare(1)


@nvb.kernel("sm_90a", threads=96)
def empty(k): ...


CALLS: dict[str, Callable[[Any], object]] = {
    "called": lambda kernel: kernel(1, 2),
    "CuPy": lambda kernel: kernel((1,), (96,), (1, 2)),
    "PyCUDA": lambda kernel: kernel(1, 2, grid=(1, 1), block=(96, 1, 1)),
    "forall": lambda kernel: kernel.forall(100)(1, 2),
    "configure": lambda kernel: kernel.configure(1, 96)(1, 2),
    "warmup": lambda kernel: kernel.warmup(1, 2, grid=(1,)),
}
NOT_LOADED: dict[str, Callable[[Any], object]] = {
    **CALLS,
    "grid": lambda kernel: kernel[1](1, 2),
    "numba": lambda kernel: kernel[1, 96](1, 2),
    "numba, tuples": lambda kernel: kernel[(1, 1), (96, 1)](1, 2),
    "numba, stream": lambda kernel: kernel[1, 96, 0, 1024](1, 2),
    "Triton": lambda kernel: kernel[lambda meta: (1,)](1, n=2, num_warps=4),
    "launch": lambda kernel: kernel.launch(1, 1, 2),
    "prepare": lambda kernel: kernel.prepare(1, 1, 2),
    "run": lambda kernel: kernel.run(1, 2, grid=(1,)),
}


def refusal(call: Callable[[], object]) -> nvb.Diagnostic:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
    return diagnostic


@pytest.mark.parametrize("call", NOT_LOADED.values(), ids=NOT_LOADED)
@pytest.mark.parametrize(
    ("kernel", "needed"),
    [(scale, "kernel.compile()"), (BUILT, "kernel.compile()"), (COMPILED, "kernel")],
    ids=["definition", "finished", "compiled"],
)
def test_a_kernel_that_is_not_loaded(kernel: object, needed: str, call: Callable[[Any], object]) -> None:
    diagnostic = refusal(lambda: call(kernel))
    assert diagnostic.rule_id == "launch.call"
    assert "kernel scale" in diagnostic.message
    assert f"nvb.runtime.load({needed}).launch(grid, ...)" in diagnostic.fix


def test_threads_at_the_launch_are_answered() -> None:
    assert "96 threads" in refusal(lambda: COMPILED[1, 96](1, 2)).fix
    assert "threads" not in refusal(lambda: COMPILED[1](1, 2)).fix


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("launchable", "fix"),
    [(loaded, "kernel.launch(grid, ...)"), (prepared, "prepared.run()")],
    ids=["loaded", "prepared"],
)
def test_a_loaded_kernel_and_a_prepared_launch(
    launchable: Callable[[], object], fix: str, call: Callable[[Any], object]
) -> None:
    diagnostic = refusal(lambda: call(launchable()))
    assert diagnostic.rule_id == "launch.call"
    assert fix in diagnostic.fix


RUN_WITH_MORE: dict[str, Callable[[runtime.PreparedLaunch], object]] = {
    "grid": lambda launch: launch.run(1),  # type: ignore[func-returns-value]
    "stream": lambda launch: launch.run(stream=0),  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("call", RUN_WITH_MORE.values(), ids=RUN_WITH_MORE)
def test_a_prepared_launch_runs_with_what_it_was_prepared_with(call: Callable[[Any], object]) -> None:
    device = FakeDevice()
    launch = runtime.load(empty.compile(assemble=False), device=device).prepare(1)
    with pytest.raises(nvb.DiagnosticError, match=r"launch\.call.*prepared\.run.*already prepared") as caught:
        call(launch)
    assert {entry.path.name for entry in caught.traceback} == {Path(__file__).name}, "only lines of the user's"
    assert not device.named("launch")
    launch.run()
    assert len(device.named("launch")) == 1


@pytest.mark.parametrize("block", [96, (96,), (96, 1, 1)])
def test_threads_in_the_brackets_of_a_loaded_kernel(block: object) -> None:
    diagnostic = refusal(lambda: loaded()[(1,), block](1, 2))
    assert diagnostic.rule_id == "launch.grid"
    assert "threads" in diagnostic.message


def test_arguments_by_name() -> None:
    diagnostic = refusal(lambda: loaded()[1](1, n=2, num_warps=4))
    assert diagnostic.rule_id == "launch.call"
    assert "n=..., num_warps=..." in diagnostic.message
    assert "x, n" in diagnostic.fix


@pytest.mark.parametrize("kernel", [scale, BUILT, COMPILED, loaded(), prepared()], ids=lambda one: type(one).__name__)
def test_python_asks_without_harm(kernel: Any) -> None:
    assert not hasattr(kernel, "forall")
    assert getattr(kernel, "warmup", None) is None
    with pytest.raises(AttributeError, match="no attribute 'lunch'"):
        kernel.lunch(1)
    with pytest.raises(TypeError, match="not iterable"):
        list(kernel)  # by brackets alone Python would ask for kernel[0], kernel[1] and so on, without an end
    with pytest.raises(TypeError):
        1 in kernel  # noqa: B015


@pytest.mark.parametrize("kernel", [BUILT, COMPILED], ids=["finished", "compiled"])
def test_copies_stay_equal(kernel: Any) -> None:
    assert copy.copy(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel


@pytest.mark.parametrize("kernel", [scale, BUILT], ids=["defined", "finished"])
def test_what_is_not_compiled_says_how_it_is_saved(kernel: Any) -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'save': compile it first, kernel\.compile\(\)\.save"):
        kernel.save("file")


def test_a_kernel_in_a_kernel_is_a_device_function() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def outer(k, x: nvb.Pointer[f32]):
        scale(k, x)

    with pytest.raises(nvb.DiagnosticError, match="a kernel cannot call another one") as caught:
        outer.build()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "launch.call"
    assert "@nvb.function" in diagnostic.fix
