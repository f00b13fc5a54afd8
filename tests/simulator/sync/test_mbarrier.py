"""An mbarrier object against the words of the PTX ISA, step by step, over random sequences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.simulator.sync.mbarrier import MbarrierFault, made, pending_of, phase_of

STEPS = st.lists(st.tuples(st.sampled_from(("arrive", "drop", "expect", "complete")), st.integers(1, 4)), max_size=30)


@given(st.integers(1, 6), STEPS)
def test_a_phase_ends_when_arrivals_and_bytes_have_come(count, steps):
    """A second model: it counts what came in the phase, upwards."""
    barrier = made(count)
    expected, came, due, bytes_come, phase = count, 0, 0, 0, 0
    for step, number in steps:
        token = barrier.state
        assert (phase_of(token), pending_of(token)) == (phase, expected - came)
        if step in ("arrive", "drop"):
            if came + number > expected:
                with pytest.raises(MbarrierFault):
                    barrier.arrive(number, drop=step == "drop")
                continue
            came += number
            later = expected - number if step == "drop" else expected
            ended = barrier.arrive(number, drop=step == "drop")
        elif step == "expect":
            due, later, ended = due + number, expected, barrier.expect(number)
        else:
            bytes_come, later, ended = bytes_come + number, expected, barrier.complete(number)
        is_over = came == expected and due == bytes_come
        assert ended == is_over
        if step == "drop":
            came, expected = came - number, later
        if is_over:
            phase, came, due, bytes_come = phase + 1, 0, 0, 0
            if expected == 0:
                return
        assert barrier.has_passed(phase & 1) is False
        assert barrier.has_passed(1 - (phase & 1)) is True


@given(st.integers(1, 40), st.integers(0, 5), st.data())
def test_states_are_those_of_arrivals_one_after_the_other(count, phase, data):
    barriers = [made(count), made(count)]
    for barrier in barriers:
        for _ in range(phase):
            barrier.arrive(count)
    several, (first, second) = data.draw(st.integers(0, count)), barriers
    one_by_one = []
    for _ in range(several):
        one_by_one.append(first.state)
        first.arrive()
    assert second.states(several).tolist() == one_by_one


@given(st.integers(1, 3), st.integers(0, 3), st.integers(-6, 40), st.lists(st.integers(1, 6), min_size=1, max_size=12))
def test_portions_of_one_phase_are_as_good_as_their_sum(count, arrived, due, portions):
    apart, together = made(count), made(count)
    for barrier in (apart, together):
        if due:
            barrier.expect(due) if due > 0 else barrier.complete(-due)
        if min(arrived, count):
            barrier.arrive(min(arrived, count))
    began = apart.phase
    phases = []
    for portion in portions:
        phases.append(apart.phase)
        apart.complete(portion)
    certain = together.stays_in_its_phase(np.array(portions))
    assert certain >= (arrived < count or due >= sum(portions))
    if certain:
        assert set(phases) == {began}
        together.complete(sum(portions))
        assert together == apart


def test_portions_that_are_too_many_are_not_taken_as_one():
    barrier = made(1)
    assert barrier.stays_in_its_phase(np.array([(1 << 19)] * 1))
    assert not barrier.stays_in_its_phase(np.array([(1 << 19)] * 2))


def test_counts_have_20_bits():
    for count in (0, 1 << 20, -1):
        with pytest.raises(MbarrierFault) as caught:
            made(count)
        assert caught.value.rule == "count"
    barrier = made((1 << 20) - 1)
    barrier.expect((1 << 20) - 1)
    with pytest.raises(MbarrierFault) as caught:
        barrier.expect(1)
    assert caught.value.rule == "expect-tx"


def test_an_arrival_that_must_not_complete():
    barrier = made(2)
    barrier.arrive(completes=False)
    with pytest.raises(MbarrierFault, match="noComplete"):
        barrier.arrive(completes=False)
    barrier.expect(8)
    assert not barrier.arrive(completes=False)
    assert barrier.complete(8)


def test_bytes_may_come_before_they_are_expected():
    barrier = made(1)
    assert not barrier.complete(64)
    barrier.expect(64)
    assert barrier.phase == 0
    assert barrier.arrive()


def test_more_arrivals_may_be_awaited_in_a_phase():
    barrier = made(1)
    barrier.await_more()
    assert not barrier.arrive()
    assert barrier.arrive()
    assert barrier.pending == 1
