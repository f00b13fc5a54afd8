"""Arguments of a launch whose own methods raise: both ways to launch name the method, and the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.runtime import LoadedKernel
from tests.support.said import said


@nvb.kernel("sm_90a", threads=32)
def store(k: nvb.KernelBuilder, x: nvb.Pointer[i32], n: i32) -> None:
    x[k.thread_id()] = n


@pytest.fixture(scope="module")
def loaded() -> LoadedKernel:
    compiled = store.compile(cache=nvb.Cache.disabled(), assemble=False)
    return nvb.runtime.load(compiled, device="simulator")


def raising(name: str) -> Any:
    def asked(self: object) -> None:
        raise KeyError("of its own")

    return type("Odd", (), {name: asked if name == "__index__" else property(asked)})()


WAYS: dict[str, Callable[[LoadedKernel, Any, Any, Any], None]] = {
    "launch": lambda kernel, grid, stream, x: kernel.launch(grid, x, 3, stream=stream),
    "brackets": lambda kernel, grid, stream, x: kernel[grid, stream](x, 3),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", ["__array_interface__", "__index__", "__cuda_stream__"])
def test_a_method_that_raises_is_named(loaded: LoadedKernel, way: str, method: str) -> None:
    odd, x = raising(method), np.zeros(32, np.int32)
    places = {"__index__": (odd, None, x), "__cuda_stream__": (1, odd, x)}
    with pytest.raises(nvb.DiagnosticError) as caught:
        WAYS[way](loaded, *places.get(method, (1, None, odd)))
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.argument"
    assert f"LoadedKernel.launch: Odd.{method} of an argument raises KeyError" in said(found)
    WAYS[way](loaded, 1, None, x)
    assert (x == 3).all()


@pytest.mark.parametrize("way", WAYS)
def test_a_grid_that_python_does_not_write_is_named(loaded: LoadedKernel, way: str) -> None:
    """Python writes no number of 5000 digits."""
    with pytest.raises(nvb.DiagnosticError) as caught:
        WAYS[way](loaded, 10**5000, None, np.zeros(32, np.int32))
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.argument"
    assert "LoadedKernel.launch: grid has a number of 16610 bits" in said(found)
