"""Mutable variables, which a loop may simply set; `select`; and conversion of two operands to one type."""

from __future__ import annotations

from typing import NoReturn, Protocol, TypeVar, runtime_checkable

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.scopes.blocks import Storage
from nvbackend.builder.values.attributes import refuse_assignment
from nvbackend.builder.values.carried import DEALT, over_tiles, steps_by_grid
from nvbackend.builder.values.values import Arithmetic, Operand, Value, as_value, pair
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import ElementType, pred

Made_co = TypeVar("Made_co", covariant=True)


@runtime_checkable
class Several(Protocol[Made_co]):
    """Values that a variable holds together."""

    def variable(self, name: str) -> Made_co:
        """A variable of them."""


def select(k: Core, condition: Operand, yes: Operand, no: Operand) -> Value:
    """`yes` where the predicate holds, else `no`; both are evaluated."""
    if isinstance(condition, Arithmetic) and condition.type is not pred:
        as_value(k, condition, pred)  # raises, before the numbers are taken for values of its type
    a, b = pair_of(k, "select", yes, no)
    return k.wrap(k.llvm.select(as_value(k, condition, pred).ir, a.ir, b.ir), a.type)


def pair_of(k: Core, operation: str, left: Operand, right: Operand) -> tuple[Value, Value]:
    """Both operands as values of one type; two Python numbers get the type of the first."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        left = as_value(k, left)
    return pair(operation, left, right)


def make_variable(k: Core, initial: Operand, element: ElementType | None = None, *, name: str) -> Variable:
    """A variable of `element`, or else of the type of `initial`, set to `initial`."""
    if isinstance(initial, ElementType):
        as_value(k, initial)  # raises, whatever is given as its type
    value = as_value(k, initial, element)
    storage = k.new_storage([value.ir.type], name)
    k.write(storage, [value.ir])
    return Variable(k, storage, value.type)


@user_facing
class Variable(Arithmetic):
    """A run-time variable of one element type. It reads as its current value; `set`, `+=` and the like change it."""

    __slots__ = ("_element", "_k", "_storage")

    def __init__(self, k: Core, storage: Storage, element: ElementType) -> None:
        self._k = k
        self._storage = storage
        self._element = element

    def _value(self) -> Value:
        return self._k.wrap(self._k.read(self._storage)[0], self._element)

    @property
    def value(self) -> Value:
        """The current value; later changes of the variable do not affect it."""
        return self._value()

    @value.setter
    def value(self, value: object) -> NoReturn:  # noqa: ARG002
        """Raises value.attribute: `set` sets it."""
        refuse_assignment()

    def set(self, value: Operand) -> None:
        """Set the variable to a value of its type (value.type if the type differs)."""
        stored = as_value(self._k, value, self._element).ir
        if isinstance(stored, ir.Instruction) and stored.opname == "add" and any(map(steps_by_grid, stored.operands)):
            over_tiles(self._k.regions, DEALT)
        self._k.write(self._storage, [stored])

    def __iadd__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() + other)

    def __isub__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() - other)

    def __imul__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() * other)

    def __itruediv__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() / other)

    def __ifloordiv__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() // other)

    def __imod__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() % other)

    def __iand__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() & other)

    def __ior__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() | other)

    def __ixor__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() ^ other)

    def __ilshift__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() << other)

    def __irshift__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._changed(self._value() >> other)

    def _changed(self, value: Value) -> Variable:
        self.set(value)
        return self

    def __repr__(self) -> str:
        return f"<variable {self._storage.name}: {self._element}>"
