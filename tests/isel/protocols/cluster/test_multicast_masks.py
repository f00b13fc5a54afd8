"""Masks of multicasts by the CTA that gives them: those that name no CTA, or one that the cluster does not have."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import i32, u16, u32
from nvbackend.intrinsics.copy import tma_bulk
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, Reach
from nvbackend.isel.protocols.cluster.multicast_masks import check_multicast_masks
from nvbackend.isel.target.target import Target
from tests.support.runtime import rules

ROW = tma_bulk.load_bulk(multicast=True)


def told(cluster: int, instr: MachineInstr, *, attached: bool = False) -> list[str]:
    function = MachineFunction("f", Target.parse("sm_90a"), attributes={"cluster": cluster, "attached": attached})
    function.block("entry").instructions = [instr]
    return [one.fix for one in check_multicast_masks(function)]


def by_rank(masks: tuple[int | None, ...], threads: tuple[int | None, ...]) -> MachineInstr:
    every = (1 << len(masks)) - 1
    unknown = (None,) * len(masks)
    return MachineInstr(ROW.opcode, ROW, reach=Reach(threads, (every,) * len(masks), (0,) * len(masks), unknown, masks))


@pytest.mark.parametrize("cluster", [2, 3, 4])
def test_a_mask_that_is_a_constant(cluster: int) -> None:
    most = (1 << cluster) - 1
    for mask in range(2 * most + 2):
        instr = MachineInstr(ROW.opcode, ROW, facts={facts.MASK: mask})
        wrong = mask not in range(1, most + 1)
        assert (
            told(cluster, instr) == [f"give a bit for each CTA that is to have it, by its rank: 1 to {most:#b}"] * wrong
        )
        assert told(cluster, instr, attached=True) == []  # the cluster is its caller's


@pytest.mark.parametrize(
    ("masks", "threads", "wrong"),
    [
        ((0b01, 0b11), (1, 1), False),
        ((0b01, 0b100), (1, 1), True),
        ((0b01, 0), (1, 1), True),
        ((0b01, 0), (1, 0), False),  # nobody gives it
        ((0b01, 0), (1, None), False),  # perhaps nobody does
        ((None, 0b11), (1, 1), False),
        ((None, 0), (1, 1), True),
        ((0, 0), (None, None), True),  # whoever comes gives it
    ],
)
def test_masks_that_differ_by_the_rank(
    masks: tuple[int | None, ...], threads: tuple[int | None, ...], wrong: bool
) -> None:
    assert bool(told(2, by_rank(masks, threads))) is wrong


@pytest.mark.parametrize("known", [0, 1])
@pytest.mark.parametrize(("other", "wrong"), [("a parameter's", False), (0b100, True), (0, True)])
def test_a_mask_that_is_known_in_one_cta(known: int, other: int | str, wrong: bool) -> None:
    """What the host decides in the other one is no mask of 0."""

    @nvb.kernel("sm_90a", threads=32, cluster=2)
    def kernel(k, x: nvb.Pointer(u32, 16), n: i32):
        full, tile = k.mbarrier.array(1, arrivals=1), k.shared(u32, 128, align=128)
        k.mbarrier.ready()
        mask = k.select(k.cluster.rank() == known, k.const(0b11, u16), n.to(u16) if isinstance(other, str) else other)
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(tile, x, 512, full, multicast_mask=mask)
        k.cluster.sync()

    assert ("tma.multicast-mask" in rules(kernel.build)) is wrong
