"""Runs of accesses at known places: which bytes they have in common, and whether they leave any out, byte by byte."""

from __future__ import annotations

import random

import pytest

from nvbackend.isel.flow.accesses import AccessKind, Relation, Run, relation
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine.function import MachineInstr, MemoryObject, MemoryTouch, MemoryUse

Interval = tuple[int, int]


def run_of(number: int, memory: MemoryObject, intervals: list[Interval]) -> Run:
    """A run of ordinary writes, from one offset to another each."""
    touches = [MemoryTouch(memory, MemoryUse.WRITE, offset=start, bytes=end - start) for start, end in intervals]
    instrs = [MachineInstr("st.shared", memory=(touch,)) for touch in touches]
    accesses = [
        (Site(position, "entry", instr), touch)
        for position, (instr, touch) in enumerate(zip(instrs, touches, strict=True))
    ]
    return Run(number, AccessKind.WRITE, memory, accesses)


def drawn(draw: random.Random, bytes: int) -> list[Interval]:
    """Some intervals that begin at different bytes."""
    starts = draw.sample(range(bytes), draw.randint(1, min(4, bytes)))
    return [(start, draw.randint(start + 1, bytes)) for start in starts]


def covered(intervals: list[Interval]) -> set[int]:
    return {byte for start, end in intervals for byte in range(start, end)}


@pytest.mark.parametrize("element", [1, 4])
def test_what_runs_have_in_common(element: int) -> None:
    draw, seen = random.Random(element), set()
    for _ in range(300):
        memory = MemoryObject(1, "memory", "shared", draw.randint(1, 9), element)
        mine, others = drawn(draw, memory.bytes), drawn(draw, memory.bytes)
        first, second = run_of(0, memory, mine), run_of(1, memory, others)
        assert first.whole == (covered(mine) == {*range(memory.bytes)}), (memory.bytes, mine)
        expected = Relation.SURE if covered(mine) & covered(others) else Relation.NONE
        assert relation(first, second) is relation(second, first) is expected, (memory.bytes, mine, others)
        seen.add((first.whole, expected))
    assert seen == {(False, Relation.NONE), (False, Relation.SURE), (True, Relation.SURE)}


def test_the_tiles_that_a_run_fills() -> None:
    draw, seen = random.Random(3), 0
    for _ in range(150):
        tile = draw.choice((17, 20, 24))
        memory = MemoryObject(1, "tiles", "shared", 3 * tile, tile)
        intervals = [
            (number * tile + start, number * tile + end)
            for number in draw.sample(range(3), draw.randint(1, 3))
            for start, end in drawn(draw, tile)
        ]
        run = run_of(0, memory, intervals)
        filled = {number for number in range(3) if covered(intervals) >= {*range(number * tile, number * tile + tile)}}
        assert {number for number, _ in run.filled} == filled, (tile, intervals)
        assert {number for number, _ in run.parts} == {start // tile for start, _ in intervals}
        seen += len(filled)
    assert seen


def test_other_memory_is_never_met() -> None:
    first, second = (MemoryObject(number, "memory", "shared", 4, 4) for number in (1, 2))
    assert relation(run_of(0, first, [(0, 4)]), run_of(1, second, [(0, 4)])) is Relation.NONE
