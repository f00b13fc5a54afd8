"""What plain integer code computes: each register as a symbol plus bounds, along the control flow.

Enough for shared addresses and for the descriptors that are packed of them. What is not known has no bounds, and a sum
of what is not known says nothing: the analyses are silent there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.flow.dataflow import reverse_postorder
from nvbackend.lint.lifted.lift import Lifted, Register
from nvbackend.lint.numbers.cta import symbol
from nvbackend.ptx.syntax import Address, Instruction, Integer, Name, Operand, Sum, Variable

_PACKED = 4
"""A descriptor holds an address in units of so many bits more (PTX ISA 9.7.15.5.1: matrix descriptor)."""
_FIELD = 0x3FFF
"""The bits of a descriptor that hold the address."""
_JOINS = 6
"""A bound that still changes after so many joins is given up."""
_SPECIAL = {"%laneid": 31, "%warpid": 31, "%cluster_ctarank": 15}
_MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Bounded:
    """A symbol's address, or 0 without one, plus something between `low` and `high`; None: without a bound.

    `packed` is an address as a descriptor holds it: its bounds are those of the address.
    """

    base: str = ""
    low: int | None = None
    high: int | None = None
    packed: bool = False

    @property
    def constant(self) -> int | None:
        """The number that it is, if it is one."""
        return self.low if not self.base and not self.packed and self.low == self.high else None


UNKNOWN = Bounded()
Values = dict[Register, Bounded]
_Predicates = dict[Register, tuple[str, Register, int]]


class Addresses:
    """The values of a function, by one run over its blocks. `at` gives an operand's value before an instruction."""

    def __init__(self, lifted: Lifted) -> None:
        self._lifted = lifted
        self._threads = _threads(lifted)
        self._starts: dict[str, int] = {}
        position = 0
        for block in lifted.function.blocks.values():
            self._starts[block.name] = position
            position += len(block.instructions)
        self._addresses: dict[int, list[Bounded]] = {}
        self._run()

    def at(self, position: int, operand: int) -> Bounded:
        """The value of an operand of the instruction, that of an address where it is one; UNKNOWN where it is not."""
        values = self._addresses.get(position, [])
        return values[operand] if operand < len(values) else UNKNOWN

    def _run(self) -> None:
        function = self._lifted.function
        entry: dict[str, Values] = {function.entry.name: {}}
        joins: dict[str, int] = {}
        order = reverse_postorder(function)
        rank = {name: index for index, name in enumerate(order)}
        waiting = [0]
        while waiting:
            name = order[heapq.heappop(waiting)]
            after = self._block(name, dict(entry[name]))
            for successor in function.blocks[name].successors:
                known = entry.get(successor)
                joined = after if known is None else _joined(known, after, joins.get(successor, 0) >= _JOINS)
                if joined != known:
                    joins[successor] = joins.get(successor, 0) + 1
                    entry[successor] = joined
                    if rank[successor] not in waiting:
                        heapq.heappush(waiting, rank[successor])

    def _block(self, name: str, values: Values) -> Values:
        predicates: _Predicates = {}
        start = self._starts[name]
        for place in range(start, start + len(self._lifted.function.blocks[name].instructions)):
            line = self._lifted.lines[place]
            instruction = line.instruction
            sources = [self._operand(operand, values) for operand in instruction.operands]
            self._addresses[place] = sources
            if not line.writes:
                continue
            result = UNKNOWN
            if len(line.writes) == 1 and instruction.guard is None:
                result = self._result(instruction, sources, predicates)
            _learn(instruction, line.writes, sources, predicates, self._lifted)
            for register in line.writes:
                values[register] = result
        return values

    def _operand(self, operand: Operand, values: Values) -> Bounded:
        if isinstance(operand, Integer):
            return Bounded("", operand.value, operand.value)
        if isinstance(operand, Address | Sum):
            start = operand.base if isinstance(operand, Address) else operand.name
            return _plus(self._operand(start, values), Bounded("", operand.offset, operand.offset))
        return self._named(operand, values) if isinstance(operand, Name) else UNKNOWN

    def _named(self, operand: Name, values: Values) -> Bounded:
        register = self._lifted.register(operand)
        if register is not None:
            return values.get(register, UNKNOWN)
        declared = self._lifted.names.of.get(operand.position)
        if isinstance(declared, Variable):
            return Bounded(symbol(declared), 0, 0) if declared.space == "shared" else UNKNOWN
        return self._special(operand.text)

    def _special(self, name: str) -> Bounded:
        if name.startswith("%tid."):
            return Bounded("", 0, self._threads.get(name[-1], _MOST_THREADS) - 1)
        return Bounded("", 0, _SPECIAL[name]) if name in _SPECIAL else UNKNOWN

    def _result(self, instruction: Instruction, sources: list[Bounded], facts: _Predicates) -> Bounded:
        parts = instruction.parts
        if parts[0] == "selp" and len(sources) == 4:
            return self._chosen(instruction, sources, facts)
        compute = _COMPUTED.get(parts[0])
        if compute is None or any(part.startswith(("f", "bf")) for part in parts[1:] if part != "to"):
            return UNKNOWN
        return compute(parts, sources[1:])

    def _chosen(self, instruction: Instruction, sources: list[Bounded], facts: _Predicates) -> Bounded:
        """`selp d, a, b, p`, where p may compare what b is with a number: a counter that starts again."""
        first, second, predicate = sources[1], sources[2], instruction.operands[3]
        register = self._lifted.register(predicate) if isinstance(predicate, Name) else None
        fact = facts.get(register) if register is not None else None
        other = instruction.operands[2]
        if fact is not None and isinstance(other, Name) and self._lifted.register(other) == fact[1]:
            most = {"gt": fact[2], "ge": fact[2] - 1}.get(fact[0])
            if fact[0] == "eq" and second.high is not None and second.high == fact[2]:
                most = fact[2] - 1
            if most is not None:
                second = replace(second, high=most if second.high is None else min(second.high, most))
        return _either(first, second)


def _learn(
    instruction: Instruction, writes: tuple[Register, ...], sources: list[Bounded], facts: _Predicates, lifted: Lifted
) -> None:
    """A comparison of a register with a number, and what a new value of a register makes of those before."""
    for register in writes:
        facts.pop(register, None)
        for predicate in [known for known, fact in facts.items() if fact[1] == register]:
            del facts[predicate]
    parts = instruction.parts
    if parts[0] == "setp" and len(sources) == 3 and len(writes) == 1 and instruction.guard is None:
        compared, number = instruction.operands[1], sources[2].constant
        register_of = lifted.register(compared) if isinstance(compared, Name) else None
        if register_of is not None and number is not None and parts[-1].startswith("s"):
            facts[writes[0]] = (parts[1], register_of, number)


def _threads(lifted: Lifted) -> Mapping[str, int]:
    extents = lifted.syntax.directive("reqntid") or lifted.syntax.directive("maxntid") or ()
    numbers = [extent for extent in extents if isinstance(extent, int)]
    if not numbers:
        return {}
    return dict(zip("xyz", [*numbers, 1, 1][:3], strict=True))


# Arithmetic on bounds


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _plus(left: Bounded, right: Bounded) -> Bounded:
    if left.packed or right.packed:
        return _packed_plus(left, right)
    if left.base and right.base:
        return UNKNOWN
    return Bounded(left.base or right.base, _sum(left.low, right.low), _sum(left.high, right.high))


def _packed_plus(left: Bounded, right: Bounded) -> Bounded:
    """A descriptor plus another address in its units; other fields of it do not matter."""
    if not left.packed:
        left, right = right, left
    if right.packed or right.base or right.low is None:
        return UNKNOWN
    low = (right.low & _FIELD) << _PACKED
    high = low if right.high == right.low else None if right.high is None else right.high << _PACKED
    return replace(left, low=_sum(left.low, low), high=_sum(left.high, high))


def _either(left: Bounded, right: Bounded) -> Bounded:
    if (left.base, left.packed) != (right.base, right.packed):
        return UNKNOWN
    low = None if left.low is None or right.low is None else min(left.low, right.low)
    high = None if left.high is None or right.high is None else max(left.high, right.high)
    return Bounded(left.base, low, high, left.packed)


def _joined(known: Values, other: Values, widen: bool) -> Values:
    joined = dict(known)
    for register, value in other.items():
        before = known.get(register)
        if before is None:
            joined[register] = value
        elif before != value:
            after = _either(before, value)
            if widen and after != before:
                low = after.low if after.low == before.low else None
                high = after.high if after.high == before.high else None
                after = replace(after, low=low, high=high)
            joined[register] = after
    return joined


def _added(parts: tuple[str, ...], sources: list[Bounded]) -> Bounded:
    """A number whose highest bit is set is what is subtracted."""
    half = 1 << (63 if parts[-1].endswith("64") else 31)
    left, right = (
        Bounded("", each.low - 2 * half, each.low - 2 * half)
        if each.constant is not None and each.low is not None and each.low >= half
        else each
        for each in sources
    )
    return _plus(left, right)


def _difference(_: tuple[str, ...], sources: list[Bounded]) -> Bounded:
    left, right = sources
    if right.base or right.packed or left.packed or right.low is None or right.high is None:
        return UNKNOWN
    return _plus(left, Bounded("", -right.high, -right.low))


def _product(left: Bounded, right: Bounded) -> Bounded:
    number = right.constant if right.constant is not None else left.constant
    other = left if right.constant is not None else right
    if number is None or number < 0 or other.base or other.packed:
        return UNKNOWN
    return Bounded(
        "", None if other.low is None else other.low * number, None if other.high is None else other.high * number
    )


def _shifted_left(_: tuple[str, ...], sources: list[Bounded]) -> Bounded:
    count = sources[1].constant
    return (
        _product(sources[0], Bounded("", 1 << count, 1 << count)) if count is not None and 0 <= count < 32 else UNKNOWN
    )


def _shifted_right(parts: tuple[str, ...], sources: list[Bounded]) -> Bounded:
    value, count = sources[0], sources[1].constant
    if count is None or count < 0:
        return UNKNOWN
    if value.base and not value.packed:
        return replace(value, packed=True) if count == _PACKED else UNKNOWN
    if value.packed or value.low is None or value.low < 0:
        width = int(parts[-1][1:]) if parts[-1][1:].isdigit() else 32
        is_unsigned = not value.base and not value.packed and parts[-1].startswith(("u", "b"))
        return Bounded("", 0, (1 << width >> count) - 1) if is_unsigned else UNKNOWN
    return Bounded("", value.low >> count, None if value.high is None else value.high >> count)


def _and(_: tuple[str, ...], sources: list[Bounded]) -> Bounded:
    value, mask = (
        (sources[0], sources[1].constant) if sources[1].constant is not None else (sources[1], sources[0].constant)
    )
    if mask is None:
        return UNKNOWN
    if value.packed:
        return value if mask & _FIELD == _FIELD else UNKNOWN
    if value.base or mask < 0:
        zeros = (mask & -mask).bit_length() - 1 if mask else 0
        is_known = bool(value.base) or (value.low is not None and value.low >= 0)
        return _aligned_down(value, zeros) if is_known else UNKNOWN
    if value.low is None or value.low < 0 or value.high is None:
        return Bounded("", 0, mask)
    if mask & (mask + 1) == 0 and value.high <= mask:
        return value
    return Bounded("", 0, min(value.high, mask))


def _aligned_down(value: Bounded, zeros: int) -> Bounded:
    """With the low bits cleared: as the symbol is aligned for it, or the code would not do that."""
    low = None if value.low is None else value.low >> zeros << zeros
    high = None if value.high is None else value.high >> zeros << zeros
    return replace(value, low=low, high=high)


def _or(parts: tuple[str, ...], sources: list[Bounded]) -> Bounded:
    left, right = sources
    if left.packed or right.packed:
        return _packed_plus(left, right)
    if left.base or right.base:
        value, bits = (left, right) if left.base else (right, left)
        is_apart = bits.constant is not None and value.low is not None and not value.low & bits.constant
        return _plus(value, bits) if is_apart and value.low == value.high else UNKNOWN
    lows = [source.low for source in sources if source.low is not None and source.low >= 0]
    if len(lows) < 2 or left.high is None or right.high is None:
        return UNKNOWN
    most = (1 << max(left.high, right.high).bit_length()) - 1
    return Bounded("", max(lows) if parts[0] == "or" else 0, most)


def _moved(parts: tuple[str, ...], sources: list[Bounded]) -> Bounded:
    return sources[0] if len(sources) == 1 and "b16" not in parts else UNKNOWN


def _field(_: tuple[str, ...], sources: list[Bounded]) -> Bounded:
    """`bfe d, a, start, bits`."""
    start, bits = sources[1].constant, sources[2].constant
    if start is None or bits is None:
        return UNKNOWN
    if sources[0].base and not sources[0].packed:
        return replace(sources[0], packed=True) if (start, bits) == (_PACKED, _FIELD.bit_length()) else UNKNOWN
    return Bounded("", 0, (1 << bits) - 1)


_COMPUTED: Mapping[str, Callable[[tuple[str, ...], list[Bounded]], Bounded]] = {
    "mov": _moved,
    "cvt": _moved,
    "cvta": _moved,
    "add": _added,
    "sub": _difference,
    "mul": lambda parts, sources: _product(*sources) if "hi" not in parts else UNKNOWN,
    "mad": lambda parts, sources: _plus(_product(*sources[:2]), sources[2]) if "hi" not in parts else UNKNOWN,
    "shl": _shifted_left,
    "shr": _shifted_right,
    "and": _and,
    "or": _or,
    "xor": _or,
    "bfe": _field,
}
"""What each instruction on integers computes of its sources."""
