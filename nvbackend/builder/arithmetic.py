"""Arithmetic that Python has no operator for."""

from __future__ import annotations

from nvbackend.builder import rules
from nvbackend.builder.control import Control
from nvbackend.builder.numbers import Number
from nvbackend.builder.values import Operand, Value, as_value, constant, pair
from nvbackend.intrinsics.types import ElementType, f32, f64, pred


class Arithmetics(Control):
    """Selection, minimum and maximum, fused multiply-add, constants."""

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

    def min(self, left: Operand, right: Operand) -> Value:
        """The lesser of two values of one type."""
        a, b = self._pair("min", left, right)
        return self.select(a < b, a, b)

    def max(self, left: Operand, right: Operand) -> Value:
        """The greater of two values of one type."""
        a, b = self._pair("max", left, right)
        return self.select(a > b, a, b)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c with one rounding (f32, f64)."""
        x, y = self._pair("fma", a, b)
        z = as_value(self, c, x.type)
        if x.type not in (f32, f64):
            rules.UNSUPPORTED_OPERATION.fail(operation="fma", element=x.type, advice="convert to f32 or f64")
        return self._wrap(self._intrinsic(f"llvm.fma.{x.type}", x.type, [x.ir, y.ir, z.ir]), x.type)

    def _pair(self, operation: str, left: Operand, right: Operand) -> tuple[Value, Value]:
        """Both as values of one type; two numbers get the type of the first."""
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            left = as_value(self, left)
        return pair(operation, left, right)
