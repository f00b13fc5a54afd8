"""Plain accesses of global memory, which the machine form keeps apart from the instructions of its protocols."""

from __future__ import annotations

from dataclasses import replace

from nvbackend.isel.machine.function import MachineBlock, MachineFunction, MachineInstr


def with_plain(function: MachineFunction) -> MachineFunction:
    """`function` with its plain accesses among the instructions, where the kernel wrote them."""
    if not any(block.plain for block in function.blocks.values()):
        return function
    same = replace(function, blocks={name: _merged(block) for name, block in function.blocks.items()})
    same.kept = None if function.kept is None else {}
    return same


def _merged(block: MachineBlock) -> MachineBlock:
    if not block.plain:
        return block
    after: dict[int | None, list[MachineInstr]] = {None: []}
    there = {id(instr) for instr in block.instructions}
    last = None
    for anchor, instr in block.plain:
        last = id(anchor) if id(anchor) in there else last
        after.setdefault(last, []).append(instr)
    instructions = [*after[None]]
    for instr in block.instructions:
        instructions += [instr, *after.get(id(instr), ())]
    return replace(block, instructions=instructions, plain=[])
