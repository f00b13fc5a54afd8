"""Kernels and device functions in decorators of the user's, which keep what they wrap by functools.wraps.

The witness is the same function without a decorator.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.builder.kernel.again.reads import Reads
from tests.support.compiled_again import Runs, compiled, in_module

WRAPPERS = """
import functools

A = "of another file"
B = 1.0


def plain(f):
    @functools.wraps(f)
    def wrapper(*args, **constants):
        return f(*args, **constants)

    return wrapper


def storing(f):
    @functools.wraps(f)
    def wrapper(k, out, *args, **constants):
        out[0] = B
        return f(k, out, *args, **constants)

    return wrapper


class Traced:
    def __init__(self, f):
        functools.update_wrapper(self, f)
        self.f = f

    def __call__(self, *args, **constants):
        return self.f(*args, **constants)
"""
KERNEL = """
from __future__ import annotations
import sys
import nvbackend as nvb
from nvbackend import f32
WRAPPERS = sys.modules["users_wrappers"]
A = nvb.Pointer[f32]
N = 1.0

@nvb.kernel("sm_80", threads=32)
@WRAPPERS.storing
def kernel(k, out: A):
    out[1] = N
"""
NESTED = {
    "one": lambda w: w.plain,
    "nested": lambda w: lambda f: w.plain(w.storing(w.plain(f))),
    "a class with a call inside": lambda w: lambda f: w.plain(w.Traced(f)),
}


@pytest.fixture
def wrappers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of another file."""
    module = ModuleType("users_wrappers")
    exec(compile(WRAPPERS, "users_wrappers.py", "exec", dont_inherit=True), vars(module))
    monkeypatch.setitem(sys.modules, "users_wrappers", module)
    return module


A = nvb.Pointer[f32]


def stored(k: nvb.KernelBuilder, out: A, n: nvb.i32, *, lanes: int = 64, more: float = 2.0) -> None:
    out[k.thread_id() + n] = more * lanes


@pytest.mark.parametrize("how", NESTED)
def test_text_is_read_where_it_is_written(how: str, wrappers: ModuleType) -> None:
    """Also where the wrapper's file has another object of the same name."""
    assert isinstance(stored.__annotations__["out"], str)
    wrapped = NESTED[how](wrappers)(stored)
    of_constants = nvb.kernel("sm_80", threads=lambda lanes: lanes)
    made, plain = of_constants(wrapped), of_constants(stored)
    assert made.parameters() == plain.parameters()
    for constants in ({"lanes": 32, "more": 3.0}, {}) if how != "nested" else ():
        assert without_lines(made.build(**constants).ir) == without_lines(plain.build(**constants).ir)


def without_lines(ir: str) -> str:
    return re.sub(r",? !dbg !\d+|^!.*\n?", "", ir, flags=re.MULTILINE)


class Stores:
    def stored(self, k: nvb.KernelBuilder, out: A) -> None:
        out[0] = 1.0


def test_methods(wrappers: ModuleType) -> None:
    made = nvb.kernel("sm_80", threads=32)(wrappers.plain(Stores().stored))
    assert [each.type for each in made.parameters()] == [A]
    made.build()


def test_variables_of_enclosing_functions(wrappers: ModuleType) -> None:
    Local = nvb.Pointer[i32]

    @nvb.kernel("sm_80", threads=32)
    @wrappers.plain
    def kernel(k, out: Local):
        out[0] = Local.element.bits

    assert kernel.parameters()[0].type == Local


def test_an_annotation_that_the_wrapper_sets_itself_is_read_at_the_wrapper(wrappers: ModuleType) -> None:
    wrapped = wrappers.plain(stored)
    wrapped.__annotations__ = {**stored.__annotations__, "n": "B32"}
    wrappers.B32 = nvb.u32
    first, second = nvb.kernel("sm_80", threads=32)(wrapped).parameters()
    assert (first.type, second.type) == (A, nvb.Scalar(nvb.u32))


def test_device_functions(wrappers: ModuleType) -> None:
    def scaled(k, x: f32, *, by: float = 2.0) -> f32:
        return x * by

    def ir(function: Any) -> str:
        def kernel(k, out: A):
            out[0] = function(k, out[0]) + function(k, out[1], by=3.0)

        return without_lines(nvb.kernel("sm_80", threads=32)(kernel).build().ir)

    assert ir(nvb.function(wrappers.plain(scaled))) == ir(nvb.function(scaled))
    assert "2.0" not in nvb.function(wrappers.plain(scaled)).compile("sm_80").ptx


@pytest.mark.parametrize(
    "change",
    ["module.A = module.nvb.Pointer[module.nvb.f64]", "module.N = 2.0", "wrappers.B = 2.0"],
)
def test_what_either_of_them_reads_is_compared(
    change: str, wrappers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(monkeypatch)
    module = in_module(KERNEL.replace("from __future__ import annotations", "", 1))
    exec(compile(KERNEL, "users_module.py", "exec", dont_inherit=True), vars(module))
    before = compiled(module.kernel)
    assert compiled(module.kernel) == before
    assert runs.count == 1
    exec(change, {"module": module, "wrappers": wrappers})
    after = compiled(module.kernel)
    assert runs.count == 2
    assert without_lines(after.ir) == without_lines(module.kernel.build().ir) != without_lines(before.ir)


def test_text_of_a_file_of_this_package_is_compared(wrappers: ModuleType) -> None:
    """Functions of these files are not followed, but for what the annotations of a kernel say."""
    ours: dict[str, Any] = {"__name__": "nvbackend.made", "A": nvb.Pointer[f32]}
    exec("def kernel(k, out: 'A'): out[0] = 1.0", ours)
    wrapped = wrappers.plain(ours["kernel"])
    before = Reads().of(wrapped, (), ())
    assert Reads().of(wrapped, (), ()).parts == before.parts
    ours["A"] = nvb.Pointer[nvb.f64]
    assert Reads().of(wrapped, (), ()).parts != before.parts


def test_mistakes_are_told_at_what_is_wrapped(wrappers: ModuleType) -> None:
    @wrappers.plain
    def kernel(k, out: f32x3):  # type: ignore[name-defined]  # noqa: F821
        out[0] = 1.0

    (found,) = refused(kernel)
    assert found.rule_id == "kernel.parameter"
    assert found.location is not None
    assert (found.location.file, found.location.line) == (__file__, inspect.getsourcelines(kernel)[1])


def test_statements_that_do_not_call_are_told_of_what_is_wrapped(wrappers: ModuleType) -> None:
    @wrappers.plain
    def kernel(k, out: A):
        k.barrier.sync  # noqa: B018
        out[0] = 1.0

    (found,) = refused(kernel)
    assert found.rule_id == "call.not-called"


def test_wrappers_in_a_circle(wrappers: ModuleType) -> None:
    first = wrappers.plain(lambda k: None)
    first.__wrapped__.__wrapped__ = first
    (found,) = refused(first)
    assert found.rule_id == "kernel.function"
    assert "wrapper loop" in found.message


def test_an_object_with_a_call_is_no_function(wrappers: ModuleType) -> None:
    (found,) = refused(wrappers.Traced(stored))
    assert "it is not a Python function" in found.message


def refused(function: Callable[..., Any]) -> tuple[nvb.Diagnostic, ...]:
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_80", threads=32)(function).build()
    return tuple(caught.value.diagnostics)
