"""Loads with a memory order, of numbers in global memory that the kernel leaves alone: each reads the same one.

Of what the kernel writes, as of a flag for which a loop asks again and again, each load may give another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llvmlite import ir

from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.program.needed import SHARED_SPACES, results
from nvbackend.dry_run.successors import successors_of
from nvbackend.intrinsics.copy import load_store
from nvbackend.intrinsics.row.row import Effect, RegisterClass
from nvbackend.isel.flow.loops import Loop, Loops
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.machine.pseudo import ADDRESS

_WRITTEN_AT = {"store": 1, "atomicrmw": 0, "cmpxchg": 0}
"""Which operand of an LLVM instruction is the address that it writes."""
_OF_DATA = (RegisterClass.GLOBAL, RegisterClass.GENERIC)


def is_ordered_load(instr: MachineInstr) -> bool:
    """Whether it loads from global memory, with a memory order."""
    row = instr.row
    return (
        row is not None
        and (row.family, row.opcode, row.axes.get("space")) == (load_store.FAMILY, load_store.LOAD, "global")
        and instr.semantics.atomic
    )


def left_alone(function: ir.Function, anchors: Mapping[str, Sequence[Anchor]], loops: Loops) -> set[int]:
    """The ordered loads of words that nothing in the function writes, and no loop asks for: their instructions' ids."""
    several = [(name, one) for name, each in anchors.items() for one in each if is_ordered_load(one.instr)]
    if not several:
        return set()
    of = _Values(function)
    written = [of.arrays(one) for one in _written(function, anchors)]
    return {
        id(one.instr)
        for name, one in several
        if (read := of.arrays(one.registers[ADDRESS][0]))
        and all(array and array.isdisjoint(read) for array in written)
        and not any(of.decides(results(one), loop) for loop in (loops.around(name) if loops.is_reachable(name) else ()))
    }


def _written(function: ir.Function, anchors: Mapping[str, Sequence[Anchor]]) -> Iterator[ir.Value | int]:
    """The addresses outside shared memory that something may be written to."""
    for block in function.blocks:
        for one in block.instructions:
            if one.opname in _WRITTEN_AT:
                address = one.operands[_WRITTEN_AT[one.opname]]
                if not isinstance(address, ir.AllocaInstr) and address.type.addrspace not in SHARED_SPACES:
                    yield address
    for anchor in (one for each in anchors.values() for one in each):
        row = anchor.instr.row
        if row is None or not row.effects & Effect.WRITES_MEMORY:
            continue
        for name, registers in anchor.registers.items():
            if row.operand(name).register in _OF_DATA:
                yield registers[0]


class _Values:
    """What the values of a function follow from."""

    def __init__(self, function: ir.Function) -> None:
        self._stored: dict[ir.Value, list[ir.Value]] = {}
        self._blocks = {block.name: block for block in function.blocks}
        for block in function.blocks:
            for one in block.instructions:
                if one.opname == "store" and isinstance(one.operands[1], ir.AllocaInstr):
                    self._stored.setdefault(one.operands[1], []).append(one)

    def arrays(self, address: ir.Value | int) -> set[ir.Value]:
        """The pointer parameters from which an address follows: none where it is not known from which."""
        return {one for one in self._behind([address]) if isinstance(one, ir.Argument) and _is_pointer(one)}

    def decides(self, values: Sequence[ir.Value], loop: Loop) -> bool:
        """Whether the loop ends by one of the values that are computed in it."""
        ends = [
            self._blocks[name].terminator.operands[0]
            for name in loop.blocks
            if (end := self._blocks[name].terminator) is not None
            and any(one.name not in loop.blocks for one in successors_of(end))
        ]
        return not self._behind(ends, loop).isdisjoint(values)

    def _behind(self, values: Sequence[ir.Value | int], loop: Loop | None = None) -> set[ir.Value]:
        """All that the values follow from, in a loop if one is given: of addresses, without their indices."""
        found: set[ir.Value] = set()
        waiting = [one for one in values if isinstance(one, ir.Value)]
        while waiting:
            one = waiting.pop()
            if one in found:
                continue
            found.add(one)
            if isinstance(one, ir.AllocaInstr) or (isinstance(one, ir.Instruction) and _is_in(one, loop)):
                waiting += self._sources(one, loop)
        return found

    def _sources(self, one: ir.Instruction, loop: Loop | None) -> list[ir.Value]:
        if isinstance(one, ir.AllocaInstr):
            return [each.operands[0] for each in self._stored.get(one, ()) if _is_in(each, loop)]
        if one.opname == "phi":
            return [value for value, _ in one.incomings]
        if one.opname == "getelementptr" and loop is None:
            return [one.operands[0]]
        return list(one.operands)


def _is_in(one: ir.Instruction, loop: Loop | None) -> bool:
    return loop is None or one.parent.name in loop.blocks


def _is_pointer(one: ir.Value) -> bool:
    return isinstance(one.type, ir.PointerType)
