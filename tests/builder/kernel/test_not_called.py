"""A statement that names a call of the builder and does not make it, which Python runs without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32


def refused(function: Callable[..., Any]) -> list[nvb.Diagnostic]:
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.kernel("sm_90a", threads=128)(function).build()
    return list(caught.value.diagnostics)


def test_each_is_told_at_its_line() -> None:
    def turned(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        box, thread = k.shared(f32, 128), k.thread_id()
        box[thread] = x[thread]
        k.barrier.sync  # noqa: B018
        x[thread] = box[127 - thread]
        with k.if_(thread > 3):
            k.return_  # noqa: B018
            k.elect  # noqa: B018

    found = refused(turned)
    assert [(one.rule_id, one.fix) for one in found] == [
        ("call.not-called", f"call it: k.{name}(...)") for name in ("barrier.sync", "return_", "elect")
    ]
    first = turned.__code__.co_firstlineno
    assert [one.location.line - first for one in found if one.location] == [3, 6, 7]
    assert all(one.location and one.location.file == __file__ for one in found)


def test_a_block_without_parentheses_is_told_too() -> None:
    def opened(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        with k.if_(x[0] > 0.0):
            x[1] = 0.0
        with k.else_:
            x[1] = 1.0

    def second(b: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        with b.range(4) as i, b.wgmma.group:
            x[i] = 0.0

    for function, call in ((opened, "k.else_"), (second, "b.wgmma.group")):
        (found,) = refused(function)
        assert (found.rule_id, found.fix) == ("call.not-called", f"call it: {call}(...)")


def test_what_else_python_cannot_open_is_its_own_error() -> None:
    class Own:
        part = "of the program"

    def opened(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        own = Own()
        with own.part:
            x[0] = 1.0

    with pytest.raises(TypeError, match="context manager"):
        nvb.kernel("sm_90a", threads=128)(opened).build()


def test_of_a_builder_that_an_inner_function_uses_too() -> None:
    def inner(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        def thread() -> nvb.Value:
            return k.thread_id()

        k.barrier.sync  # noqa: B018
        x[thread()] = 1.0

    (found,) = refused(inner)
    assert (found.rule_id, found.message.split()[0]) == ("call.not-called", "k.barrier.sync")


def test_what_is_called_kept_or_no_call_is_none() -> None:
    @nvb.kernel("sm_80", threads=64)
    def right(b: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        meet = b.barrier.sync
        box, thread = b.shared(f32, 64), b.thread_id()
        box[thread] = x[thread]
        meet()
        b.signature  # noqa: B018
        (b.barrier.sync, meet)[1]
        box.load  # noqa: B018
        x[thread] = box[63 - thread]

    x = np.arange(64, dtype=np.float32)
    nvb.runtime.load(right.compile(assemble=False), device="simulator").launch(1, x)
    assert np.array_equal(x, np.arange(64)[::-1])


def test_a_name_that_there_is_not_is_told_as_ever() -> None:
    def misspelt(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        k.barrier.synk  # noqa: B018

    (found,) = refused(misspelt)
    assert found.rule_id == "call.unknown"
