"""Which way the warps of a CTA and the CTAs of a cluster take at a branch, where that is known and where it is not."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.isel.flow.paths import coming, coming_ranks, rank_paths, warp_paths
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.target.target import Target

CTAS, THREADS = 3, 96


def branching(**known: tuple[int, int]) -> MachineFunction:
    """A branch, of which something may be known, and the two ways from it."""
    function = MachineFunction("f", Target.parse("sm_90a"), attributes={"threads": THREADS, "cluster": CTAS})
    first = function.block("first")
    first.successors = ["then", "else"]
    for name, sides in known.items():
        setattr(first, name, sides)
    for name in first.successors:
        function.block(name)
    return function


def test_a_branch_of_which_nothing_is_known_is_taken_both_ways() -> None:
    function = branching()
    assert rank_paths(function) == [function] * CTAS
    assert [*warp_paths(function)] == [function]
    assert set(coming(function).values()) == {(1 << THREADS) - 1}
    assert set(coming_ranks(function).values()) == {(1 << CTAS) - 1}


@pytest.mark.parametrize("choices", [*itertools.product("tfb", repeat=CTAS)], ids="".join)
def test_each_cta_takes_the_way_of_its_rank(choices: tuple[str, ...]) -> None:
    """`t` and `f` where the condition holds or fails, `b` where it may do either."""
    holds, fails = (sum(1 << rank for rank, way in enumerate(choices) if way == letter) for letter in "tf")
    function = branching(ranks=(holds, fails))
    taken = {"t": ["then"], "f": ["else"], "b": ["then", "else"]}
    assert [path.blocks["first"].successors for path in rank_paths(function)] == [taken[way] for way in choices]
    come = coming_ranks(function)
    assert come["then"] == sum(1 << rank for rank, way in enumerate(choices) if way != "f")
    assert come["else"] == sum(1 << rank for rank, way in enumerate(choices) if way != "t")


@pytest.mark.parametrize("bound", [1, 31, 32, 33, 64, 65, 95])
def test_each_warp_takes_the_way_of_its_threads(bound: int) -> None:
    """Where they part, the warp goes through both; warps that go alike are one path."""
    below, everyone = (1 << bound) - 1, (1 << THREADS) - 1
    function = branching(sides=(below, everyone & ~below))
    expected = set()
    for start in range(0, THREADS, 32):
        inside = sum(thread < bound for thread in range(start, start + 32))
        expected.add(("then",) if inside == 32 else ("else",) if inside == 0 else ("then", "else"))
    found = [tuple(path.blocks["first"].successors) for path in warp_paths(function)]
    assert len(found) == len(expected)
    assert {*found} == expected
    assert (coming(function)["then"], coming(function)["else"]) == (below, everyone & ~below)
