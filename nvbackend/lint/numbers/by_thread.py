"""What plain integer code computes in each thread of a CTA: numbers, with an address for every shared variable.

What a launch decides (parameters, the CTA's index, memory) is unknown, and so is all that is computed of it.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nvbackend.isel.flow.dataflow import reverse_postorder
from nvbackend.isel.flow.finished import with_successors
from nvbackend.isel.flow.graphs import ControlFlow, reached
from nvbackend.lint.lifted.lift import Lifted, Register
from nvbackend.lint.numbers import integers
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
    from nvbackend.lint.numbers.integers import Array, Number

    Value: TypeAlias = "Number | Unknown"
    Values: TypeAlias = dict[Register, Value]

_FIRST = 1 << 10
"""Where the first shared variable is, and what all of them are aligned to."""
_WINDOW = 1 << 40
"""What is added to a shared address to make it a generic one."""
_DYNAMIC = "extern .shared"
"""What all arrays `.extern .shared` are: they begin at one address."""
_MOST_THREADS, _WARP = 1024, 32
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
    """A number that is not known; `same` for all threads that compute it."""

    same: bool


SAME, VARIES = Unknown(same=True), Unknown(same=False)


class CtaValues:
    """The values of a function before its instructions. In `function`, branches on known numbers go one way."""

    def __init__(self, lifted: Lifted) -> None:
        self._lifted = lifted
        self._threads = _threads(lifted)
        self._addresses = _addresses(lifted)
        self._operands: dict[int, list[Value]] = {}
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
        if taken is not SAME:
            self._varying.add(name)
        return following

    def _guard(self, guard: Guard, values: Values) -> Value:
        value = self._named(guard.register, values)
        return value if isinstance(value, Unknown) or not guard.negated else integers.narrowed(value ^ 1)

    def _block(self, name: str, values: Values) -> Values:
        start = self._starts[name]
        for place in range(start, start + len(self._lifted.function.blocks[name].instructions)):
            line = self._lifted.lines[place]
            instruction = line.instruction
            self._operands[place] = [self._operand(operand, values) for operand in instruction.operands]
            if not line.writes:
                continue
            results = self._results(instruction, len(line.writes), values)
            guard = None if instruction.guard is None else self._guard(instruction.guard, values)
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
            value = self._named(operand.name, values)
            return value if isinstance(value, Unknown) else integers.narrowed(value ^ 1)
        if isinstance(operand, Float):
            return SAME
        return self._named(operand, values) if isinstance(operand, Name) else VARIES

    def _named(self, operand: Name, values: Values) -> Value:
        register = self._lifted.register(operand)
        if register is not None:
            return values.get(register, VARIES)
        declared = self._lifted.names.of.get(operand.position)
        if isinstance(declared, Variable):
            return self._addresses.get(_symbol(declared), SAME)
        return self._special(operand.text)

    def _special(self, name: str) -> Value:
        known = self._threads.get(name)
        if known is not None:
            return known
        return SAME if name.startswith(_SAME) else VARIES

    def _results(self, instruction: Instruction, count: int, values: Values) -> list[Value]:
        parts = instruction.parts
        result = instruction.operands[0]
        sources = self._elements(instruction.operands[1:], values)
        if parts[:2] == ("ld", "param"):
            return [SAME if self._lifted.syntax.is_entry else VARIES] * count
        if parts[0] == "mov" and isinstance(result, Vector) and len(sources) == 1:
            return _unpacked(sources[0], count, integers.width(parts))
        if parts[0] == "shfl":
            return [_of_first_lane(parts, sources), *[VARIES] * (count - 1)]
        if parts[0] not in (*integers.COMPUTED, "cvta") or isinstance(result, Vector | Pair):
            return [SAME if _is_same(parts, sources) else VARIES] * count
        return [_converted(parts, sources[0]) if parts[0] == "cvta" else _computed(parts, sources)]

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
        return SAME if value is SAME else VARIES
    if isinstance(value, Unknown):
        return value
    return integers.added(value, (-_WINDOW if "to" in parts else _WINDOW) & integers.MASK, 64)


def _computed(parts: tuple[str, ...], sources: list[Value]) -> Value:
    known = [value for value in sources if not isinstance(value, Unknown)]
    number = integers.computed(parts, known) if len(known) == len(sources) else None
    if number is None:
        return SAME if _is_same(parts, sources) else VARIES
    return number


def _is_same(parts: tuple[str, ...], sources: list[Value]) -> bool:
    """Whether all threads compute one number: of numbers that all have, without memory and the place of the thread."""
    is_plain = parts[0] in integers.COMPUTED or parts[0] in ("cvt", "setp", "selp", "fma", "div", "rcp", "sqrt", "ex2")
    return is_plain and all(isinstance(value, int) or value is SAME for value in sources)


def _of_first_lane(parts: tuple[str, ...], sources: list[Value]) -> Value:
    """`shfl.idx` from lane 0 of the whole warp; the number itself where all threads have it."""
    value = sources[0]
    if isinstance(value, int) or value is SAME:
        return value
    is_first = "idx" in parts and len(sources) >= 3 and sources[1] == 0 and sources[2] == _WARP - 1
    if isinstance(value, Unknown) or not is_first or len(value) % _WARP:
        return VARIES
    return integers.narrowed(value.reshape(-1, _WARP)[:, 0].repeat(_WARP))


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
        return False
    if isinstance(left, int) or isinstance(right, int):
        return isinstance(left, int) and isinstance(right, int) and left == right
    return bool((left == right).all())


def _joined(known: Values, other: Values) -> Values:
    """What both ways agree on; `known` itself where nothing is lost."""
    lost = {
        register: VARIES
        for register, value in known.items()
        if value is not VARIES and register in other and not _equal(value, other[register])
    }
    gained = {register: value for register, value in other.items() if register not in known}
    return {**known, **lost, **gained} if lost or gained else known


def _symbol(declared: Variable) -> str:
    return _DYNAMIC if declared.linkage == "extern" else f"{declared.name}:{declared.position.line}"


def _addresses(lifted: Lifted) -> Mapping[str, Value]:
    """An address for each shared variable that the function names."""
    declared = [each for each in lifted.names.of.values() if isinstance(each, Variable) and each.space == "shared"]
    places: dict[str, Value] = {}
    at = _FIRST
    for each in sorted(declared, key=lambda each: each.linkage == "extern"):
        if _symbol(each) not in places:
            places[_symbol(each)] = at
            at += 0 if each.linkage == "extern" else _room(each)
    return places


def _room(declared: Variable) -> int:
    """Bytes for a variable, as many as keep the next one aligned for anything."""
    bits = re.search(r"\d+", declared.type)
    size = (int(bits[0]) // 8 if bits else 8) * declared.vector
    for extent in declared.shape:
        size *= extent or 1
    return (size // _FIRST + 1) * _FIRST


def _threads(lifted: Lifted) -> Mapping[str, Value]:
    """The special registers that number the threads of a CTA, where it has one extent of threads."""
    import numpy as np

    extents = lifted.syntax.directive("reqntid") or lifted.syntax.directive("maxntid") or ()
    numbers = [extent for extent in extents if isinstance(extent, int)] or [_MOST_THREADS]
    x, y, z = [*numbers, 1, 1][:3]
    if not 0 < x * y * z <= _MOST_THREADS:
        return {}
    is_fixed = bool(lifted.syntax.directive("reqntid"))
    index: Array = np.arange(x * y * z, dtype=np.uint64)
    of_thread: dict[str, Value] = {"%tid.x": integers.narrowed(index)} if y * z == 1 else {}
    if is_fixed:
        of_thread |= {"%tid.x": integers.narrowed(index % x), "%ntid.x": x, "%ntid.y": y, "%ntid.z": z}
        of_thread |= {"%tid.y": integers.narrowed(index // x % y), "%tid.z": integers.narrowed(index // (x * y))}
    if y * z == 1:
        of_thread |= {"%tid.y": 0, "%tid.z": 0, "%laneid": integers.narrowed(index % _WARP)}
        of_thread["%warpid"] = VARIES
    return of_thread
