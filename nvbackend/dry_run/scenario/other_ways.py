"""Branches on parameters, or on the size of the grid, that went one way in all runs: what turns them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from llvmlite import ir

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.machine.machine import Ways
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.layout import constant
from nvbackend.dry_run.program.needed import results
from nvbackend.dry_run.program.operations import is_pure, operation_of
from nvbackend.dry_run.values.arithmetic import Operation, signed
from nvbackend.dry_run.values.unknown import UNKNOWN
from nvbackend.intrinsics.row.types import Scalar

_MOST = 64
"""A condition that depends on more values than this is left as it is."""
_TRIED = 400
"""So many combinations of values are tried for a condition."""
_COUNTS = ("nctaid", "nclusterid")
_PLACES = ("ctaid", "clusterid", *_COUNTS)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that the parameters alone decide, and where the CTA is: it has the register `slot` of the program.

    `numbers` are the constants in it; `registers`, `operations` and `result` compute it, `places` are the registers of
    the parameters, and `specials` those of special registers.
    """

    slot: int
    numbers: Sequence[int]
    registers: Sequence[Any]
    operations: Sequence[Operation]
    result: int
    places: Mapping[str, int]
    specials: Mapping[str, int]

    def of(self, values: Mapping[str, int], special: Mapping[str, int] | None = None) -> bool | None:
        """Whether it holds with these parameters, and other special registers; None where that is not known."""
        registers = list(self.registers)
        if special is not None:
            for name, slot in self.specials.items():
                registers[slot] = special[name]
        for name, slot in self.places.items():
            registers[slot] = values[name]
        for operation in self.operations:
            operation(registers)
        found = registers[self.result]
        return bool(found) if type(found) is int else None


class OtherWays:
    """The conditions of branches and guards of a kernel; `special` are the special registers of the first thread."""

    def __init__(
        self, function: ir.Function, program: Program, scalars: Mapping[str, Scalar], special: Mapping[str, int]
    ) -> None:
        self._function = function
        self._program = program
        self._scalars = scalars
        self._special = special
        guards = {
            part.recorded.guard
            for block in program.blocks
            for part in block.parts
            if part.recorded is not None and part.recorded.guard is not None
        }
        ends = {block.condition for block in program.blocks if block.condition is not None and block.cases is None}
        self._values = {slot: value for value, slot in program.slots.items() if slot in guards | ends}
        made = (self._condition(slot, value) for slot, value in self._values.items())
        self.conditions = [one for one in made if one is not None]
        lesser = (self._condition(-1 - number, one.operands[0]) for number, one in enumerate(self._between()))
        self._chosen = [one for one in lesser if one is not None and one.places]
        """Which of two values is the lesser one: of no register of the program, so with negative slots."""
        self._runs = 0
        self._seen: dict[int, tuple[set[bool], Mapping[str, int]]] = {}
        """Of each condition: the ways that it went in so many runs, and the parameters of the first one."""

    def asks_for_more_ctas(self, ways: Ways) -> bool:
        """Whether something that the size of the grid decides went one way alone."""
        counts = [
            value
            for one in self._program.computed.values()
            if one.instr.row is not None and str(one.instr.row.axes.get("register", "")).startswith(_COUNTS)
            for value in results(one)
        ]
        if not counts:
            return False
        derived = set(self._program.uses.derived_from(counts))
        return any(value in derived and len(seen(slot, ways)) == 1 for slot, value in self._values.items())

    def values(
        self, runs: Sequence[tuple[Mapping[str, int], Ways]], loops: set[str], tried: Container[int]
    ) -> Iterator[tuple[Condition, Mapping[str, int]]]:
        """Parameters with which conditions go the way that they went in none of the `runs`, each with what differs.

        Those of `loops` stay positive, where nothing is said of them: a caller has some steps. Conditions with the
        slots `tried` are left out; `runs` are those of the last call, and more.
        """
        for values, ways in runs[self._runs :]:
            for slot, way in ways:
                self._seen.setdefault(slot, (set(), values))[0].add(way)
            for one in self._chosen:
                if (chosen := one.of(values)) is not None:
                    self._seen.setdefault(one.slot, (set(), values))[0].add(chosen)
        self._runs = len(runs)
        for one in (*self.conditions, *self._chosen):
            went, base = self._seen.get(one.slot, (set(), {}))
            if len(went) != 1 or one.slot in tried:
                continue
            wish = not next(iter(went))
            for changed in self.changes(one, base, loops):
                if one.of({**base, **changed}) is wish:
                    yield one, {**_different(base, runs[0][0]), **changed}
                    break

    def changes(self, one: Condition, base: Mapping[str, int], loops: set[str]) -> Iterator[dict[str, int]]:
        """Other values of one parameter of a condition, then of two: near ones first."""
        several = {name: self._candidates(one, name, base[name], name in loops) for name in one.places}
        left = _TRIED
        for name, numbers in several.items():
            for number in numbers:
                left -= 1
                yield {name: number}
        for index, name in enumerate(several):
            for other in list(several)[index + 1 :]:
                for pair in product(several[name], several[other]):
                    left -= 1
                    if left < 0:
                        return
                    yield dict(zip((name, other), pair, strict=True))

    def _candidates(self, one: Condition, name: str, now: int, is_of_loop: bool) -> list[int]:
        scalar = self._scalars[name]
        bits, values = scalar.element.bits, scalar.values
        now = int(signed(now, bits)) if values[0] < 0 else now
        near = {number + by for number in one.numbers for by in (-1, 0, 1)}
        near |= {now + by for by in (-1, 1)} | {now // 2, 0, 1, -1, values[0], values[-1]}
        near |= {sign * number for number in one.numbers for sign in (1, -1)}
        near |= {values[0] + (number - values[0]) // values.step * values.step for number in near}
        least = 1 if scalar.minimum is None else scalar.minimum
        found = {number for number in near if number in values and not (is_of_loop and not least <= number <= 2 * now)}
        ordered = sorted(found, key=lambda number: (number < 0, abs(number - now), number))
        return [number & (1 << bits) - 1 for number in ordered]

    def _between(self) -> Iterator[ir.Instruction]:
        """What chooses the lesser or the greater one of two values that are no constants."""
        for block in self._function.blocks:
            for one in block.instructions:
                if one.opname == "select" and getattr(one.operands[0], "opname", "") == "icmp":
                    two = one.operands[1:]
                    if {*one.operands[0].operands} == {*two} and not any(isinstance(each, ir.Constant) for each in two):
                        yield one

    def _condition(self, slot: int, value: ir.Value) -> Condition | None:
        """The condition of a register, if nothing else decides it."""
        ordered: dict[ir.Value, None] = {}
        waiting: list[tuple[Any, bool]] = [(value, False)]
        while waiting:
            one, done = waiting.pop()
            if done:
                ordered[one] = None
            elif one not in ordered and isinstance(one, (ir.Instruction, ir.Argument)):
                is_leaf = isinstance(one, ir.Argument) or one in self._program.computed
                if not self._is_known(one) or len(ordered) + len(waiting) > _MOST:
                    return None
                waiting += [(one, True), *((each, False) for each in ([] if is_leaf else one.operands))]
        return self._compiled(slot, list(ordered))

    def _compiled(self, slot: int, ordered: Sequence[ir.Value]) -> Condition | None:
        slots: dict[Any, int] = {}
        registers: list[Any] = []
        operations: list[Operation] = []
        numbers: set[int] = set()
        places: dict[str, int] = {}
        specials: dict[str, int] = {}

        def slot_of(one: Any) -> int:
            if one not in slots:
                slots[one] = len(registers)
                registers.append(_number(one))
                if isinstance(one, ir.Constant) and type(registers[-1]) is int and isinstance(one.type, ir.IntType):
                    numbers.add(int(signed(registers[-1], one.type.width)))
            return slots[one]

        for one in ordered:
            at = slot_of(one)
            if isinstance(one, ir.Argument):
                places[str(one.name)] = at
            elif one in self._program.computed:
                specials[self._register(one)] = at
                registers[at] = self._special[self._register(one)]
            else:
                operations.append(operation_of(one, slot_of))
        if not (places or specials):
            return None
        result = slots[ordered[-1]]
        return Condition(slot, sorted(numbers), registers, operations, result, places, specials)

    def _is_known(self, one: Any) -> bool:
        if isinstance(one, ir.Argument):
            return one.name in self._scalars
        if one in self._program.computed:
            name = self._register(one)
            return name.startswith(_PLACES) and name in self._special
        is_lesser = one.opname == "call" and str(getattr(one.callee, "name", "")).startswith(("llvm.s", "llvm.u"))
        return is_pure(one) or is_lesser

    def _register(self, one: ir.Value) -> str:
        row = self._program.computed[one].instr.row
        return "" if row is None else str(row.axes.get("register", ""))


def seen(slot: int, ways: Ways) -> set[bool]:
    """The ways that a condition went."""
    return {way for way in (False, True) if (slot, way) in ways}


def _different(values: Mapping[str, int], first: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in values.items() if number != first[name]}


def _number(one: Any) -> Any:
    if isinstance(one, int):
        return one
    number = constant(one, {}) if isinstance(one, ir.Constant) else None
    return UNKNOWN if number is None else number
