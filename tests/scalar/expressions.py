"""Random expressions: a node is emitted by the builder and computed by NumPy, one row of inputs a thread."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nvbackend.intrinsics.row.types import ELEMENT_TYPES, ElementType, b1, f32, f64, pred, s4, tf32, u4, u8, u16, u32
from nvbackend.isel.target.target import Target
from tests.scalar import numbers
from tests.scalar.numbers import FLOATS, INTEGERS, NUMBERS, Array
from tests.scalar.specials import constants, plain_constants, random_bits

ROWS = 32
SLOTS = 3
"""Inputs of each type."""
TABLE = 64
"""Elements of the table of each type that indices are computed into."""
TYPES = tuple(one for one in ELEMENT_TYPES if one is not b1)
PACKED = tuple(one for one in TYPES if one not in NUMBERS)
_TABLED = (*FLOATS, tf32, *(one for one in INTEGERS if one.bits >= 8))
_INDICES = tuple(one for one in INTEGERS if one.bits >= 8)
_PACKING = {u32: 80, u16: 89}
"""The first chips that pack two f32 into a register: halves of 16 bits, and of 8."""


@dataclass(frozen=True)
class Node:
    """A value: its type, how the builder makes it of its operands' values, and what it is in each row."""

    element: ElementType
    text: str
    operands: tuple[Node, ...]
    emit: Callable[..., Any]
    rows: Array


class Inputs:
    """The inputs of a kernel, as they lie in memory: columns of 64-bit words, a row each, and the tables."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.columns = {element: [random_bits(rng, element, ROWS) for _ in range(SLOTS)] for element in TYPES}
        self.tables = {element: random_bits(rng, element, TABLE) for element in _TABLED}

    def words(self) -> Array:
        """The memory that a kernel reads."""
        parts = [bits.astype(np.uint64) for columns in self.columns.values() for bits in columns]
        for element, bits in self.tables.items():
            packed = bits.astype(f"uint{element.bits}").view(np.uint8)
            parts.append(np.concatenate([packed, np.zeros(8 * TABLE - len(packed), np.uint8)]).view(np.uint64))
        return np.concatenate(parts)

    @staticmethod
    def column_at(element: ElementType, slot: int) -> int:
        """The word that a column begins at."""
        return (TYPES.index(element) * SLOTS + slot) * ROWS

    @staticmethod
    def table_at(element: ElementType) -> int:
        """The word that a table begins at."""
        return len(TYPES) * SLOTS * ROWS + _TABLED.index(element) * TABLE


class Expressions:
    """Draws nodes. `memory` is (kernel, pointer to the words, row) when a node is emitted."""

    def __init__(self, seed: int, target: str, *, plain: bool = False) -> None:
        """`plain`: more constants, of those few that optimisers look for."""
        self._random = random.Random(seed)
        self._constants, self._share = (plain_constants, 0.6) if plain else (constants, 0.35)
        self._chip = Target.parse(target).number
        self._is_old = self._chip < 80  # no conversion to tf32, no min.NaN
        self._inputs = Inputs(seed)
        self._known: dict[ElementType, list[Node]] = {}
        self.words = self._inputs.words()

    def any(self, depth: int) -> Node:
        """A node of a random type."""
        return self.of(self._random.choice(TYPES if self._random.random() < 0.2 else NUMBERS), depth)

    def of(self, element: ElementType, depth: int) -> Node:
        """A node of this type, of at most `depth` operations on inputs and constants."""
        known = self._known.setdefault(element, [])
        if known and self._random.random() < 0.1:
            return self._random.choice(known)
        node = self._leaf(element) if depth <= 0 else self._operation(element, depth - 1)
        known.append(node)
        return node

    def _operation(self, element: ElementType, depth: int) -> Node:
        makers: list[Callable[[ElementType, int], Node]] = [self._select, self._recast]
        if element in NUMBERS and element is not pred and not (element is tf32 and self._is_old):
            makers += [self._converted] * 3
        if element in FLOATS:
            makers += [self._arithmetic] * 4 + [self._extreme, self._negated, self._table]
            makers += [self._fused] * (element in (f32, f64))
        if element.is_integer:
            makers += [self._arithmetic] * 6 + [self._extreme, self._negated, self._inverted]
            makers += [self._table] * (element in _TABLED)
            makers += [self._packed] * (self._chip >= _PACKING.get(element, 1000))
        if element is pred:
            makers += [self._compared] * 6 + [self._arithmetic, self._inverted]
        return self._random.choice(makers)(element, depth)

    def _leaf(self, element: ElementType) -> Node:
        if element in NUMBERS and self._random.random() < self._share:
            return self._constant(element)
        slot = self._random.randrange(SLOTS)
        bits, place = self._inputs.columns[element][slot], Inputs.column_at(element, slot)

        def emit(memory: Any) -> Any:
            _, words, row = memory
            at = words + place + row
            if element is pred:
                return at.cast(u8)[0] != 0
            if element in (s4, u4):
                return at.cast(u8)[0].to(element)
            return at.cast(u8)[0].bitcast(element) if element.bits < 8 else at.cast(element)[0]

        if element in (pred, s4, u4):
            rows = bits != 0 if element is pred else numbers.integers(bits.tolist(), element)
        else:
            rows = numbers.from_bits(element, bits)
        return Node(element, f"{element}[{slot}]", (), emit, rows)

    def _constant(self, element: ElementType) -> Node:
        number = self._random.choice(self._constants(element))
        hidden = self._random.random() < 0.5  # from the builder: LLVM sees that it is constant

        def emit(memory: Any) -> Any:
            k = memory[0]
            value = k.const(number, element)
            return k.var(value).value if hidden else value

        if element.is_float:
            rows = numbers.converted(f64, element, np.full(ROWS, number, np.float64))
        else:
            rows = np.full(ROWS, number, numbers.dtype(element))
        return Node(element, f"{'var' if hidden else 'const'}({number}, {element})", (), emit, rows)

    def _arithmetic(self, element: ElementType, depth: int) -> Node:
        names = (
            "&|^"
            if element is pred
            else "+-*/"
            if element.is_float
            else ("+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>")
        )
        name = self._random.choice(names)
        a, b = self.of(element, depth), self.of(element, depth)
        if name in ("//", "%", "<<", ">>"):
            b = self._allowed(name, element, b)
        return Node(
            element,
            name,
            (a, b),
            lambda memory, x, y: PYTHON[name](x, y),
            numbers.binary(name, element, a.rows, b.rows),
        )

    def _allowed(self, name: str, element: ElementType, b: Node) -> Node:
        """`b`, or an input where the builder would know that it is no divisor or no amount."""
        number = b.rows[0]
        legal = number != 0 if name in ("//", "%") else 0 <= number < element.bits
        while not legal and (b.rows == number).all():
            b = self._leaf(element)
            number = b.rows[0]
            legal = number != 0 if name in ("//", "%") else 0 <= number < element.bits
        return b

    def _compared(self, element: ElementType, depth: int) -> Node:
        source = self._random.choice((*FLOATS, *INTEGERS, pred))
        name = self._random.choice(numbers.COMPARISONS)
        a, b = self.of(source, depth), self.of(source, depth)
        rows = numbers.compare(name, a.rows, b.rows)
        return Node(pred, f"{name} {source}", (a, b), lambda memory, x, y: PYTHON[name](x, y), rows)

    def _select(self, element: ElementType, depth: int) -> Node:
        condition, a, b = self.of(pred, depth), self.of(element, depth), self.of(element, depth)
        rows = np.where(condition.rows, a.rows, b.rows)
        return Node(element, "select", (condition, a, b), lambda memory, *given: memory[0].select(*given), rows)

    def _extreme(self, element: ElementType, depth: int) -> Node:
        name = self._random.choice(("min", "max"))
        nan = element.is_float and element is not f64 and not self._is_old and self._random.random() < 0.5
        a, b = self.of(element, depth), self.of(element, depth)
        rows = numbers.extreme(name, element, a.rows, b.rows, nan=nan)
        text = f"{name}{'.NaN' * nan}"
        return Node(element, text, (a, b), lambda memory, x, y: getattr(memory[0].math, name)(x, y, nan=nan), rows)

    def _fused(self, element: ElementType, depth: int) -> Node:
        given = tuple(self.of(element, depth) for _ in range(3))
        rows = numbers.fused(element, *(one.rows for one in given))
        return Node(element, "fma", given, lambda memory, *values: memory[0].math.fma(*values), rows)

    def _negated(self, element: ElementType, depth: int) -> Node:
        a = self.of(element, depth)
        return Node(element, "neg", (a,), lambda memory, x: -x, numbers.negated(element, a.rows))

    def _inverted(self, element: ElementType, depth: int) -> Node:
        a = self.of(element, depth)
        return Node(element, "~", (a,), lambda memory, x: ~x, numbers.inverted(element, a.rows))

    def _converted(self, element: ElementType, depth: int) -> Node:
        source = self._random.choice([one for one in NUMBERS if one is not element])
        a = self.of(source, depth)
        if element is tf32 and a.operands:  # which cuts the bits of a NaN
            a = self._number(a)
        rows = numbers.converted(source, element, a.rows)
        return Node(element, f"to {element}", (a,), lambda memory, x: x.to(element), rows)

    def _recast(self, element: ElementType, depth: int) -> Node:
        alike = [one for one in TYPES if one is not element and one is not pred and one.bits == element.bits]
        alike = [one for one in alike if tf32 not in (one, element)]  # a tf32 is not all the bits of its register
        if not alike:
            return self._select(element, depth)
        source = self._random.choice(alike)
        a = self._number(self.of(source, depth))
        rows = numbers.recast(source, element, a.rows)
        return Node(element, f"bitcast {element}", (a,), lambda memory, x: x.bitcast(element), rows)

    def _packed(self, element: ElementType, depth: int) -> Node:
        """Two f32 in one register, the second in its lower half."""
        pair = self._random.choice([name for name, half in numbers.HALVES.items() if 2 * half.bits == element.bits])
        high, low = (self._number(self.of(f32, depth)) for _ in range(2))
        rows = numbers.packed(pair, element, high.rows, low.rows)
        pack = lambda memory, above, below: memory[0].convert.pack(pair, below, above).bitcast(element)  # noqa: E731
        return Node(element, pair, (high, low), pack, rows)

    @staticmethod
    def _number(a: Node) -> Node:
        """`a` with 0 for NaN: which bits a NaN has, no arithmetic says."""
        if a.element not in FLOATS:
            return a
        rows = np.where(np.isnan(a.rows), a.rows.dtype.type(0), a.rows)
        return Node(a.element, "number", (a,), _without_nan, rows)

    def _table(self, element: ElementType, depth: int) -> Node:
        """An element of the table, at an index that is computed; sometimes out of a vector of two or four."""
        kind = self._random.choice(_INDICES)
        a = self.of(kind, depth)
        count = self._random.choice([one for one in (1, 1, 2, 4) if one * element.bits <= 128])
        part = self._random.randrange(count)
        place = Inputs.table_at(element)
        index = (numbers.bits_of(a.rows) & (TABLE // count - 1)).astype(np.int64) * count + part

        def emit(memory: Any, x: Any) -> Any:
            table = (memory[1] + place).cast(element)
            return (table + (x & TABLE // count - 1) * count).load(count)[part]

        rows = numbers.from_bits(element, self._inputs.tables[element])[index]
        return Node(element, f"table of {count} {part}", (a,), emit, rows)


PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def _without_nan(memory: Any, value: Any) -> Any:
    is_number = value == value  # noqa: PLR0124
    return memory[0].select(is_number, value, 0.0)


def emitted(node: Node, memory: Any, values: dict[int, Any]) -> Any:
    """The builder's value of `node`; a node that several share is emitted once."""
    if id(node) not in values:
        values[id(node)] = node.emit(memory, *(emitted(one, memory, values) for one in node.operands))
    return values[id(node)]


def described(node: Node, row: int) -> str:
    """The expression as text, with what each node is in `row`."""
    inside = ", ".join(described(one, row) for one in node.operands)
    return f"{node.text}({inside})={node.rows[row]!r}" if inside else f"{node.text}={node.rows[row]!r}"
