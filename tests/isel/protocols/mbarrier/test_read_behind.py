"""What a wait is followed by in its block: reads of memory that only copies fill, all of them on its own mbarrier."""

from __future__ import annotations

import random

import pytest

from nvbackend.intrinsics.copy import tma_bulk
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.flow.loops import Loops
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.mbarrier.parity import Firsts
from nvbackend.isel.protocols.mbarrier.uses import find_uses
from nvbackend.isel.target.target import Target

BARRIERS = [MemoryObject(number, name, "shared", 8, 8) for number, name in ((1, "full"), (2, "empty"))]
TILES = [MemoryObject(number, name, "shared", 512, 512) for number, name in ((3, "a"), (4, "b"), (5, "c"))]
Step = tuple[str, MemoryObject, MemoryObject]
"""What is done, an mbarrier, and a tile."""
COPY, WAIT = tma_bulk.load_bulk(), mbarrier.wait_parity()
USES = {
    "copy": (MemoryUse.ASYNC_WRITE,),
    "store": (MemoryUse.WRITE,),
    "read": (MemoryUse.READ,),
    "send": (MemoryUse.ASYNC_READ,),
    "name": (MemoryUse.DECLARE,),
}


def instr_of(step: Step) -> MachineInstr:
    kind, barrier, tile = step
    synchronized = (MemoryTouch(barrier, MemoryUse.SYNCHRONIZE, "barrier"),) if kind in ("copy", "wait") else ()
    touches = tuple(MemoryTouch(tile, use) for use in USES.get(kind, ()))
    row = {"copy": COPY, "wait": WAIT}.get(kind)
    return MachineInstr(kind, row, memory=(*synchronized, *touches))


@pytest.mark.parametrize("seed", range(3))
def test_reads_of_what_the_mbarrier_is_for(seed: int) -> None:
    seen = set()
    for number in range(200):
        draw = random.Random(1000 * seed + number)
        kinds = draw.choice(
            (("copy", "wait", "read", "send"), ("copy", "wait", "wait", "read", "send", "store", "name"))
        )
        blocks: list[list[Step]] = [
            [(draw.choice(kinds), draw.choice(BARRIERS), draw.choice(TILES)) for _ in range(draw.randint(1, 5))]
            for _ in range(2)
        ]
        function = MachineFunction("f", Target.parse("sm_90a"))
        for name, steps in zip(("first", "second"), blocks, strict=True):
            function.block(name).instructions = [instr_of(step) for step in steps]
        function.blocks["first"].successors = ["second"]
        uses = find_uses(function)
        firsts = Firsts(function, uses, Loops(function))
        waits = iter(use for use in uses.all if use.role is MbarrierUse.WAIT)
        writers = {
            tile: {
                barrier if kind == "copy" else None
                for block in blocks
                for kind, barrier, other in block
                if other is tile and kind in ("copy", "store")
            }
            for tile in TILES
        }
        for steps in blocks:
            for at, (kind, barrier, _) in enumerate(steps):
                if kind == "wait":
                    later = [tile for done, _, tile in steps[at + 1 :] if done in ("read", "send")]
                    expected = any(writers[tile] == {barrier} for tile in later)
                    assert firsts.is_read_behind(next(waits)) is expected, (number, blocks)
                    seen.add((expected, bool(later)))
    assert seen == {(True, True), (False, True), (False, False)}
