"""Which instructions of a function use each value, and what follows from what by them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from llvmlite import ir


class Uses:
    """The uses of one finished function."""

    def __init__(self, function: ir.Function) -> None:
        self.stores: dict[ir.Value, list[ir.Instruction]] = {}
        """What sets each variable."""
        self._instructions = [one for block in function.blocks for one in block.instructions]
        self._of: defaultdict[ir.Value, list[int]] = defaultdict(list)
        uses, followed = self._of, (ir.Instruction, ir.Argument)
        for place, one in enumerate(self._instructions):
            if one.opname == "store":
                if not isinstance(one.operands[1], ir.AllocaInstr):
                    continue
                self.stores.setdefault(one.operands[1], []).append(one)
            for each in one.operands:
                if isinstance(each, followed):
                    uses[each].append(place)

    def derived_from(self, roots: Iterable[ir.Value]) -> list[ir.Instruction]:
        """The instructions whose values follow from `roots`, by arithmetic and variables."""
        found: set[Any] = set(roots)
        ordered: list[ir.Instruction] = []
        again = bytearray(len(self._instructions))
        for root in found:
            for place in self._of.get(root, ()):
                again[place] = 1
        for _ in range(2):  # a variable may be read before the line that sets it, in a loop
            places, again = again, bytearray(len(self._instructions))
            place = places.find(1)
            while place >= 0:
                one = self._instructions[place]
                target = one.operands[1] if one.opname == "store" else one
                if target not in found:
                    found.add(target)
                    ordered.append(one)
                    for user in self._of.get(target, ()):
                        (places if user > place else again)[user] = 1
                place = places.find(1, place + 1)
        return ordered
