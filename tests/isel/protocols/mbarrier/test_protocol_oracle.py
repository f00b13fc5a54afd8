"""Verdicts on mbarriers against small programs executed step by step, in every order in which threads may run.

Two threads work on two mbarriers. What an mbarrier is stands here a second time, by the PTX ISA: a phase, arrivals that
are still missing, bytes that are still awaited; the phase completes when neither is left, and a wait for a parity goes
on when the phase under way has the other one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import u8
from nvbackend.signature import Parameter, Pointer
from tests.support.examples import on_examples

BARRIERS = (0, 1)
BYTES = (16, 32)
DEADLOCKS = {"mbarrier.deadlock", "mbarrier.no-arrival"}
"""What says that a wait never ends."""
COUNTED = {"mbarrier.arrivals", "mbarrier.wrong-bytes", "mbarrier.wrong-barrier"}
"""What says that the sums of the program are wrong."""

# -- programs: ("arrive", barrier), ("wait", barrier, parity), ("fill", barrier, expected, brought), ("loop", 2, ...)


def statements():
    barrier = st.sampled_from(BARRIERS)
    right = st.sampled_from(BYTES)
    return st.one_of(
        st.tuples(st.just("arrive"), barrier),
        st.tuples(st.just("wait"), barrier, st.sampled_from((0, 0, 1))),
        st.builds(lambda where, size: ("fill", where, size, size), barrier, right),
        st.tuples(st.just("fill"), barrier, right, right),
    )


def roles():
    loops = st.lists(statements(), min_size=1, max_size=3).map(lambda body: ("loop", 2, *body))
    return st.lists(st.one_of(statements(), statements(), loops), max_size=4)


PROGRAMS = st.tuples(st.tuples(roles(), roles()), st.tuples(*(st.sampled_from((1, 1, 2)) for _ in BARRIERS)))
"""What each thread does, and the arrivals of a phase of each barrier."""


def unrolled(role):
    return [one for each in role for one in (unrolled(each[2:]) * each[1] if each[0] == "loop" else [each])]


# -- the oracle -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Barrier:
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0

    def arrived(self, expected=0):
        """Behind an arrival that announces bytes; None where the barrier has all its arrivals already: undefined."""
        if self.pending == 0:
            return None
        return replace(self, pending=self.pending - 1, bytes=self.bytes + expected)._settled()

    def brought(self, size):
        return replace(self, bytes=self.bytes - size)._settled()

    def _settled(self):
        if self.pending or self.bytes:
            return self
        return Barrier(self.count, self.count, self.phase + 1)


@dataclass(frozen=True)
class Moment:
    at: tuple[int, int]
    barriers: tuple[Barrier, ...]
    underway: tuple[tuple[int, int], ...] = ()

    def with_barrier(self, number, barrier, **changes):
        barriers = tuple(barrier if index == number else one for index, one in enumerate(self.barriers))
        return replace(self, barriers=barriers, **changes)


@dataclass
class Outcome:
    ends: bool = False
    stuck: tuple[Moment, ...] = ()
    undefined: bool = False


def following(moment, lists):
    """Every moment that may come next; None for one that is undefined."""
    for index, (number, size) in enumerate(moment.underway):
        left = moment.underway[:index] + moment.underway[index + 1 :]
        yield moment.with_barrier(number, moment.barriers[number].brought(size), underway=left)
    for thread, place in enumerate(moment.at):
        if place == len(lists[thread]):
            continue
        kind, number, *rest = lists[thread][place]
        barrier = moment.barriers[number]
        on = tuple(one + (index == thread) for index, one in enumerate(moment.at))
        if kind == "wait":
            if barrier.phase % 2 != rest[0]:
                yield replace(moment, at=on)
            continue
        after = barrier.arrived(rest[0] if rest else 0)
        if after is None:
            yield None
            continue
        copies = ((number, rest[1]),) if rest else ()
        yield moment.with_barrier(number, after, at=on, underway=tuple(sorted(moment.underway + copies)))


def executed(program, counts):
    lists = [unrolled(role) for role in program]
    start = Moment((0, 0), tuple(Barrier(count, count) for count in counts))
    seen, waiting, outcome = {start}, [start], Outcome()
    while waiting:
        moment = waiting.pop()
        nexts = list(following(moment, lists))
        if moment.at == tuple(map(len, lists)):
            outcome.ends = True
        elif not nexts:
            outcome.stuck += (moment,)
        for one in nexts:
            if one is None:
                outcome.undefined = True
            elif one not in seen:
                seen.add(one)
                waiting.append(one)
    return outcome


def held_up_in_first_phases(program, outcome):
    """Whether every way ends with threads that wait for parity 0 of barriers whose first phase is under way."""
    lists = [unrolled(role) for role in program]

    def first(moment):
        waits = [lists[thread][place] for thread, place in enumerate(moment.at) if place < len(lists[thread])]
        return all(wait[2] == 0 and moment.barriers[wait[1]].phase == 0 for wait in waits)

    return not outcome.ends and bool(outcome.stuck) and all(first(moment) for moment in outcome.stuck)


# -- the verdict ----------------------------------------------------------------------------------------------------


def verdict(program, counts):
    k = KernelBuilder("kernel", "sm_90a", threads=64, parameters=[Parameter("a", Pointer(u8, 16))])
    barriers = [k.mbarrier.array(1, arrivals=count) for count in counts]
    k.mbarrier.ready()
    for thread, role in enumerate(program):
        with k.if_(k.thread_id() == 32 * thread):
            emit(k, role, barriers)
    try:
        return {one.rule_id for one in k.finish().diagnostics}
    except nvb.DiagnosticError as error:
        return {one.rule_id for one in error.diagnostics}


def emit(k, role, barriers):
    for kind, where, *rest in role:
        if kind == "loop":
            with k.range(where):
                emit(k, rest, barriers)
        elif kind == "wait":
            k.mbarrier.wait(barriers[where], rest[0])
        elif kind == "arrive":
            k.mbarrier.arrive(barriers[where])
        else:
            k.mbarrier.arrive(barriers[where], expect_tx=rest[0])
            k.bulk.load(k.shared(u8, 32, align=16), k.arguments[0], rest[1], barriers[where])


def has_loop(program):
    return any(one[0] == "loop" for role in program for one in role)


# -- the two compared -----------------------------------------------------------------------------------------------


@on_examples(150, 400, PROGRAMS)
def test_a_wait_that_is_said_not_to_end_does_not(case):
    program, counts = case
    outcome = executed(program, counts)
    if DEADLOCKS & verdict(program, counts):
        assert not outcome.ends


@on_examples(150, 400, PROGRAMS)
def test_waits_for_first_phases_that_no_order_completes_are_found(case):
    """What is promised of programs without loops: the hang, or the sums that make it one."""
    program, counts = case
    if has_loop(program) or made_up_for(program):
        return
    if held_up_in_first_phases(program, executed(program, counts)):
        assert (DEADLOCKS | COUNTED) & verdict(program, counts)


def made_up_for(program):
    """Whether a copy brings other bytes than were announced with it, and another one what it lacks: no sum shows it."""
    fills = [one for role in program for one in unrolled(role) if one[0] == "fill"]
    uneven = {one[1] for one in fills if one[2] != one[3]}
    return any(sum(one[2] - one[3] for one in fills if one[1] == number) == 0 for number in uneven)


def test_bytes_that_one_barrier_lacks_and_the_other_has_are_another_barriers():
    program, counts = ([], [("fill", 1, 32, 16), ("wait", 1, 0), ("fill", 0, 16, 32)]), (1, 1)
    assert held_up_in_first_phases(program, executed(program, counts))
    assert verdict(program, counts) == {"mbarrier.wrong-barrier"}


def test_bytes_that_another_copy_makes_up_for_are_beyond_the_sums():
    """Thread 0 waits for a phase that only its own copy behind the wait could complete: known to stay silent."""
    program, counts = ([("wait", 1, 0), ("fill", 1, 32, 16)], [("fill", 1, 16, 32)]), (1, 1)
    assert made_up_for(program) and not executed(program, counts).ends
    assert verdict(program, counts) == set()


@settings(max_examples=300, deadline=None)
@given(PROGRAMS)
def test_programs_that_end_in_every_order_with_whole_phases_draw_no_alarm(case):
    program, counts = case
    outcome = executed(program, counts)
    if outcome.ends and not outcome.stuck and not outcome.undefined and whole_phases(program, counts):
        assert not verdict(program, counts) & {*DEADLOCKS, "mbarrier.wrong-bytes"}


def whole_phases(program, counts):
    """Whether all arrivals make whole phases, and each copy brings what was announced with it."""
    made = [one for role in program for one in unrolled(role) if one[0] != "wait"]
    return all(sum(one[1] == number for one in made) % count == 0 for number, count in enumerate(counts)) and all(
        one[2] == one[3] for one in made if one[0] == "fill"
    )


FILLS_WHAT_IS_RELEASED = [("loop", 2, ("wait", 0, 0), ("fill", 1, 16, 16))]
RELEASES_WHAT_IS_FILLED = [("loop", 2, ("wait", 1, 0), ("arrive", 0))]


@pytest.mark.parametrize(
    ("program", "counts", "ends", "said"),
    [
        (([("arrive", 0)], [("wait", 0, 0)]), (1, 1), True, False),
        (([("wait", 0, 0), ("arrive", 0)], []), (1, 1), False, True),
        (([("wait", 0, 1), ("arrive", 0)], [("wait", 0, 0)]), (1, 1), True, False),
        (([("wait", 0, 0), ("arrive", 1)], [("wait", 1, 0), ("arrive", 0)]), (1, 1), False, True),
        (([("wait", 0, 0), ("arrive", 1)], [("arrive", 0), ("wait", 1, 0)]), (1, 1), True, False),
        (([("arrive", 0), ("wait", 0, 0), ("arrive", 0)], []), (2, 1), False, True),
        (([("loop", 2, ("arrive", 0)), ("wait", 0, 0), ("arrive", 0)], []), (2, 1), True, False),
        ((FILLS_WHAT_IS_RELEASED, RELEASES_WHAT_IS_FILLED), (1, 1), False, True),
    ],
)  # fmt: skip
def test_programs_whose_end_is_known(program, counts, ends, said):
    assert executed(program, counts).ends is ends
    assert bool(DEADLOCKS & verdict(program, counts)) is said
