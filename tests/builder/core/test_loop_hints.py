"""Unrolled loops: the copies in the PTX, what they compute, and what LLVM cannot unroll."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, runtime
from nvbackend.builder.lower.loop_hints import check_unroll


def kernel(unroll, *, rounds=None, together=False, wide=False, **promised):
    """x[i] = 2 x[i] + 1 in each round."""
    parameters = [nvb.Parameter("x", nvb.Pointer(f32)), nvb.Parameter("n", nvb.Scalar(i32, **promised))]
    k = nvb.KernelBuilder("k", "sm_80", threads=32, parameters=parameters)
    x, n = k.arguments
    count = n if rounds is None else rounds
    with k.range(k.const(0, nvb.i64) if wide else 0, count.to(nvb.i64) if wide else count, unroll=unroll) as i:
        with k.if_(k.thread_id() == 0):
            x[i] = x[i] * 2.0 + 1.0
        if together:
            k.barrier.sync()
    return k.compile(assemble=False)


def copies(compiled) -> int:
    """Stores in the PTX, one a copy of the body."""
    return compiled.ptx.count("st.global")


@pytest.mark.parametrize(
    ("unroll", "more", "wanted"),
    [
        (None, {}, {1}),
        (False, {}, {1}),
        (1, {}, {1}),
        (4, {}, {5, 6, 7}),  # four, and what is left over
        (4, {"rounds": 16}, {4}),
        (True, {"rounds": 16}, {16}),
        (4, {"together": True, "multiple_of": 4}, {4}),
        (3, {"rounds": 6, "together": True}, {3, 6}),
        (4, {"wide": True, "multiple_of": 4, "minimum": 0}, {4}),
    ],
)
def test_the_copies_are_in_the_ptx(unroll, more, wanted) -> None:
    compiled = kernel(unroll, **more)
    assert copies(compiled) in wanted
    assert not compiled.diagnostics
    # ptxas copies nothing more where a number of copies was asked for
    looped = copies(compiled) != more.get("rounds")
    assert ('.pragma "nounroll"' in compiled.ptx) == (unroll is not None and looped)


@pytest.mark.parametrize(
    ("unroll", "node"),
    [
        (4, '!"llvm.loop.unroll.count", i32 4'),
        (True, '!"llvm.loop.unroll.full"'),
        (False, '!"llvm.loop.unroll.disable"'),
        (1, '!"llvm.loop.unroll.disable"'),
    ],
)
def test_a_hint_is_the_node_of_the_language_reference(unroll, node) -> None:
    """LLVM LangRef, llvm.loop.unroll: of a node in another form it takes no notice."""
    assert f"!{{ {node} }}" in kernel(unroll, rounds=16).ir


def test_no_hint_leaves_the_text_as_it_is() -> None:
    assert "nvbackend.line" not in kernel(None).ir
    assert "llvm.loop" not in kernel(None).ir


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 8])
@pytest.mark.parametrize("unroll", [4, False])
def test_every_round_is_run_once(count, unroll) -> None:
    x = np.arange(10, dtype=np.float32)
    loaded = runtime.load(kernel(unroll), device="simulator")
    wanted = x.copy()
    wanted[:count] = wanted[:count] * 2 + 1
    loaded.launch(1, x, count)
    assert np.array_equal(x, wanted)


def test_a_barrier_in_rounds_that_are_not_known_is_not_copied() -> None:
    compiled = kernel(4, together=True)
    (warning,) = compiled.diagnostics
    assert (warning.rule_id, copies(compiled)) == ("llvm.not-unrolled", 1)
    assert warning.location is not None
    assert warning.location.file == __file__
    assert "k.range(" in open(__file__).read().splitlines()[warning.location.line - 1]  # noqa: SIM115


@pytest.mark.parametrize(("step", "leaves"), [(64, False), (64, True), (1, True)])
def test_copies_that_each_may_be_the_last_are_copies(step, leaves) -> None:
    """Of rounds whose number is known at run time alone, where each copy has an exit of its own."""
    parameters = [nvb.Parameter("x", nvb.Pointer(f32)), nvb.Parameter("n", nvb.signature.Scalar(i32))]
    k = nvb.KernelBuilder("k", "sm_80", threads=64, parameters=parameters)
    x, n = k.arguments
    total = k.var(0.0, f32)
    with k.range(k.thread_id(), n, step, unroll=4) as i:
        total.set(total + x[i])
        if leaves:
            k.break_if(total.value > 100.0)
    x[k.thread_id()] = total.value
    compiled = k.compile(assemble=False)
    assert (compiled.ptx.count("ld.global"), compiled.diagnostics) == (4, ())


@pytest.mark.parametrize("unroll", [0, -1, 2.0, "4", 257])
def test_what_is_no_number_of_copies_is_refused(unroll) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel(unroll)
    assert caught.value.diagnostics[0].rule_id in ("control.unroll", "call.argument")
    check_unroll(256, (0, 1, 1))  # the most


def test_narrow_counters_are_unrolled() -> None:
    k = nvb.KernelBuilder("k", "sm_80", threads=32, parameters=[nvb.Parameter("x", nvb.Pointer(f32))])
    with k.range(k.const(0, nvb.u8), 8, 2, unroll=True) as i:
        k.arguments[0][i.to(i32)] = 1.0
    assert copies(k.compile(assemble=False)) == 4


def test_rounds_are_known_where_no_thread_comes() -> None:
    k = nvb.KernelBuilder("k", "sm_80", threads=32, parameters=[nvb.Parameter("x", nvb.Pointer(f32))])
    for part in range(2):
        with k.if_(k.thread_id() < 32 * (1 - part)), k.range(4, unroll=True) as i:
            k.arguments[0][i] = 1.0
    assert k.compile(assemble=False).diagnostics == ()
