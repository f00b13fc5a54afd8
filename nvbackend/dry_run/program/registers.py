"""The registers of a program, and where their values are computed: once, if at all, and before loops where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from nvbackend.dry_run.program.code import LoopOf
from nvbackend.dry_run.program.layout import constant
from nvbackend.dry_run.program.operations import is_copy, is_movable, kind_of, operation_of
from nvbackend.dry_run.values import arithmetic
from nvbackend.dry_run.values.arithmetic import Operation
from nvbackend.dry_run.values.unknown import UNKNOWN

_ANYWHERE = -1
"""Where constants and parameters are defined: in no block."""


class Registers:
    """The registers of all values, and the operations at the end of each block that was compiled.

    What only computes is computed when it is needed first, at that place of its own block or at the block's end; in
    front of a loop that changes none of its operands; never where its block has the same already. Conditions keep
    registers of their own: which ways they went is looked at by these.
    """

    def __init__(
        self, numbers: Mapping[str, int], places: Mapping[str, int], loops: Sequence[LoopOf], around: Sequence[Any]
    ) -> None:
        self.initial: list[Any] = [None]
        """The value of each register at the start; those that are never set again keep it."""
        self.slots: dict[ir.Value, int] = {}
        self.addresses: list[int] = []
        """The registers that hold addresses of the own CTA's shared memory."""
        self.operations: list[Operation] = []
        """What the current block does next."""
        self._numbers = numbers
        self._places = places
        self._loops = loops
        self._around = around
        self._ends: dict[int, list[Operation]] = {}
        self._current = _ANYWHERE
        self._homes = [_ANYWHERE]
        self._constants: dict[tuple[int | None, bool], int] = {}
        self._fixed: dict[int, Any] = {}
        """The registers that are never set, with their values, but for addresses, which differ by CTA."""
        self._waiting: set[ir.Value] = set()
        self._same: dict[tuple[object, ...], int] = {}
        self._sums: dict[int, tuple[int, int, int]] = {}
        """By register, another one, the number that it adds to that, and the bits of the sum."""
        self._unmade: set[int] = set()
        """Such registers of which nothing but sums has needed the value."""

    # -- blocks -------------------------------------------------------------------------------------------------------

    def begin(self, block: int) -> None:
        """The next operations are those of `block`."""
        self._current = block
        self.operations = []

    def end(self) -> list[Operation]:
        """The operations at the end of the current block, to which later blocks may add more."""
        self._ends[self._current] = self.operations
        return self.operations

    # -- registers ----------------------------------------------------------------------------------------------------

    def new(self, value: ir.Value) -> int:
        """A register for `value`, which something other than arithmetic sets."""
        number = self._register(self._numbers[value.parent.name] if isinstance(value, ir.Instruction) else _ANYWHERE)
        self.slots[value] = number
        return number

    def own(self) -> int:
        """A register that nothing in the program sets."""
        return self._register(_ANYWHERE)

    def of(self, value: ir.Value | int) -> int:
        """The number of the register that holds `value`."""
        found = self._find(value)
        if found in self._unmade:
            self._unmade.remove(found)
            a, number, bits = self._sums[found]
            self._at(self._homes[found]).append(arithmetic.BINARY["add"](found, a, self._constant(number), bits))
        return found

    def _find(self, value: ir.Value | int) -> int:
        if isinstance(value, (int, ir.Constant)):
            return self._constant(value)
        found = self.slots.get(value)
        if found is not None:
            return found
        if not isinstance(value, (ir.Instruction, ir.Argument)):
            return self._constant(value)
        return self._compute(value) if value in self._waiting else self.new(value)

    def _register(self, home: int, initial: Any = UNKNOWN) -> int:
        self.initial.append(initial)
        self._homes.append(home)
        return len(self.initial) - 1

    def _constant(self, value: ir.Value | int) -> int:
        number = value if isinstance(value, int) else constant(value, self._places)
        is_place = isinstance(value, (ir.GlobalVariable, ir.FormattedConstant)) and number is not None
        found = self._constants.get((number, is_place))
        if found is None:
            initial = UNKNOWN if number is None else number
            self._constants[number, is_place] = found = self._register(_ANYWHERE, initial)
            if is_place:
                self.addresses.append(found)
            else:
                self._fixed[found] = initial
        return found

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def defer(self, one: ir.Instruction) -> None:
        """The current block computes `one`, which has no effect, if it is needed."""
        self._waiting.add(one)
        if one in self.slots:
            self._compute(one)

    def _compute(self, value: ir.Instruction) -> int:
        todo, waiting = [value], self._waiting
        while todo:
            one = todo[-1]
            before = [each for each in one.operands if each in waiting]
            if before:
                todo += before
                continue
            todo.pop()
            if one in waiting:
                waiting.remove(one)
                self.slots[one] = self._emit(one)
        return self.slots[value]

    def _emit(self, one: ir.Instruction) -> int:
        home, mine, kind = self._numbers[one.parent.name], self.slots.get(one), kind_of(one)
        if mine is None and kind[-1] > 1:
            if kind[0] == "add":
                return self._add(one, kind[-1], home)
            if is_copy(one):
                return self._find(one.operands[0])
            if kind[0] == "mul" and _is_number(one.operands[1]):
                return self._product(one.operands[0], one.operands[1].constant, kind[-1], home)
        return self._place(
            *(kind, [self.of(each) for each in one.operands], home),
            lambda d: operation_of(one, lambda each: d if each is one else self.of(each)),
            mine,
            movable=is_movable(one),
            shared=mine is None and kind[-1] > 1,
        )

    def _add(self, one: ir.Instruction, bits: int, home: int) -> int:
        """The register of a sum: numbers come last, and are added to each other."""
        left, right = one.operands
        if isinstance(left, ir.Constant):
            left, right = right, left
        if not isinstance(right, ir.Constant):
            return self._binary("add", self.of(left), self.of(right), bits, home)
        a, number = self._terms(left, bits)
        if _is_number(right):
            return self._plus(a, number + right.constant, bits, home)
        return self._plus(self._binary("add", a, self.of(right), bits, home), number, bits, home)

    def _product(self, left: ir.Value, factor: int, bits: int, home: int) -> int:
        """The register of a product with a number: what is added before is added after it."""
        a, number = self._terms(left, bits)
        product = self._binary("mul", a, self._constant(factor & (1 << bits) - 1), bits, home)
        return self._plus(product, number * factor, bits, home)

    def _terms(self, value: ir.Value, bits: int) -> tuple[int, int]:
        """A register and a number whose sum is the value."""
        found = self._find(value)
        a, number, of = self._sums.get(found, (found, 0, bits))
        return (a, number) if of == bits else (self.of(value), 0)

    def _plus(self, a: int, number: int, bits: int, home: int) -> int:
        number &= (1 << bits) - 1
        if not number:
            return a
        start = self._fixed.get(a)
        if type(start) is int:
            return self._constant((start + number) & (1 << bits) - 1)
        place = self._before_loops(home, (a,))
        key = place, "plus", bits, a, number
        found = self._same.get(key)
        if found is None:
            found = self._same[key] = self._register(place)
            self._sums[found] = a, number, bits
            self._unmade.add(found)
        return found

    def _at(self, block: int) -> list[Operation]:
        return self.operations if block == self._current else self._ends[block]

    def _binary(self, kind: str, a: int, b: int, bits: int, home: int) -> int:
        make = arithmetic.BINARY[kind]
        return self._place((kind, None, bits, bits), (a, b), home, lambda d: make(d, a, b, bits))

    def _place(
        self,
        kind: tuple[object, ...],
        given: Sequence[int],
        home: int,
        make: Callable[[int], Operation],
        mine: int | None = None,
        *,
        movable: bool = True,
        shared: bool = True,
    ) -> int:
        """The register of what `make` computes of the registers `given`; a new one where it is not `shared`."""
        place = self._before_loops(home, given) if movable else home
        key = place, kind, *given
        found = self._same.get(key)
        if found is not None and shared:
            return found
        d = self._register(place) if mine is None else mine
        self._homes[d] = place
        operation = make(d) if found is None else arithmetic.copy(d, found)
        if self._fixed.keys() >= {*given}:
            operation(self.initial)
            self._fixed[d] = self.initial[d]
            self._homes[d] = _ANYWHERE
        else:
            self._at(place).append(operation)
        self._same.setdefault(key, d)
        return d

    def _before_loops(self, block: int, given: Sequence[int]) -> int:
        """The outermost place for something of `block` whose operands are `given`."""
        around = self._around[block]
        homes = {self._homes[one] for one in given} if around else ()
        for index in reversed(around):
            loop = self._loops[index]
            if loop.before not in self._ends or not loop.blocks.isdisjoint(homes):
                break
            block = loop.before
        return block


def _is_number(value: Any) -> bool:
    return type(value) is ir.Constant and isinstance(value.constant, int)
