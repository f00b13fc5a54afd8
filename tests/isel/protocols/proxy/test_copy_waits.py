"""Waits for groups of cp.async that leave what a loop reads first in flight."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import Parameter, Pointer, Scalar, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder

THREADS = 128
RULE = "async-copy.read-before-wait"


class Ring:
    """A ring of buffers that every thread copies four bytes to and reads them back from."""

    def __init__(self, stages: int) -> None:
        self.stages = stages
        parameters = [
            Parameter("source", Pointer(u32)),
            Parameter("out", Pointer(u32)),
            Parameter("steps", Scalar(i32)),
        ]
        self.k = KernelBuilder("kernel", "sm_90", threads=THREADS, parameters=parameters)
        self.source, self.out, self.steps = self.k.arguments
        self.memory = self.k.shared(u32, stages * THREADS, name="ring")
        self.sum = self.k.var(0, u32)

    def fill(self, step) -> None:
        """Copy the step's words to its buffer, if there are any, and close the group."""
        with self.k.if_(step < self.steps):
            place = self.memory + step % self.stages * THREADS + self.k.thread_id()
            self.k.cp_async.copy(place, self.source + step * THREADS + self.k.thread_id(), 4)
        self.k.cp_async.commit_group()

    def fill_first(self, groups: int) -> None:
        for step in range(groups):
            self.fill(self.k.const(step, i32))

    def read(self, step) -> None:
        place = self.memory + step % self.stages * THREADS
        self.sum.set(self.sum + place[THREADS - 1 - self.k.thread_id()])

    def rounds(self, pending: int, groups: int) -> None:
        """Rounds that wait, read and fill the buffer of the round before."""
        with self.k.range(self.steps) as step:
            self.k.cp_async.wait_group(pending)
            self.k.barrier.sync()
            self.fill(step + groups)
            self.read(step)

    def found(self) -> list[tuple[str, int, str]]:
        """Rules, lines and notes of everything that is wrong."""
        self.out[self.k.thread_id()] = self.sum
        try:
            diagnostics = self.k.finish().diagnostics
        except nvb.DiagnosticError as error:
            diagnostics = error.diagnostics
        return [(one.rule_id, one.location.line, " ".join(text for text, _ in one.notes)) for one in diagnostics]


def rules(program: Callable[[Ring], None], stages: int = 4) -> list[str]:
    ring = Ring(stages)
    program(ring)
    return [rule for rule, _, _ in ring.found()]


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
def test_each_round_waits_for_its_own_buffer(stages: int) -> None:
    for pending in range(stages + 2):
        ring = Ring(stages)
        ring.fill_first(stages - 1)
        ring.rounds(pending, stages - 1)
        line = inspect.getsourcelines(Ring.read)[1] + 2
        found = [(rule, place) for rule, place, _ in ring.found()]
        assert found == ([] if pending < stages - 1 else [(RULE, line)]), pending


def rounds_inside_of_rounds(ring: Ring) -> None:
    """Those of a later tile may be the first that read anything."""
    with ring.k.range(ring.steps) as tile:
        ring.fill_first(3)
        with ring.k.range(tile) as step:
            ring.k.cp_async.wait_group(3)
            ring.k.barrier.sync()
            ring.read(step)
        ring.k.cp_async.wait_group(0)
        ring.k.barrier.sync()


def filled_by_a_loop(ring: Ring) -> None:
    with ring.k.range(3) as step:
        ring.fill(step)
    ring.rounds(3, 3)


def read_when_enough_is_under_way(ring: Ring) -> None:
    with ring.k.range(ring.steps) as step:
        ring.fill(step)
        ring.k.cp_async.wait_group(2)
        ring.k.barrier.sync()
        with ring.k.if_(step > 1):
            ring.read(step - 2)


def read_when_enough_is_under_way_beside_what_every_round_reads(ring: Ring) -> None:
    """The rounds before the first that reads the ring run through the block of the other reads."""
    k = ring.k
    settled = k.shared(u32, THREADS, name="settled")
    k.cp_async.copy(settled + k.thread_id(), ring.source + k.thread_id(), 4)
    k.cp_async.commit_group()
    k.cp_async.wait_group(0)
    k.barrier.sync()
    with k.range(ring.steps) as step:
        ring.fill(step)
        k.cp_async.wait_group(2)
        k.barrier.sync()
        ring.sum.set(ring.sum + settled[k.thread_id()])
        with k.if_(step > 1):
            ring.read(step - 2)


def read_before_anything_is_copied(ring: Ring) -> None:
    ring.read(ring.k.const(0, i32))
    ring.k.barrier.sync()
    ring.fill_first(3)
    ring.rounds(2, 3)


def filled_and_read_in_one_block(ring: Ring) -> None:
    """The second copy does not read what the first one brings."""
    thread = ring.k.thread_id()
    for step in range(3):
        ring.k.cp_async.copy(ring.memory + step * THREADS + thread, ring.source + step * THREADS + thread, 4)
        ring.k.cp_async.commit_group()
    ring.k.cp_async.wait_group(2)
    ring.k.barrier.sync()
    ring.read(ring.k.const(0, i32))
    ring.k.cp_async.wait_group(0)
    ring.k.barrier.sync()
    ring.read(ring.k.const(1, i32))
    ring.read(ring.k.const(2, i32))


def waited_for_in_another_loop(ring: Ring) -> None:
    ring.fill_first(1)
    with ring.k.range(ring.steps):
        ring.k.cp_async.commit_group()
    ring.k.cp_async.wait_group(3)
    ring.k.barrier.sync()
    with ring.k.range(ring.steps) as step:
        ring.read(step)


def filled_by_stores_too(ring: Ring) -> None:
    (ring.memory + ring.k.thread_id()).store(0)
    ring.k.barrier.sync()
    ring.fill_first(3)
    ring.rounds(3, 3)


def filled_at_a_place_that_is_not_known_too(ring: Ring) -> None:
    ring.k.cp_async.copy(ring.k.shared_address(ring.steps.to(u32), u32, align=4), ring.source, 4)
    ring.k.cp_async.commit_group()
    ring.k.cp_async.wait_group(0)
    ring.fill_first(3)
    ring.rounds(3, 3)


def waited_for_by_an_mbarrier(ring: Ring) -> None:
    full = ring.k.mbarrier.array(1, arrivals=THREADS, name="full")
    ring.k.mbarrier.ready()
    ring.fill_first(3)
    ring.k.cp_async.mbarrier_arrive(full)
    ring.k.mbarrier.wait(full, 0)
    ring.rounds(3, 3)


@pytest.mark.parametrize(
    "program",
    [
        *(filled_by_a_loop, read_when_enough_is_under_way, waited_for_in_another_loop, filled_by_stores_too),
        *(filled_at_a_place_that_is_not_known_too, waited_for_by_an_mbarrier, rounds_inside_of_rounds),
        *(read_when_enough_is_under_way_beside_what_every_round_reads, read_before_anything_is_copied),
        filled_and_read_in_one_block,
    ],
    ids=lambda one: one.__name__,
)
def test_nothing_is_said_where_the_groups_are_not_known(program: Callable[[Ring], None]) -> None:
    assert RULE not in rules(program)


def test_of_two_rings_the_one_whose_group_is_closed_last() -> None:
    for pending, expected in ((0, []), (1, ["second"]), (2, ["ring", "second"])):
        ring = Ring(2)
        rings = ring.memory, ring.k.shared(u32, 2 * THREADS, name="second")

        def each(call: Callable[[object], None], step: object, ring: Ring = ring, rings: tuple = rings) -> None:
            for ring.memory in rings:
                call(step)

        each(ring.fill, ring.k.const(0, i32))
        with ring.k.range(ring.steps) as step:
            ring.k.cp_async.wait_group(pending)
            ring.k.barrier.sync()
            each(ring.read, step)
            each(ring.fill, step + 1)
        found = ring.found()
        assert [rule for rule, _, _ in found] == [RULE] * bool(expected)
        named = " ".join(memory for _, _, memory in found)
        assert [name for name in ("ring", "second") if name in named] == expected, pending


# -- read by other threads before the wait ---------------------------------------------------------------------------


def exchanged(*steps: str) -> list[str]:
    """Each thread copies its own word; the steps follow, reads being of another thread's word."""
    parameters = [Parameter("source", Pointer(u32, align=16)), Parameter("out", Pointer(u32, align=16))]
    k = KernelBuilder("exchanged", "sm_90a", threads=128, parameters=parameters)
    source, out = k.arguments
    words = k.shared(u32, 256)
    thread = k.thread_id()
    k.cp_async.copy(words + thread, source + thread, 4)
    k.cp_async.commit_group()
    for step in steps:
        match step:
            case "barrier":
                k.barrier.sync()
            case "wait":
                k.cp_async.wait_group(0)
            case "read":
                out[k.thread_id()] = words[127 - k.thread_id()]
            case "read beside":
                out[k.thread_id()] = words[255 - k.thread_id()]
    try:
        return [one.rule_id for one in k.finish().diagnostics]
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]


@pytest.mark.parametrize(
    "steps",
    [
        ("barrier", "read", "wait"),
        ("barrier", "read", "wait", "barrier", "read"),
        ("barrier", "read", "barrier", "wait", "barrier", "read"),
        ("barrier", "read beside", "read", "wait", "barrier", "read"),
    ],
)
def test_what_others_copy_is_read_before_they_wait(steps):
    assert exchanged(*steps) == ["async-copy.read-before-wait"]


@pytest.mark.parametrize(
    "steps",
    [
        ("wait", "barrier", "read"),
        ("barrier", "read beside", "wait", "barrier", "read"),
        ("wait", "barrier", "read", "barrier", "wait"),
    ],
)
def test_what_others_copy_is_read_after_they_wait(steps):
    assert exchanged(*steps) == []


@pytest.mark.parametrize(("copies", "reads"), [(0, 1), (0, 2), (2, 1), (3, 0)])
@pytest.mark.parametrize("missed", [0, 32])
@pytest.mark.parametrize("known", [(True, True), (True, False), (False, True)])
def test_a_warp_reads_what_another_one_copies(copies, reads, missed, known):
    """Certainly where both are known to come, and the first of the words, each third one, is one that is copied."""
    parameters = [Parameter("source", Pointer(u32, align=16)), Parameter("n", Scalar(i32))]
    k = KernelBuilder("kernel", "sm_90a", threads=THREADS, parameters=parameters)
    source, n = k.arguments
    words, thread = k.shared(u32, 8 * THREADS), k.thread_id()
    copying, reading = (k.warp_id() == warp for warp in (copies, reads))
    read = 3 * thread + (4 * THREADS + 32 * copies - 96 * reads + missed)
    comes = source[thread] == n.to(u32)
    with k.if_(copying if known[0] else copying & comes):
        k.cp_async.copy(words + (thread + 4 * THREADS), source + thread, 4)
    k.cp_async.commit_group()
    k.barrier.sync()
    with k.if_(reading if known[1] else reading & comes):
        source[thread] = words[read]
    k.cp_async.wait_group(0)
    k.barrier.sync()
    source[thread] = words[read]
    try:
        found = [one.rule_id for one in k.finish().diagnostics]
    except nvb.DiagnosticError as error:
        found = [one.rule_id for one in error.diagnostics]
    assert found == [RULE] * (all(known) and not missed)
