"""Where the allocations of shared memory lie, and which accesses leave theirs."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.dry_run.order.record import Part
from nvbackend.dry_run.seam import Exceeded, Launch
from nvbackend.intrinsics.row.row import RegisterClass
from nvbackend.isel.machine.function import MachineInstr, MemoryObject

Outside = tuple[MemoryObject | None, range]
"""The allocation, where it is known, and what an access touches that is not all inside, counted from its start."""


class Extents:
    """The allocations of one launch.

    Parameters that the run itself chose may be larger than the author promises: where such a one decides about the
    index, the run ends by seam.Exceeded.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.stop = launch.shared.stop
        self._known: dict[tuple[int, str], tuple[MemoryObject | None, range]] = {}

    def holds(self, instr: MachineInstr, operand: str, first: int, size: int) -> bool:
        """Whether an access stays in the allocation that it was computed from."""
        _, inside = self.allocation(instr, operand)
        return first >= inside.start and first + size <= inside.stop

    def leaves(self, part: Part) -> Outside | None:
        """Whether an access leaves the allocation that it was computed from, or the kernel's memory."""
        memory, inside = self.allocation(part.instr, part.operand)
        if part.first >= inside.start and part.end <= inside.stop:
            return None
        names = frozenset[str]().union(*(self._launch.promised(part.instr, each) for each in _deciding(part)))
        if names:
            raise Exceeded(names)
        byte = part.first if part.first < inside.start else part.end - part.size
        start = byte - (inside.start if memory is not None else 0)
        return memory, range(start, start + part.size)

    def allocation(self, instr: MachineInstr, operand: str) -> tuple[MemoryObject | None, range]:
        """The allocation that an address is computed from, and its bytes; all memory where it is not known."""
        found = self._known.get((id(instr), operand))
        if found is None:
            found = self._known[id(instr), operand] = self._find(instr, operand)
        return found

    def _find(self, instr: MachineInstr, operand: str) -> tuple[MemoryObject | None, range]:
        for touch in instr.memory:
            start = touch.object.start
            if start is None or (instr.row is not None and not _is_address(instr, operand, touch.operand)):
                continue
            base = self._launch.places.get(start[0])
            if base is not None:
                return touch.object, range(base + start[1], base + start[1] + touch.object.bytes)
        return None, range(self.stop)


def _deciding(part: Part) -> Iterator[str]:
    """The operands that decide how far an access goes: the address, and a size in a register."""
    yield part.operand
    for said in part.instr.semantics.memory:
        if said.name == part.operand and isinstance(said.extent, str):
            yield said.extent


def _is_address(instr: MachineInstr, operand: str, touched: str) -> bool:
    """Whether the allocation is that of the operand, and the operand an address: descriptors are those of tiles."""
    assert instr.row is not None
    return operand == touched and instr.row.operand(operand).register is not RegisterClass.B64
