"""Whether multiplies may still be reading a stage of a ring that is given back."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.machine.function import MachineInstr, MemoryObject
from nvbackend.isel.protocols.wgmma.state import pending_groups


def multiply_in_flight(
    stage: Sequence[MachineInstr], following: Sequence[MachineInstr], tiles: Collection[MemoryObject]
) -> MachineInstr | None:
    """The newest wgmma.mma_async of `stage` that reads `tiles` and that each wait after its commit leaves in flight.

    The waits are those of `stage` and of `following`; without any, the protocol of wgmma says what is missing.
    Instructions are in the order of the text, and a wait in a branch counts as executed. PTX ISA 9.7.15.7.
    """
    groups: list[list[MachineInstr]] = [[]]  # the last one is open
    waited = 0  # how many of the first groups a wait has left in flight
    for place, instruction in enumerate((*stage, *following)):
        said = instruction.semantics
        if said.issues is Completion.MMA_GROUP:
            if place < len(stage) and any(touch.object in tiles for touch in instruction.memory):
                groups[-1].append(instruction)
        elif said.commits is Completion.MMA_GROUP:
            groups.append([])
        elif said.awaits is Completion.MMA_GROUP:
            groups = groups[-1 - pending_groups(instruction) :]
            waited = len(groups) - 1
    return next((group[-1] for group in reversed(groups[:waited]) if group), None)
