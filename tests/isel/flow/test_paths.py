"""Which way the warps of a CTA and the CTAs of a cluster take at a branch, where that is known and where it is not."""

from __future__ import annotations

import itertools
import random

import pytest

from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.flow.paths import (
    cluster_size,
    coming,
    coming_ranks,
    is_avoided,
    rank_paths,
    unreached,
    warp_paths,
    without_unreached,
    wrong_mask,
)
from nvbackend.isel.machine.agreement import Formula
from nvbackend.isel.machine.function import Branch, MachineFunction, MachineInstr, Reach
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
    assert [path is function for path in rank_paths(function)] == [True] * CTAS
    assert [path is function for path in warp_paths(function)] == [True]
    assert set(coming(function).values()) == {(1 << THREADS) - 1}
    assert set(coming_ranks(function).values()) == {(1 << CTAS) - 1}


def test_a_block_with_one_successor_goes_on_there_whatever_is_said_of_it() -> None:
    function = branching(sides=((1 << THREADS) - 1, 0), ranks=(0, (1 << CTAS) - 1))
    function.blocks["first"].successors = ["then"]
    assert [path is function for path in rank_paths(function)] == [True] * CTAS
    assert [path is function for path in warp_paths(function)] == [True]
    assert coming(function) == {"first": (1 << THREADS) - 1, "then": (1 << THREADS) - 1, "else": 0}


def test_sides_of_the_branch_count_before_those_of_its_condition() -> None:
    """Of a condition of two parts some threads may be known to fail where what they fail is not known."""
    unknown, below = Formula(1), Formula(2, sides=(0b0011, ~0b0011))
    for every, negated in itertools.product((True, False), repeat=2):
        function = branching()
        function.blocks["first"].branch = Branch(Scope.THREAD)
        assert coming(function) == dict.fromkeys(function.blocks, (1 << THREADS) - 1)
        function.blocks["first"].branch = Branch(
            Scope.THREAD, formula=Formula(parts=(unknown, below), every=every, negated=negated)
        )
        alone = 0b0011 if every else (1 << THREADS) - 1 & ~0b0011  # who may come where both parts must hold, or fail
        everyone = (1 << THREADS) - 1
        arms = ("then", "else") if every is not negated else ("else", "then")
        found = coming(function)
        assert (found[arms[0]], found[arms[1]]) == (alone, everyone)
        function.blocks["first"].sides = 0b0101, 0
        assert (coming(function)["then"], coming(function)["else"]) == (everyone, everyone & ~0b0101)


def test_a_function_of_unknown_size_has_one_cta() -> None:
    function = branching()
    assert cluster_size(function) == CTAS
    del function.attributes["cluster"]
    assert cluster_size(function) == 1
    assert coming_ranks(function) == dict.fromkeys(function.blocks, 1)


@pytest.mark.parametrize("has_mask", [False, True])
def test_a_wrong_mask_is_one_that_some_cta_certainly_gives(has_mask: bool) -> None:
    """A constant, or that of a CTA in which threads certainly execute it, or of every CTA if some may."""
    row = tma_tensor.load_tensor(1, multicast=True) if has_mask else mbarrier.arrive("cluster")
    legal, wrong = range(1, 1 << CTAS), (0, 1 << CTAS, 1 << CTAS | 1)
    for mask in (*legal, *wrong):
        assert wrong_mask(MachineInstr("m", row, facts={"multicast_mask": mask}), CTAS) == (
            mask if mask in wrong else None
        )
    for masks in itertools.product((None, 3, 0, 8), repeat=2):
        for threads in itertools.product((None, 0, 2), repeat=2):
            reach = Reach(threads, (None,) * 2, (0,) * 2, (None,) * 2, masks)
            same = masks[0] == masks[1] and threads[0] == threads[1]
            given = [mask for mask, count in zip(masks, threads, strict=True) if has_mask and (count or same)]
            first = next((mask for mask in given if mask in (0, 8)), None)
            assert wrong_mask(MachineInstr("m", row, reach=reach), CTAS) == first
            assert wrong_mask(MachineInstr("m", row, reach=reach, facts={"multicast_mask": 1}), CTAS) is None
            assert wrong_mask(MachineInstr("m", None, reach=reach), CTAS) is None
    assert wrong_mask(MachineInstr("m", row), CTAS) is None


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


def of_some_threads(chance: random.Random) -> MachineFunction:
    """Blocks that one CTA of two or one thread of two may not come to, each with an instruction of its own."""
    function = MachineFunction("f", Target.parse("sm_90a"), attributes={"threads": 2, "cluster": 2})
    names = [f"b{index}" for index in range(chance.randint(2, 7))]
    for name in names:
        block = function.block(name)
        block.successors = chance.choices(
            names[1:], k=chance.choice((0, 1, 2, 2)) if block is not function.entry else 2
        )
        block.instructions.append(MachineInstr(name))
        if len(block.successors) == 2:
            block.branch = Branch(Scope.CTA)
            block.sides = chance.choice(((0, 0), (3, 0), (0, 3), (1, 2)))
            block.ranks = chance.choice(((0, 0), (3, 0), (0, 3), (1, 2)))
    return function


@pytest.mark.parametrize("seed", range(4))
def test_what_no_thread_comes_to_is_empty_and_followed_by_nobody(seed: int) -> None:
    """All else stays as it is, what is known of a branch too; of one that is none any more nothing is."""
    for number in range(80):
        function = of_some_threads(random.Random(80 * seed + number))
        nowhere = {
            name
            for name in function.blocks
            if not all(any(name in come_to(function, axis, one) for one in range(2)) for axis in ("sides", "ranks"))
        }
        assert unreached(function) == nowhere
        for name in function.blocks:
            around = come_to(function, "", 0, without=name)
            ends = [block for block in around if not function.blocks[block].successors]
            assert is_avoided(function, name) is (name != function.entry.name and bool(ends))
        left = without_unreached(function, nowhere)
        assert (left is function) is (not nowhere)
        assert not nowhere or left.kept is not None  # which is finished
        assert [*left.blocks] == [*function.blocks]
        for name, block in function.blocks.items():
            found, ways = left.blocks[name], [way for way in block.successors if way not in nowhere]
            assert found.name == name
            assert found.successors == ([] if name in nowhere else ways)
            assert found.instructions == ([] if name in nowhere else block.instructions)
            if name not in nowhere and ways == block.successors:
                assert found is block
            else:
                assert (found.branch, found.sides, found.ranks) == (None, None, (0, 0))


def come_to(function: MachineFunction, axis: str, one: int, without: str = "") -> set[str]:
    """The blocks that a thread, or a CTA, may come to, not through the block `without`; any if `axis` names nothing."""
    found: set[str] = set()
    waiting = [function.entry.name]
    while waiting:
        block = function.blocks[waiting.pop()]
        if block.name not in found and block.name != without:
            found.add(block.name)
            sides = getattr(block, axis, None) or (0, 0)
            waiting += [way for index, way in enumerate(block.successors) if not sides[1 - index] >> one & 1]
    return found
