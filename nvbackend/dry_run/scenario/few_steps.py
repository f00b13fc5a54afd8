"""Whether a mistake that shows with few steps is one: an author may need as many steps as a ring has buffers.

What a kernel does with fewer steps is judged where it says that there may be so few: where a parameter has a minimum or
one is assumed, where the kernel takes the lesser of it and a small number, or where some branch or predicate goes
another way than it ever does with many steps. A prologue that just fills its buffers says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from llvmlite import ir

from nvbackend.dry_run.machine.machine import Ways
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.needed import results
from nvbackend.dry_run.scenario.rounds import Rounds
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import Scalar

SMALL = 16
"""A kernel that compares a count with a number up to this provides for few steps."""
_PLACES = ("ctaid", "nctaid", "clusterid", "nclusterid")
_LESSER = ("llvm.smin", "llvm.umin", "llvm.smax", "llvm.umax")


class FewSteps:
    """Few steps against the many of the first run, with its `rounds`, the `chosen` parameters and the ways it went."""

    def __init__(
        self,
        function: ir.Function,
        program: Program,
        scalars: Mapping[str, Scalar],
        rounds: Rounds,
        chosen: Mapping[str, int],
        ways: Ways,
    ) -> None:
        self.many = chosen
        self._function = function
        self._program = program
        self._scalars = scalars
        self._rounds = rounds
        self._made = rounds.of(chosen).rounds
        self._ways = ways
        self._known = [dict(chosen)]
        self._said: set[str] | None = None
        self._asked: dict[str, set[int]] = {}

    @property
    def loops(self) -> set[str]:
        """The parameters that decide about a loop."""
        return self._rounds.parameters

    def _look(self) -> set[str]:
        """The parameters of which the kernel says that they may be few; note the conditions that it asks of each."""
        if self._said is not None:
            return self._said
        rounds, slots = self._rounds, self._program.slots
        said = {name for one in rounds.assumptions if one.is_least for name in one.names if name in self._scalars}
        said |= {name for name, scalar in self._scalars.items() if scalar.minimum is not None}
        tests = {id(block.terminator.operands[0]) for block in self._function.blocks if block.name in rounds.used}
        for name in rounds.parameters:
            values = self._program.uses.derived_from(one for one in self._function.args if one.name == name)
            if any(map(_takes_the_lesser, values)):
                said.add(name)
            self._asked[name] = {slots[one] for one in values if one in slots and id(one) not in tests}
        self._said = said
        return said

    def may_be_judged(self) -> bool:
        """Whether the kernel asks or says something about a parameter that decides about a loop."""
        said = self._look()
        return any(name in said or slots & self._slots for name, slots in self._asked.items())

    def admitted(self, few: Mapping[str, int]) -> dict[str, int]:
        """The next values from those in `few` on that the kernel admits."""
        found = {}
        for name, number in few.items():
            values = self._scalars[name].values
            later = max(number, values[0])
            found[name] = min(later + (values[0] - later) % values.step, values[-1])
        return found

    def least(self) -> dict[str, int]:
        """The parameters with which loops are as short as the kernel says that they may be."""
        self._look()
        least = {name: one.values[0] for name, one in self._scalars.items() if one.minimum is not None}
        return {name: least.get(name, number) if name in self._asked else number for name, number in self.many.items()}

    def is_known(self, chosen: Mapping[str, int]) -> bool:
        """Whether a run had these parameters before; if not, one has them now."""
        if chosen in self._known:
            return True
        self._known.append(dict(chosen))
        return False

    def share(self, rounds: Rounds, chosen: Mapping[str, int]) -> float:
        """About how long a run is in comparison with the first."""
        return self._length(rounds.of(chosen).rounds) / self._length(self._made)

    def _length(self, made: Mapping[str, int]) -> int:
        """About how many recorded instructions a warp executes."""
        program, length = self._program, 1
        rounds = [made.get(program.blocks[loop.header].name, 1) for loop in program.loops]
        for block, around in zip(program.blocks, program.around, strict=True):
            recorded = sum(part.recorded is not None for part in block.parts)
            length += recorded * math.prod(rounds[loop] for loop in around)
        return length

    def changed(self, chosen: Mapping[str, int]) -> dict[str, int]:
        """The parameters that differ from the first run's."""
        return {name: number for name, number in chosen.items() if number != self.many[name]}

    def is_judged(self, chosen: Mapping[str, int], ways: Ways) -> bool:
        """Whether the kernel says that there may be so few steps."""
        fewer = {name for name, number in self.changed(chosen).items() if number < self.many[name]}
        asked = set().union(*(self._asked.get(name, set()) for name in fewer))
        return fewer <= self._look() or any(slot in asked for slot, _ in ways - self._ways)

    @property
    def _slots(self) -> set[int]:
        return {slot for slot, _ in self._ways}


def given_by(program: Program, is_one: Callable[[Row], bool]) -> list[ir.Value]:
    """The values that recorded instructions of some rows give."""
    rows = ((one, one.instr.row) for one in program.computed.values())
    return list(dict.fromkeys(value for one, row in rows if row is not None and is_one(row) for value in results(one)))


def registers(program: Program, names: tuple[str, ...]) -> list[ir.Value]:
    """What is read of the special registers whose names begin so."""
    return given_by(program, lambda row: str(row.axes.get("register", "")).startswith(names))


def asks_for_its_place(function: ir.Function, program: Program) -> bool:
    """Whether branches or predicates depend on the place of the CTA in the grid."""
    derived = program.uses.derived_from(registers(program, _PLACES))
    conditions = {block.terminator.operands[0] for block in function.blocks if block.terminator.operands}
    recorded = [part.recorded for block in program.blocks for part in block.parts if part.recorded is not None]
    guards = {one.guard for one in recorded if one.guard is not None}
    return any(one in conditions or program.slots.get(one) in guards for one in derived)


def _takes_the_lesser(one: ir.Instruction) -> bool:
    """Whether it chooses between its operand and a small number."""
    if one.opname == "select":
        between = one.operands[1:]
    elif one.opname == "call" and str(getattr(one.callee, "name", "")).startswith(_LESSER):
        between = one.operands
    else:
        return False
    small = [isinstance(getattr(each, "constant", None), int) and each.constant <= SMALL for each in between]
    return small.count(True) == 1
