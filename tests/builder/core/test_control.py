"""Branches, loops, early exits and variables, run on this machine's processor and compared with plain Python."""

from __future__ import annotations

import operator
import re
import sys
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.host import run_on_host


def builder(*scalars):
    parameters = [Parameter("out", Pointer(i32)), *(Parameter(name, Scalar(i32)) for name in scalars)]
    k = KernelBuilder("control", "sm_90a", threads=32, parameters=parameters)
    return k, *k.arguments


def result(k, *arguments):
    out = np.full(1, -1, np.int32)
    run_on_host(k.finish(), out, *arguments)
    return int(out[0])


@settings(max_examples=30, deadline=None)
@given(st.integers(-20, 20), st.integers(-20, 40), st.integers(1, 7))
def test_a_counted_loop_carries_variables(start, stop, step):
    k, out, first, last = builder("first", "last")
    total, rounds = k.var(0), k.var(0)
    with k.range(first, last, step) as i:
        total += i
        rounds += 1
    out[0] = total * 1000 + rounds
    expected = list(range(start, stop, step))
    assert result(k, start, stop) == sum(expected) * 1000 + len(expected)


@pytest.mark.parametrize("number", [-3, 0, 5, 10])
def test_both_sides_of_a_branch_set_a_variable(number):
    k, out, a = builder("a")
    x = k.var(7)
    with k.if_(a < 5):
        x.set(a * 2)
        with k.if_(a < 0):
            x.set(-1)
    with k.else_():
        x += 1
    out[0] = x
    expected = (-1 if number < 0 else number * 2) if number < 5 else 8
    assert result(k, number) == expected


def test_a_variable_that_one_side_leaves_alone_keeps_its_value():
    for number, expected in ((1, 5), (0, 9)):
        k, out, a = builder("a")
        x, y = k.var(5), k.var(3)
        with k.if_(a == 0):
            x.set(x + 1 + y)
        out[0] = x
        assert result(k, number) == expected


def test_break_and_continue():
    k, out, limit = builder("limit")
    total = k.var(0)
    with k.range(100) as i:
        k.continue_if(i % 2 == 1)
        with k.if_(i >= limit):
            k.break_()
        total += i
    out[0] = total
    assert result(k, 11) == sum(range(0, 11, 2))


def test_a_round_is_left_and_the_kernel_is():
    k, out, limit = builder("limit")
    total = k.var(0)
    with k.range(100) as i:
        with k.if_(i % 3 == 1):
            k.continue_()
        total += i
        out[0] = total
        with k.if_(i == limit):
            k.return_()
    out[0] = -2
    assert result(k, 11) == sum(i for i in range(12) if i % 3 != 1)


def test_an_open_loop_ends_by_break_if():
    k, out, a = builder("a")
    x, steps = k.var(a), k.var(0)
    with k.loop():
        k.break_if(x == 1)
        odd = x % 2 == 1
        x.set(k.select(odd, x * 3 + 1, x // 2))
        steps += 1
    out[0] = steps
    assert result(k, 27) == 111


def test_a_branch_on_what_an_instruction_answers():
    """Also where the instruction is inline assembly, and the branch is on the opposite of its answer."""
    k, out = builder()
    full = k.mbarrier.array(1, arrivals=32)
    k.mbarrier.ready()
    k.mbarrier.arrive(full)
    with k.loop():
        k.break_if(k.mbarrier.test(full, blocking=True))
    with k.if_(~k.mbarrier.test(full)):
        out[0] = 1
    conditions = [block.branch.condition for block in k.finish().machine.blocks.values() if block.branch]
    assert len(conditions) == 3


def test_nested_loops_and_an_early_return():
    for number, expected in ((3, -1), (30, 12)):
        k, out, a = builder("a")
        k.return_if(a < 10)
        count = k.var(0)
        with k.range(4) as i, k.range(i, 10), k.if_(count < 12):
            count += 1
        out[0] = count
        assert result(k, number) == expected


def test_blocks_nest_deeper_than_calls_of_python():
    depth = 1200
    assert depth > sys.getrecursionlimit()
    for number, expected in ((depth, 1), (depth - 1, -1)):
        k, out, a = builder("a")
        with ExitStack() as nest:
            for level in range(depth):
                nest.enter_context(k.if_(a > level))
            out[0] = 1
        assert result(k, number) == expected


def test_the_counter_of_a_loop_is_a_value_of_its_round():
    k, out, _ = builder("unused")
    last = k.var(0)
    with k.range(5) as i:
        before = last.value
        last.set(i)
        last.set(last + before)
    out[0] = last
    assert result(k, 0) == 0 + 1 + 2 + 3 + 4


def test_memory_is_read_and_written_in_vectors():
    k = KernelBuilder(
        "copy", "sm_90a", threads=32, parameters=[Parameter("a", Pointer(i32)), Parameter("n", Scalar(i32))]
    )
    a, n = k.arguments
    with k.range(n) as i:
        quad = (a.byte_offset(i * 16, align=16)).load(4)
        (a.byte_offset(i * 16, align=16)).store(*reversed(quad))
    numbers = np.arange(12, dtype=np.int32)
    run_on_host(k.finish(), numbers, 3)
    assert numbers.reshape(3, 4)[:, ::-1].ravel().tolist() == list(range(12))


def misuse_value_after_its_block(k, a):
    with k.if_(a > 0):
        inner = a + 1
    return inner + 1


def misuse_variable_after_its_block(k, a):
    with k.range(a):
        inner = k.var(0)
    inner += 1


def misuse_else_without_if(k, a):
    with k.if_(a > 0):
        pass
    k.var(a)
    k.shared_static(i32, 4)[0] = a
    with k.else_():
        pass


def misuse_code_after_return(k, a):
    with k.if_(a > 0):
        k.return_()
        k.shared_static(i32, 4)[0] = a


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (misuse_value_after_its_block, "value.scope"),
        (misuse_variable_after_its_block, "value.scope"),
        (misuse_else_without_if, "control.else"),
        (misuse_code_after_return, "control.unreachable"),
        (lambda k, a: k.break_(), "control.loop"),
        (lambda k, a: k.range(a, step=0).__enter__(), "control.step"),
        (lambda k, a: k.finish() and k.var(1), "kernel.finished"),
        (lambda k, a: k.finish() and k.finish(), "kernel.finished"),
        (lambda k, a: k.shared(i32, 1 << 16), "shared.size"),
        (lambda k, a: k.shared(i32, 64).load(8), "memory.vector"),
        (lambda k, a: k.shared(nvb.s4, 64) + 3, "memory.sub-byte"),
        (lambda k, a: k.shared(nvb.e2m1, 64) + a, "memory.sub-byte"),
        (lambda k, a: (k.shared(i32, 64) + 1).load(4), "memory.alignment"),
        (lambda k, a: (k.shared(i32, 64) + a).load(2), "memory.alignment"),
    ],
)
def test_misuse_is_a_diagnostic_at_the_line(broken, rule):
    k, _, a = builder("a")
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(k, a)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == rule
    assert diagnostic.location is not None and diagnostic.location.file == __file__


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        ("kernel.bounds", {"threads": 100}),
        ("kernel.bounds", {"threads": 2048}),
        ("kernel.bounds", {"threads": 0}),
        ("cluster.size", {"threads": 128, "cluster": 17}),
        ("kernel.bounds", {"threads": 128, "min_ctas": 0}),
        ("kernel.bounds", {"threads": 128, "max_registers": 23}),
        ("kernel.bounds", {"threads": 128, "max_registers": 256}),
    ],
)
def test_launch_bounds_are_checked(rule, facts):
    with pytest.raises(nvb.DiagnosticError) as caught:
        KernelBuilder("bounds", "sm_90a", **facts)
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]


def test_clusters_need_hopper():
    with pytest.raises(nvb.DiagnosticError, match=r"sm_80 at PTX 9\.0 has no clusters"):
        KernelBuilder("bounds", "sm_80", threads=128, cluster=2)


def test_names_survive_into_the_ir():
    k, out, a = builder("a")
    speed = k.var(a, name="speed")
    with k.range(a, name="round") as i:
        speed += (i * 3).named("push")
    out[0] = speed
    text = k.finish().ir
    assert all(name in text for name in ('%"speed"', '%"round', '%"push'))


@pytest.mark.parametrize(("element", "count", "step"), [(nvb.s4, 6, 3), (nvb.e2m3, 4, 3), (nvb.b1, 40, 5)])
def test_elements_of_less_than_a_byte_are_stepped_over_in_whole_bytes(element, count, step):
    """The first allocation starts at the base of dynamic shared memory, so the step alone is added to it."""
    k, _, _ = builder("a")
    (k.shared(element, 64) + count).cast(nvb.u8).store(k.const(7, nvb.u8))
    (added,) = re.findall(r"= add i32 ptrtoint [^!]*, (\d+)\b", k.finish().ir)
    assert int(added) == step


@pytest.mark.parametrize(
    "after", [lambda k: k.finish(), lambda k: k.llvm.unreachable(), lambda k: k.print("x"), lambda k: k.return_()]
)
def test_a_block_that_the_users_terminator_has_ended(after) -> None:
    from nvbackend import DiagnosticError, KernelBuilder

    k = KernelBuilder("ended", "sm_90a", threads=32)
    k.llvm.ret_void()
    with pytest.raises(DiagnosticError, match=r"attach\.block.*ret void"):
        after(k)


IN_PLACE = (
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.ifloordiv,
    operator.imod,
    operator.iand,
    operator.ior,
    operator.ixor,
    operator.ilshift,
    operator.irshift,
)


@pytest.mark.parametrize("change", IN_PLACE, ids=lambda change: change.__name__)
def test_each_operator_that_changes_a_variable_in_place(change):
    """In a loop, where an operator that only made another value would have no effect."""
    k, out, a = builder("a")
    x = k.var(53)
    with k.range(2):
        assert change(x, a) is x
    out[0] = x
    assert result(k, 3) == change(change(53, 3), 3)


def test_a_quotient_changes_a_variable_in_place():
    k = KernelBuilder("halves", "sm_90a", threads=32, parameters=[Parameter("out", Pointer(f32))])
    x = k.var(1.0)
    with k.range(3):
        x /= 2.0
    k.arguments[0][0] = x
    out = np.zeros(1, np.float32)
    run_on_host(k.finish(), out)
    assert out[0] == 0.125


def test_a_function_that_returns_leaves_the_loops_that_it_opened_and_no_other():
    @nvb.function
    def first_square_from(k, out: nvb.Pointer[i32], a: i32):
        x = k.var(a)
        with k.loop():
            with k.if_(x.value % 4 == 0):
                out[0] = x * x
                k.return_()
            x += 1

    k, out, a = builder("a")
    first_square_from(k, out, a)
    assert result(k, 5) == 64

    k, out, a = builder("a")
    with pytest.raises(nvb.DiagnosticError, match=r"control\.endless"), k.loop():
        first_square_from(k, out, a)
