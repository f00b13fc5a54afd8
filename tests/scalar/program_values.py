"""Random values of a program: what the builder makes, and what NumPy has of it in each thread."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import ElementType, f32, f64, pred, s8, s32, s64, u16, u32, u64
from tests.scalar import numbers
from tests.scalar.expressions import PYTHON
from tests.scalar.numbers import Array
from tests.scalar.specials import constants

THREADS = 64
INPUTS = 2
"""Inputs of each type, a number for each thread."""
ELEMENTS = 8
"""Of a thread's own array."""
TYPES = (s32, u32, s32, u32, s64, u64, f32, f32, f64, u16, s8)
"""Of variables; those that stand twice are drawn twice as often."""
KINDS = tuple(dict.fromkeys(TYPES))
_INTEGER = ("+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>")
_FLOAT = ("+", "-", "*", "/")


@dataclass
class Machine:
    """Where the builder emits a program."""

    k: KernelBuilder
    inputs: dict[ElementType, Any]
    variables: list[Any]
    arrays: list[Any]
    shared: dict[ElementType, Any]
    counters: dict[int, Any] = field(default_factory=dict)


@dataclass
class State:
    """What NumPy has of each thread."""

    inputs: dict[ElementType, list[Array]]
    variables: list[Array]
    arrays: list[Array]
    counters: dict[int, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Expression:
    """A value: its type, its text, and what it is for the builder and for NumPy."""

    element: ElementType
    text: str
    emit: Callable[[Machine], Any]
    rows: Callable[[State], Array]


class Values:
    """Draws values of the variables, arrays and counters that there are."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.elements = [self._random.choice(TYPES) for _ in range(self._random.randint(3, 6))]
        """The types of the variables."""
        self.array_elements = [self._random.choice(KINDS) for _ in range(2)]
        """Those of each thread's arrays."""
        self._counters = list[int]()
        """Those of the loops around."""

    def of(self, element: ElementType, depth: int) -> Expression:
        """A value of this type."""
        if depth <= 0 or self._random.random() < 0.15:
            return self._leaf(element)
        if element is pred:
            return self._condition(depth - 1)
        makers = [self._arithmetic] * 5 + [self._select, self._converted, self._converted, self._extreme, self._element]
        return self._random.choice(makers)(element, depth - 1)

    def _leaf(self, element: ElementType) -> Expression:
        if element is pred:
            return self._condition(0)
        drawn = self._random.random()
        places = [place for place, each in enumerate(self.elements) if each is element]
        if drawn < 0.5 and places:
            return self._variable(self._random.choice(places))
        if drawn < 0.6 and self._counters:
            return self._cast(self._counter(self._random.choice(self._counters)), element)
        if drawn < 0.8:
            return self._constant(element, self._random.choice(constants(element)))
        if drawn < 0.85:
            return self._cast(self._thread(), element)
        slot = self._random.randrange(INPUTS)
        return Expression(
            element,
            f"{element}[{slot}]",
            lambda m: (m.inputs[element] + slot * THREADS)[m.k.thread_id()],
            lambda s: s.inputs[element][slot],
        )

    def _variable(self, place: int) -> Expression:
        return Expression(
            self.elements[place], f"v{place}", lambda m: m.variables[place].value, lambda s: s.variables[place]
        )

    def _counter(self, loop: int) -> Expression:
        return Expression(s32, f"i{loop}", lambda m: m.counters[loop], lambda s: s.counters[loop])

    @staticmethod
    def _thread() -> Expression:
        return Expression(s32, "thread", lambda m: m.k.thread_id(), lambda _: np.arange(THREADS, dtype=np.int32))

    @staticmethod
    def _constant(element: ElementType, number: Any) -> Expression:
        if element.is_float:
            rows = numbers.converted(f64, element, np.full(THREADS, number, np.float64))
        else:
            rows = np.full(THREADS, number, numbers.dtype(element))
        return Expression(element, repr(number), lambda m: m.k.const(number, element), lambda _: rows)

    @staticmethod
    def _cast(a: Expression, element: ElementType) -> Expression:
        if a.element is element:
            return a
        return Expression(
            element,
            f"{a.text}.to({element})",
            lambda m: a.emit(m).to(element),
            lambda s: numbers.converted(a.element, element, a.rows(s)),
        )

    def _converted(self, element: ElementType, depth: int) -> Expression:
        return self._cast(self.of(self._random.choice(KINDS), depth), element)

    def _arithmetic(self, element: ElementType, depth: int) -> Expression:
        name = self._random.choice(_FLOAT if element.is_float else _INTEGER)
        a = self.of(element, depth)
        if name in ("//", "%") and self._random.random() < 0.5:
            b = self._constant(element, self._random.choice((1, 2, 3, 5, 7, 10, 16, 100)))
        elif name in ("<<", ">>") and self._random.random() < 0.7:
            b = self._constant(element, self._random.randrange(element.bits))
        else:
            b = self.of(element, depth)
        return Expression(
            element,
            f"({a.text} {name} {b.text})",
            lambda m: PYTHON[name](a.emit(m), b.emit(m)),
            lambda s: numbers.binary(name, element, a.rows(s), b.rows(s)),
        )

    def _extreme(self, element: ElementType, depth: int) -> Expression:
        name = self._random.choice(("min", "max"))
        a, b = self.of(element, depth), self.of(element, depth)
        return Expression(
            element,
            f"{name}({a.text}, {b.text})",
            lambda m: getattr(m.k.math, name)(a.emit(m), b.emit(m)),
            lambda s: numbers.extreme(name, element, a.rows(s), b.rows(s), nan=False),
        )

    def _select(self, element: ElementType, depth: int) -> Expression:
        condition, a, b = self.of(pred, depth), self.of(element, depth), self.of(element, depth)
        return Expression(
            element,
            f"select({condition.text}, {a.text}, {b.text})",
            lambda m: m.k.select(condition.emit(m), a.emit(m), b.emit(m)),
            lambda s: np.where(condition.rows(s), a.rows(s), b.rows(s)),
        )

    def _condition(self, depth: int) -> Expression:
        if depth and self._random.random() < 0.3:
            name = self._random.choice("&|")
            a, b = self._condition(depth - 1), self._condition(depth - 1)
            return Expression(
                pred,
                f"({a.text} {name} {b.text})",
                lambda m: PYTHON[name](a.emit(m), b.emit(m)),
                lambda s: a.rows(s) & b.rows(s) if name == "&" else a.rows(s) | b.rows(s),
            )
        element = self._random.choice(self.elements)
        name = self._random.choice(numbers.COMPARISONS)
        places = [place for place, each in enumerate(self.elements) if each is element]
        a = self._variable(self._random.choice(places)) if self._random.random() < 0.5 else self.of(element, depth)
        b = self.of(element, depth)
        return Expression(
            pred,
            f"({a.text} {name} {b.text})",
            lambda m: PYTHON[name](a.emit(m), b.emit(m)),
            lambda s: numbers.compare(name, a.rows(s), b.rows(s)),
        )

    def _place(self, depth: int) -> Expression:
        """An element of a thread's array."""
        return self._masked(self._cast(self.of(self._random.choice(KINDS), depth), s32), ELEMENTS - 1)

    @staticmethod
    def _masked(a: Expression, mask: int) -> Expression:
        return Expression(s32, f"({a.text} & {mask})", lambda m: a.emit(m) & mask, lambda s: a.rows(s) & np.int32(mask))

    def _element(self, element: ElementType, depth: int) -> Expression:
        number = self._random.randrange(len(self.array_elements))
        place = self._place(depth)
        read = Expression(
            self.array_elements[number],
            f"a{number}[{place.text}]",
            lambda m: m.arrays[number][place.emit(m)],
            lambda s: s.arrays[number][np.arange(THREADS), place.rows(s)],
        )
        return self._cast(read, element)
