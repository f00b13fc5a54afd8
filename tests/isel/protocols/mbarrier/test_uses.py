"""Who uses which mbarrier: looked up by the cell, by the allocation where an index decides, and by the block."""

from __future__ import annotations

import itertools
import random

import pytest

from nvbackend.intrinsics import catalogue
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.protocols.mbarrier.uses import Cell, Use, find_uses
from nvbackend.isel.target.target import Target

ROWS = (mbarrier.init(), mbarrier.arrive(), mbarrier.try_wait_parity(), mbarrier.inval())
ROLES = (MbarrierUse.INIT, MbarrierUse.ARRIVE, MbarrierUse.WAIT, MbarrierUse.INIT | MbarrierUse.WAIT)
OBJECTS = [MemoryObject(number, f"b{number}", "shared", 24, 8) for number in (1, 2, 3)]
OFFSETS = (0, 8, 16)
BLOCKS = ("entry", "middle", "end")
Line = tuple[int, int | None, int | None]
"""The allocation, the offset if that is known, and the row; None for ordinary code that writes there."""


def drawn(chance: random.Random) -> dict[str, list[Line]]:
    places = {number: (*OFFSETS, None) if number == 2 else OFFSETS for number in range(3)}
    lines: dict[str, list[Line]] = {name: [] for name in BLOCKS}
    for _ in range(chance.randint(2, 9)):
        number = chance.randrange(3)
        row = None if chance.random() < 0.08 else chance.randrange(len(ROWS))
        lines[chance.choice(BLOCKS)].append((number, chance.choice(places[number]), row))
    return lines


def machine(lines: dict[str, list[Line]]) -> MachineFunction:
    function = MachineFunction("f", Target.parse("sm_90a"))
    for name, following in zip(BLOCKS, (*BLOCKS[1:], None), strict=True):
        block = function.block(name)
        block.successors = [] if following is None else [following]
        for number, offset, row in lines[name]:
            place = {"symbol": "%i@entry*8"} if offset is None else {"offset": offset}
            use, operand = (MemoryUse.WRITE, "") if row is None else (MemoryUse.SYNCHRONIZE, "barrier")
            touch = MemoryTouch(OBJECTS[number], use, operand, **place)  # type: ignore[arg-type]
            said = ROWS[row] if row is not None else None
            block.instructions.append(MachineInstr("store" if said is None else said.opcode, said, memory=(touch,)))
    return function


@pytest.mark.parametrize("seed", range(3))
def test_the_uses_of_a_cell_are_those_that_may_be_of_it(seed: int) -> None:
    chance, found = random.Random(seed), 0
    for _ in range(100):
        lines = drawn(chance)
        uses = find_uses(machine(lines))
        ordered = [(name, *line) for name in BLOCKS for line in lines[name]]
        is_array = {
            number: any(line[1:3] == (number, None) and line[3] is not None for line in ordered) for number in range(3)
        }
        for number, offset, role in itertools.product(range(3), OFFSETS, ROLES):
            expected = [
                (position, name)
                for position, (name, which, place, row) in enumerate(ordered)
                if which == number and row is not None and ROWS[row].semantics.mbarrier is not None
                if (is_array[number] or place == offset) and ROWS[row].semantics.mbarrier & role
            ]
            cell = Cell(OBJECTS[number], offset)
            assert [(use.site.position, use.site.block) for use in uses.of(cell, role)] == expected, (lines, cell, role)
            for blocks in (("middle",), ("end", "entry"), ()):
                inside = [position for position, name in expected if name in blocks]
                assert [use.site.position for use in uses.inside(blocks, cell, role)] == inside
            written = any(line[1] == number and line[3] is None for line in ordered)
            assert uses.lacks(cell, role) == (not expected and not written)
            found += len(expected)
        arrivals = {at for at, line in enumerate(ordered) if line[3] == 1}
        assert uses.arrivals == arrivals
    assert found > 100


def test_bytes_are_completed_by_a_copy_or_by_the_thread_that_says_so() -> None:
    cell = Cell(MemoryObject(1, "full", "shared", 8, 8), 0)
    for row in catalogue.rows():
        use = Use(Site(0, "entry", MachineInstr(row.opcode, row)), cell, cell, row.semantics.mbarrier or MbarrierUse(0))
        assert use.is_by_engine is (MbarrierUse.COMPLETE in use.role and not row.ptx.startswith("mbarrier.")), row.ptx
