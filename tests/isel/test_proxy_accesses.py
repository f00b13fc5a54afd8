"""Whether two runs of accesses meet, on places written down by hand."""

from __future__ import annotations

import pytest

from nvbackend.intrinsics import wgmma
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine import MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.proxy.accesses import Kind, Relation, Run, relation

TILES = MemoryObject(1, "tiles", "shared", 32768, 8192)
WORDS = MemoryObject(2, "words", "shared", 4096, 4)
MMA = next(row for row in wgmma.rows() if row.axes.get("shape") == (64, 64, 16) and not row.axes["a_in_registers"])

Place = tuple[int, str, int | None]


def run(kind: Kind, memory: MemoryObject, *places: Place, instr: MachineInstr | None = None) -> Run:
    """Accesses at (offset, symbol, bytes)."""
    site = Site(0, "entry", instr or MachineInstr(kind.value))
    touches = (MemoryTouch(memory, MemoryUse.WRITE, "b_desc", *place) for place in places)
    return Run(0, kind, memory, [(site, touch) for touch in touches])


@pytest.mark.parametrize(
    ("memory", "first", "second", "expected"),
    [
        (TILES, [(0, "", 16)], [(8, "", 16)], Relation.SURE),
        (TILES, [(0, "", 16)], [(16, "", 16)], Relation.NONE),
        (TILES, [(0, "%t*16", 16)], [(0, "%u*4", 4)], Relation.PART),
        (TILES, [(0, "%t*16", 16)], [(8192, "%u*4", 4)], Relation.NONE),
        (TILES, [(0, "%i*8192 + %t*16", 16)], [(0, "%i*8192", None)], Relation.PART),
        (TILES, [(0, "%i*8192", 8192)], [(64, "%i*8192 + %t*16", 16)], Relation.SURE),
        (TILES, [(0, "%i*8192", 8192)], [(64, "%j*8192 + %t*16", 16)], Relation.NONE),
        (TILES, [(0, "%t*16", 4096), (4096, "%t*16", 4096)], [(64, "%u*4", 4)], Relation.PART),
        (TILES, [(0, "", 4096), (4096, "", 4096)], [(64, "%u*4", 4)], Relation.SURE),
        (WORDS, [(0, "%t*4", 4)], [(0, "%u*4", 4)], Relation.NONE),
        (WORDS, [(0, "%t*4", 4)], [(0, "", 4096)], Relation.SURE),
        (WORDS, [(0, "", None)], [(64, "", 4)], Relation.NONE),
    ],
)
def test_ordinary_accesses(memory: MemoryObject, first: list[Place], second: list[Place], expected: Relation) -> None:
    one, two = run(Kind.WRITE, memory, *first), run(Kind.STORE, memory, *second)
    assert relation(one, two) is expected
    assert relation(two, one) is expected


def test_copies_of_different_tiles_do_not_meet() -> None:
    copy = run(Kind.COPY, TILES, (0, "%t*16", 16))
    assert relation(copy, run(Kind.READ, TILES, (8192, "%u*16", 16))) is Relation.NONE
    assert relation(copy, run(Kind.READ, TILES, (0, "%u*16", 16))) is Relation.PART
    assert relation(run(Kind.COPY, WORDS, (0, "%t*4", 4)), run(Kind.READ, WORDS, (0, "%u*4", 4))) is Relation.PART


def test_an_operand_of_wgmma_has_gaps() -> None:
    """64 rows of 32 bytes lie in rows of 128 bytes: what is written behind its beginning may lie between them."""
    instr = MachineInstr(MMA.opcode, MMA)
    operand = run(Kind.MULTIPLY, TILES, (32, "", 8160), instr=instr)
    assert relation(operand, run(Kind.WRITE, TILES, (64, "", 16))) is Relation.PART
    assert relation(operand, run(Kind.WRITE, TILES, (32, "", 16))) is Relation.SURE
    whole = run(Kind.MULTIPLY, TILES, *((step * 32, "", 8192 - step * 32) for step in range(4)), instr=instr)
    assert relation(whole, run(Kind.WRITE, TILES, (64, "%t*16", 16))) is Relation.SURE
