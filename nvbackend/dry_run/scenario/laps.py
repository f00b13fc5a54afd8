"""Which arrays are rings, whose parts are used again: no count that is promised to be small bounds their indices.

An mbarrier of which a loop waits for one phase after the other is one of a ring: in every loop that changes its index
the parity changes too. So is memory of as many parts that copies fill which complete there. Where each round has a
barrier of its own the parity is the same in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from llvmlite import ir

from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.program.code import Program
from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.machine.function import MachineInstr, MemoryObject

_BARRIER, _PARITY = "barrier", "parity"
_Deciding = Mapping[str, Set[str]]
"""The parameters that decide the rounds of a loop, by its header."""


class Laps:
    """The rings of a function."""

    def __init__(self, function: ir.Function, anchors: Mapping[str, Sequence[Anchor]], program: Program) -> None:
        self._function = function
        self._anchors = anchors
        self._program = program
        self._stored: dict[Any, list[tuple[Any, int | None]]] = {}
        """What is stored to each variable, and in which loop."""
        self._found: dict[int, frozenset[str]] | None = None

    def of(self, instr: MachineInstr, operand: str, deciding: Callable[[], _Deciding]) -> frozenset[str]:
        """The parameters that make the laps of the ring that an operand of `instr` addresses; none for other memory.

        `deciding` is asked only if there are rings.
        """
        if self._found is None:
            self._found = self._rings(deciding)
        names = (self._found.get(one.object.id, frozenset()) for one in instr.memory if one.operand in ("", operand))
        return frozenset().union(*names)

    def _rings(self, deciding: Callable[[], _Deciding]) -> dict[int, frozenset[str]]:
        innermost = {
            block.name: around[-1] if around else None
            for block, around in zip(self._program.blocks, self._program.around, strict=True)
        }
        for block in self._function.blocks:
            for one in block.instructions:
                if one.opname == "store" and isinstance(one.operands[1], ir.AllocaInstr):
                    self._stored.setdefault(one.operands[1], []).append((one.operands[0], innermost[block.name]))
        found: dict[int, frozenset[str]] = {}
        counts: dict[int, int] = {}
        for anchor in self._all():
            use = anchor.instr.semantics.mbarrier
            if use is None or not use & (MbarrierUse.WAIT | MbarrierUse.POLL):
                continue
            loops = self._loops(anchor.registers.get(_BARRIER, ()))
            if loops and loops <= self._loops(anchor.registers.get(_PARITY, ())):
                for array in _arrays(anchor.instr):
                    found[array.id] = found.get(array.id, frozenset()) | self._names(loops, deciding())
                    counts[array.id] = array.bytes // array.element_bytes
        for anchor in self._all() if found else ():
            barriers = [one.id for one in _arrays(anchor.instr) if one.id in counts]
            for touch in anchor.instr.memory if barriers else ():
                parts = touch.object.bytes // touch.bytes if touch.bytes else 0
                if touch.object.id not in counts and parts == counts[barriers[0]]:
                    found[touch.object.id] = found.get(touch.object.id, frozenset()) | found[barriers[0]]
        return found

    def _all(self) -> Iterator[Anchor]:
        return (one for several in self._anchors.values() for one in several)

    def _names(self, loops: Iterable[int], deciding: _Deciding) -> frozenset[str]:
        headers = [self._program.blocks[self._program.loops[loop].header].name for loop in loops]
        return frozenset().union(*(deciding.get(header, ()) for header in headers))

    def _loops(self, values: Iterable[Any]) -> set[int]:
        """The loops that change what values are computed from."""
        seen: set[Any] = set()
        return {loop for variable in self._variables(values, seen) for loop in self._changed_in(variable)}

    def _changed_in(self, variable: Any) -> set[int]:
        """The loops in which a variable is set to what follows from itself."""
        return {
            loop
            for value, loop in self._stored.get(variable, ())
            if loop is not None and variable in self._variables([value], set())
        }

    def _variables(self, values: Iterable[Any], seen: set[Any]) -> set[Any]:
        """The variables that values are computed from, by arithmetic and other variables."""
        waiting, found = list(values), set()
        while waiting:
            one = waiting.pop()
            if not isinstance(one, ir.Instruction) or one in seen:
                continue
            seen.add(one)
            variable = one.operands[0] if one.opname == "load" else None
            anchor = self._program.computed.get(one.name)
            if isinstance(variable, ir.AllocaInstr):
                found.add(variable)
                waiting += [value for value, _ in self._stored.get(variable, ())]
            elif anchor is not None:
                waiting += anchor.registers.get("value", ())
            elif one.opname == "phi":
                waiting += [value for value, _ in one.incomings]
            else:
                waiting += one.operands
        return found


def _arrays(instr: MachineInstr) -> Iterator[MemoryObject]:
    """The mbarriers that an instruction uses."""
    return (one.object for one in instr.memory if one.operand == _BARRIER and one.object.element_bytes)
