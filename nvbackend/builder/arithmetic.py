"""Arithmetic that Python has no operator for."""

from __future__ import annotations

from nvbackend.builder import rules
from nvbackend.builder.control import Control
from nvbackend.builder.numbers import Number
from nvbackend.builder.values import Operand, Value, as_value, constant, pair
from nvbackend.intrinsics.features import Feature
from nvbackend.intrinsics.types import ElementType, f32, f64, pred
from nvbackend.isel.verify import TARGET_FEATURE, targets_with

_EXTREMES = {"min": "minimum", "max": "maximum"}
_SUFFIXES = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
"""LLVM's types in the names of its intrinsics."""
_NAN_FORM = Feature.SM_80
"""What min.NaN and max.NaN need."""


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

    def min(self, left: Operand, right: Operand, *, nan: bool = False) -> Value:
        """The lesser of two values of one type: of -0.0 and 0.0 the first, of NaN and a number the number.

        With `nan`, NaN where either is NaN (min.NaN: f16, bf16 and f32, from sm_80 on; target.feature). PTX ISA 9.7.3.
        """
        return self._extreme("min", left, right, nan=nan)

    def max(self, left: Operand, right: Operand, *, nan: bool = False) -> Value:
        """The greater of two values of one type: of -0.0 and 0.0 the second, of NaN and a number the number.

        With `nan`, NaN where either is NaN (max.NaN: f16, bf16 and f32, from sm_80 on; target.feature). PTX ISA 9.7.3.
        """
        return self._extreme("max", left, right, nan=nan)

    def _extreme(self, operation: str, left: Operand, right: Operand, *, nan: bool) -> Value:
        a, b = self._pair(operation, left, right)
        order = a < b if operation == "min" else a > b
        if not a.type.is_float:
            return self.select(order, a, b)
        if nan:
            self._check_nan_form(f"{operation}.NaN", a.type)
        # LLVM's names: with "number" in them the number is taken, without it NaN.
        name = _EXTREMES[operation] + ("" if nan else "num")
        return self._wrap(self._intrinsic(f"llvm.{name}.{_SUFFIXES[a.type.llvm]}", a.type, [a.ir, b.ir]), a.type)

    def _check_nan_form(self, instruction: str, element: ElementType) -> None:
        if element is f64:
            advice = f"use k.select(a != a, a, k.select(b != b, b, k.{instruction[:3]}(a, b)))"
            rules.UNSUPPORTED_OPERATION.fail(operation=instruction, element=element, advice=advice)
        if not self.target.has(_NAN_FORM):
            TARGET_FEATURE.fail(
                instruction=f"{instruction}.{element}",
                missing=_NAN_FORM.name,
                target=self.target,
                targets=targets_with(_NAN_FORM),
            )

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
