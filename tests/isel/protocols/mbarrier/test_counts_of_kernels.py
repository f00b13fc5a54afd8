"""Sums of arrivals where it matters which mbarrier an instruction uses, and how often: kernels, and lines of one."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.diagnostics import gather
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import mbarrier, mbarrier_phases
from nvbackend.isel.flow.loops import Loops
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.mbarrier.counts import Counts, multiplicity, sums
from nvbackend.isel.protocols.mbarrier.uses import Cell, find_uses
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

BARRIER = MemoryObject(1, "full", "shared", 8, 8)
TOUCHES = (MemoryTouch(BARRIER, MemoryUse.SYNCHRONIZE, "barrier"),)


def found(write: Callable[[nvb.KernelBuilder, Any], None], threads: int = 64) -> list[str]:
    k = nvb.KernelBuilder("kernel", "sm_90a", threads=threads, parameters=[nvb.Parameter("n", nvb.Scalar(i32))])
    write(k, k.arguments[0])
    return [one.rule_id for one in gather(k.finish)]


def test_threads_that_each_have_an_mbarrier_are_not_summed() -> None:
    def of_each(k: nvb.KernelBuilder, n: Any) -> None:
        barriers = k.mbarrier.array(64, 1)
        k.mbarrier.ready()
        k.mbarrier.arrive(barriers + k.thread_id())
        k.mbarrier.wait(barriers + k.thread_id(), 0)

    def of_all(k: nvb.KernelBuilder, n: Any) -> None:
        barriers = k.mbarrier.array(64, 1)
        k.mbarrier.ready()
        k.mbarrier.arrive(barriers + n)
        k.mbarrier.wait(barriers + n, 0)

    assert found(of_each) == []
    assert found(of_all) == ["mbarrier.arrivals"]


def test_threads_that_each_leave_an_mbarrier_are_not_summed() -> None:
    def of_each(k: nvb.KernelBuilder, n: Any) -> None:
        barriers = k.mbarrier.array(64, 1)
        k.mbarrier.ready()
        k.mbarrier.arrive(barriers + k.thread_id(), drop=True)

    def of_all(k: nvb.KernelBuilder, n: Any) -> None:
        barriers = k.mbarrier.array(64, 1)
        k.mbarrier.ready()
        k.mbarrier.arrive(barriers + n, drop=True)

    assert found(of_each) == []
    assert found(of_all) == ["mbarrier.arrivals"]


def test_an_index_that_moves_with_the_loop_is_another_mbarrier_in_each_round() -> None:
    def arriving(moves: bool) -> Callable[[nvb.KernelBuilder, Any], None]:
        def write(k: nvb.KernelBuilder, n: Any) -> None:
            barriers = k.mbarrier.array(4, 2)
            k.mbarrier.ready()
            with k.one_thread(), k.range(4) as index:
                k.mbarrier.arrive(barriers + (index if moves else n))
            with k.if_(k.warp_id() == 1), k.range(4) as index:
                k.mbarrier.wait(barriers + index, 0)

        return write

    assert found(arriving(True)) == ["mbarrier.arrivals"]  # one arrival, and the phase takes two
    assert found(arriving(False)) == []


def machine(blocks: dict[str, list[tuple[str | Row, dict[str, int], bool]]]) -> MachineFunction:
    """A loop between an entry and an end, of (instruction, facts, whether its mbarrier is known)."""
    function = MachineFunction("f", Target.parse("sm_90a"))
    for name, successors in (("entry", ["loop"]), ("loop", ["loop", "end"]), ("end", [])):
        block = function.block(name)
        block.successors = successors
        for what, said, known in blocks.get(name, []):
            row = what if isinstance(what, Row) else None
            semantics = semantics_of(str(what)) if row is None else row.semantics
            opcode = str(what) if row is None else row.opcode
            block.instructions.append(
                MachineInstr(opcode, row, memory=TOUCHES if known else (), facts=said, semantics=semantics)
            )
    return function


def counts_of(function: MachineFunction) -> Counts:
    return Counts(find_uses(function), Loops(function), None)


ARRIVE, INIT, WAIT = "mbarrier.arrive", "mbarrier.init", "mbarrier.try_wait"
LONE = {facts.THREADS: 1}


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (None, ["mbarrier.arrivals"]),
        ((mbarrier.arrive(), LONE, False), []),
        ((mbarrier.init(), {facts.COUNT: 1}, False), []),
        ((mbarrier.try_wait_parity(), {facts.PARITY: 0, **LONE}, False), ["mbarrier.arrivals"]),
    ],
)
def test_an_arrival_at_an_mbarrier_that_is_not_known_may_be_the_one_that_is_missing(lost: Any, said: list[str]) -> None:
    known = [(INIT, {facts.COUNT: 2}, True), (ARRIVE, LONE, True), (WAIT, {facts.PARITY: 0, **LONE}, True)]
    function = machine({"entry": [*known, *([] if lost is None else [lost])]})
    assert [one.rule.id for one in counts_of(function).findings(Cell(BARRIER, 0))] == said


def test_what_is_in_a_loop_is_reached_more_than_once() -> None:
    function = machine({"entry": [(ARRIVE, LONE, True)], "loop": [(ARRIVE, LONE, True)], "end": [(ARRIVE, LONE, True)]})
    uses = find_uses(function)
    counts = Counts(uses, Loops(function), None)
    assert [counts.is_outside_of_loops(use) for use in uses.all] == [True, False, True]
    assert [counts.once_a_phase(use) for use in uses.all] == [True, False, True]


@pytest.mark.parametrize(
    ("row", "each"),
    [
        (mbarrier.arrive(), 1),
        (mbarrier.arrive(space="cta", drop=True), None),  # it changes the count of later phases
        (
            mbarrier_phases.copy_arrive(no_increment=True),
            None,
        ),  # it arrives when the copies are done, maybe later
    ],
)
def test_the_arrivals_of_one_thread(row: Row, each: int | None) -> None:
    (use,) = find_uses(machine({"entry": [(row, LONE, True)]})).all
    assert multiplicity(use) == each, row.ptx


def test_sums_are_those_of_every_choice() -> None:
    chance = random.Random(0)
    for _ in range(300):
        parts = [chance.randint(0, 9) for _ in range(chance.randint(0, 5))]
        every = {sum(some) for many in range(1, len(parts) + 1) for some in combinations(parts, many)}
        for most in range(20):
            assert sums(parts, most) == {one for one in every if 0 < one <= most}, (parts, most)
