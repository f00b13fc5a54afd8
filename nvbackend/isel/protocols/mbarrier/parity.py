"""The parity of waits: it must begin and change as the phases of the barrier do.

Also the parity of a thread's first wait, and the reads just after it of the data that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import BARRIER, Completion, MbarrierUse
from nvbackend.isel.flow.loops import Loop, Loops
from nvbackend.isel.flow.paths import coming
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, MachineFunction, MemoryObject, MemoryUse, Update
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.counts import Counts
from nvbackend.isel.protocols.mbarrier.uses import Cell, Use, Uses

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
            if not moving and any(changed in block.updates for changed in parity for block in self._later(loop)):
                yield ParityFinding(rules.PARITY_COUNTER, use, *names, does="this loop never changes")
            elif not moving:
                yield ParityFinding(rules.PARITY_FIXED, use, *names)
            elif self._flips_each_round(loop, moving, updates):
                yield ParityFinding(rules.PARITY_COUNTER, use, *names, does="flips in each round")

    def _alone(self, use: Use, loop: Loop) -> bool:
        """Whether the loop waits for the barrier here only, and does not begin its phases anew."""
        others = self._uses.inside(loop.blocks, use.cell, _WAITS | MbarrierUse.INIT)
        return not any(other is not use for other in others)

    @staticmethod
    def _comes_round(use: Use, index: frozenset[str], updates: dict[str, Update]) -> bool:
        """Whether the index of the barrier comes back to those it had: it is cut off, or set and not counted.

        What cuts off an index of several variables may cut off those that the loop does not change.
        """
        several = use.cell.object.bytes > use.cell.object.element_bytes
        changed = [updates[name] for name in index if name in updates]
        is_cut_off = bool(use.fact(facts.WRAPS)) and len(changed) == len(index)
        return several and (is_cut_off or Update.SET in changed)

    def _later(self, loop: Loop) -> list[MachineBlock]:
        """The blocks of loops around `loop`."""
        return [block for name, block in self._function.blocks.items() if self._encloses(name, loop)]

    def _encloses(self, block: str, loop: Loop) -> bool:
        around = self._loops.innermost(block)
        return around is not None and around is not loop and loop.header in around.blocks

    def _flips_each_round(self, loop: Loop, moving: frozenset[str], updates: dict[str, Update]) -> bool:
        if any(updates[changing] is not Update.FLIP for changing in moving):
            return False
        return any(
            changing in self._function.blocks[block].updates and self._loops.every_round(loop, block)
            for changing in moving
            for block in loop.blocks
        )


def _fills(use: Use) -> bool:
    """Whether it completes a phase when asynchronous operations are done."""
    return use.role is MbarrierUse.COMPLETE or use.site.instr.semantics.tracks is Completion.COMMIT


_PARITY = "parity"
_MOST_BLOCKS = 64
"""How many blocks are looked through for each block of the function; beyond that, variables are not judged."""
_READS = (MemoryUse.READ, MemoryUse.ASYNC_READ)
Settled = tuple[int | None, int]
"""A value, None for one that is not known, and the threads that may have it, a bit each."""
Definitions = frozenset[str | Settled]
"""What may have given a variable the value that it has: a block of a loop that is not left yet, by its name; else the
value alone."""


class Firsts:
    """The first waits of one function."""

    def __init__(self, function: MachineFunction, uses: Uses, loops: Loops) -> None:
        self._function = function
        self._uses = uses
        self._loops = loops
        self._left = _MOST_BLOCKS * len(function.blocks)

    def parity(self, use: Use) -> int | None:
        """The parity of the wait when a thread first reaches it; None if unknown."""
        constant, flipped, variable = use.fact(facts.PARITY), use.fact(facts.FLIPPED), _variable(use)
        if constant is not None or flipped is None or variable is None:
            return constant
        values = self._values.get((variable, use.site.block), {None})
        value = next(iter(values)) if len(values) == 1 else None
        return value ^ flipped if value in (0, 1) else None

    @cached_property
    def _values(self) -> dict[tuple[str, str], set[int | None]]:
        """What a variable may be when a thread first comes to a block that waits by it; None for what is not known.

        A definition that reaches the block is the first to do so unless the block dominates it: then a thread must
        have been there before.
        """
        asked: dict[str, set[str]] = {}
        for use in self._uses.all:
            variable = _variable(use)
            if variable is not None and self._loops.is_reachable(use.site.block):
                asked.setdefault(variable, set()).add(use.site.block)
        values: dict[tuple[str, str], set[int | None]] = {}
        for variable, blocks in asked.items():
            reaching = self._reaching(variable, blocks)
            if self._left < 0:
                break
            for block in blocks:
                behind = {
                    earlier
                    for earlier in reaching[block]
                    if isinstance(earlier, str) and self._loops.dominates(block, earlier)
                }
                settled = self._settled(reaching[block] - behind, variable)
                values[variable, block] = {value for value, threads in settled if threads & self.coming[block]}
        return values

    def _reaching(self, variable: str, blocks: Iterable[str]) -> dict[str, Definitions]:
        """The definitions of `variable` that reach the start of each of `blocks`, and of what lies on the way there."""
        region: dict[str, list[str]] = {}
        waiting = list(blocks)
        while waiting:
            block = waiting.pop()
            if block not in region:
                region[block] = self._loops.predecessors(block)
                waiting += [before for before in region[block] if not self._defines(before, variable)]
                self._left -= 1 + len(region[block])
        following: dict[str, list[str]] = {}
        reaching: dict[str, Definitions] = dict.fromkeys(region, frozenset())
        for block, before in region.items():
            for predecessor in before:
                following.setdefault(predecessor, []).append(block)
        entry = self._function.entry.name
        waiting = [
            *(start for start in following if self._defines(start, variable)),
            *([entry] if entry in region else []),
        ]
        if entry in region:
            reaching[entry] = frozenset(((None, -1),))
        while waiting:
            block = waiting.pop()
            known = frozenset((block,)) if self._defines(block, variable) else reaching[block]
            for predecessor in following.get(block, ()):
                self._left -= 1
                come = known if self._loops.goes_on(block, predecessor) else self._settled(known, variable)
                if not come <= reaching[predecessor]:
                    reaching[predecessor] |= come
                    if not self._defines(predecessor, variable):
                        waiting.append(predecessor)
        return reaching

    def _settled(self, known: Definitions, variable: str) -> frozenset[Settled]:
        """The same outside the loops of its definitions, to which no later block leads back: values alone matter."""
        blocks = self._function.blocks
        return frozenset(
            (blocks[definition].constants.get(variable), self.coming[definition])
            if isinstance(definition, str)
            else definition
            for definition in known
        )

    @cached_property
    def coming(self) -> dict[str, int]:
        """The threads that may come to each block, a bit each."""
        return coming(self._function)

    def _defines(self, block: str, variable: str) -> bool:
        return variable in self._function.blocks[block].updates

    def is_read_behind(self, use: Use) -> bool:
        """Whether the block of the wait then reads what only copies that complete on its barrier fill."""
        filled = self._filled_by(use.cell)
        behind = self._function.blocks[use.site.block].instructions
        at = next(index for index, instr in enumerate(behind) if instr is use.site.instr)
        return any(
            touch.object in filled and touch.use in _READS for instr in behind[at + 1 :] for touch in instr.memory
        )

    def _filled_by(self, cell: Cell) -> set[MemoryObject]:
        sites = (fill.site for fill in self._uses.of(cell, MbarrierUse.COMPLETE))
        mine = {touch.object for site in sites for touch in site.instr.memory if touch.use is MemoryUse.ASYNC_WRITE}
        return {barrier for barrier in mine if self._barriers[barrier] == {cell.object}}

    @cached_property
    def _barriers(self) -> dict[MemoryObject, set[MemoryObject | None]]:
        """The mbarriers that what is written to each allocation completes on, None for ordinary stores."""
        by_object: dict[MemoryObject, set[MemoryObject | None]] = {}
        for instr in self._function.instructions():
            barriers = {touch.object for touch in instr.memory if touch.use is MemoryUse.SYNCHRONIZE}
            for touch in instr.memory:
                if touch.use in (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE):
                    by_object.setdefault(touch.object, set()).update(barriers or {None})
        return by_object


def _variable(use: Use) -> str | None:
    """The variable that decides the parity, None for several or none."""
    variables = use.site.instr.sources.get(_PARITY, frozenset())
    return next(iter(variables)) if len(variables) == 1 else None
