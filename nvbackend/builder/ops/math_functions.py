"""Mathematics: extremes, fused products, roots, powers, packing."""

from __future__ import annotations

from nvbackend.builder.core.instructions import result
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.variables import pair_of, select
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.types import ElementType, f32, f64
from nvbackend.isel.select.rows import FEATURE
from nvbackend.isel.target.target import targets_with, variant

_EXTREMES = {"min": "minimum", "max": "maximum"}

_SUFFIXES = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
"""LLVM's types in the names of its intrinsics."""

_NAN_FORM = Feature.SM_80
"""The feature that min.NaN and max.NaN need."""

_FUNCTIONS = {
    "exp2": "llvm.exp2.f32",
    "log2": "llvm.nvvm.lg2.approx.f",
    "sqrt": "llvm.sqrt.f32",
    "rsqrt": "llvm.nvvm.rsqrt.approx.f",
    "reciprocal": "llvm.nvvm.rcp.approx.ftz.f",
}
"""LLVM's intrinsic of each."""


@user_facing
class Math(Noun):
    """Mathematics: extremes, fused products, roots, powers, packing (PTX ISA 9.7.3)."""

    __noun__ = "math"
    __usual__ = "sqrt"

    def pack_pair(self, pair: str, high: Operand, low: Operand, *, relu: bool = False) -> Value:
        """cvt.rn: two f32 to a pair ("f16x2", "bf16x2": u32; "e4m3x2", "e5m2x2": u16), `low` in the lower half.

        `relu` makes negative values zero. Raises instruction.variant, target.feature. PTX ISA 9.7.9 (cvt).
        """
        return result(self._k, variant("cvt", matrix_move.pack, pair, relu), high=high, low=low)

    def permute_bytes(self, low: Operand, high: Operand, selector: Operand) -> Value:
        """prmt: four bytes (u32) out of `low` (bytes 0 to 3) and `high` (4 to 7), picked by the nibbles of `selector`.

        Bit 3 of a nibble replicates the byte's sign. PTX ISA 9.7.9 (prmt).
        """
        return result(self._k, matrix_move.prmt(), low=low, high=high, selector=selector)

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
        a, b = pair_of(self._k, operation, left, right)
        order = a < b if operation == "min" else a > b
        if not a.type.is_float:
            return select(self._k, order, a, b)
        if nan:
            self._check_nan_form(f"{operation}.NaN", a.type)
        # LLVM's names: with "number" in them the number is taken, without it NaN.
        name = _EXTREMES[operation] + ("" if nan else "num")
        return self._k.wrap(self._k.intrinsic(f"llvm.{name}.{_SUFFIXES[a.type.llvm]}", a.type, [a.ir, b.ir]), a.type)

    def _check_nan_form(self, instruction: str, element: ElementType) -> None:
        if element is f64:
            advice = f"use k.select(a != a, a, k.select(b != b, b, k.math.{instruction[:3]}(a, b)))"
            rules.UNSUPPORTED_OPERATION.fail(operation=instruction, element=element, advice=advice)
        if not self._k.target.has(_NAN_FORM):
            FEATURE.rule.fail(
                instruction=f"{instruction}.{element}",
                missing=_NAN_FORM.name,
                target=self._k.target,
                targets=targets_with(_NAN_FORM),
            )

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c with one rounding (f32, f64)."""
        x, y = pair_of(self._k, "fma", a, b)
        z = as_value(self._k, c, x.type)
        if x.type not in (f32, f64):
            rules.UNSUPPORTED_OPERATION.fail(operation="fma", element=x.type, advice="convert to f32 or f64")
        return self._k.wrap(self._k.intrinsic(f"llvm.fma.{x.type}", x.type, [x.ir, y.ir, z.ir]), x.type)

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
        operand = as_value(self._k, value)
        if operand.type is not f32:
            rules.UNSUPPORTED_OPERATION.fail(
                operation=f"k.math.{name}", element=operand.type, advice="convert with .to(f32)"
            )
        return self._k.wrap(self._k.intrinsic(_FUNCTIONS[name], f32, [operand.ir]), f32)
