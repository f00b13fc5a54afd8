"""Which CTAs of a cluster an instruction certainly reaches: none by a mask that is an error of its own."""

from __future__ import annotations

import random
from itertools import product

import pytest

from nvbackend.intrinsics.copy import tma_bulk
from nvbackend.intrinsics.row.semantics import MbarrierUse, Scope
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Branch, MachineFunction, MachineInstr, MemoryObject, Reach
from nvbackend.isel.protocols.mbarrier.reach import Reaches
from nvbackend.isel.protocols.mbarrier.uses import Cell, Use
from nvbackend.isel.target.target import Target

ROW = tma_bulk.load_bulk(multicast=True)
CELL = Cell(MemoryObject(1, "full", "shared", 8, 8), 0)


def reaches_of(instr: MachineInstr, cluster: int) -> tuple[Reaches, Use]:
    function = MachineFunction("f", Target.parse("sm_90a"), attributes={"cluster": cluster})
    function.block("entry").instructions = [instr]
    use = Use(Site(0, "entry", instr), CELL, CELL, MbarrierUse.COMPLETE)
    return Reaches(function, loops_of(function)), use


@pytest.mark.parametrize("cluster", [2, 4])
def test_a_constant_mask_reaches_its_ctas_unless_it_is_wrong(cluster: int) -> None:
    for mask in range(1 << cluster + 1):
        instr = MachineInstr(ROW.opcode, ROW, facts={facts.MASK: mask, facts.THREADS: 1})
        reaches, use = reaches_of(instr, cluster)
        right = 0 < mask < 1 << cluster
        assert reaches.certainly(use) == (mask if right else 0)
        for rank in range(cluster):
            assert reaches.targets(use, rank) == (mask if right else None)
            assert reaches.times(use, rank, 1) == ((mask >> 1 & 1) if right else None)
            assert reaches.times_in_all(use, rank) == (mask.bit_count() if right else None)
            assert reaches.may_reach([use], rank) is (not right or bool(mask >> rank & 1))


@pytest.mark.parametrize(
    ("masks", "threads", "certain"),
    [
        ((0b01, 0b10), (1, 1), 0b11),
        ((0b01, 0b01), (1, 1), 0b01),
        ((0b01, 0b10), (1, 0), 0b01),
        ((0b01, 0b10), (0, 0), 0),
        ((0b01, 0b100), (1, 1), 0),
        ((0b10, 0), (1, 1), 0),
    ],
)
def test_masks_that_differ_by_the_rank(masks: tuple[int, int], threads: tuple[int, int], certain: int) -> None:
    counts = tuple(tuple(mask >> rank & 1 for rank in range(2)) for mask in masks)
    instr = MachineInstr(ROW.opcode, ROW, reach=Reach(threads, masks, masks, counts, masks))
    reaches, use = reaches_of(instr, 2)
    assert reaches.certainly(use) & sum(1 << rank for rank in range(2)) == certain


def test_a_cta_without_a_cluster_has_no_peers() -> None:
    instr = MachineInstr(ROW.opcode, ROW, facts={facts.MASK: 1})
    assert [list(reaches_of(instr, size)[0].peers) for size in (1, 2, 4)] == [[], [0, 1], [0, 1, 2, 3]]


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_an_instruction_that_names_no_peer_reaches_its_own_cta(cluster: int) -> None:
    instr = MachineInstr("arrive", facts={facts.THREADS: 3})
    reaches, use = reaches_of(instr, cluster)
    for rank in range(cluster):
        assert reaches.targets(use, rank) == 1 << rank
        assert [reaches.times(use, rank, target) for target in range(cluster)] == [
            3 * (target == rank) for target in range(cluster)
        ]
        assert reaches.times_in_all(use, rank) == 3
        assert reaches.may_reach([use], rank)


CLUSTER = 3
Choice = tuple[int, int, Scope]
"""The ranks for which a branch certainly leads to the instruction, those for which it does not, and its scope."""


def behind(choice: Choice, instr: MachineInstr) -> tuple[Reaches, Use]:
    """The instruction in one of two ways."""
    holds, fails, scope = choice
    function = MachineFunction("f", Target.parse("sm_90a"), attributes={"cluster": CLUSTER})
    function.block("entry").successors = ["way", "end"]
    function.block("entry").ranks, function.block("entry").branch = (holds, fails), Branch(scope)
    function.block("way").successors, function.block("way").instructions = ["end"], [instr]
    function.block("end").successors = []
    return Reaches(function, loops_of(function)), Use(Site(0, "way", instr), CELL, CELL, MbarrierUse.COMPLETE)


def reach(draw: random.Random) -> Reach:
    """Of each rank: threads, whose barriers they may and certainly do reach, and how many of them reach each."""
    of_rank = []
    for _ in range(CLUSTER):
        threads, mask = draw.choice([None, None, 0, 1, 5]), draw.randrange(1, 1 << CLUSTER)
        if threads == 0:
            of_rank.append((0, 0, 0, (0,) * CLUSTER, mask))
        elif draw.random() < 0.25:
            of_rank.append((threads, None, 0, None, None))
        else:
            counts = None if threads is None else tuple(threads * (mask >> rank & 1) for rank in range(CLUSTER))
            of_rank.append((threads, mask, mask & draw.choice([-1, 1, 6]), counts, mask))
    threads, targets, certain, counts, masks = zip(*of_rank, strict=True)
    return Reach(threads, targets, certain, counts, masks)


def times(choice: Choice, said: Reach, rank: int, target: int) -> int | None:
    if choice[1] >> rank & 1:
        return 0
    counts, targets = said.counts[rank], said.targets[rank]
    return counts[target] if counts is not None else None if targets is None or targets >> target & 1 else 0


def is_certain(choice: Choice, threads: int | None, rank: int) -> bool:
    """Whether a CTA of the rank executes it whenever one of them does."""
    holds, fails, scope = choice
    if fails >> rank & 1:
        return False
    return threads > 0 if threads is not None else bool(holds >> rank & 1) or scope > Scope.CTA


def text(choice: Choice, said: Reach) -> str:
    """From which CTAs to which."""
    sources: dict[int | None, list[int]] = {}
    for rank in range(CLUSTER):
        if not choice[1] >> rank & 1 and said.threads[rank] != 0:
            sources.setdefault(said.targets[rank], []).append(rank)
    parts = [
        f"of {'each CTA' if len(ranks) == CLUSTER else 'rank ' + ' and '.join(map(str, ranks))} "
        f"to {'a CTA' if targets is None else f'the CTAs {targets:#b}'}"
        for targets, ranks in sources.items()
    ]
    return f"{ROW.opcode} {', '.join(parts)}"


@pytest.mark.parametrize("seed", range(60))
def test_a_branch_by_the_rank_says_who_comes(seed: int) -> None:
    """Each CTA alone, by its own part of what is known, and all of them together."""
    draw = random.Random(seed)
    holds = draw.randrange(1 << CLUSTER)
    choice = holds, draw.randrange(1 << CLUSTER) & ~holds, draw.choice([Scope.WARP, Scope.CTA, Scope.CLUSTER])
    said, ranks = reach(draw), range(CLUSTER)
    reaches, use = behind(choice, MachineInstr(ROW.opcode, ROW, reach=said))
    come = [rank for rank in ranks if not choice[1] >> rank & 1]
    assert [*reaches.coming(use)] == come
    for rank, target in product(ranks, ranks):
        assert reaches.times(use, rank, target) == times(choice, said, rank, target)
        reached = any(
            peer in come and (said.targets[peer] is None or said.targets[peer] >> target & 1) for peer in ranks
        )
        assert reaches.may_reach([use], target) is reached
    for rank in ranks:
        each = [times(choice, said, rank, target) for target in ranks]
        assert reaches.times_in_all(use, rank) == (None if None in each else sum(each))
        assert reaches.is_executed(use, rank) is is_certain(choice, said.threads[rank], rank)
    for target in ranks:
        by = [rank for rank in come if said.certain[rank] >> target & 1]
        certain = any(is_certain(choice, said.threads[rank], rank) for rank in by) or (bool(come) and by == come)
        assert bool(reaches.certainly(use) >> target & 1) is certain
    assert reaches.all_described([use]) == text(choice, said)


@pytest.mark.parametrize("threads", [None, 0, 1, 7])
def test_who_does_not_come_executes_nothing(threads: int | None) -> None:
    said = {} if threads is None else {facts.THREADS: threads}
    reaches, use = behind((0b001, 0b010, Scope.CTA), MachineInstr("arrive", facts=said))
    assert [reaches.threads(use, rank) for rank in range(CLUSTER)] == [threads, 0, threads]
    assert [reaches.is_executed(use, rank) for rank in range(CLUSTER)] == [threads != 0, False, bool(threads)]
    assert [reaches.times(use, rank, rank) for rank in range(CLUSTER)] == [threads, 0, threads]
