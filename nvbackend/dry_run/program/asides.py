"""Branches whose sides only access memory and compute: what some threads do there, no other waits for."""

from __future__ import annotations

from nvbackend.dry_run.program.code import CodeBlock, Program
from nvbackend.intrinsics.row.row import Effect
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.machine.function import MachineInstr


def is_aside(program: Program, number: int) -> bool:
    """Whether threads may leave out what lies between the branch at the end of a block and its meeting."""
    blocks, around = program.blocks, program.around
    meeting = blocks[number].meeting
    if meeting is None or blocks[number].cases is not None or blocks[meeting].phis:
        return False
    between = reached(blocks[number].targets, lambda one: blocks[one].targets, without=(meeting,))
    return number not in between and all(_is_quiet(blocks[one]) and around[one] == around[number] for one in between)


def _is_quiet(block: CodeBlock) -> bool:
    recorded = [part.recorded.instr for part in block.parts if part.recorded is not None]
    return bool(block.targets) and not block.sets and all(_only_accesses(one) for one in recorded)


def _only_accesses(instr: MachineInstr) -> bool:
    said = instr.semantics
    parts = (said.mbarrier, said.barrier, said.fence, said.completion, said.tensor_memory, said.budget)
    converges = instr.row is not None and bool(instr.row.effects & Effect.CONVERGENT)
    return not said.exits and not converges and all(one is None for one in parts)
