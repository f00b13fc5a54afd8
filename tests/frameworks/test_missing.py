"""Operators where the framework is not installed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32
from nvbackend.jax import op as jax_op
from nvbackend.torch import op as torch_op


@nvb.kernel("sm_90", threads=32)
def twice(k, x: nvb.Pointer(f32, align=4)):
    x[k.thread_id()] = x[k.thread_id()] * 2.0


@pytest.mark.parametrize(
    ("make", "name", "module", "title", "package"),
    [
        (torch_op, "mine::twice", "torch", "PyTorch", "torch"),
        (jax_op, "twice", "jax", "JAX", "'jax[cuda13]'"),
    ],
)
def test_the_framework_that_is_not_installed(
    make: Any, name: str, module: str, title: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "torch.library", None)
    with pytest.raises(DiagnosticError) as caught:
        make(twice, name, grid=1, mutates=("x",))
    (found,) = caught.value.diagnostics
    assert (found.rule_id, found.fix) == ("operator.declared", f"install it: pip install {package}")
    assert f"{title} is not installed" in found.message
