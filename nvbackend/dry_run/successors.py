"""Where the control flow of an LLVM function goes on after a block."""

from __future__ import annotations

from llvmlite import ir


def successors_of(terminator: ir.Instruction | None) -> list[ir.Block]:
    """The blocks that may follow one with this end, each once; of a two-way branch first the one where it holds.

    llvmlite has those of a `switch` and an `indirectbr` in places of their own, not among the operands.
    """
    if terminator is None:
        return []
    if isinstance(terminator, ir.SwitchInstr):
        targets = [terminator.default, *(target for _, target in terminator.cases)]
    elif isinstance(terminator, ir.IndirectBranch):
        targets = terminator.destinations
    else:
        targets = [operand for operand in terminator.operands if isinstance(operand, ir.Block)]
    return list(dict.fromkeys(targets))
