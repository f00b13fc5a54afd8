"""The parity of the first wait, against every way by which a thread comes to it for the first time."""

from __future__ import annotations

import random

import pytest

from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.flow.loops import Loops
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse, Update
from nvbackend.isel.protocols.mbarrier.parity import Firsts
from nvbackend.isel.protocols.mbarrier.uses import find_uses
from nvbackend.isel.target.target import Target

BARRIER = MemoryObject(1, "full", "shared", 8, 8)
THREADS = 2
VALUES = (0, 0, 1, 1, 2, None)


def wait(flipped: int, variable: str = "x") -> MachineInstr:
    return MachineInstr(
        "mbarrier.try_wait",
        memory=(MemoryTouch(BARRIER, MemoryUse.SYNCHRONIZE, "barrier"),),
        facts={facts.FLIPPED: flipped},
        sources={"parity": frozenset([variable])},
        semantics=mbarrier.WAITS,
    )


def function_of(chance: random.Random, *, sides: bool) -> MachineFunction:
    """Up to eight blocks; some set the variable, some of these to a known value; some wait by what it was."""
    names = [f"b{index}" for index in range(chance.randint(2, 8))]
    function = MachineFunction("f", Target.parse("sm_90a"), attributes={"threads": THREADS})
    for name in names:
        block = function.block(name)
        block.successors = chance.sample(
            names, min(len(names), chance.choice((0, 1, 2, 2, 2) if sides else (0, 1, 1, 2, 2)))
        )
        if chance.random() < 0.4:
            value = chance.choice(VALUES)
            block.updates["x"] = Update.SET
            block.constants = {} if value is None else {"x": value}
        if chance.random() < 0.5:
            block.instructions.append(wait(chance.randrange(2)))
        if sides and len(block.successors) == 2 and chance.random() < 0.9:
            block.sides = chance.choice(((1, 2), (2, 1), (1, 2), (2, 1), (1, 0), (0, 2)))
    return function


def first_values(function: MachineFunction, name: str, thread: int | None) -> set[int | None]:
    """What the variable is where the block is entered and has not been: by all ways, or by those of a thread."""
    found: set[int | None] = set()
    seen: set[tuple[str, int | None]] = set()
    waiting: list[tuple[str, int | None]] = [(function.entry.name, None)]
    while waiting:
        at, value = waiting.pop()
        if at == name:
            found.add(value)
            continue
        if (at, value) in seen:
            continue
        seen.add((at, value))
        block = function.blocks[at]
        if "x" in block.updates:
            value = block.constants.get("x")
        for index, way in enumerate(block.successors):
            other = block.sides[1 - index] if block.sides is not None else 0
            if thread is None or not other >> thread & 1:
                waiting.append((way, value))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_of_all_ways(seed: int) -> None:
    known = 0
    for number in range(300):
        function = function_of(random.Random(300 * seed + number), sides=False)
        uses, loops = find_uses(function), Loops(function)
        firsts = Firsts(function, uses, loops)
        for use in uses.all:
            values = first_values(function, use.site.block, None)
            flipped = use.site.instr.facts[facts.FLIPPED]
            expected = {value if value in (0, 1) else None for value in values}
            parity = expected.pop() if len(values) == 1 else None
            expected_parity = None if parity is None else parity ^ flipped
            if loops.regular:
                assert firsts.parity(use) == expected_parity
            else:
                assert firsts.parity(use) in (expected_parity, None)
            known += expected_parity is not None
    assert known > 50


def test_of_the_ways_that_threads_take() -> None:
    """What a branch keeps from a thread is not what it may find."""
    better = 0
    for seed in range(600):
        function = function_of(random.Random(1_000_000 + seed), sides=True)
        uses = find_uses(function)
        firsts = Firsts(function, uses, Loops(function))
        for use in uses.all:
            values = [first_values(function, use.site.block, thread) for thread in range(THREADS)]
            parity, flipped = firsts.parity(use), use.site.instr.facts[facts.FLIPPED]
            if parity is not None:
                assert set().union(*values) <= {parity ^ flipped}
                better += first_values(function, use.site.block, None) != {parity ^ flipped}
    assert better


class CountedLoops(Loops):
    """Counts how often the way back from a block is asked for."""

    asked = 0

    def predecessors(self, block: str) -> list[str]:
        self.asked += 1
        return super().predecessors(block)


def parities_of(many: int) -> tuple[list[int | None], int]:
    """Of `many` variables that are set at the start of a chain of blocks and waited by at its end; blocks looked at."""
    names = [f"b{index}" for index in range(30)]
    variables = [f"x{index}" for index in range(many)]
    function = MachineFunction("f", Target.parse("sm_90a"))
    for name, successor in zip(names, [*names[1:], ""], strict=True):
        function.block(name).successors = [successor] if successor else []
    first, last = function.blocks[names[0]], function.blocks[names[-1]]
    first.updates = dict.fromkeys(variables, Update.SET)
    first.constants = {variable: index % 2 for index, variable in enumerate(variables)}
    last.instructions = [wait(0, variable) for variable in variables]
    uses, loops = find_uses(function), CountedLoops(function)
    firsts = Firsts(function, uses, loops)
    return [firsts.parity(use) for use in uses.all], loops.asked


@pytest.mark.parametrize(("many", "is_whole"), [(10, True), (500, False)])
def test_long_functions_are_followed_for_many_variables_and_not_for_any_number(many: int, is_whole: bool) -> None:
    """Of a variable that is not followed nothing is known."""
    found, _ = parities_of(many)
    followed = found.index(None) if None in found else many
    assert (followed == many) is is_whole
    assert followed >= 10
    assert found == [index % 2 for index in range(followed)] + [None] * (many - followed)


def test_variables_that_are_not_followed_take_no_time() -> None:
    (few, least), (some, at_500), (more, at_1000) = map(parities_of, (10, 500, 1000))
    assert len(few) * least < at_500 * 10 == at_1000 * 10
    assert len([one for one in some if one is not None]) == len([one for one in more if one is not None])
