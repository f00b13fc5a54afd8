"""What a program sets in modules that are trusted is compared: the witness is a new build."""

from __future__ import annotations

import math
import types
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import layout
from tests.support.compiled_again import BODY, Runs, compiled, in_module


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def first() -> float:
    return 1.0


def second() -> float:
    return 2.0


@pytest.mark.parametrize("module", [math, nvb])
@pytest.mark.parametrize(
    ("before", "text"), [(first, "M.users_own()"), (first, "getattr(M, NAME)()"), (None, "getattr(M, NAME, float)()")]
)
def test_what_is_set_in_a_module_that_is_trusted_is_followed(
    module: types.ModuleType, before: Any, text: str, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its name appears in no code."""
    if before is not None:
        monkeypatch.setattr(module, "users_own", before, raising=False)
    kernel = in_module(f"M, NAME = __import__('{module.__name__}'), 'users_own'\n" + BODY + text).kernel
    ir = compiled(kernel).ir
    assert compiled(kernel).ir == ir
    assert runs.count == 1
    monkeypatch.setattr(module, "users_own", second, raising=False)
    assert compiled(kernel).ir == kernel.build().ir != ir


def test_a_wrapper_with_the_name_of_a_function_of_ours_is_followed(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """`functools.wraps` gives it the name of what it stands for."""
    function = layout.make_layout
    module = in_module("import functools\nfrom nvbackend import layout\nN = 1.0\n" + BODY + "layout.make_layout()")
    exec("@functools.wraps(layout.make_layout)\ndef wrapper(): return N", vars(module))
    monkeypatch.setattr(layout, function.__name__, module.wrapper)
    before = compiled(module.kernel).ir
    module.N = 2.0
    assert compiled(module.kernel).ir == module.kernel.build().ir != before
