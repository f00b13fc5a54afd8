"""Which branches part the groups of each size before a block, in random graphs: of each branch for itself."""

from __future__ import annotations

import random

import pytest

from nvbackend.diagnostics import Location
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.graphs import ControlFlow
from nvbackend.isel.machine.function import Branch, MachineFunction
from nvbackend.isel.protocols.convergence.regions import Divergence, divergence_of
from nvbackend.isel.target.target import Target


def made(chance: random.Random) -> MachineFunction:
    """Blocks in any order; every second one ends in a branch, whose ways agree within some scope."""
    function = MachineFunction("f", Target.parse("sm_90a"))
    names = [f"b{index}" for index in range(chance.randint(2, 9))]
    for index, name in enumerate(names):
        block = function.block(name)
        if chance.random() < 0.6:
            block.successors = chance.choices(names[max(index - 2, 1) :] or names[1:], k=2)
            place = Location("k.py", index, "k") if chance.random() < 0.7 else None
            block.branch = Branch(chance.choice([*Scope]), condition=chance.choice(("", "n > 3")), location=place)
        elif index + 1 < len(names):
            block.successors = [names[index + 1]]
    return function


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_each_branch_parts_what_it_decides(first: int) -> None:
    parted = 0
    for seed in range(first, first + 100):
        function = made(random.Random(seed))
        flow = ControlFlow({name: block.successors for name, block in function.blocks.items()})
        divergence = Divergence(function, flow)
        there = [name for name in function.blocks if name in flow.successors and function.blocks[name].branch]
        assert [parting.block for parting in divergence.partings] == there
        for needed in Scope:
            for name in function.blocks:
                those = [
                    branch
                    for branch in reversed(there)
                    if (known := function.blocks[branch].branch) is not None and known.uniform < needed
                    if name in flow.region(branch)
                ]
                assert [one.block for one in divergence.partings_of(name, needed)] == those
                assert divergence.is_parted(name, needed) is bool(those)
                last = divergence.parting(name, needed)
                assert (last.block if last else None) == (those[0] if those else None)
                parted += bool(those)
    assert parted > 500


def test_the_words_for_a_branch() -> None:
    function = MachineFunction("f", Target.parse("sm_90a"))
    place = Location("k.py", 7, "k")
    branches = [
        Branch(Scope.THREAD),
        Branch(Scope.THREAD, condition="n > 3"),
        Branch(Scope.THREAD, location=place),
        Branch(Scope.THREAD, condition="n > 3", location=place),
    ]
    for index, branch in enumerate(branches):
        function.block(f"b{index}").branch = branch
        function.block(f"b{index}").successors = [f"b{index + 1}", "end"] if index + 1 < len(branches) else ["end"] * 2
    function.block("end")
    partings = divergence_of(function).partings
    assert [one.described() for one in partings] == [
        "a branch",
        "a branch",
        "the branch of line 7",
        "the branch of line 7 on `n > 3`",
    ]
    assert [one.notes() for one in partings] == [(), (), *[(("the threads part here", place),)] * 2]
