"""The ways that an analysis of a user's own asks for, against the transitive closure over single instructions."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from itertools import pairwise

import pytest

from nvbackend.isel.flow.view import Flow
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.rules import Site


def made(seed: int) -> MachineFunction:
    """A function of up to six blocks with up to three instructions each, some of them empty; the last one ends it."""
    choose = random.Random(seed)
    function = MachineFunction("made", Target.parse("sm_90a"), attributes={"threads": 64})
    names = [f"b{number}" for number in range(choose.randint(1, 6))]
    for name in names:
        block = function.block(name)
        block.instructions = [MachineInstr(f"{name}.{number}") for number in range(choose.randint(0, 3))]
        block.successors = [] if name == names[-1] else choose.sample(names, min(len(names), choose.randint(1, 2)))
    return function


START, END = "start", "end"


def ways(function: MachineFunction, without: Collection[str]) -> set[tuple[str, str]]:
    """Which instruction comes after which, and after START or before END: by Warshall, without some of them."""
    edges = {(START, "at " + function.entry.name)}
    for name, block in function.blocks.items():
        line = ["at " + name, *(instr.opcode for instr in block.instructions), "after " + name]
        edges |= {*pairwise(line)}
        edges |= {("after " + name, "at " + other) for other in block.successors}
        edges |= set() if block.successors else {("after " + name, END)}
    nodes = {node for edge in edges for node in edge}
    for middle in nodes - set(without):
        before, after = ({left for left, right in edges if right == middle}, {r for left, r in edges if left == middle})
        edges |= {(left, right) for left in before for right in after}
    return edges


def called(site: Site | None, other: str) -> str:
    return other if site is None else site.instr.opcode


def pairs(flow: Flow) -> Iterator[tuple[Site | None, Site | None]]:
    for first in (None, *flow.sites):
        for second in (None, *flow.sites):
            yield first, second


@pytest.mark.parametrize("seed", range(40))
def test_ways_are_those_of_the_closure(seed: int) -> None:
    function = made(seed)
    flow, choose = Flow(function), random.Random(seed + 1)
    for without in ((), tuple(choose.sample(flow.sites, min(2, len(flow.sites))))):
        closure = ways(function, [site.instr.opcode for site in without])
        for first, second in pairs(flow):
            reached = (called(first, START), called(second, END)) in closure
            assert flow.reaches(first, second, without=without) is reached, (first, second, without)


@pytest.mark.parametrize("seed", range(40))
def test_dominators_are_on_every_way(seed: int) -> None:
    function = made(seed)
    flow = Flow(function)
    for first in flow.sites:
        closure = ways(function, [first.instr.opcode])
        for second in flow.sites:
            same, name = first is second, second.instr.opcode
            assert flow.dominates(first, second) is (same or (START, name) not in closure)
            assert flow.postdominates(first, second) is (same or (name, END) not in closure)


def test_threads_are_those_that_no_branch_keeps_away() -> None:
    function = MachineFunction("made", Target.parse("sm_90a"), attributes={"threads": 64})
    for name, successors in (("entry", ["arm", "end"]), ("arm", ["end"]), ("end", [])):
        function.block(name).instructions = [MachineInstr(name)]
        function.block(name).successors = successors
    function.blocks["entry"].sides = (0xF, ~0xF & (1 << 64) - 1)
    flow = Flow(function)
    assert [flow.threads(site) for site in flow.sites] == [
        frozenset(range(64)),
        frozenset(range(4)),
        frozenset(range(64)),
    ]
    function.attributes.clear()
    assert Flow(function).threads(flow.sites[0]) is None
