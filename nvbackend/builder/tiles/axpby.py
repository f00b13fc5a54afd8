"""The linear epilogue D = alpha * accumulator + beta * C, which CuTe calls axpby."""

from __future__ import annotations

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.types import ElementType, bf16, f16, f32, f64, s32

AXPBY_TYPES = Rule(
    id="epilogue.axpby-types",
    message="alpha * accumulator + beta * C cannot be computed from {accumulator} with C of {c} into D of {d}",
    fix="give C and D of {legal}",
    why="The bits would be read or written as another type's.",
    reference="CUTLASS include/cute/algorithm/axpby.hpp",
)
_FLOATS = (f32, f16, bf16, f64)


class Axpby:
    """The result for an element of an accumulator: alpha times it, plus beta times the element of C.

    If all operands are f64 or all are s32, it is computed in that type, otherwise in f32. If beta is the Python number
    0, C is not read; if it is 0 at run time, C is ignored, even a NaN.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        alpha: Operand,
        beta: Operand,
        accumulator: ElementType,
        d: ElementType,
        c: ElementType,
    ) -> None:
        own = accumulator in (s32, f64) and accumulator is d is c
        if not own and (accumulator is f64 or d not in _FLOATS[:3] or c not in _FLOATS[:3]):
            legal = accumulator if accumulator is f64 else ", ".join(map(str, _FLOATS[:3]))
            if accumulator is s32:
                legal = f"{legal}, or both of s32"
            AXPBY_TYPES.fail(accumulator=accumulator, c=c, d=d, legal=legal)
        self._k = k
        self._type = accumulator if own else f32
        self._alpha = as_value(k.core, alpha, self._type)
        self._beta = as_value(k.core, beta, self._type)
        self.d = d

    @property
    def reads_c(self) -> bool:
        """Whether C is read: beta is not the number 0."""
        return self._beta.constant is None or self._beta.constant != 0

    def of(self, x: Value, c: Value | None) -> Value:
        """The element of D; `c` is that of C, None where it is not read."""
        own = x.to(self._type)
        if c is None:
            return (own if self._alpha.constant == 1 else self._alpha * own).to(self.d)
        addend = c.to(self._type)
        if self._beta.constant is None:
            addend = self._k.select(self._beta == 0, 0, self._beta * addend)
        elif self._beta.constant != 1:
            addend = self._beta * addend
        if self._alpha.constant == 1:
            return (own + addend).to(self.d)
        total = self._k.math.fma(self._alpha, own, addend) if self._type.is_float else self._alpha * own + addend
        return total.to(self.d)
