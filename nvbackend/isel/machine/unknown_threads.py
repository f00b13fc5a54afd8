"""The machine form of a function about whose threads nothing is known."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, MachineFunction

_OF_THREADS = (facts.THREADS, facts.THREAD, facts.WARPS)
"""Facts of which threads execute an instruction."""


def judged_of_unknown_threads(machine: MachineFunction) -> MachineFunction:
    """The machine form as the verifier judges it where others call the function."""
    judged = copy(machine)
    judged.kept = None
    judged.blocks = blocks_of_unknown_threads(machine)
    judged.values = machine.values
    return judged


def blocks_of_unknown_threads(machine: MachineFunction) -> dict[str, MachineBlock]:
    """The blocks with nothing said of which threads execute them."""
    return {name: _of_unknown_threads(block) for name, block in machine.blocks.items()}


def _of_unknown_threads(block: MachineBlock) -> MachineBlock:
    """The block with nothing said of which threads execute it."""
    instructions = [
        replace(instruction, facts={name: fact for name, fact in instruction.facts.items() if name not in _OF_THREADS})
        if instruction.facts
        else instruction
        for instruction in block.instructions
    ]
    return replace(block, instructions=instructions, crew=None)
