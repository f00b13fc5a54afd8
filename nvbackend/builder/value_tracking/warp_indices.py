"""Indices of warps and warpgroups in divergent code.

An index is a shuffle from lane 0, by which ptxas knows that it is uniform in the warp and keeps it in a uniform
register. After a branch that parts the lanes, a shuffle would wait for those that went the other way; there the index
is computed from the thread's own index, which gives the same number.
"""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.convergence.regions import divergence_of


@dataclass(frozen=True)
class SharedIndex:
    """An index that a shuffle made uniform."""

    own: ir.Value
    shuffle: ir.Instruction
    instruction: MachineInstr


def unshare_parted(
    machine: MachineFunction, indices: Iterable[SharedIndex], *, everywhere: bool
) -> dict[ir.Value, ir.Value]:
    """Replace the shuffle of each of `indices` in blocks that parts of a warp reach, or `everywhere`.

    Returns the replacement of each shuffle.
    """
    replaced: dict[ir.Value, ir.Value] = {}
    waiting = [index for index in indices if index.shuffle in index.shuffle.parent.instructions]
    if not waiting:
        return replaced
    divergence = None if everywhere else divergence_of(machine)
    for index in waiting:
        block = index.shuffle.parent
        if divergence is None or divergence.is_parted(block.name, Scope.WARP):
            own = ir.CastInstr(block, "bitcast", index.own, index.shuffle.type)
            own._name = index.shuffle.name  # what was computed from it goes on by that name
            block.instructions[block.instructions.index(index.shuffle)] = own
            instructions = machine.block(block.name).instructions
            machine.block(block.name).instructions = [
                instruction for instruction in instructions if instruction is not index.instruction
            ]
            replaced[index.shuffle] = own
    return replaced
