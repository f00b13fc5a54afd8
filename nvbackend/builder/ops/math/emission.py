"""How the functions of k.math are emitted: LLVM's own, a row of the machine, or a series."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

from nvbackend.builder.core.instructions import computed
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.variables import pair_of, select
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import caller_location
from nvbackend.intrinsics.arithmetic import floats
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, bf16, f16, f32, f64
from nvbackend.isel.select.rows import FEATURE
from nvbackend.isel.target.target import targets_with, variant

_EXTREMES = {"min": "minimum", "max": "maximum"}
_SUFFIXES = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
"""LLVM's types in the names of its intrinsics."""
_NAN_FORM = Feature.SM_80
"""The feature that min.NaN and max.NaN need."""
_LOG2_E = math.log2(math.e)
_OF_LOG2 = {"log": math.log(2), "log2": 1.0, "log10": math.log10(2)}
"""What the logarithm to base 2 is multiplied by for another one."""
_GELU_CUBIC, _GELU_SCALE = 0.044715, math.sqrt(8 / math.pi)
_HALVES = (f16, bf16)


class Emission(Noun):
    """What the calls of k.math have in common."""

    def _approx(self, approx: bool | None) -> bool:
        return self._k.math.approx if approx is None else approx

    def _approximates(self, call: str, operand: Value, approx: bool | None, rounding: str | None) -> bool:
        """Whether a root or a quotient is the chip's approximation: as is said, else the policy's, not of f64."""
        self._rounds(call, approx, rounding)
        return approx or (approx is None and rounding is None and self._k.math.approx and operand.type is not f64)

    def _rounds(self, call: str, approx: bool | None, rounding: str | None) -> None:
        """Raises call.no-effect for a rounding of what is approximated."""
        if approx and rounding is not None:
            rules.NO_EFFECT.fail(
                argument=f"rounding={rounding!r}",
                call=f"k.math.{call}(approx=True)",
                reason="the chip's approximation has no rounding to choose",
                advice="leave out rounding, or approx=True",
            )

    def _flushes_as(self, call: str, ftz: bool | None) -> None:
        """Raises call.no-effect for an accurate function that is to flush otherwise than the kernel does."""
        policy = self._k.math.ftz
        if ftz in (None, policy):
            return
        kernel = "flushes the subnormal numbers" if policy else "keeps the subnormal numbers"
        rules.NO_EFFECT.fail(
            argument=f"ftz={ftz}",
            call=f"the accurate k.math.{call}",
            reason=f"it is made of operations of f32, of which the kernel {kernel}",
            advice="leave it out, take approx=True, or choose for the whole kernel: "
            f"math=nvb.MathPolicy(ftz={ftz}) in nvb.kernel",
        )

    def _extreme(self, operation: str, left: Operand, right: Operand, *, nan: bool, ftz: bool | None) -> Value:
        a, b = pair_of(self._k, operation, left, right)
        if not a.type.is_float:
            if nan or ftz is not None:
                rules.NO_EFFECT.fail(
                    argument="nan=True" if nan else f"ftz={ftz}",
                    call=f"k.math.{operation} of {a.type}",
                    reason="integers have neither NaN nor subnormal numbers",
                    advice="leave it out",
                )
            return select(self._k, a < b if operation == "min" else a > b, a, b)
        if ftz is not None:
            return self._of_row(variant(operation, floats.extreme, operation, a.type.name, ftz, nan), a, b)
        if nan:
            self._check_nan_form(f"{operation}.NaN", a.type)
        # LLVM's names: with "number" in them the number is taken, without it NaN.
        return self._native(_EXTREMES[operation] + ("" if nan else "num"), a, b, name=operation)

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
                such_as="",
            )

    def _native(self, intrinsic: str, *values: Operand, name: str = "") -> Value:
        """One of LLVM's own, which every target has for f16, bf16, f32 and f64."""
        operands = [as_value(self._k, value) for value in values]
        element = operands[0].type
        if element not in (f16, bf16, f32, f64):
            self._refuse(name or {"fabs": "abs"}.get(intrinsic, intrinsic), element)
        suffix = _SUFFIXES[element.llvm]
        return self._k.wrap(
            self._k.intrinsic(f"llvm.{intrinsic}.{suffix}", element, [operand.ir for operand in operands]), element
        )

    def _refuse(self, name: str, element: ElementType) -> NoReturn:
        rules.UNSUPPORTED_OPERATION.fail(operation=f"k.math.{name}", element=element, advice="convert with .to(f32)")

    def _of_row(self, row: Row, *values: Value) -> Value:
        return computed(self._k, row, **dict(zip("abc", values, strict=False)))

    def _ftz(self, ftz: bool | None, element: ElementType) -> bool:
        """As is said; else the policy's for f32, the only type that a policy flushes."""
        return self._k.math.ftz and element is f32 if ftz is None else ftz

    def _rounded(
        self, operation: str, rounding: str, ftz: bool | None, saturate: bool, relu: bool, *values: Value
    ) -> Value:
        element = values[0].type
        if element not in (f16, bf16, f32, f64):
            self._refuse(operation, element)
        if (
            operation == "fma"
            and element in (f32, f64)
            and (rounding, ftz, saturate, relu) == ("rn", None, False, False)
        ):
            return self._native("fma", *values)
        flags = (rounding, self._ftz(ftz, element), saturate, relu)
        return self._of_row(variant(operation, floats.arithmetic, operation, element.name, *flags), *values)

    def _machine(self, instruction: str, form: str, ftz: bool | None, *values: Value, name: str = "") -> Value:
        """The machine's own function, in one of its forms; of f16 and bf16 by f32 where it has none of them."""
        element = values[0].type
        if element not in (f16, bf16, f32, f64):
            self._refuse(name or instruction, element)
        if element in _HALVES and not floats.function_forms(instruction, element.name):
            wide = (value.to(f32) for value in values)
            return self._machine(instruction, form, ftz, *wide, name=name).to(element)
        flush = False if instruction == "tanh" else self._ftz(ftz, element)
        return self._of_row(variant(instruction, floats.function, instruction, element.name, form, flush), *values)

    def _function(
        self,
        name: str,
        value: Operand,
        accurate: str,
        fast: Callable[..., Value] | None,
        *more: Value,
        ftz: bool | None = None,
        approx: bool | None = None,
        **options: str,
    ) -> Value:
        """A function of f32, which f16 and bf16 are converted to: `fast`, or the one called `accurate`; of f64 that.

        Raises call.no-effect for an accurate one with an `ftz` that is not the kernel's.
        """
        operand = as_value(self._k, value)
        element = operand.type
        if element is f64:
            from nvbackend.builder.ops.math.accurate import of_f64

            self._check_double(name, approx, ftz)
            with self._k.llvm.of_line(caller_location()):
                arguments = [argument.ir for argument in (operand, *more)]
                return self._k.wrap(of_f64(accurate, self._k, *arguments, **options), f64)
        if element not in (f16, bf16, f32):
            self._refuse(name, element)
        singles = [argument.to(f32) for argument in (operand, *more)]
        if fast is not None:
            return fast(*singles).to(element)
        from nvbackend.builder.ops.math.accurate import of_f32

        self._flushes_as(name, ftz)
        with self._k.llvm.of_line(caller_location()):
            outcome = of_f32(accurate, self._k, *(argument.ir for argument in singles), **options)
        return self._k.wrap(outcome, f32).to(element)

    def _check_double(self, name: str, approx: bool | None, ftz: bool | None) -> None:
        """Raises value.operation for an approximation of f64, call.no-effect for an f64 that is to flush."""
        if approx:
            rules.UNSUPPORTED_OPERATION.fail(
                operation=f"k.math.{name}(approx=True)",
                element=f64,
                advice="leave out approx: the chip approximates f32 and halves alone; or convert with .to(f32)",
            )
        if ftz:
            rules.NO_EFFECT.fail(
                argument="ftz=True",
                call=f"k.math.{name} of f64",
                reason="f64 keeps its subnormal numbers",
                advice="leave it out",
            )

    def _logarithm(
        self, name: str, base: str, value: Operand, *, fast_unless_said: bool, approx: bool | None, ftz: bool | None
    ) -> Value:
        factor = _OF_LOG2[name]

        def fast(x: Value) -> Value:
            of_two = self._machine("lg2", "approx", ftz, x)
            return of_two if factor == 1 else self._product(of_two, factor, ftz)

        chosen = approx is None or approx if fast_unless_said else self._approx(approx)
        return self._function(name, value, "log", fast if chosen else None, ftz=ftz, approx=approx, base=base)

    def _wave(self, name: str, value: Operand, approx: bool | None, ftz: bool | None) -> Value:
        def fast(x: Value) -> Value:
            return self._machine(name, "approx", ftz, x)

        chosen = fast if self._approx(approx) else None
        return self._function(name, value, "wave", chosen, ftz=ftz, approx=approx, wave=name)

    def _product(self, x: Value, factor: Operand, ftz: bool | None) -> Value:
        return self._rounded("mul", "rn", ftz, False, False, x, as_value(self._k, factor, f32))

    def _exponential(self, x: Value, ftz: bool | None) -> Value:
        return self._machine("ex2", "approx", ftz, self._product(x, _LOG2_E, ftz))

    def _sigmoid(self, x: Value) -> Value:
        return self._machine("rcp", "approx", True, self._exponential(-x, None) + 1.0)

    def _silu(self, x: Value) -> Value:
        return x * self._sigmoid(x)

    def _gelu(self, x: Value) -> Value:
        return x * self._sigmoid(x * _GELU_SCALE * (x * x * _GELU_CUBIC + 1.0))
