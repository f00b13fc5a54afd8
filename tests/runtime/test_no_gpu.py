"""Why no kernel can be launched here: each reason by itself, on a machine that lacks one thing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from nvbackend import runtime
from tests.support.cuda import CUresult, FakeCuda


def _raising(error: Exception) -> Callable[..., Any]:
    def call(*_: object) -> Any:
        raise error

    return call


def test_a_machine_that_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda().install(monkeypatch)
    assert runtime.gpu_available()
    assert cuda.calls == [("cuInit", 0), ("cuDeviceGetCount",)]


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("cuda.bindings.driver", "cuda.bindings.driver is not installed"),
        ("numba.cuda", "numba-cuda cannot be imported (import of numba.cuda halted; None in sys.modules)"),
        ("cuda.core", "cuda-core cannot be imported (import of cuda.core halted; None in sys.modules)"),
    ],
)
def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, module: str, reason: str) -> None:
    FakeCuda().install(monkeypatch)
    monkeypatch.setitem(sys.modules, module, None)
    assert runtime.no_gpu_reason() == reason
    assert not runtime.gpu_available()


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGetCount"])
@pytest.mark.parametrize("error", [OSError("libcuda.so.1"), RuntimeError("Failed to dlopen libcuda.so.1")])
def test_a_driver_that_is_not_found(monkeypatch: pytest.MonkeyPatch, function: str, error: Exception) -> None:
    FakeCuda().install(monkeypatch)
    monkeypatch.setattr(sys.modules["cuda.bindings.driver"], function, _raising(error))
    assert runtime.no_gpu_reason() == "there is no CUDA driver"


def test_a_driver_that_does_not_start_is_not_asked_for_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(init=CUresult.CUDA_ERROR_NO_DEVICE).install(monkeypatch)
    assert runtime.no_gpu_reason() == "the CUDA driver does not start (CUDA_ERROR_NO_DEVICE)"
    assert not cuda.named("cuDeviceGetCount")
