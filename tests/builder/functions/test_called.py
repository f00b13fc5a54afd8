"""Called functions do what the expanded ones do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.scopes.calls import spliced
from nvbackend.signature import Parameter

RESTRICT = nvb.Pointer(f32, restrict=True)


def test_the_result_of_a_call_is_an_index_and_a_result() -> None:
    """llvmlite prints the operands of getelementptr, insertvalue and extractvalue from fields of their own."""

    @nvb.function(inline=False)
    def next_of(k, x: u32) -> u32:
        return x + 1

    @nvb.function(inline=False)
    def next_and_it(k, x: u32) -> tuple[u32, u32]:
        return next_of(k, x), x

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: nvb.Pointer[u32]):
        table, local = k.constant.array(list(range(40)), u32), k.local.array(u32, 64)
        following, it = next_and_it(k, k.thread_id().to(u32))
        local[next_of(k, following)] = table[next_of(k, it)]
        out[it] = following * 100 + local[it + 2]

    finished = kernel.build()
    before = finished.ir
    out = np.zeros(32, np.uint32)
    nvb.runtime.load(finished.compile(assemble=False), device="simulator").launch(1, out)
    assert out.tolist() == [(t + 1) * 100 + t + 1 for t in range(32)]
    assert finished.ir == before


def _through_an_if(k, x):
    y = k.var(x)
    with k.if_(x > 3):
        y.set(x + 7)
    return y * 2


def _through_a_loop(k, x):
    y = k.var(0, u32)
    with k.range(x):
        y += 5
    return y + 1


def _through_a_variable_inside(k, x):
    y = k.var(x)
    with k.if_(x < 11):
        inner = k.var(y + 3)
        y.set(inner + 1)
    return y.value


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("form", [_through_an_if, _through_a_loop, _through_a_variable_inside])
def test_what_a_body_of_several_blocks_returns_is_a_value_of_the_caller(form, inline: bool) -> None:
    """An instruction takes it, an address, and another call of the function."""

    @nvb.function(inline=inline)
    def through(k, x: u32) -> u32:
        return form(k, x)

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: nvb.Pointer[u32]):
        found = through(k, k.thread_id().to(u32))
        again = through(k, found)
        out[k.thread_id()] = k.warp.shuffle(found, "idx", 13) + again
        with k.if_(k.thread_id() == 20):
            (out + found).store(1)

    def number(t):
        if form is _through_an_if:
            return (t + 7 if t > 3 else t) * 2
        return 5 * t + 1 if form is _through_a_loop else t + 4 if t < 11 else t

    out = np.zeros(128, np.uint32)
    nvb.runtime.load(kernel.compile(assemble=False), device="simulator").launch(1, out)
    expected = [number(13) + number(number(t)) for t in range(32)] + [0] * 96
    expected[number(20)] = 1
    assert out.tolist() == expected


@pytest.mark.parametrize("inline", [True, False])
def test_a_number_of_python_is_a_result_of_the_declared_type(inline: bool) -> None:
    @nvb.function(inline=inline)
    def numbers(k) -> tuple[f32, u32, i32]:
        return 2.5, 7, -3

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: nvb.Pointer[f32]):
        half, seven, less = numbers(k)
        assert (half.type, seven.type, less.type) == (f32, u32, nvb.s32)
        out[0], out[1], out[2] = half, seven.to(f32), less.to(f32)

    out = np.zeros(3, np.float32)
    nvb.runtime.load(kernel.compile(assemble=False), device="simulator").launch(1, out)
    assert out.tolist() == [2.5, 7.0, -3.0]


def test_a_called_function_may_be_passed_one_restrict_pointer_twice() -> None:
    def numbers(inline):
        @nvb.function(inline=inline)
        def written_between(k, a: RESTRICT, b: RESTRICT) -> f32:
            first = a[0]
            b[0] = first + 1.0
            return a[0] + first

        @nvb.kernel("sm_90a", threads=32)
        def kernel(k, x: nvb.Pointer[f32]):
            with k.if_(k.thread_id() == 0):
                x[4] = written_between(k, x, x)

        x = np.zeros(8, np.float32)
        nvb.runtime.load(kernel.compile(assemble=False), device="simulator").launch(1, x)
        return x.tolist()

    assert numbers(inline=False) == numbers(inline=True) == [1, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("name", ["free", "malloc", "vprintf", "__assertfail", "param0", "retval0", "kernel_param_0"])
def test_names_that_mean_something_to_cuda_or_llvm(name) -> None:
    @nvb.function(inline=False, name=name)
    def scaled(k, x: f32, i: i32) -> f32:
        return x * 2.0 + i.to(f32)

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, out: nvb.Pointer[f32]):
        t = k.thread_id()
        out[t] = scaled(k, out[t], t)
        k.print("thread {}", t, when=t == 40)

    out = np.ones(32, np.float32)
    compiled = kernel.compile(assemble=False)
    nvb.runtime.load(compiled, device="simulator").launch(1, out)
    assert out.tolist() == [2.0 + i for i in range(32)]
    assert f" {name}__1(" in compiled.ptx


def test_the_bodies_are_back_where_they_were_once_the_calls_are_printed() -> None:
    @nvb.function(inline=False)
    def next_of(k, x: u32) -> u32:
        return x + 1

    k = KernelBuilder("kernel", "sm_90a", threads=32, parameters=[Parameter("out", nvb.Pointer(u32))])
    k.arguments[0][next_of(k, k.thread_id().to(u32))] = next_of(k, 4)
    function = k.core.function
    before = str(function)
    with spliced(function, k.core.functions.calls):
        assert len(re.findall(r"call .*next_of", str(function))) == 2
    assert "call" in before
    assert not re.findall(r"call .*next_of", before)
    assert str(function) == before


@pytest.mark.parametrize("ftz", [True, False])
def test_the_policy_of_the_kernel_is_that_of_what_it_calls(ftz: bool) -> None:
    """IEEE 754: the products are subnormal numbers, which are exact; .ftz makes them 0."""

    @nvb.function(inline=False)
    def halved(k, x: f32) -> f32:
        return x * 0.5

    @nvb.function(inline=False)
    def parts(k, x: f32) -> tuple[f32, f32]:
        return halved(k, x), x * 0.25

    @nvb.kernel("sm_80", threads=32, math=nvb.MathPolicy(ftz=ftz))
    def kernel(k, out: nvb.Pointer[f32]):
        x = out[0]
        out[1], out[2] = parts(k, x)
        out[3] = x * 0.125

    out = np.array([2.0**-126, 1, 1, 1], np.float32)
    nvb.runtime.load(kernel.compile(assemble=False), device="simulator").launch(1, out)
    assert out.tolist() == [2.0**-126, *([0.0] * 3 if ftz else [2.0**-127, 2.0**-128, 2.0**-129])]


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("kept", ["k", "x"])
def test_what_a_body_keeps_is_of_no_use_behind_a_called_function(kept: str, inline: bool) -> None:
    """Its body has its end; that of an expanded function is a part of the kernel."""
    held = {}

    @nvb.function(inline=inline)
    def next_of(k, x: u32) -> u32:
        held.update(k=k, x=x)
        return x + 1

    def kernel(k, out: nvb.Pointer[u32]):
        out[0] = next_of(k, k.thread_id().to(u32))
        out[1] = held["k"].thread_id().to(u32) if kept == "k" else held["x"] + 1

    try:
        told = [one.rule_id for one in nvb.kernel("sm_90a", threads=32)(kernel).build().diagnostics]
    except nvb.DiagnosticError as error:
        told = [one.rule_id for one in error.diagnostics]
    assert told == ([] if inline else ["kernel.finished"])


def test_what_the_body_of_a_compiled_function_keeps_is_of_no_use() -> None:
    held = {}

    @nvb.function
    def next_of(k, x: u32) -> u32:
        held.update(k=k, x=x)
        return x + 1

    next_of.compile("sm_90a")
    for late in (held["k"].thread_id, lambda: held["x"] + 1):
        with pytest.raises(nvb.DiagnosticError) as caught:
            late()
        assert [one.rule_id for one in caught.value.diagnostics] == ["kernel.finished"]
