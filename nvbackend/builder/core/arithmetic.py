"""Constants and selection."""

from __future__ import annotations

from nvbackend.builder.core.control import Control
from nvbackend.builder.lower.numbers import Number
from nvbackend.builder.values.values import Operand, Value, as_value, constant, pair
from nvbackend.intrinsics.row.types import ElementType, pred


class Arithmetics(Control):
    """Constants, selection, and what dynamic shared memory begins with."""

    _shared_bytes = 0
    """Where the dynamic shared memory ends that is laid out so far, and `_shared_start` where it began."""
    _shared_start = 0
    _static_bytes = 0

    def const(self, number: Number, element: ElementType) -> Value:
        """`number` as a value of `element` (value.constant where it does not fit)."""
        return constant(self, number, element)

    def select(self, condition: Operand, yes: Operand, no: Operand) -> Value:
        """`yes` where the predicate holds, else `no`; both are evaluated."""
        a, b = self._pair("select", yes, no)
        return self._wrap(self._ir.select(as_value(self, condition, pred).ir, a.ir, b.ir), a.type)

    def _pair(self, operation: str, left: Operand, right: Operand) -> tuple[Value, Value]:
        """Both as values of one type; two numbers get the type of the first."""
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            left = as_value(self, left)
        return pair(operation, left, right)
