"""What a traceback shows of an exception of the user's own code, and where mistakes around the function are located."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable
from typing import Annotated

import pytest

import nvbackend as nvb
from nvbackend import f32, i32


def typo(k, x):
    k.blockid()


def own_error(k, x):
    with k.if_(k.thread_id() == 0):
        raise ValueError("mine")


def of_a_library(k, x):
    int("seven")


def through_contextlib(k, x):
    contextlib.contextmanager(iter)(()).__enter__()


def missing_key(k, x):
    x[{}["a"]] = 1.0


@pytest.mark.parametrize("function", [typo, own_error, of_a_library, through_contextlib, missing_key])
@pytest.mark.parametrize("call", ["build", "compile"])
def test_an_error_of_the_users_code_shows_the_users_frames(function: Callable[..., None], call: str) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def broken(k, x: nvb.Pointer[f32]):
        function(k, x)

    with pytest.raises((AttributeError, ValueError, KeyError, RuntimeError)) as caught:
        getattr(broken, call)()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}
    assert [frame.name for frame in frames][1:] == ["broken", function.__name__]


def test_what_python_said_of_a_value_is_not_shown_twice() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def broken(k, x: nvb.Pointer[f32], n: i32):
        [1, 2][n]

    with pytest.raises(nvb.DiagnosticError) as caught:
        broken.build()
    assert caught.value.diagnostics[0].rule_id == "value.number"
    assert "During handling" not in "".join(traceback.format_exception(caught.value))


def test_a_definition_is_not_launched() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, x: nvb.Pointer[f32]):
        x[0] = 1.0

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.launch(1)
    assert caught.value.diagnostics[0].rule_id == "launch.call"


def plain(k, x: nvb.Pointer[f32]):
    x[0] = 1.0


def unannotated(k, x):
    x[0] = 1.0


def wrong_types(
    k,
    x: Annotated[nvb.TensorMap, nvb.TensorMap(f32, box=(300, 30))],
    y: nvb.Pointer(f32, align=3),
    n: no_such_type,  # noqa: F821
):
    x[0] = 1.0


@pytest.mark.parametrize("ask", ["build", "compile", "parameters"])
def test_what_is_wrong_in_annotations_that_are_text_is_told_together_at_the_function(ask) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(nvb.kernel("sm_90a", threads=32)(wrong_types), ask)()
    found = caught.value.diagnostics
    assert [one.rule_id for one in found] == ["tensor-map.box", "tensor-map.box-bytes", "pointer.align"]
    places = {(one.location.file, one.location.line) for one in found}
    assert places == {(__file__, wrong_types.__code__.co_firstlineno)}


@pytest.mark.parametrize(
    ("function", "target", "options", "rule"),
    [
        (plain, "sm_90a", {"threads": 33}, "kernel.bounds"),
        (plain, "sm_90a", {"threads": 32, "cluster": 32}, "cluster.size"),
        (plain, "sm_80", {"threads": 32, "cluster": 2}, "cluster.target"),
        (plain, "sm_90a", {"threads": 32, "name": "my kernel"}, "kernel.name"),
        (plain, "sm_90a", {"threads": 32, "name": ""}, "kernel.name"),
        (unannotated, "sm_90a", {"threads": 32}, "kernel.parameter"),
    ],
)
def test_a_mistake_around_the_function_is_located_there(function, target, options, rule) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel(target, **options)(function).build()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == rule
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
    assert diagnostic.location.line == function.__code__.co_firstlineno
