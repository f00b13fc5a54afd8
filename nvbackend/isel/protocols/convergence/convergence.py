"""Convergence along the control flow: instructions of a whole warp, warpgroup, CTA or cluster, and who comes there.

An instruction is parted where a branch decides about its block (`ControlFlow`) and the threads that should execute it
together may go different ways there. After the block where the ways meet they are together again; where one way ends
the kernel, or leaves a loop, the others go on without those threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.row import Effect, Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE, Scope
from nvbackend.intrinsics.sync.warp import ALL_LANES
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.convergence import rules
from nvbackend.isel.protocols.convergence.barriers import Barriers, collective
from nvbackend.isel.protocols.convergence.members import MASKS
from nvbackend.isel.protocols.convergence.regions import Divergence, Mistake, divergence_of


def check_convergence(function: MachineFunction) -> list[Diagnostic]:
    """Every instruction of a group of threads that, as a branch shows, only a part of the group may execute.

    In the order of the text, the first instruction for each branch and rule. Branches of which nothing is known
    (`MachineBlock.branch`) do not separate threads.
    """
    together = [
        (name, instr, needed)
        for name, block in function.blocks.items()
        for instr in block.instructions
        if (needed := needed_scope(instr))
    ]
    if not together or not any(block.branch for block in function.blocks.values()):
        return []
    divergence = divergence_of(function)
    barriers = Barriers(function, divergence)
    by_cause: dict[object, Diagnostic] = {}
    for name, instr, needed in together:
        if divergence.is_parted(name, Scope.GRID):
            for mistake in barriers.check(name, instr) or _parted(divergence, name, instr, needed):
                by_cause.setdefault(mistake.cause, mistake.diagnostic)
    return list({_line_and_branch(diagnostic): diagnostic for diagnostic in reversed(by_cause.values())}.values())[::-1]


def _line_and_branch(diagnostic: Diagnostic) -> object:
    """One mistake to the user, however often Python runs the line: only the first occurrence is reported."""
    places = (diagnostic.location, *(place for _, place in diagnostic.notes))
    return places if all(places) else id(diagnostic)


def needed_scope(instr: MachineInstr) -> Scope:
    """The group whose threads execute `instr` together; THREAD where each may be alone, or nothing is known."""
    return Scope.THREAD if instr.row is None else needed_of(instr.row, instr.operands)


def needed_of(row: Row, operands: Mapping[str, str]) -> Scope:
    """The same of a row and the names of its `operands`: numbers name themselves."""
    needed = _needed(row)
    if needed is not Scope.WARP:
        return needed
    masks = [operands[name] for name in MASKS if name in operands]
    return Scope.WARP if all(_is_whole(mask) for mask in masks) else Scope.THREAD


@cache
def _needed(row: Row) -> Scope:
    """The same, where all lanes take part."""
    if collective(row) is not None:
        return Scope.WARP
    return row.semantics.together if Effect.CONVERGENT in row.effects else Scope.THREAD


def _is_whole(mask: str) -> bool:
    digits = mask.removeprefix("-")
    return digits.isdigit() and int(mask) & ALL_LANES == ALL_LANES


def _parted(divergence: Divergence, block: str, instr: MachineInstr, needed: Scope) -> Iterator[Mistake]:
    """What the warp or warpgroup executes together, and does not come to together."""
    parting = divergence.parting(block, needed)
    if instr.row is None or Effect.CONVERGENT not in instr.row.effects or parting is None:
        return
    rule, threads = (
        (rules.WARPGROUP_DIVERGENT, WARPGROUP_SIZE) if needed is Scope.WARPGROUP else (rules.WARP_DIVERGENT, WARP_SIZE)
    )
    diagnostic = rule.diagnose(
        at=instr.location,
        notes=parting.notes(),
        instruction=instr.row.ptx,
        threads=threads,
        branch=parting.described(),
    )
    yield Mistake((rule.id, parting.block), diagnostic)
