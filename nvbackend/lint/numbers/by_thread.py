"""What plain integer code computes in each thread of a CTA: numbers, with an address for every shared variable.

What a launch decides (parameters, the CTA's index, memory) is unknown, and so is all that is computed of it.
"""

from __future__ import annotations

import heapq
import math
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.flow.dataflow import reverse_postorder
from nvbackend.isel.flow.finished import with_successors
from nvbackend.isel.flow.graphs import ControlFlow, reached
from nvbackend.lint.lifted.lift import Lifted, Register
from nvbackend.lint.numbers import integers
from nvbackend.lint.numbers.cta import MOST_THREADS, WARP, addresses, extents_of, symbol, threads_of
from nvbackend.lint.numbers.expressions import Expression, Expressions
from nvbackend.ptx.syntax import (
    Address,
    Float,
    Guard,
    Instruction,
    Integer,
    Name,
    Negated,
    Operand,
    Pair,
    Sum,
    Variable,
    Vector,
)

if TYPE_CHECKING:
    from nvbackend.lint.numbers.integers import Number

    Value: TypeAlias = "Number | Unknown"
    Values: TypeAlias = dict[Register, Value]

_WINDOW = 1 << 40
"""What is added to a shared address to make it a generic one."""
_ALL_LANES = (1 << WARP) - 1
_SAME = (
    "%ctaid",
    "%nctaid",
    "%ntid",
    "%clusterid",
    "%nclusterid",
    "%cluster_",
    "%gridid",
    "%nsmid",
    "%smid",
    "%envreg",
)
"""Special registers that all threads of a CTA read alike."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A number that is not known; `same` for all threads that compute it, and how it is computed where that is known.

    The expression of a number that is not the same is a predicate, of others and of masks.
    """

    same: bool
    expression: Expression | None = None


SAME, VARIES = Unknown(same=True), Unknown(same=False)


class CtaValues:
    """The values of a function before its instructions. In `function`, branches on known numbers go one way."""

    def __init__(self, lifted: Lifted) -> None:
        self._lifted = lifted
        extents = extents_of(lifted)
        self._count = min(math.prod(extents), MOST_THREADS)
        self._threads = threads_of(lifted, extents)
        self._addresses = addresses(lifted)
        self.expressions = Expressions()
        self._operands: dict[int, list[Value]] = {}
        self._guards: dict[int, Value] = {}
        self._varying: set[str] = set()
        """Blocks whose last branch threads may take apart."""
        function = lifted.function
        self._order = reverse_postorder(function)
        self._starts: dict[str, int] = {}
        position = 0
        for block in function.blocks.values():
            self._starts[block.name] = position
            position += len(block.instructions)
        ways = self._run()
        following = {name: ways.get(name, []) for name in function.blocks}
        self.function = with_successors(function, following)

    def at(self, position: int, operand: int) -> Value:
        """The value of an operand, that of an address where it is one."""
        values = self._operands.get(position, [])
        return values[operand] if operand < len(values) else VARIES

    def guard(self, position: int) -> Value:
        """Whether the instruction is executed: 1 where it has no guard."""
        return self._guards.get(position, 1)

    def address(self, position: int) -> Value:
        """The first address of the instruction, in shared memory where it is a generic one of that."""
        for index, operand in enumerate(self._lifted.lines[position].instruction.operands):
            if isinstance(operand, Address):
                return in_shared(self.at(position, index))
        return VARIES

    def apart(self) -> set[str]:
        """The blocks that some threads may run without the others.

        A block that nothing follows and that does not end the function goes back to a loop whose rounds are left out,
        such as one that polls: each thread leaves that by its other way.
        """
        blocks = self.function.blocks
        ends = (name for name, block in blocks.items() if not block.successors and self._ends(name))
        before = ControlFlow({name: block.successors for name, block in blocks.items()}).predecessors
        leaving = reached(ends, lambda name: before.get(name, ()))
        ways = {name: [each for each in blocks[name].successors if each in leaving] for name in blocks}
        flow = ControlFlow(ways)
        varying = (name for name in self._varying if name in flow.successors and len(ways[name]) > 1)
        return {block for name in varying for block in flow.region(name)}

    def _ends(self, name: str) -> bool:
        """Whether a block without successors ends the function, or what is left of it."""
        count = len(self._lifted.function.blocks[name].instructions)
        last = self._lifted.lines[self._starts[name] + count - 1].instruction if count else None
        return last is None or last.parts[0] not in ("bra", "brx")

    # -- the flow -------------------------------------------------------------------------------------------------

    def _run(self) -> dict[str, list[str]]:
        rank = {name: index for index, name in enumerate(self._order)}
        entry: dict[str, Values] = {self._order[0]: {}}
        ways: dict[str, list[str]] = {}
        waiting = [0]
        while waiting:
            name = self._order[heapq.heappop(waiting)]
            after = self._block(name, dict(entry[name]))
            ways[name] = sorted({*ways.get(name, ()), *self._ways(name, after)}, key=self._successors(name).index)
            for successor in ways[name]:
                known = entry.get(successor)
                joined = after if known is None else _joined(known, after)
                if joined is not known:
                    entry[successor] = joined
                    if rank[successor] not in waiting:
                        heapq.heappush(waiting, rank[successor])
        return ways

    def _successors(self, name: str) -> list[str]:
        return self._lifted.function.blocks[name].successors

    def _ways(self, name: str, values: Values) -> list[str]:
        """Where the block may go on: a branch on a number that all threads have alike goes one way."""
        following = self._successors(name)
        count = len(self._lifted.function.blocks[name].instructions)
        if not count or len(following) < 2:
            return following
        last = self._lifted.lines[self._starts[name] + count - 1].instruction
        if last.parts[0] != "bra" or last.guard is None:
            return following
        taken = self._guard(last.guard, values)
        if isinstance(taken, int) and len(following) == 2:
            return [following[0] if taken else following[1]]
        if not _is_uniform(taken):
            self._varying.add(name)
        return following

    def _guard(self, guard: Guard, values: Values) -> Value:
        value = self._named(guard.register, values)
        return self._opposite(value) if guard.negated else value

    def _opposite(self, value: Value) -> Value:
        if isinstance(value, Unknown):
            known = value.expression
            return value if known is None else Unknown(value.same, self.expressions.opposite(known))
        return integers.narrowed(value ^ 1)

    def _block(self, name: str, values: Values) -> Values:
        start = self._starts[name]
        for place in range(start, start + len(self._lifted.function.blocks[name].instructions)):
            line = self._lifted.lines[place]
            instruction = line.instruction
            self._operands[place] = [self._operand(operand, values) for operand in instruction.operands]
            guard = None if instruction.guard is None else self._guard(instruction.guard, values)
            if guard is not None:
                self._guards[place] = guard
            if not line.writes:
                continue
            results = self._results(instruction, len(line.writes), values)
            for register, result in zip(line.writes, results, strict=True):
                before = values.get(register, VARIES)
                values[register] = result if guard is None else _chosen(guard, result, before)
        return values

    # -- values ---------------------------------------------------------------------------------------------------

    def _operand(self, operand: Operand, values: Values) -> Value:
        if isinstance(operand, Integer):
            return operand.value & integers.MASK
        if isinstance(operand, Address | Sum):
            start = self._operand(operand.base if isinstance(operand, Address) else operand.name, values)
            is_generic = isinstance(operand, Sum) and operand.generic
            offset = operand.offset + (_WINDOW if is_generic else 0)
            return start if isinstance(start, Unknown) else integers.added(start, offset & integers.MASK, 64)
        if isinstance(operand, Negated):
            return self._opposite(self._named(operand.name, values))
        if isinstance(operand, Float):
            return SAME
        return self._named(operand, values) if isinstance(operand, Name) else VARIES

    def _named(self, operand: Name, values: Values) -> Value:
        register = self._lifted.register(operand)
        if register is not None:
            return values.get(register, VARIES)
        declared = self._lifted.names.of.get(operand.position)
        if isinstance(declared, Variable):
            return self._addresses.get(symbol(declared), SAME)
        return self._special(operand.text)

    def _special(self, name: str) -> Value:
        known = self._threads.get(name)
        if known is not None:
            return known
        if not name.startswith(_SAME):
            return VARIES
        return SAME if name == "%smid" else Unknown(True, self.expressions.of("special", name))

    def _results(self, instruction: Instruction, count: int, values: Values) -> list[Value]:
        parts = instruction.parts
        result = instruction.operands[0]
        sources = self._elements(instruction.operands[1:], values)
        if parts[:2] == ("ld", "param"):
            return [self._parameter(instruction, at) if self._lifted.syntax.is_entry else VARIES for at in range(count)]
        if parts[0] == "mov" and isinstance(result, Vector) and len(sources) == 1:
            return _unpacked(sources[0], count, integers.width(parts))
        if parts[0] == "elect":
            return [VARIES] * (count - 1) + [self._elected(sources)]
        if parts[0] == "shfl":
            return [_of_first_lane(parts, sources), *[VARIES] * (count - 1)]
        if parts[0] not in (*integers.COMPUTED, "cvta") or isinstance(result, Vector | Pair):
            return [SAME if _is_same(parts, sources) else VARIES] * count
        return [_converted(parts, sources[0]) if parts[0] == "cvta" else self._computed(parts, sources)]

    def _parameter(self, instruction: Instruction, at: int) -> Value:
        """An element of a parameter of the kernel, which all CTAs of a launch have alike."""
        address = instruction.operands[1]
        if not isinstance(address, Address) or not isinstance(address.base, Name):
            return SAME
        if self._lifted.register(address.base) is not None:
            return SAME
        place = (address.base.text, address.offset, instruction.parts, at)
        return Unknown(True, self.expressions.of("parameter", *place))

    def _elected(self, sources: list[Value]) -> Value:
        """Whether a lane is elected: the first one is, as good as any."""
        lane = self._threads.get("%laneid", VARIES)
        is_whole = isinstance(sources[0], int) and sources[0] & _ALL_LANES == _ALL_LANES
        return VARIES if isinstance(lane, Unknown) or not is_whole else integers.where(lane == 0, 1, 0)

    def _computed(self, parts: tuple[str, ...], sources: list[Value]) -> Value:
        known = [value for value in sources if not isinstance(value, Unknown)]
        number = integers.computed(parts, known) if len(known) == len(sources) else None
        if number is not None:
            return number
        if parts[0] == "mov" and len(sources) == 1:
            return sources[0]
        expression = self._expression(parts, sources)
        return Unknown(_is_same(parts, sources), expression)

    def _expression(self, parts: tuple[str, ...], sources: list[Value]) -> Expression | None:
        if parts[-1] == "pred":
            return self._of_predicates(parts[0], [self._predicate(value) for value in sources])
        if not _is_same(parts, sources) or parts[0] not in integers.COMPUTED:
            return None
        terms: list[Expression | int] = []
        for value in sources:
            term = value.expression if isinstance(value, Unknown) else value
            if not isinstance(term, int):
                return None
            terms.append(term)
        return self.expressions.computed(parts, terms, [isinstance(value, int) for value in sources])

    def _of_predicates(self, word: str, predicates: list[Expression | None]) -> Expression | None:
        known = [each for each in predicates if each is not None]
        if len(known) < len(predicates):
            return None
        if word == "not":
            return self.expressions.opposite(known[0])
        return self.expressions.joined(word, *known) if word in ("and", "or", "xor") else None

    def _predicate(self, value: Value) -> Expression | None:
        """A predicate as an expression: a mask of the threads that have it, where they are known; any other is one."""
        if isinstance(value, Unknown):
            return self.expressions.of("unknown") if value.expression is None else value.expression
        return self.expressions.of("mask", self.mask(value))

    def mask(self, value: Number) -> int:
        """A bit for each thread that has a predicate."""
        if isinstance(value, int):
            return self.threads if value else 0
        import numpy as np

        return int.from_bytes(np.packbits(value != 0, bitorder="little").tobytes(), "little")

    @cached_property
    def threads(self) -> int:
        """A bit for each thread of the CTA, as many as it may have."""
        return (1 << self._count) - 1

    def _elements(self, operands: tuple[Operand, ...], values: Values) -> list[Value]:
        elements: list[Value] = []
        for operand in operands:
            some = operand.elements if isinstance(operand, Vector) else (operand,)
            elements += [self._operand(each, values) for each in some]
        return elements


def in_shared(value: Value) -> Value:
    """A generic address of shared memory as one of its window."""
    if isinstance(value, Unknown) or not bool(
        (value >= _WINDOW) if isinstance(value, int) else (value >= _WINDOW).all()
    ):
        return value
    return integers.added(value, -_WINDOW & integers.MASK, 64)


def _converted(parts: tuple[str, ...], value: Value) -> Value:
    """`cvta.shared` makes an address generic, `cvta.to.shared` the other way round."""
    if "shared" not in parts and "shared::cta" not in parts:
        return SAME if _is_uniform(value) else VARIES
    if isinstance(value, Unknown):
        return value
    return integers.added(value, (-_WINDOW if "to" in parts else _WINDOW) & integers.MASK, 64)


def _is_same(parts: tuple[str, ...], sources: list[Value]) -> bool:
    """Whether all threads compute one number: of numbers that all have, without memory and the place of the thread."""
    is_plain = parts[0] in integers.COMPUTED or parts[0] in ("cvt", "setp", "selp", "fma", "div", "rcp", "sqrt", "ex2")
    return is_plain and all(isinstance(value, int) or _is_uniform(value) for value in sources)


def _is_uniform(value: Value) -> bool:
    """Whether it is not known, and the same for all threads."""
    return isinstance(value, Unknown) and value.same


def _of_first_lane(parts: tuple[str, ...], sources: list[Value]) -> Value:
    """`shfl.idx` from lane 0 of the whole warp; the number itself where all threads have it."""
    value = sources[0]
    if isinstance(value, int) or _is_uniform(value):
        return value
    is_first = "idx" in parts and len(sources) >= 3 and sources[1] == 0 and sources[2] == WARP - 1
    if isinstance(value, Unknown) or not is_first or len(value) % WARP:
        return VARIES
    return integers.narrowed(value.reshape(-1, WARP)[:, 0].repeat(WARP))


def _unpacked(value: Value, count: int, width: int) -> list[Value]:
    if isinstance(value, Unknown):
        return [value] * count
    each = width // count
    return [integers.narrowed((value >> each * at) & ((1 << each) - 1)) for at in range(count)]


def _chosen(guard: Value, result: Value, before: Value) -> Value:
    """What a guarded instruction leaves."""
    if isinstance(guard, int):
        return result if guard else before
    if isinstance(guard, Unknown):
        return result if _equal(result, before) else VARIES
    if isinstance(result, Unknown) or isinstance(before, Unknown):
        return VARIES
    return integers.where(guard, result, before)


def _equal(left: Value, right: Value) -> bool:
    if left is right:
        return True
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return isinstance(left, Unknown) and isinstance(right, Unknown) and left == right
    if isinstance(left, int) or isinstance(right, int):
        return isinstance(left, int) and isinstance(right, int) and left == right
    return bool((left == right).all())


def _joined(known: Values, other: Values) -> Values:
    """What both ways agree on; `known` itself where nothing is lost."""
    lost = {
        register: SAME if _is_uniform(value) and _is_uniform(other[register]) else VARIES
        for register, value in known.items()
        if value is not VARIES and register in other and not _equal(value, other[register])
    }
    gained = {register: value for register, value in other.items() if register not in known}
    return {**known, **lost, **gained} if lost or gained else known
