"""k.packed: arithmetic on two f16, bf16 or f32 in one register."""

from __future__ import annotations

from nvbackend.builder.core.instructions import computed
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.variables import pair_of
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Arithmetic, Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.arithmetic import packed
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, bf16, bf16x2, f16, f16x2, f32, f32x2
from nvbackend.isel.target.target import variant

_PAIRS = {f16: f16x2, bf16: bf16x2, f32: f32x2}
"""The type of a pair, by its elements."""


@user_facing
class PackedOperations(Noun):
    """Pairs in one register (PTX ISA 9.7.3, 9.7.4): "f16x2" and "bf16x2" of 32 bits, "f32x2" of 64 (sm_100 and later).

    The first argument names the pair; the lower half is its first element. Pairs have a type, nvb.f16x2, bf16x2 or
    f32x2, also as elements of a `Pointer`; `.bitcast(nvb.u32)` gives the bits of one. A u32 (or u64 of f32x2) is taken
    as the bits of what the call names. `ftz` (f16x2, f32x2) makes subnormal operands and results 0, and left out it is
    of f32x2 that of the kernel's math policy; `saturate` (f16x2) clamps to 0 to 1, `relu` (fma of f16x2 and bf16x2)
    makes negative results 0. Raises value.type for a pair of another type, instruction.variant for what a pair does not
    have, target.feature where the target does not have it.
    """

    __noun__ = "packed"
    __usual__ = "fma"

    # -- pairs and their elements -------------------------------------------------------------------------------------

    def pack(self, low: Operand, high: Operand) -> Value:
        """The pair of two values of f16, bf16 or f32. It rounds nothing: k.convert.pack rounds two of f32."""
        first, second = pair_of(self._k, "pack", low, high)
        pair = self._pair_of(first.type)
        word, half = _word(pair), BY_NAME[f"u{first.type.bits}"]
        bits = first.bitcast(half).to(word) | (second.bitcast(half).to(word) << first.type.bits)
        return bits.bitcast(pair)

    def unpack(self, pair: str, value: Operand) -> tuple[Value, Value]:
        """The lower and the upper element of a pair."""
        kind = BY_NAME[str(variant("unpack", packed.arithmetic, "add", pair).axes["pair"])]
        element = BY_NAME[kind.name.removesuffix("x2")]
        word, half = self._held(kind, value).bitcast(_word(kind)), BY_NAME[f"u{element.bits}"]
        return word.to(half).bitcast(element), (word >> element.bits).to(half).bitcast(element)

    def broadcast(self, value: Operand) -> Value:
        """The pair whose elements are both `value`, an f16, bf16 or f32."""
        return self.pack(value, value)

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def add(
        self,
        pair: str,
        a: Operand,
        b: Operand,
        *,
        rounding: str = "rn",
        ftz: bool | None = None,
        saturate: bool = False,
    ) -> Value:
        """a + b; bf16x2 from sm_90 on. `rounding` as of `fma`. PTX ISA 9.7.3, 9.7.4 (add)."""
        return self._rounded("add", pair, rounding, ftz, saturate, False, a, b)

    def sub(
        self,
        pair: str,
        a: Operand,
        b: Operand,
        *,
        rounding: str = "rn",
        ftz: bool | None = None,
        saturate: bool = False,
    ) -> Value:
        """a - b; bf16x2 from sm_90 on. `rounding` as of `fma`. PTX ISA 9.7.3, 9.7.4 (sub)."""
        return self._rounded("sub", pair, rounding, ftz, saturate, False, a, b)

    def mul(
        self,
        pair: str,
        a: Operand,
        b: Operand,
        *,
        rounding: str = "rn",
        ftz: bool | None = None,
        saturate: bool = False,
    ) -> Value:
        """a * b; bf16x2 from sm_90 on. `rounding` as of `fma`. PTX ISA 9.7.3, 9.7.4 (mul)."""
        return self._rounded("mul", pair, rounding, ftz, saturate, False, a, b)

    def fma(
        self,
        pair: str,
        a: Operand,
        b: Operand,
        c: Operand,
        *,
        rounding: str = "rn",
        ftz: bool | None = None,
        saturate: bool = False,
        relu: bool = False,
    ) -> Value:
        """a * b + c with one rounding; bf16x2 from sm_80 on.

        `rounding`: to nearest even, and of f32x2 also "rz", "rm" and "rp". PTX ISA 9.7.3, 9.7.4 (fma).
        """
        return self._rounded("fma", pair, rounding, ftz, saturate, relu, a, b, c)

    def min(self, pair: str, a: Operand, b: Operand, *, nan: bool = False, ftz: bool | None = None) -> Value:
        """The lesser of each two elements; a number wins over NaN; f16x2 and bf16x2, from sm_80 on.

        With `nan`, NaN where either is NaN. PTX ISA 9.7.4 (min).
        """
        return self._of(variant("min", packed.extreme, "min", pair, bool(ftz), nan), a, b)

    def max(self, pair: str, a: Operand, b: Operand, *, nan: bool = False, ftz: bool | None = None) -> Value:
        """The greater of each two elements; a number wins over NaN; f16x2 and bf16x2, from sm_80 on.

        With `nan`, NaN where either is NaN. PTX ISA 9.7.4 (max).
        """
        return self._of(variant("max", packed.extreme, "max", pair, bool(ftz), nan), a, b)

    def abs(self, pair: str, value: Operand) -> Value:
        """Both elements without their signs; f16x2, and bf16x2 from sm_80 on. PTX ISA 9.7.4 (abs)."""
        return self._of(variant("abs", packed.sign, "abs", pair), value)

    def neg(self, pair: str, value: Operand) -> Value:
        """Both elements with the other sign; f16x2, and bf16x2 from sm_80 on. PTX ISA 9.7.4 (neg)."""
        return self._of(variant("neg", packed.sign, "neg", pair), value)

    def compare(self, pair: str, relation: str, a: Operand, b: Operand) -> Value:
        """A pair with 1.0 for elements that have the relation, else 0.0; f16x2, and bf16x2 from sm_90 on.

        "eq", "ne", "lt", "le", "gt", "ge", which NaN fails; with a "u" after, which NaN has; "num" and "nan": neither
        or one of them is NaN. PTX ISA 9.7.6 (set).
        """
        return self._of(variant("set", packed.compare, relation, pair), a, b)

    def exp2(self, pair: str, value: Operand) -> Value:
        """2 to each element: ex2.approx of f16x2 (off by 2**-9.9 of it), and of bf16x2 from sm_90 on (2**-7).

        PTX ISA 9.7.4 (ex2).
        """
        return self._of(variant("ex2", packed.function, "ex2", pair), value)

    def tanh(self, pair: str, value: Operand) -> Value:
        """The hyperbolic tangents: tanh.approx of f16x2 (off by 2**-10.987), and of bf16x2 from sm_90 on (2**-8).

        PTX ISA 9.7.4 (tanh).
        """
        return self._of(variant("tanh", packed.function, "tanh", pair), value)

    # -- how they are emitted -----------------------------------------------------------------------------------------

    def _pair_of(self, element: ElementType) -> ElementType:
        if element not in _PAIRS:
            rules.UNSUPPORTED_OPERATION.fail(
                operation="k.packed.pack", element=element, advice="convert to f16, bf16 or f32 first"
            )
        return _PAIRS[element]

    def _rounded(
        self, operation: str, pair: str, rounding: str, ftz: bool | None, saturate: bool, relu: bool, *values: Operand
    ) -> Value:
        flushes = self._k.math.ftz and pair == f32x2.name if ftz is None else ftz
        row = variant(operation, packed.arithmetic, operation, pair, rounding, flushes, saturate, relu)
        return self._of(row, *values)

    def _held(self, pair: ElementType, value: Operand) -> Value:
        """`value`, a pair or its bits."""
        if isinstance(value, Arithmetic) and value.type is _word(pair):
            return as_value(self._k, value).bitcast(pair)
        return as_value(self._k, value, pair)

    def _of(self, row: Row, *values: Operand) -> Value:
        held = [self._held(row.outputs[0].type, value) for value in values]
        return computed(self._k, row, **dict(zip("abc", held, strict=False)))


def _word(pair: ElementType) -> ElementType:
    """The integer of the same bits."""
    return BY_NAME[f"u{pair.bits}"]
