"""The parity that is waited for: that it begins and changes as the phases of the barrier do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.semantics import BARRIER, Completion, MbarrierUse
from nvbackend.isel.flow.loops import Loop, Loops
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, MachineFunction, Update
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.counts import Counts
from nvbackend.isel.protocols.mbarrier.first import Firsts
from nvbackend.isel.protocols.mbarrier.uses import Use, Uses

PARITY = "parity"
_WAITS = MbarrierUse.WAIT | MbarrierUse.POLL
_FILLS = MbarrierUse.COMPLETE | MbarrierUse.ARRIVE


@dataclass(frozen=True, slots=True)
class ParityFinding:
    """A broken rule at a wait: the variables of parity and index, and what those of the parity do."""

    rule: Rule
    use: Use
    parity: tuple[str, ...]
    index: tuple[str, ...]
    does: str = ""


class Parities:
    """The waits of one function."""

    def __init__(self, function: MachineFunction, uses: Uses, loops: Loops, counts: Counts, firsts: Firsts) -> None:
        self._function = function
        self._uses = uses
        self._loops = loops
        self._counts = counts
        self._firsts = firsts

    def findings(self) -> Iterator[ParityFinding]:
        """Every wait whose parity certainly does not follow the phases of its barrier."""
        yield from self._first()
        for use in self._uses.all:
            loop = self._loops.innermost(use.site.block) if use.role is MbarrierUse.WAIT else None
            if loop is None or use.threads is None:
                continue
            sources = use.site.instr.sources
            index = sources.get(BARRIER)
            parity = frozenset[str]() if use.fact(facts.PARITY) is not None else sources.get(PARITY)
            if index is not None and parity is not None:
                yield from self._wait(use, loop, index, parity)

    def _first(self) -> Iterator[ParityFinding]:
        """The first wait for each barrier that is filled, and that nothing ever waits for by the parity 0."""
        if self._uses.lost:
            return
        for cell in self._uses.cells:
            waits = self._uses.of(cell, _WAITS)
            filled = any(map(_fills, self._uses.of(cell, _FILLS)))
            known = cell.object not in self._uses.escaped and self._uses.of(cell, MbarrierUse.INIT)
            if filled and known and waits and all(self._firsts.parity(use) == 1 for use in waits):
                yield from (ParityFinding(rules.PARITY_FIRST, use, (), ()) for use in waits if self._counts_on(use))

    def _counts_on(self, use: Use) -> bool:
        """Whether the first wait here must not return at once: each does, or its bytes are read right after it."""
        return use.fact(facts.PARITY) is not None or self._firsts.is_read_behind(use)

    def _wait(self, use: Use, loop: Loop, index: frozenset[str], parity: frozenset[str]) -> Iterator[ParityFinding]:
        updates = self._loops.updates(loop)
        names = tuple(sorted(parity)), tuple(sorted(index))
        moving = parity & updates.keys()
        if not index & updates.keys():
            if not moving and self._alone(use, loop) and self._counts.one_phase_a_round(use.cell, loop):
                yield ParityFinding(rules.PARITY_FIXED, use, *names)
        elif self._comes_round(use, index, updates):
            if not moving and any(one in block.updates for one in parity for block in self._later(loop)):
                yield ParityFinding(rules.PARITY_COUNTER, use, *names, does="this loop never changes")
            elif not moving:
                yield ParityFinding(rules.PARITY_FIXED, use, *names)
            elif self._flips_each_round(loop, moving, updates):
                yield ParityFinding(rules.PARITY_COUNTER, use, *names, does="flips in each round")

    def _alone(self, use: Use, loop: Loop) -> bool:
        """Whether the loop waits for the barrier here only, and does not begin its phases anew."""
        others = self._uses.inside(loop.blocks, use.cell, _WAITS | MbarrierUse.INIT)
        return not any(one is not use for one in others)

    @staticmethod
    def _comes_round(use: Use, index: frozenset[str], updates: dict[str, Update]) -> bool:
        """Whether the index of the barrier comes back to those it had: it is cut off, or set and not counted."""
        several = use.cell.object.bytes > use.cell.object.element_bytes
        changed = [updates[one] for one in index if one in updates]
        return several and (bool(use.fact(facts.WRAPS)) or Update.SET in changed)

    def _later(self, loop: Loop) -> list[MachineBlock]:
        """The blocks of loops around `loop`."""
        return [block for name, block in self._function.blocks.items() if self._encloses(name, loop)]

    def _encloses(self, block: str, loop: Loop) -> bool:
        around = self._loops.innermost(block)
        return around is not None and around is not loop and loop.header in around.blocks

    def _flips_each_round(self, loop: Loop, moving: frozenset[str], updates: dict[str, Update]) -> bool:
        if any(updates[one] is not Update.FLIP for one in moving):
            return False
        return any(
            one in self._function.blocks[block].updates and self._loops.every_round(loop, block)
            for one in moving
            for block in loop.blocks
        )


def _fills(use: Use) -> bool:
    """Whether it completes a phase when asynchronous operations are done."""
    return use.role is MbarrierUse.COMPLETE or use.site.instr.semantics.tracks is Completion.COMMIT
