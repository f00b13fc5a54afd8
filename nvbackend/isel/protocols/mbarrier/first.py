"""The parity that a wait is for when a thread comes to it first, and the reads right after it of what it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.flow.loops import Loops
from nvbackend.isel.flow.paths import coming
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MemoryObject, MemoryUse
from nvbackend.isel.protocols.mbarrier.uses import Cell, Use, Uses

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
        """The parity that the wait is for the first time that a thread comes to it, None where that is not known."""
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
        found: dict[tuple[str, str], set[int | None]] = {}
        for variable, blocks in asked.items():
            reaching = self._reaching(variable, blocks)
            if self._left < 0:
                break
            for block in blocks:
                behind = {one for one in reaching[block] if isinstance(one, str) and self._loops.dominates(block, one)}
                settled = self._settled(reaching[block] - behind, variable)
                found[variable, block] = {value for value, threads in settled if threads & self.coming[block]}
        return found

    def _reaching(self, variable: str, blocks: Iterable[str]) -> dict[str, Definitions]:
        """The definitions of `variable` that reach the start of each of `blocks`, and of what lies on the way there."""
        region: dict[str, list[str]] = {}
        waiting = list(blocks)
        while waiting:
            block = waiting.pop()
            if block in region:
                continue
            region[block] = self._loops.predecessors(block)
            waiting += [one for one in region[block] if not self._defines(one, variable)]
            self._left -= 1 + len(region[block])
        following: dict[str, list[str]] = {}
        found: dict[str, Definitions] = dict.fromkeys(region, frozenset())
        for block, before in region.items():
            for one in before:
                following.setdefault(one, []).append(block)
        entry = self._function.entry.name
        waiting = [*(one for one in following if self._defines(one, variable)), *([entry] if entry in region else [])]
        if entry in region:
            found[entry] = frozenset(((None, -1),))
        while waiting:
            block = waiting.pop()
            known = frozenset((block,)) if self._defines(block, variable) else found[block]
            for one in following.get(block, ()):
                self._left -= 1
                come = known if self._loops.goes_on(block, one) else self._settled(known, variable)
                if not come <= found[one]:
                    found[one] |= come
                    if not self._defines(one, variable):
                        waiting.append(one)
        return found

    def _settled(self, known: Definitions, variable: str) -> frozenset[Settled]:
        """The same outside the loops of its definitions, to which no later block leads back: values alone matter."""
        blocks = self._function.blocks
        return frozenset(
            (blocks[one].constants.get(variable), self.coming[one]) if isinstance(one, str) else one for one in known
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
        sites = (one.site for one in self._uses.of(cell, MbarrierUse.COMPLETE))
        mine = {touch.object for site in sites for touch in site.instr.memory if touch.use is MemoryUse.ASYNC_WRITE}
        return {one for one in mine if self._barriers[one] == {cell.object}}

    @cached_property
    def _barriers(self) -> dict[MemoryObject, set[MemoryObject | None]]:
        """The mbarriers that what is written to each allocation completes on, None for ordinary stores."""
        found: dict[MemoryObject, set[MemoryObject | None]] = {}
        for instr in self._function.instructions():
            barriers = {touch.object for touch in instr.memory if touch.use is MemoryUse.SYNCHRONIZE}
            for touch in instr.memory:
                if touch.use in (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE):
                    found.setdefault(touch.object, set()).update(barriers or {None})
        return found


def _variable(use: Use) -> str | None:
    """The variable that decides the parity, None for several or none."""
    variables = use.site.instr.sources.get(_PARITY, frozenset())
    return next(iter(variables)) if len(variables) == 1 else None
