"""The operations of which the functions of f64 are made: as those of f32, on registers of twice the width."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.ops.math.singles import Singles
from nvbackend.intrinsics.row.types import f64

_DOUBLE, _WIDE, _PRODUCT = ir.DoubleType(), ir.IntType(64), ir.IntType(128)
_BIAS, _FRACTION = 1023, 52


class Doubles(Singles):
    """Operations on registers of f64, and on their bits as 64-bit numbers."""

    def number(self, number: float) -> ir.Value:
        """A constant."""
        return ir.Constant(_DOUBLE, number)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c with one rounding."""
        return self._k.intrinsic("llvm.fma.f64", f64, [a, b, c])

    def abs(self, a: ir.Value) -> ir.Value:
        """|a|."""
        return self._k.intrinsic("llvm.fabs.f64", f64, [a])

    def copysign(self, size: ir.Value, sign: ir.Value) -> ir.Value:
        """|size| with the sign of `sign`."""
        return self._k.intrinsic("llvm.copysign.f64", f64, [size, sign])

    def trunc(self, a: ir.Value) -> ir.Value:
        """The integer next to a, towards zero."""
        return self._k.intrinsic("llvm.trunc.f64", f64, [a])

    # -- bits ---------------------------------------------------------------------------------------------------------

    def bits(self, a: ir.Value) -> ir.Value:
        """The 64 bits of a number."""
        return self._k.llvm.bitcast(a, _WIDE)

    def double(self, bits: ir.Value) -> ir.Value:
        """The number that has these bits."""
        return self._k.llvm.bitcast(bits, _DOUBLE)

    def negative(self, a: ir.Value) -> ir.Value:
        """Whether the sign is set."""
        return self._k.llvm.icmp_signed("<", self.bits(a), self.wide_number(0))

    def wide_masked(self, a: ir.Value, mask: int) -> ir.Value:
        """The bits that are in `mask`."""
        return self._k.llvm.and_(a, self.wide_number(mask))

    def wide_halved(self, a: ir.Value) -> ir.Value:
        """Half of a 64-bit number with a sign, rounded down."""
        return self._k.llvm.ashr(a, self.wide_number(1))

    def wide_at_least(self, a: ir.Value, limit: int) -> ir.Value:
        """Whether 64 bits, without a sign, are `limit` or more."""
        return self._k.llvm.icmp_unsigned(">=", a, self.wide_number(limit))

    def has_bit(self, a: ir.Value, place: int) -> ir.Value:
        """Whether a 64-bit number has this bit."""
        return self._k.llvm.icmp_unsigned("!=", self.wide_masked(a, 1 << place), self.wide_number(0))

    def power_of_two(self, n: ir.Value) -> ir.Value:
        """2**n, which is a normal number."""
        return self.double(self.wide_left(self.wide_add(n, self.wide_number(_BIAS)), _FRACTION))

    def of_wide(self, a: ir.Value) -> ir.Value:
        """The f64 nearest to a 64-bit number with a sign."""
        return self._k.llvm.sitofp(a, _DOUBLE)

    def wide_funnel(self, high: ir.Value, low: ir.Value, by: ir.Value) -> ir.Value:
        """The upper 64 bits of the two, shifted to the left by the low six bits of `by`."""
        by = self.wide_masked(by, 63)
        down = self._k.llvm.sub(self.wide_number(63), by)
        rest = self._k.llvm.lshr(self._k.llvm.lshr(low, self.wide_number(1)), down)
        return self._k.llvm.or_(self._k.llvm.shl(high, by), rest)

    # -- 128 bits -----------------------------------------------------------------------------------------------------

    def product(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The 128 bits of a product without a sign."""
        return self._k.llvm.mul(self._k.llvm.zext(a, _PRODUCT), self._k.llvm.zext(b, _PRODUCT))

    def high_of(self, a: ir.Value) -> ir.Value:
        """The upper 64 bits of 128."""
        return self._k.llvm.trunc(self._k.llvm.lshr(a, ir.Constant(_PRODUCT, 64)), _WIDE)

    def low_of(self, a: ir.Value) -> ir.Value:
        """The lower 64 bits of 128."""
        return self._k.llvm.trunc(a, _WIDE)

    def in_product(self, a: ir.Value) -> ir.Value:
        """64 bits without a sign in the lower half of 128."""
        return self._k.llvm.zext(a, _PRODUCT)
