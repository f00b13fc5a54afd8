"""Barriers of a grid that poll a counter: until it is one certain number, which a thread that comes late never sees."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32, u32
from tests.support.runtime import rules

U32 = nvb.Pointer[u32]
MISSED = "simulator.missed-count"
CTAS = 4


def wait(k, counter, holds, order="acquire"):
    with k.loop():
        k.break_if(holds(counter.load(order=order, scope="gpu")[0]))


def add(k, counter, order="release"):
    k.atomic.reduce(counter, "add", 1, order=order, scope="gpu")


def equal(k, counter, number):
    add(k, counter)
    wait(k, counter, lambda seen: seen == number * CTAS)


def not_unequal(k, counter, number):
    add(k, counter, "relaxed")
    wait(k, counter, lambda seen: ~(seen != number * CTAS))


def at_least(k, counter, number):
    add(k, counter)
    wait(k, counter, lambda seen: seen >= number * CTAS)


def counters_in_turns(k, counter, number):
    counter += (number % 2).to(i32)
    add(k, counter)
    wait(k, counter, lambda seen: seen == (number + 1) // 2 * CTAS)


def back_to_zero(k, counter, number):
    k.atomic.inc(counter, CTAS - 1, order="release", scope="gpu")
    wait(k, counter, lambda seen: seen == 0)


def until_it_changes(k, counter, number):
    """The last one to come changes a word of its own."""
    changed = counter + 1
    before = changed.load(order="acquire", scope="gpu")[0]
    last = k.atomic.inc(counter, CTAS - 1, order="acq_rel", scope="gpu") == CTAS - 1
    with k.if_(last):
        k.atomic.reduce(changed, "add", 1, order="release", scope="gpu")
    with k.else_():
        wait(k, changed, lambda seen: seen != before)


def in_turn(k, counter, number):
    """Each CTA waits until those before it have counted, which the last of the round before has."""
    first = (number - 1) * CTAS
    wait(k, counter, lambda seen: seen == first + k.block_id().to(u32))
    add(k, counter)


def in_turn_of_relaxed_looks(k, counter, number):
    """The word itself orders the looks: each CTA counts after it has looked."""
    turn = (number - 1) * CTAS + k.block_id().to(u32)
    with k.if_(k.block_id() % 2 == 0):
        wait(k, counter, lambda seen: seen == turn)
    with k.else_():
        wait(k, counter, lambda seen: seen == turn, "relaxed")
    add(k, counter)


def found(barrier, rounds: int, seed: int, ctas: int = CTAS) -> list[str]:
    @nvb.kernel("sm_90a", threads=64)
    def kernel(k, counters: U32, out: U32, rounds: i32):
        with k.range(rounds) as step:
            k.barrier.sync()
            with k.one_thread():
                barrier(k, counters, step.to(u32) + 1)
            k.barrier.sync()
        out[k.block_id() * 64 + k.thread_id()] = 1

    loaded = nvb.runtime.load(kernel.compile(assemble=False), device="simulator", seed=seed)
    return rules(lambda: loaded.launch(ctas, np.zeros(2, np.uint32), np.zeros(64 * ctas, np.uint32), rounds))


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("barrier", [equal, not_unequal, back_to_zero])
def test_a_counter_that_counts_on_may_be_missed(barrier, seed):
    assert found(barrier, 3, seed) == [MISSED]
    assert found(barrier, 1, seed) == []


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("barrier", [at_least, counters_in_turns, until_it_changes, in_turn, in_turn_of_relaxed_looks])
def test_nothing_is_said_of_barriers_that_no_thread_misses(barrier, seed):
    assert found(barrier, 4, seed) == []


def relaxed_answers(k, counter, number):
    """Each CTA says that it has looked, by a relaxed count, and all wait for that before they count again."""
    add(k, counter)
    wait(k, counter, lambda seen: seen == number * CTAS)
    add(k, counter + 1, "relaxed")
    wait(k, counter + 1, lambda seen: seen >= number * CTAS)


def test_what_relaxed_counts_order_is_left_open():
    assert found(relaxed_answers, 3, 0) == []


def test_both_counts_are_named():
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, counter: U32, rounds: i32):
        with k.range(rounds) as step, k.one_thread():
            equal(k, counter, step.to(u32) + 1)

    loaded = nvb.runtime.load(kernel.compile(assemble=False), device="simulator")
    with pytest.raises(nvb.DiagnosticError) as raised:
        loaded.launch(CTAS, np.zeros(1, np.uint32), 2)
    (diagnostic,) = raised.value.diagnostics
    assert "thread 0 of CTA 1 waits until" in diagnostic.message
    assert diagnostic.location.source.strip().startswith("k.break_if(holds(")
    assert diagnostic.notes[1][1].source.strip().startswith("k.atomic.reduce(counter")
