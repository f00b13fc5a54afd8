"""Which parameters a value is computed from, but for those that only decide how often a loop runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from llvmlite import ir

from nvbackend.dry_run.anchors import Anchor
from nvbackend.isel.machine.function import MachineInstr


class Sources:
    """The parameters called `names` of a function that registers of its recorded instructions are computed from."""

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
        self._stores: dict[ir.Value, list[Any]] = {}

    def of(self, instr: MachineInstr, operand: str, index: int) -> frozenset[str]:
        """The parameters that the register number `index` of an operand is computed from."""
        anchor = next(one for several in self._anchors.values() for one in several if one.instr is instr)
        reached = self._reached(anchor.registers[operand][index])
        return frozenset(self._names).intersection(str(one.name) for one in reached if isinstance(one, ir.Argument))

    def _reached(self, value: Any) -> set[ir.Value]:
        found: set[ir.Value] = set()
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, (ir.Instruction, ir.Argument)) and one not in found:
                found.add(one)
                waiting += [] if isinstance(one, ir.Argument) else self._behind(one)
        return found

    def _behind(self, one: ir.Instruction) -> Sequence[Any]:
        """What an instruction computes from: of a variable all that it is ever set to."""
        if one in self._computed:
            return [each for several in self._computed[one].registers.values() for each in several if each is not one]
        if one.opname == "load" and isinstance(one.operands[0], ir.AllocaInstr):
            return self._set_to(one.operands[0])
        return [value for value, _ in one.incomings] if one.opname == "phi" else list(one.operands)

    def _set_to(self, variable: ir.Value) -> Sequence[Any]:
        if not self._stores:
            stores = (one for block in self._function.blocks for one in block.instructions if one.opname == "store")
            for one in stores:
                self._stores.setdefault(one.operands[1], []).append(one.operands[0])
        return self._stores.get(variable, ())
