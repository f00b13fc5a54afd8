"""Which parameters decide how far an index goes, where no remainder, mask or restart of a counter bounds it.

They decide as well where threads are compared with them: `row[thread]` of those below n.
Their greatest values are the author's to promise: `row[i]` for each i below n says nothing of an n that is too large.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from llvmlite import ir

from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.program.needed import pointers
from nvbackend.dry_run.successors import successors_of
from nvbackend.intrinsics.row.semantics import BARRIER
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.machine.function import MachineInstr

_BOUNDED = ("and", "urem", "srem", "icmp")
"""Operations with a constant whose results are bounded by that."""


class Promises:
    """The parameters called `names` of a function that decide how far an operand's address goes."""

    def __init__(
        self,
        function: ir.Function,
        anchors: Mapping[str, Sequence[Anchor]],
        computed: Mapping[ir.Value, Anchor],
        names: Collection[str],
    ) -> None:
        self._function = function
        self._anchors = anchors
        self._computed = computed
        self._names = names
        self._stores: dict[ir.Value, list[ir.Value]] | None = None
        self._bounds: dict[ir.Value, list[ir.Value]] = {}
        """What the counters of loops are compared with."""
        self._found: dict[tuple[int, str], frozenset[str]] = {}

    def of(self, instr: MachineInstr, operand: str) -> frozenset[str]:
        """The parameters that decide how far this operand of a recorded instruction goes."""
        key = id(instr), operand
        if key not in self._found:
            self._look()
            block, roots = self._roots(instr, operand)
            named = self._named(self._reached(roots))
            for condition in self._conditions(block) if not named and _is_accessed(instr, operand) else ():
                sources = self._reached([condition])
                if not any(_is_variable(one) for one in sources):
                    named |= self._named(sources)
            self._found[key] = named
        return self._found[key]

    def _named(self, reached: Collection[ir.Value]) -> frozenset[str]:
        return frozenset(self._names).intersection(str(one.name) for one in reached if isinstance(one, ir.Argument))

    def _roots(self, instr: MachineInstr, operand: str) -> tuple[str, list[Any]]:
        """The block of an instruction, and the values of an operand."""
        for name, several in self._anchors.items():
            for anchor in several:
                if anchor.instr is instr:
                    return name, pointers(anchor) if instr.row is None else list(anchor.registers.get(operand, ()))
        return "", []

    def _conditions(self, block: str) -> list[Any]:
        """The conditions of the branches that all ways to a block take to the same side."""
        following = {one.name: [to.name for to in successors_of(one.terminator)] for one in self._function.blocks}
        entry, found = self._function.blocks[0].name, []
        for one in self._function.blocks:
            both = following[one.name]
            for side in both if len(both) > 1 else ():
                left = {**following, one.name: [to for to in both if to != side]}
                if block not in reached([entry], left.__getitem__):
                    found.append(one.terminator.operands[0])
        return found

    def _look(self) -> None:
        if self._stores is not None:
            return
        self._stores = {}
        for block in self._function.blocks:
            for one in block.instructions:
                if one.opname == "store" and isinstance(one.operands[1], ir.AllocaInstr):
                    self._stores.setdefault(one.operands[1], []).append(one.operands[0])
            end: Any = block.terminator
            test: Any = end.operands[0] if isinstance(end, ir.ConditionalBranch) else end
            if getattr(test, "opname", "") == "icmp" and _is_variable(test.operands[0]):
                self._bounds.setdefault(test.operands[0].operands[0], []).append(test.operands[1])

    def _reached(self, values: Sequence[Any]) -> set[ir.Value]:
        """What values are computed from."""
        found: set[ir.Value] = set()
        waiting = list(values)
        while waiting:
            one = waiting.pop()
            if not isinstance(one, (ir.Instruction, ir.Argument)) or one in found:
                continue
            found.add(one)
            if isinstance(one, ir.Instruction):
                waiting += self._sources(one)
        return found

    def _sources(self, one: ir.Instruction) -> Sequence[Any]:
        if one in self._computed:
            anchor = self._computed[one]
            row = anchor.instr.row
            return anchor.registers.get("value", ()) if row is not None and row.opcode.startswith("shfl") else ()
        if _is_variable(one):
            return self._of_variable(one.operands[0])
        if one.opname == "phi":
            return [value for value, _ in one.incomings]
        if one.opname in _BOUNDED and not isinstance(one.operands[1], (ir.Instruction, ir.Argument)):
            return ()
        sources: list[Any] = list(one.operands)
        return sources[1:] if one.opname == "select" else sources

    def _of_variable(self, variable: ir.Value) -> list[Any]:
        """What a variable is set to, unless it starts again; and of a loop's counter what it counts to."""
        assert self._stores is not None
        stored = self._stores.get(variable, [])
        starts = [one for one in stored if _is_constant(one)]
        if len(starts) > 1 or any(_restarts(one) for one in stored):
            return []
        counts = len(stored) == 2 and any(_adds(one, variable) for one in stored)
        return [*stored, *(self._bounds.get(variable, ()) if counts else ())]


def _is_accessed(instr: MachineInstr, operand: str) -> bool:
    """Whether an operand is where an instruction accesses memory, and no number of threads."""
    return instr.row is None or operand in {BARRIER, *(one.name for one in instr.semantics.memory)}


def _is_variable(one: Any) -> bool:
    return getattr(one, "opname", "") == "load" and isinstance(one.operands[0], ir.AllocaInstr)


def _is_constant(one: Any) -> bool:
    return not isinstance(one, (ir.Instruction, ir.Argument))


def _restarts(one: Any) -> bool:
    return getattr(one, "opname", "") == "select" and any(_is_constant(side) for side in one.operands[1:])


def _adds(one: Any, variable: ir.Value) -> bool:
    if getattr(one, "opname", "") != "add":
        return False
    return any(_is_variable(side) and side.operands[0] is variable for side in one.operands)
