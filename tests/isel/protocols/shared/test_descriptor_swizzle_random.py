"""Reads and fills of tiles in random orders, their swizzles against a small model of which of them agree."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.diagnostics import Location
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.shared.descriptor_swizzle import check_swizzles
from nvbackend.isel.select.wgmma.select import row_of
from nvbackend.isel.target.target import Target

SWIZZLES_OF_WGMMA = {0: 0, 1: 128, 2: 64, 3: 32}
"""PTX ISA 9.7.15.5.1.2.2, matrix descriptor: bits 62 and 63, with the bytes of the swizzle."""
SWIZZLES_OF_TCGEN05 = {0: 0, 1: None, 2: 128, 4: 64, 6: 32, 3: None, 5: None, 7: None}
"""PTX ISA 9.7.16.4.1, shared memory descriptor: bits 61 to 63; 1 permutes 32 bytes, 3, 5 and 7 mean nothing."""
TILES = [MemoryObject(number, f"tile{number}", "shared", 4096, 128) for number in (1, 2)]
WGMMA = row_of(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
Access = tuple[MachineInstr, int, int | None, str]
"""An instruction, the tile, the swizzle as far as it is known, and whether it reads or writes."""


def an_access(chance: random.Random) -> Access:
    """Of a fill or a read 0 is a map without a swizzle, or an address that shows none; of a descriptor it is known."""
    tile, what = chance.choice(TILES), chance.choice(("fill", "fill", "read", "wgmma", "tcgen05", "arrive"))
    number = chance.choice((0, 32, 64, 64, 64, 128))
    if what in ("fill", "read", "arrive"):
        uses = {"fill": (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE), "read": (MemoryUse.READ, MemoryUse.ASYNC_READ)}
        use = chance.choice(uses.get(what, (MemoryUse.SYNCHRONIZE,)))
        known = {facts.SWIZZLE: number} if number or chance.random() < 0.5 else {}
        instr = MachineInstr(what, memory=(MemoryTouch(tile, use, chance.choice(("", "place"))),), facts=known)
        return instr, tile.id, number or None, what
    row, codes, shift = (
        (WGMMA, SWIZZLES_OF_WGMMA, 62) if what == "wgmma" else (tcgen05.mma("f16"), SWIZZLES_OF_TCGEN05, 61)
    )
    code = chance.choice([*codes])
    operand = chance.choice(("a_desc", "b_desc"))
    words = {operand: code << shift | (what == "tcgen05") << 46} if chance.random() < 0.9 else {}
    instr = MachineInstr(row.opcode, row, memory=(MemoryTouch(tile, MemoryUse.ASYNC_READ, operand),), words=words)
    return instr, tile.id, codes[code] if words else None, "read"


def expected(accesses: Sequence[Access]) -> list[tuple[int, str, str, str]]:
    """Where it is read otherwise than anything filled it, once for each tile and swizzle, with the words."""
    told: dict[tuple[int, int], tuple[int, str, str, str]] = {}
    for place, (instr, tile, swizzle, what) in enumerate(accesses):
        filled = [number for _, other, number, kind in accesses if other == tile and kind == "fill"]
        if what != "read" or swizzle is None or not filled or None in filled or swizzle in filled:
            continue
        words = [
            f"the swizzle of {number} bytes" if number else "no swizzle" for number in (swizzle, *sorted({*filled}))
        ]
        operand = instr.memory[0].operand or "memory"
        told.setdefault((tile, swizzle), (place, operand, f"tile{tile}", f"{words[0]}: {' or '.join(words[1:])}"))
    return [*told.values()]


@pytest.mark.parametrize("attached", [False, True])
def test_reads_and_fills_of_all_kinds(attached: bool) -> None:
    count = 0
    for seed in range(400):
        chance = random.Random(seed)
        accesses = [an_access(chance) for _ in range(chance.randint(2, 8))]
        function = MachineFunction("f", Target.parse("sm_100a"))
        function.block("entry").instructions = [
            replace(one[0], location=Location("k.py", place, "k")) for place, one in enumerate(accesses)
        ]
        if attached:
            function.attributes["attached"] = True
        told = check_swizzles(function)
        lines = [
            (
                one.location.line if one.location else -1,
                str(one.values["operand"]),
                str(one.values["memory"]),
                f"{one.values['read']}: {one.values['filled']}",
            )
            for one in told
        ]
        assert lines == ([] if attached else expected(accesses)), seed
        for one in told:
            (_, place), *others = one.notes
            fills = [line for line, each in enumerate(accesses) if each[3] == "fill"]
            first = next(line for line in fills if accesses[line][0].memory[0].object.name == one.values["memory"])
            assert place is not None and place.line == first and not others
        count += len(told)
    assert attached or count > 100
