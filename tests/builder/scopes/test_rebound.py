"""Names and entries that a with-block binds to another value: Python binds them once, for every thread."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, Variable, f32, i32


@dataclass
class State:
    low: Variable
    high: Variable


def build(body):
    @nvb.kernel("sm_80", threads=32)
    def kernel(k, out: nvb.Pointer[f32], n: i32):
        body(k, out, n)

    return kernel.build()


def an_entry(k, out, n):
    v = [k.var(1.0), k.var(2.0)]
    with k.if_(n > 0):
        v[0] = v[1]  # here
    out[0] = v[0]


def an_entry_by_its_end(k, out, n):
    v = [k.var(1.0), k.var(2.0)]
    with k.if_(n > 0):
        v[-1] = v[0]  # here
    out[0] = v[-1]


def entries_in_turns(k, out, n):
    v = [k.var(1.0), k.var(2.0)]
    with k.range(n):
        v[0], v[1] = v[1], v[0]  # here
    for at in range(2):
        out[at] = v[at]


def entries_of_a_loop_of_python(k, out, n):
    v = [k.var(1.0), k.var(2.0)]
    with k.if_(n > 0):
        for at in range(2):
            v[at] = v[1 - at]  # here
    out[0] = sum(v)


def a_key(k, out, n):
    v = {"a": k.var(1.0), "b": k.var(2.0)}
    with k.if_(n > 0):
        v["a"] = v["b"]  # here
    out[0] = v["a"]


def a_number_for_a_variable(k, out, n):
    v = [k.var(1.0)]
    with k.if_(n > 0):
        v[0] = 3.0  # here
    out[0] = v[0]


def all_entries_in_a_list(k, out, n):
    v = [k.var(1.0), k.var(2.0)]
    with k.if_(n > 0):
        v[0] = v[1]  # here
    out.store(*v)


def a_name(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):
        a = b  # here
    out[0] = a


def a_value(k, out, n):
    best, other = out[1], out[2]
    with k.if_(other > best):
        best = other  # here
    out[0] = best


def a_name_in_an_else(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):
        out[1] = a
    with k.else_():
        a = b  # here
    out[0] = a + 1.0


def an_attribute(k, out, n):
    state = State(k.var(1.0), k.var(2.0))
    with k.if_(n > 0):
        state.low = state.high  # here
    out[0] = state.low


def names_in_turns_in_a_loop_that_runs(k, out, n):
    a, b = out[0], out[1]
    with k.range(4):
        a, b = b, a  # here
    out[0] = a


def a_name_read_after_the_block_around(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    for _ in range(2):
        with k.if_(n > 0):
            a = b  # here
    out[0] = a


def a_block_beside_others_in_one_statement(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with nullcontext(), k.range(2), k.if_(n > 0), nullcontext() as _:
        a = b  # here
    out[0] = a


def read_in_a_test_of_python(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):
        a = b  # here
    if a is not b:
        out[0] = a
    else:
        out[0] = b


def read_in_a_test_of_a_loop_of_python(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):
        a = b  # here
    while a is None:
        a = b


def read_in_a_branch_of_python(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):
        a = b
    if out is None:
        out[0] = a


def a_pointer(k, out, n):
    row = out + 1
    with k.if_(n > 0):
        row += 32  # here
    row[0] = 1.0


def a_pointer_in_a_loop_that_runs(k, out, n):
    row = out + 1
    with k.range(4):
        row = row + n  # here
    row[0] = 1.0


def a_pointer_that_the_next_round_reads(k, out, n):
    row = out + 1
    with k.range(n):
        row[0] = 1.0
        row += 32  # here


def a_pointer_in_a_loop_without_a_count(k, out, n):
    row = out + 1
    with k.loop():
        k.break_if(row[0] == 0.0)
        row = row + n  # here


def an_index_that_the_next_round_reads(k, out, n):
    at = k.thread_id()
    with k.range(n):
        out[at] = 1.0
        at += 32  # here


WRONG = [
    *(an_entry, an_entry_by_its_end, entries_in_turns, entries_of_a_loop_of_python, a_key, a_number_for_a_variable),
    *(all_entries_in_a_list, a_name, a_value, a_name_in_an_else, an_attribute, names_in_turns_in_a_loop_that_runs),
    *(a_name_read_after_the_block_around, a_block_beside_others_in_one_statement),
    *(read_in_a_test_of_python, read_in_a_test_of_a_loop_of_python),
    *(a_pointer, a_pointer_in_a_loop_that_runs, a_pointer_that_the_next_round_reads),
    *(a_pointer_in_a_loop_without_a_count, an_index_that_the_next_round_reads),
]


@pytest.mark.parametrize("body", WRONG, ids=lambda body: body.__name__)
def test_what_is_read_after_the_block_is_refused(body) -> None:
    with pytest.raises(DiagnosticError) as raised:
        build(body)
    (fault,) = raised.value.diagnostics
    assert fault.rule_id == "value.rebound"
    assert fault.location.source.endswith("# here")


def set_as_the_fix_says(k, out, n):
    v = [k.var(1.0), k.var(2.0)]
    with k.if_(n > 0):
        v[0].set(v[1])
    out[0] = v[0]


def read_in_the_block_alone(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):
        a = b
        out[0] = a


def bound_again_before_it_is_read(k, out, n):
    v, w = [k.var(1.0), k.var(2.0)], out[1]
    with k.if_(n > 0):
        v[0], w = v[1], v[1].value
        out[1] = v[0] + w
    v[0], w = k.var(3.0), out[2]
    out[0] = v[0] + w


def bound_back(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):
        kept, a = a, b
        out[1] = a
        a = kept
    out[0] = a


def another_entry_is_read(k, out, n):
    v = [k.var(1.0), k.var(2.0)]
    with k.if_(n > 0):
        v[0] = v[1]
        out[1] = v[0]
    out[0] = v[1] + float(len(v))


def read_where_the_same_threads_come(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):
        a, b = b, a
    with k.if_(n > 0):
        out[0] = a


def a_count_of_the_build(k, out, n):
    place, first = 0, True
    for _ in range(2):
        with k.if_(n > place):
            place += 1
            first = False
    out[place] = 1.0 if first else 2.0


def the_same_value_in_each_round(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.range(4):
        a = b
    out[0] = a


def a_function_that_is_not_called(k, out, n):
    a, b = k.var(1.0), k.var(2.0)
    with k.if_(n > 0):

        def later():
            a = b
            out[1] = a

        later()
    out[0] = a


def another_object(k, out, n):
    tile = out + 1
    with k.if_(n > 0):
        tile = out + 2
        tile[0] = 1.0
    tile = out + 3
    tile[0] = 2.0


def a_pointer_of_each_round(k, out, n):
    row = out + 1
    with k.range(n) as i:
        row = row + i * 32
        row[0] = 1.0


def a_pointer_of_one_round(k, out, n):
    row = out + 1
    with k.range(1):
        row[0] = 1.0
        row += 32


def a_pointer_of_a_loop_of_python(k, out, n):
    row = out + 1
    for _ in range(3):
        with k.range(n) as i:
            row[i] = 1.0
            row += 32


def a_pointer_of_the_threads_that_come(k, out, n):
    row = out + 1
    with k.if_(n > 0):
        row[0] = 1.0
        row += 32


def a_pointer_that_a_function_reads(k, out, n):
    row = out + 1

    def later():
        row[0] = 2.0

    with k.range(n) as i:
        row[i] = 1.0
        row += 32
    later()


def a_count_of_the_build_in_a_loop(k, out, n):
    count = 0
    with k.range(n) as i:
        out[i + count] = 1.0
        count += 1


RIGHT = [
    *(set_as_the_fix_says, read_in_the_block_alone, bound_again_before_it_is_read, bound_back, another_entry_is_read),
    *(read_where_the_same_threads_come, a_count_of_the_build, the_same_value_in_each_round),
    *(a_function_that_is_not_called, another_object, read_in_a_branch_of_python),
    *(a_pointer_of_each_round, a_pointer_of_one_round, a_pointer_of_a_loop_of_python),
    *(a_pointer_of_the_threads_that_come, a_pointer_that_a_function_reads, a_count_of_the_build_in_a_loop),
]


@pytest.mark.parametrize("body", RIGHT, ids=lambda body: body.__name__)
def test_nothing_is_said_of_what_no_other_thread_reads(body) -> None:
    assert build(body).diagnostics == ()


def test_the_fix_names_what_to_set() -> None:
    for body, fix in (
        (an_entry, "set it inside: v[0].set(...)"),
        (a_value, "make it a variable before the block, best = k.var(...), and set it inside: best.set(...)"),
        (a_pointer, "keep the offset in a variable: at = k.var(0) before the block, at += ... inside, and (row + at)"),
    ):
        with pytest.raises(DiagnosticError) as raised:
            build(body)
        assert raised.value.diagnostics[0].fix == fix


def test_a_kernel_without_source_is_built_as_before() -> None:
    names: dict[str, object] = {}
    exec("def body(k, out, n):\n a, b = k.var(1.0), k.var(2.0)\n with k.if_(n > 0):\n  a = b\n out[0] = a\n", names)
    assert build(names["body"]).diagnostics == ()
