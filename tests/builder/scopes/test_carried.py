"""What a loop's body sets for its next round alone: Python runs the body once, so no round sees it."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32
from tests.builder.scopes.test_rebound import State, build


def an_index_set_before_the_end(k, out, n):
    at = k.thread_id()
    with k.range(n) as i:
        x = out[at]
        at = at + 32  # here
        out[i] = x


def an_index_set_for_some_threads(k, out, n):
    at = k.thread_id()
    with k.range(n) as i:
        x = out[at]
        with k.if_(x > 0.0):
            out[i] = x
            at = at + 32  # here


def two_indices_for_the_next_round(k, out, n):
    at, to = k.thread_id(), k.thread_id() + 1
    with k.range(n):
        out[to] = out[at]
        at, to = at + 32, to + 64  # here


def an_annotated_index(k, out, n):
    at = k.thread_id()
    with k.range(n):
        out[at] = 1.0
        at: nvb.Value = at + 32  # here


def an_attribute_for_the_next_round(k, out, n):
    state = State(k.thread_id(), k.thread_id())
    with k.range(n):
        out[state.low] = 1.0
        state.low = state.low + 32  # here


def an_entry_for_the_next_round(k, out, n):
    at = [k.thread_id(), k.thread_id()]
    with k.range(n):
        out[at[1]] = 1.0
        at[1] += 32  # here


def buffers_in_turns(k, out, n):
    now, then = k.shared(f32, 32, name="now"), k.shared(f32, 32, name="then")
    now[k.thread_id()] = 1.0
    with k.range(n):
        then[k.thread_id()] = now[k.thread_id()]
        now, then = then, now  # here
    out[0] = 1.0


def a_phase_of_the_build(k, out, n):
    phase = 0
    with k.range(n) as i:
        out[i] = float(phase)
        phase ^= 1  # here


def a_stage_of_the_build(k, out, n):
    stage = 0
    with k.range(n) as i:
        out[i] = float(stage)
        stage = (stage + 1) % 3  # here


def a_flag_of_the_build(k, out, n):
    odd = False
    with k.loop():
        k.break_if(out[0] > 0.0)
        out[1] = 1.0 if odd else 2.0
        odd = not odd  # here


WRONG = [
    an_index_set_before_the_end,
    an_index_set_for_some_threads,
    two_indices_for_the_next_round,
    an_annotated_index,
    an_attribute_for_the_next_round,
    an_entry_for_the_next_round,
    buffers_in_turns,
    a_phase_of_the_build,
    a_stage_of_the_build,
    a_flag_of_the_build,
]


@pytest.mark.parametrize("body", WRONG, ids=lambda body: body.__name__)
def test_what_a_next_round_alone_would_read_is_refused(body) -> None:
    with pytest.raises(DiagnosticError) as raised:
        build(body)
    (fault,) = raised.value.diagnostics
    assert fault.rule_id == "value.rebound"
    assert fault.location.source.endswith("# here")


def an_index_read_again(k, out, n):
    at = k.thread_id()
    with k.range(n) as i:
        x = out[at]
        at = at + i
        out[at] = x


def an_attribute_that_a_function_reads(k, out, n):
    state = State(k.thread_id(), k.thread_id())

    def store():
        out[state.low] = 2.0

    with k.range(n):
        out[state.low] = 1.0
        state.low = state.low + 32
        store()


def values_in_turns_that_another_name_reads(k, out, n):
    v = [k.var(1.0), k.var(2.0)]
    other = v
    with k.range(n):
        out[0] = v[0] + v[1]
        v[0], v[1] = v[1], v[0]
    out[1] = other[0]


def a_count_of_all_loops(k, out, n):
    turn, at = 0, k.thread_id()

    def loop():
        nonlocal turn, at
        with k.range(n):
            out[at] = float(turn)
            turn ^= 1
            at = k.thread_id() + turn

    loop()
    at = k.thread_id()
    loop()


def a_phase_of_one_round(k, out, n):
    phase = 0
    with k.range(1):
        out[0] = float(phase)
        phase ^= 1


def a_phase_of_a_loop_of_python(k, out, n):
    phase = 0
    for _ in range(4):
        with k.range(n) as i:
            out[i] = float(phase)
            phase ^= 1


def a_phase_that_is_used_up(k, out, n):
    phase = 0
    with k.range(n) as i:
        out[i] = float(phase)
        phase ^= 1
        out[i + 1] = float(phase)
        phase ^= 1
        out[i + 2] = float(phase)


def a_phase_that_comes_back(k, out, n):
    phase = 0
    with k.range(n) as i:
        out[i] = float(phase)
        phase ^= 1
        out[i + 1] = float(phase)
        phase ^= 1


def an_index_of_two_rows_of_each_round(k, out, n):
    at = k.thread_id()
    with k.range(n) as i:
        x = out[at]
        at = at + 32
        y = out[at]
        at = at + 32
        out[i] = x + y


RIGHT = [
    an_index_read_again,
    an_attribute_that_a_function_reads,
    values_in_turns_that_another_name_reads,
    a_count_of_all_loops,
    a_phase_of_one_round,
    a_phase_of_a_loop_of_python,
    a_phase_that_is_used_up,
    a_phase_that_comes_back,
    an_index_of_two_rows_of_each_round,
]


@pytest.mark.parametrize("body", RIGHT, ids=lambda body: body.__name__)
def test_nothing_is_said_of_what_something_else_reads(body) -> None:
    assert build(body).diagnostics == ()


def test_the_fix_names_what_to_set() -> None:
    for body, fix in (
        (
            a_phase_of_the_build,
            "make it a variable before the block, phase = k.var(...), and set it inside: phase.set(...)",
        ),
        (
            buffers_in_turns,
            "put what is taken in turns into one allocation, and step into it in each round: now + index % 2 * size",
        ),
    ):
        with pytest.raises(DiagnosticError) as raised:
            build(body)
        assert raised.value.diagnostics[0].fix == fix
