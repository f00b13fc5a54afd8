"""What is given in the wrong place, or asked for again: the message says where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32


@nvb.kernel("sm_80", threads=32)
def scale(k: nvb.KernelBuilder, x: nvb.Pointer[f32], n: i32, *, factor: float = 2.0) -> None:
    x[k.thread_id()] = x[k.thread_id()] * factor


@nvb.function
def half(k: nvb.KernelBuilder, x: f32) -> f32:  # type: ignore[valid-type]
    return x * 0.5


def fix_of(program: Callable[[], object], rule: str) -> str:
    with pytest.raises(nvb.DiagnosticError) as caught:
        program()
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    return found.fix


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ({"threads": 64}, "write threads=... in @nvb.kernel, as a function of one of the constants where it varies"),
        ({"min_ctas": 1}, "min_ctas=lambda size: size"),
        ({"math": nvb.MathPolicy()}, "write it in @nvb.kernel(..., math=...)"),
        ({"n": 3}, "n is a parameter of the kernel, whose argument each launch passes: loaded.launch(grid, ...)"),
        ({"k": 3}, "its constants are: factor"),
        ({"zoo": 3}, "its constants are: factor"),
    ],
)
def test_what_is_no_constant_of_the_build(given: dict[str, Any], fix: str) -> None:
    for program in (lambda: scale.compile(**given), lambda: scale.with_(**given), lambda: scale.build(constants=given)):
        assert fix in fix_of(program, "kernel.function")


def test_what_is_no_constant_of_a_function() -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"no constant 'thread': is 'threads' meant\?") as caught:
        half.compile("sm_80", thread=32)
    assert caught.value.diagnostics[0].fix.endswith("target, threads, cluster, name, debug, math, constants")


@pytest.mark.parametrize(("given", "called"), [(3, "function 3:"), ("half", "function 'half':")])
def test_what_is_no_function(given: Any, called: str) -> None:
    fix = fix_of(lambda: nvb.function(given), "function.declaration")
    assert fix == "decorate a `def`" + ("; a name is given by @nvb.function(name='half')" if given == "half" else "")
    with pytest.raises(nvb.DiagnosticError, match=called):
        nvb.function(given)


def test_a_kernel_is_finished_once() -> None:
    for ends in (nvb.KernelBuilder.finish, nvb.KernelBuilder.compile):
        k = nvb.KernelBuilder("once", "sm_80", threads=32)
        ends(k)
        assert fix_of(k.finish, "kernel.finished").startswith("keep what the first k.finish() or k.compile() returned")
        assert fix_of(k.barrier.sync, "kernel.finished").startswith("emit everything before k.finish()")


@pytest.mark.parametrize("name", ["args", "params", "parameters", "argument"])
def test_the_arguments_of_a_builder(name: str) -> None:
    k = nvb.KernelBuilder("k", "sm_80", threads=32, parameters=[nvb.Parameter("n", i32)])
    assert [str(value.type) for value in k.arguments] == ["s32"]
    assert "k.arguments" in fix_of(lambda: getattr(k, name), "call.unknown")


def test_a_cache_is_not_its_class() -> None:
    for program in (scale.compile, scale.build().compile, lambda **options: nvb.compile_module([scale], **options)):
        with pytest.raises(nvb.DiagnosticError, match="cache must be Cache"):
            program(cache=nvb.Cache)
