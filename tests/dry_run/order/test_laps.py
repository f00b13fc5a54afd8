"""Which memory a wait makes a ring of: arrays of mbarriers, by the operand that is one."""

from __future__ import annotations

from nvbackend.dry_run.scenario.laps import _arrays
from nvbackend.isel.machine.function import MachineInstr, MemoryObject, MemoryTouch, MemoryUse

FULL = MemoryObject(1, "full", "shared", 32, 8)
ALONE = MemoryObject(2, "alone", "shared", 8, 0)
TILE = MemoryObject(3, "tile", "shared", 4096, 1024)


def _touch(memory: MemoryObject, operand: str) -> MemoryTouch:
    return MemoryTouch(memory, MemoryUse.SYNCHRONIZE, operand, 0, "%i*8", 8)


def test_the_arrays_of_mbarriers_that_an_instruction_uses() -> None:
    touches = (_touch(TILE, "destination"), _touch(FULL, "barrier"), _touch(ALONE, "barrier"))
    assert list(_arrays(MachineInstr("load", memory=touches))) == [FULL]
    assert list(_arrays(MachineInstr("load", memory=touches[:1]))) == []
