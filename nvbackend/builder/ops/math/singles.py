"""The operations of which the accurate functions of f32 are made: each rounded once, none contracted with another.

So a GPU and the simulator compute the same bits, whatever the math policy of the kernel allows its operators.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.intrinsics.row.types import f32, u32

_FLOAT, _WORD, _WIDE = ir.FloatType(), ir.IntType(32), ir.IntType(64)


class Singles:
    """Operations on registers of f32, and on their bits as 32-bit words."""

    def __init__(self, k: Core) -> None:
        self._k = k

    # -- numbers ------------------------------------------------------------------------------------------------------

    def number(self, number: float) -> ir.Value:
        """A constant, which is an f32 exactly."""
        return ir.Constant(_FLOAT, number)

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a + b."""
        return self._k.llvm.fadd(a, b)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a - b."""
        return self._k.llvm.fsub(a, b)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a * b."""
        return self._k.llvm.fmul(a, b)

    def div(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a / b."""
        return self._k.llvm.fdiv(a, b)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c with one rounding."""
        return self._k.intrinsic("llvm.fma.f32", f32, [a, b, c])

    def neg(self, a: ir.Value) -> ir.Value:
        """-a."""
        return self._k.llvm.fneg(a)

    def abs(self, a: ir.Value) -> ir.Value:
        """|a|."""
        return self._k.intrinsic("llvm.fabs.f32", f32, [a])

    def negative(self, a: ir.Value) -> ir.Value:
        """Whether the sign is set."""
        return self.is_set(self.bits(a), 0x80000000)

    def copysign(self, size: ir.Value, sign: ir.Value) -> ir.Value:
        """|size| with the sign of `sign`."""
        return self._k.intrinsic("llvm.copysign.f32", f32, [size, sign])

    def trunc(self, a: ir.Value) -> ir.Value:
        """The integer next to a, towards zero."""
        return self._k.intrinsic("llvm.trunc.f32", f32, [a])

    def polynomial(self, coefficients: Sequence[float], x: ir.Value) -> ir.Value:
        """The polynomial with these coefficients, the constant one first, by Horner's rule."""
        value = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.number(coefficient))
        return value

    # -- choices ------------------------------------------------------------------------------------------------------

    def less(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The predicate a < b, which NaN fails."""
        return self._k.llvm.fcmp_ordered("<", a, b)

    def equal(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The predicate a == b, which NaN fails."""
        return self._k.llvm.fcmp_ordered("==", a, b)

    def different(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The predicate a != b, which holds for NaN."""
        return self._k.llvm.fcmp_unordered("!=", a, b)

    def same(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Whether two predicates are equal."""
        return self._k.llvm.icmp_unsigned("==", a, b)

    def both(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Whether both predicates hold."""
        return self._k.llvm.and_(a, b)

    def either(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Whether one of the predicates holds, or both."""
        return self._k.llvm.or_(a, b)

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """`yes` where the condition holds, else `no`."""
        return self._k.llvm.select(condition, yes, no)

    # -- words --------------------------------------------------------------------------------------------------------

    def word(self, number: int) -> ir.Value:
        """A constant of 32 bits."""
        return ir.Constant(_WORD, number)

    def bits(self, a: ir.Value) -> ir.Value:
        """The bits of a number."""
        return self._k.llvm.bitcast(a, _WORD)

    def single(self, word: ir.Value) -> ir.Value:
        """The number that has these bits."""
        return self._k.llvm.bitcast(word, _FLOAT)

    def plus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a + b of words."""
        return self._k.llvm.add(a, b)

    def minus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a - b of words."""
        return self._k.llvm.sub(a, b)

    def masked(self, a: ir.Value, mask: int) -> ir.Value:
        """The bits of a word that are in `mask`."""
        return self._k.llvm.and_(a, self.word(mask))

    def left(self, a: ir.Value, by: int) -> ir.Value:
        """A word, shifted to the left."""
        return self._k.llvm.shl(a, self.word(by))

    def right(self, a: ir.Value, by: int) -> ir.Value:
        """A word, shifted to the right; its sign moves in."""
        return self._k.llvm.ashr(a, self.word(by))

    def is_set(self, a: ir.Value, mask: int) -> ir.Value:
        """Whether a word has one of the bits in `mask`."""
        return self._k.llvm.icmp_unsigned("!=", self.masked(a, mask), self.word(0))

    def below(self, a: ir.Value, limit: int) -> ir.Value:
        """Whether a word, without a sign, is below `limit`."""
        return self._k.llvm.icmp_unsigned("<", a, self.word(limit))

    def at_least(self, a: ir.Value, limit: int) -> ir.Value:
        """Whether a word, without a sign, is `limit` or more."""
        return self._k.llvm.icmp_unsigned(">=", a, self.word(limit))

    def of_word(self, a: ir.Value) -> ir.Value:
        """The number that a word with a sign is, rounded."""
        return self._k.llvm.sitofp(a, _FLOAT)

    def funnel(self, high: ir.Value, low: ir.Value, by: ir.Value) -> ir.Value:
        """The upper word of the two, shifted to the left by the low five bits of `by`."""
        return self._k.intrinsic("llvm.fshl.i32", u32, [high, low, by])

    # -- products of 64 bits ------------------------------------------------------------------------------------------

    def wide(self, a: ir.Value) -> ir.Value:
        """A word without a sign, in 64 bits."""
        return self._k.llvm.zext(a, _WIDE)

    def wide_mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The low 64 bits of a product of 64-bit numbers."""
        return self._k.llvm.mul(a, b)

    def wide_add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a + b of 64-bit numbers."""
        return self._k.llvm.add(a, b)

    def wide_sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a - b of 64-bit numbers."""
        return self._k.llvm.sub(a, b)

    def wide_left(self, a: ir.Value, by: int) -> ir.Value:
        """64 bits, shifted to the left."""
        return self._k.llvm.shl(a, ir.Constant(_WIDE, by))

    def wide_right(self, a: ir.Value, by: int) -> ir.Value:
        """64 bits without a sign, shifted to the right."""
        return self._k.llvm.lshr(a, ir.Constant(_WIDE, by))

    def wide_number(self, number: int) -> ir.Value:
        """A constant of 64 bits."""
        return ir.Constant(_WIDE, number)

    def narrow(self, a: ir.Value) -> ir.Value:
        """The low word of 64 bits."""
        return self._k.llvm.trunc(a, _WORD)

    def of_wide(self, a: ir.Value) -> ir.Value:
        """The f32 nearest to a 64-bit number with a sign."""
        return self._k.llvm.sitofp(a, _FLOAT)

    def to_wide(self, a: ir.Value) -> ir.Value:
        """An f32 that is an integer, in 64 bits with a sign."""
        return self._k.llvm.fptosi(a, _WIDE)
