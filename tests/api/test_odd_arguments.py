"""Arguments that broke a call in the long run of tests/fuzz/test_public_calls.py, each refused at once."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16
from tests.support.hostile import Endless
from tests.support.runtime import FakeCompiled, FakeDevice


class Unnamed:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attribute today")


def built(**options: Any) -> object:
    @nvb.kernel("sm_90", threads=32)
    def kernel(k: nvb.KernelBuilder) -> None:
        pass

    return kernel.build(**options)


def loaded() -> Any:
    signature = nvb.Signature("kernel", (nvb.Parameter("x", nvb.Pointer(f16)),), nvb.LaunchBounds(threads=32))
    return nvb.runtime.load(FakeCompiled(signature), device=FakeDevice())


def bound() -> nvb.BoundTensorMap:
    return nvb.TensorMap(f16, box=(64, 64)).bind(np.zeros((64, 64), np.float16))


SITE: Any = None
HASHLESS: Any = type("Hashless", (), {"__hash__": lambda _: 1 // 0})()
CALLS: dict[str, Callable[[], object]] = {
    "constants without end": lambda: built(constants=Endless()),
    "addresses without end": lambda: bound().bytes_of(Endless()),  # type: ignore[arg-type]
    "two addresses": lambda: bound().bytes_of((16, 32)),  # type: ignore[arg-type]
    "a stream that raises": lambda: loaded().launch(1, 0, stream=Unnamed()),
    "a stream of brackets that raises": lambda: loaded()[1, Unnamed()](0),
    "an array that raises": lambda: loaded().launch(1, Unnamed()),
    "an array that raises after brackets": lambda: loaded()[1](Unnamed()),
    "a grid whose hash raises": lambda: loaded().launch(HASHLESS, 0),
    "notes that are masked": lambda: nvb.rules.Finding(SITE, notes=np.ma.masked),
    "a text of notes": lambda: nvb.rules.Finding(SITE, notes="it begins here"),  # type: ignore[arg-type]
    "a number of notes": lambda: nvb.rules.Finding(SITE, notes=3),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_refused(name: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        CALLS[name]()
    assert str(caught.value)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert "notes" in name or frames[-1].filename == __file__


def test_a_few_parts_of_a_long_argument_are_named() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.Signature("kernel", tuple("x" * 100_000), nvb.LaunchBounds(threads=32))  # type: ignore[arg-type]
    assert len(caught.value.diagnostics) < 20
