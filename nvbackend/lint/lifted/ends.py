"""A `ret` or `exit` with a guard as a branch to one without: so each end of a function has a block of its own."""

from __future__ import annotations

from dataclasses import replace

from nvbackend.isel.machine.function import MachineBlock, MachineInstr
from nvbackend.lint.lifted.lift import Lifted


def with_ends_apart(lifted: Lifted) -> Lifted:
    """The function, where a thread that a guard sends to the end goes there by a branch at the same line."""
    lines = list(lifted.lines)
    blocks = dict(lifted.function.blocks)
    count = 0
    for name, block in lifted.function.blocks.items():
        count += len(block.instructions)
        if not block.instructions or not block.instructions[-1].semantics.exits:
            continue
        line, end = lines[count - 1], block.instructions[-1]
        if line.instruction.guard is None:
            continue
        apart = f"{name}.end"
        lines[count - 1] = replace(line, instruction=replace(line.instruction, opcode="bra"))
        branch = MachineInstr("bra", None, location=end.location)
        blocks[name] = replace(
            block, instructions=[*block.instructions[:-1], branch], successors=[apart, *block.successors]
        )
        blocks[apart] = MachineBlock(apart, [end])
        lines.append(replace(line, instruction=replace(line.instruction, guard=None), reads=(), writes=()))
    return replace(lifted, function=replace(lifted.function, blocks=blocks), lines=lines)
