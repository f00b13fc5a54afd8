"""Accumulators that are used although no way to the use has put a value there."""

from __future__ import annotations

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.isel.flow.dataflow import Site, solve
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Access, MachineFunction, MachineInstr, RegisterBlock

UNWRITTEN = Rule(
    id="wgmma.unwritten",
    message="accumulator {name} is {use} here, and no path to this line writes to it",
    fix="{fix}",
    why="Nothing was multiplied: a cleared accumulator reads as 0, and an mma that is to add overwrites it.",
    reference="PTX ISA 9.7.15.5.2 (wgmma.mma_async: scale-d)",
)
Written = frozenset[RegisterBlock]


class WrittenBlocks:
    """The register blocks that some way to a place writes, as an analysis for the solver.

    What an mma adds to registers that nothing was written to is as unknown as they were: it writes nothing.
    """

    def entry(self) -> Written:
        """None yet."""
        return frozenset()

    def join(self, left: Written, right: Written, /) -> Written:
        """What either way writes."""
        return left | right

    def transfer(self, state: Written, site: Site, /) -> Written:
        """What is written after the instruction."""
        if not site.instr.touches:
            return state
        writes = (Access.WRITE,) if _adds(site.instr) else (Access.WRITE, Access.ACCUMULATE)
        written = [touch.block for touch in site.instr.touches if touch.access in writes]
        return state if state.issuperset(written) else state.union(written)


def check_unwritten(function: MachineFunction) -> list[Diagnostic]:
    """wgmma.unwritten for each accumulator at its first such use in the text."""
    if not any(map(_uses, function.instructions())):
        return []
    faults: dict[RegisterBlock, Diagnostic] = {}
    for site, written in solve(function, WrittenBlocks(), lambda site: bool(site.instr.touches)).visit():
        for block in _uses(site.instr):
            if block not in written and block not in faults:
                faults[block] = _diagnostic(site.instr, block)
    return list(faults.values())


def _adds(instr: MachineInstr) -> bool:
    """Whether it is an mma that adds to its accumulator whatever is there."""
    return instr.facts.get(facts.SCALE_D) == 1


def _uses(instr: MachineInstr) -> list[RegisterBlock]:
    """The blocks whose value the instruction certainly uses, or the kernel that reads them by it."""
    if not instr.touches or facts.UNUSED in instr.facts:
        return []
    uses = (Access.READ, Access.ACCUMULATE) if _adds(instr) else (Access.READ,)
    return [touch.block for touch in instr.touches if touch.access in uses]


def _diagnostic(instr: MachineInstr, block: RegisterBlock) -> Diagnostic:
    if _adds(instr):
        use, fix = "added to", "leave accumulate=True out: the first mma overwrites what is there, every other one adds"
    else:
        use, fix = "read", "multiply into it first, or fill it: acc.fill(0)"
    return UNWRITTEN.diagnose(at=instr.location, name=block.name, use=use, fix=fix)
