"""Functions of f32 that the chip has an instruction for."""

from __future__ import annotations

from nvbackend.builder import rules
from nvbackend.builder.threads import Threads
from nvbackend.builder.values import Operand, Value, as_value
from nvbackend.intrinsics.types import f32

_FUNCTIONS = {
    "exp2": "llvm.exp2.f32",
    "log2": "llvm.nvvm.lg2.approx.f",
    "sqrt": "llvm.sqrt.f32",
    "rsqrt": "llvm.nvvm.rsqrt.approx.f",
    "reciprocal": "llvm.nvvm.rcp.approx.ftz.f",
}
"""LLVM's intrinsic of each."""


class Functions(Threads):
    """Exponentials, logarithms and roots (PTX ISA 9.7.3)."""

    def exp2(self, value: Operand) -> Value:
        """2 to the `value` (f32): ex2.approx, at most 2 units in the last place off. PTX ISA 9.7.3 (ex2)."""
        return self._function("exp2", value)

    def log2(self, value: Operand) -> Value:
        """The logarithm of `value` (f32) to base 2: lg2.approx. PTX ISA 9.7.3 (lg2)."""
        return self._function("log2", value)

    def sqrt(self, value: Operand) -> Value:
        """The square root of `value` (f32), rounded to nearest: sqrt.rn. PTX ISA 9.7.3 (sqrt)."""
        return self._function("sqrt", value)

    def rsqrt(self, value: Operand) -> Value:
        """One over the square root of `value` (f32): rsqrt.approx. PTX ISA 9.7.3 (rsqrt)."""
        return self._function("rsqrt", value)

    def reciprocal(self, value: Operand) -> Value:
        """One over `value` (f32): rcp.approx.ftz, at most 1 unit in the last place off. PTX ISA 9.7.3 (rcp)."""
        return self._function("reciprocal", value)

    def _function(self, name: str, value: Operand) -> Value:
        given = as_value(self, value)
        if given.type is not f32:
            rules.UNSUPPORTED_OPERATION.fail(operation=f"k.{name}", element=given.type, advice="convert with .to(f32)")
        return self._wrap(self._intrinsic(_FUNCTIONS[name], f32, [given.ir]), f32)
