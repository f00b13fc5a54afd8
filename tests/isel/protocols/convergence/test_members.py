"""Lanes that a constant mask names and a branch keeps away: against each warp by itself."""

from __future__ import annotations

import random

import pytest

from nvbackend.intrinsics.sync import barriers, warp
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.convergence.members import check_members
from nvbackend.isel.target.target import Target

SHUFFLE, SYNC = warp.shuffle("idx"), barriers.warp_sync()
MASK = {SHUFFLE: "members", SYNC: "mask"}
THREADS = (32, 64, 72, 96)


def function_of(sides: tuple[int, int], instr: MachineInstr, threads: int | None) -> MachineFunction:
    """The instruction in one way of a branch that threads take by their index."""
    attributes = {} if threads is None else {"threads": threads}
    function = MachineFunction("f", Target.parse("sm_90a"), attributes=attributes)
    function.block("entry").successors = ["way", "end"]
    function.block("entry").sides = sides
    function.block("way").successors, function.block("way").instructions = ["end"], [instr]
    function.block("end").successors = []
    return function


def lanes(draw: random.Random) -> int:
    return draw.choice((1, 0xFF, 0xFF00, 0xFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, draw.randrange(1, 1 << 32)))


def kept_away(comes: int, mask: int, threads: int) -> int | None:
    """The first lane of the first warp that comes, if each that does lacks one."""
    missing = []
    for first in range(0, threads, 32):
        warp_lanes = [lane for lane in range(32) if first + lane < threads and comes >> first + lane & 1]
        if warp_lanes:
            missing.append([lane for lane in range(32) if mask >> lane & 1 and lane not in warp_lanes])
    return missing[0][0] if missing and all(missing) else None


@pytest.mark.parametrize("row", MASK, ids=lambda row: row.opcode)
def test_each_warp_that_comes_lacks_a_lane(row) -> None:
    draw = random.Random(5)
    told = []
    for _ in range(400):
        threads, mask = draw.choice(THREADS), lanes(draw)
        everyone = (1 << threads) - 1
        fails = sum(lanes(draw) << 32 * index for index in range(3)) & everyone
        holds = draw.choice((0, everyone & ~fails))
        instr = MachineInstr(row.opcode, row, operands={MASK[row]: str(mask)})
        found = check_members(function_of((holds, fails), instr, threads))
        lane = None if mask == 0xFFFFFFFF else kept_away(everyone & ~fails, mask, threads)
        assert [one.values["lane"] for one in found] == ([] if lane is None else [lane])
        assert all(one.values["instruction"] == row.ptx and one.values["members"] == f"{mask:#x}" for one in found)
        told.append(lane)
    assert {None, 0, 31} <= set(told)


def test_nothing_is_known_of_other_masks_and_of_unknown_threads() -> None:
    for operands in ({}, {"members": "%r"}, {"lane": "3"}):
        instr = MachineInstr(SHUFFLE.opcode, SHUFFLE, operands=operands)
        assert check_members(function_of((0xF0, 0xF), instr, 32)) == []
    named = {"members": "15"}
    assert check_members(function_of((0xF0, 0xF), MachineInstr("shfl", operands=named), 32)) == []
    assert check_members(function_of((0xF0, 0xF), MachineInstr(SHUFFLE.opcode, SHUFFLE, operands=named), None)) == []
    assert len(check_members(function_of((0xF0, 0xF), MachineInstr(SHUFFLE.opcode, SHUFFLE, operands=named), 32))) == 1
