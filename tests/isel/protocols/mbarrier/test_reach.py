"""Which CTAs of a cluster an instruction certainly reaches: none by a mask that is an error of its own."""

from __future__ import annotations

import pytest

from nvbackend.intrinsics.copy import tma_bulk
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, Reach
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
