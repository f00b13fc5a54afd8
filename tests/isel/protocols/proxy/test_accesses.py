"""Whether two runs of accesses meet, on places written down by hand."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from nvbackend.intrinsics.copy import load_store
from nvbackend.intrinsics.mma import wgmma
from nvbackend.isel.flow.accesses import AccessKind, Relation, Run, relation
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.memory_uses import writes_elsewhere
from nvbackend.isel.machine.function import MachineInstr, MemoryObject, MemoryTouch, MemoryUse

TILES = MemoryObject(1, "tiles", "shared", 32768, 8192)
WORDS = MemoryObject(2, "words", "shared", 4096, 4)
FEW = MemoryObject(3, "few", "shared", 16, 4)
STAGES = MemoryObject(4, "stages", "shared", 128, 32)
MMA = next(row for row in wgmma.rows() if row.axes.get("shape") == (64, 64, 16) and not row.axes["a_in_registers"])

Place = tuple[int, str, int | None]


def run(kind: AccessKind, memory: MemoryObject, *places: Place, instr: MachineInstr | None = None) -> Run:
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
        (FEW, [(0, "", 8), (4, "", 4), (8, "", 4)], [(12, "", 4)], Relation.NONE),
        (FEW, [(0, "", 8), (4, "", 8), (8, "", 8)], [(0, "%u*4", 4)], Relation.SURE),
        (FEW, [(0, "", None)], [(0, "%u*4", 4)], Relation.NONE),
    ],
)
def test_ordinary_accesses(memory: MemoryObject, first: list[Place], second: list[Place], expected: Relation) -> None:
    one, two = run(AccessKind.WRITE, memory, *first), run(AccessKind.STORE, memory, *second)
    assert relation(one, two) is expected
    assert relation(two, one) is expected


def test_copies_of_different_tiles_do_not_meet() -> None:
    copy = run(AccessKind.COPY, TILES, (0, "%t*16", 16))
    assert relation(copy, run(AccessKind.READ, TILES, (8192, "%u*16", 16))) is Relation.NONE
    assert relation(copy, run(AccessKind.READ, TILES, (0, "%u*16", 16))) is Relation.PART
    assert (
        relation(run(AccessKind.COPY, WORDS, (0, "%t*4", 4)), run(AccessKind.READ, WORDS, (0, "%u*4", 4)))
        is Relation.PART
    )


def test_an_operand_of_wgmma_has_gaps() -> None:
    """64 rows of 32 bytes lie in rows of 128 bytes: what is written behind its beginning may lie between them."""
    instr = MachineInstr(MMA.opcode, MMA)
    operand = run(AccessKind.MULTIPLY, TILES, (32, "", 8160), instr=instr)
    assert relation(operand, run(AccessKind.WRITE, TILES, (64, "", 16))) is Relation.PART
    assert relation(operand, run(AccessKind.WRITE, TILES, (32, "", 16))) is Relation.SURE
    whole = run(AccessKind.MULTIPLY, TILES, *((step * 32, "", 8192 - step * 32) for step in range(4)), instr=instr)
    assert relation(whole, run(AccessKind.WRITE, TILES, (64, "%t*16", 16))) is Relation.SURE


@pytest.mark.parametrize(
    ("places", "whole"),
    [
        ([(0, "", 8192), (8192, "", 8192)], True),
        ([(0, "", 16384)], True),
        ([(0, "", 8192)], False),
        ([(0, "", 8192), (8192, "", 8191)], False),
        ([(0, "%i*8192", 8192), (8192, "%i*8192", 8192)], False),
        ([(0, "", 8192), (0, "%i*8192", 8192)], False),
    ],
)
def test_an_allocation_is_whole_by_tiles_that_are_constants(places: list[Place], whole: bool) -> None:
    """A stage that a run-time number chooses may be the same as another."""
    assert run(AccessKind.WRITE, MemoryObject(6, "two", "shared", 16384, 8192), *places).whole is whole


@pytest.mark.parametrize(("operand", "rows"), [("a_desc", 64), ("b_desc", 128)])
def test_an_operand_of_wgmma_has_the_rows_of_its_side(operand: str, rows: int) -> None:
    """K is 16 elements of 16 bits: 64 rows of A are 2048 bytes, and 128 columns of B are 4096."""
    row = next(row for row in wgmma.rows() if row.axes.get("shape") == (64, 128, 16) and not row.axes["a_in_registers"])
    for size in (2048, 4096):
        memory = MemoryObject(5, "operand", "shared", size, 4)
        touch = MemoryTouch(memory, MemoryUse.ASYNC_READ, operand, 0, "", size)
        reads = Run(0, AccessKind.MULTIPLY, memory, [(Site(0, "entry", MachineInstr(row.opcode, row)), touch)])
        assert reads.whole is (rows * 32 >= size)


@pytest.mark.parametrize(
    ("opcode", "places", "elsewhere"),
    [
        ("st.shared", [(0, "", 4)], False),
        ("st.shared", [], True),
        ("atom.shared", [], True),
        ("ld.shared", [], False),
        ("st.shared::cluster", [(0, "", 4)], True),
        ("ld.shared::cluster", [], False),
    ],
)
def test_ordinary_writes_that_nobody_can_place(opcode: str, places: list[Place], elsewhere: bool) -> None:
    touches = tuple(MemoryTouch(WORDS, MemoryUse.WRITE, "address", *place) for place in places)
    assert writes_elsewhere(MachineInstr(opcode, memory=touches)) is elsewhere


def test_writes_of_rows_that_nobody_can_place() -> None:
    """By the spelling: a place is that of the CTA, so a write of `shared::cluster` is elsewhere with it, too."""
    seen = set()
    for row in load_store.rows():
        words = row.ptx.split(".")
        shared, in_peer, writes = "shared" in words, "shared::cluster" in words, words[0] != "ld"
        place = MemoryTouch(WORDS, MemoryUse.WRITE if writes else MemoryUse.READ, "address", 0, "", 4)
        assert writes_elsewhere(MachineInstr(row.opcode, row)) is (writes and (shared or in_peer)), row.ptx
        assert writes_elsewhere(MachineInstr(row.opcode, row, memory=(place,))) is (writes and in_peer), row.ptx
        seen.add((shared, in_peer, writes))
    assert len(seen) == 6


# -- against the bytes ------------------------------------------------------------------------------------------------

STAGE = ("", "%i*32", "%j*32")
"""Run-time values: in `i` and `j` the stage, in `t` the thread; each thread makes each access."""


def places(chance: random.Random, memory: MemoryObject) -> list[Place]:
    found: list[Place] = []
    for _ in range(chance.choice((1, 1, 2, 3, 4))):
        stage = chance.choice(STAGE) if memory is STAGES else ""
        threads = chance.choice(("", "", "%t*4", "%t*8"))
        tile = 32 * chance.randrange(2) if memory is STAGES else 0
        offset = tile + chance.choice((0, 0, 4, 8, 12))
        room = (32 if memory is STAGES else 16) - offset % 32
        size = chance.choice((4, 8, 16, None))
        found.append((offset, " + ".join(filter(None, (stage, threads))), size and min(size, room)))
    if chance.random() < 0.2:
        found.append((0, "%i*32" if memory is STAGES else "", 32 if memory is STAGES else 16))
    return found


def touched(place: Place, stages: dict[str, int]) -> Iterator[int]:
    """The bytes that two threads access for certain."""
    offset, symbol, size = place
    assert offset is not None
    for thread in range(2):
        values = {**stages, "%t": thread}
        terms = (part.split("*") for part in symbol.split(" + ") if part)
        start = offset + sum(values[name] * int(factor) for name, factor in terms)
        yield from range(start, start + (size or 0))


@pytest.mark.parametrize("memory", [STAGES, FEW], ids=lambda one: one.name)
def test_what_meets_for_sure_shares_a_byte_whatever_the_values_are(memory: MemoryObject) -> None:
    counts = dict.fromkeys(Relation, 0)
    for seed in range(1500):
        chance = random.Random(seed)
        first, second = places(chance, memory), places(chance, memory)
        found = relation(run(AccessKind.WRITE, memory, *first), run(AccessKind.STORE, memory, *second))
        assert found is relation(run(AccessKind.STORE, memory, *second), run(AccessKind.WRITE, memory, *first))
        shared = []
        for stages in ({"%i": i, "%j": j} for i in range(3) for j in range(3)):
            # What nobody knows the extent of is at least somewhere in the tile that is filled.
            bytes_ = [
                {byte for one in some for byte in touched((*one[:2], one[2] or 1), stages)} for some in (first, second)
            ]
            shared.append(bool(bytes_[0] & bytes_[1]))
        if found is Relation.SURE:
            assert all(shared), (first, second)
        if all("*" not in place[1] and place[2] for place in first + second):
            assert shared[0] is (found is Relation.SURE), (first, second)
        counts[found] += 1
    assert counts[Relation.SURE] > 300
    assert counts[Relation.NONE] > 30
