"""The parity that a wait is for when a thread comes to it first, and who reads right behind it what it waits for."""

from __future__ import annotations

from functools import cached_property

from nvbackend.isel import facts
from nvbackend.isel.machine import MachineFunction, MemoryObject, MemoryUse
from nvbackend.isel.mbarrier_uses import Cell, Role, Use, Uses

_PARITY = "parity"
_MOST_WAITS = 64
"""Of more waits whose parity is a variable nothing is said: each costs a search through the function."""
_READS = (MemoryUse.READ, MemoryUse.ASYNC_READ)


class Firsts:
    """The first waits of one function."""

    def __init__(self, function: MachineFunction, uses: Uses) -> None:
        self._function = function
        self._uses = uses
        self._searches = 0

    def parity(self, use: Use) -> int | None:
        """The parity that the wait is for the first time that a thread comes to it, None where that is not known."""
        constant, flipped = use.fact(facts.PARITY), use.fact(facts.FLIPPED)
        variables = use.site.instr.sources.get(_PARITY, frozenset())
        if constant is not None or flipped is None or len(variables) != 1 or self._searches == _MOST_WAITS:
            return constant
        self._searches += 1
        (variable,) = variables
        values = self._on_arrival(variable, use.site.block)
        value = values.pop() if len(values) == 1 else None
        return value ^ flipped if value in (0, 1) else None

    def _on_arrival(self, variable: str, block: str) -> set[int | None]:
        """What the variable may be when a thread first comes to `block`; None for what is not known."""
        found: set[int | None] = set()
        start: tuple[str, int | None] = (self._function.entry.name, None)
        waiting, seen = [start], {start}
        while waiting:
            name, value = waiting.pop()
            if name == block:
                found.add(value)
                continue
            at = self._function.blocks[name]
            if variable in at.updates:
                value = at.constants.get(variable)
            following = {(successor, value) for successor in at.successors} - seen
            seen |= following
            waiting += following
        return found

    def is_read_behind(self, use: Use) -> bool:
        """Whether the block of the wait goes on to read what only copies that complete on its barrier fill."""
        filled = self._filled_by(use.cell)
        behind = self._function.blocks[use.site.block].instructions
        at = next(index for index, instr in enumerate(behind) if instr is use.site.instr)
        return any(
            touch.object in filled and touch.use in _READS for instr in behind[at + 1 :] for touch in instr.memory
        )

    def _filled_by(self, cell: Cell) -> set[MemoryObject]:
        sites = (one.site for one in self._uses.of(cell, Role.COMPLETE))
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
                    asynchronous = touch.use is MemoryUse.ASYNC_WRITE and barriers
                    found.setdefault(touch.object, set()).update(barriers if asynchronous else {None})
        return found
