"""The values of a print or an assertion as C promotes them: integers of 32 or 64 bits, and doubles."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import generic_address
from nvbackend.builder.core.memory import Address
from nvbackend.builder.lower.conversions import is_packed, llvm_type
from nvbackend.builder.ops.debug.formats import is_float
from nvbackend.builder.ops.debug.rules import VALUE
from nvbackend.builder.values.values import Arithmetic, Value, as_value
from nvbackend.diagnostics import printed
from nvbackend.diagnostics.boundary import plain_number
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, b1, e4m3, f64, pred, s32, s64, u32, u64, ue4m3, ue8m0
from nvbackend.isel.machine.assertions import ADDRESS

_I64, _DOUBLE = ir.IntType(64), ir.DoubleType()
_DOUBLE_BIAS, _DOUBLE_MANTISSA = 1023, 52
_NARROW = {"e4m3": (3, 7), "ue4m3": (3, 7), "e5m2": (2, 15), "e2m3": (3, 1), "e3m2": (2, 3), "e2m1": (1, 1)}
"""Bits of the mantissa and bias of the exponent (PTX ISA 5.2.3)."""
_ALL_ONES, _INFINITY_OF_E5M2 = 0x7F, 0x7C


@dataclass(frozen=True, slots=True)
class Shown:
    """A value to show: its `kind` is an element type, `ADDRESS`, or a value that is known when the kernel is built."""

    kind: object
    value: Value | None = None

    @property
    def element(self) -> ElementType:
        """The type by which C shows it."""
        return self.kind if isinstance(self.kind, ElementType) else u64


def shown_values(k: Core, call: str, values: Sequence[object]) -> list[Shown]:
    """What is to be shown. Raises debug.value for anything but values, addresses, numbers and text."""
    return [_shown(k, call, plain_number(value)) for value in values]


def _shown(k: Core, call: str, value: object) -> Shown:
    if isinstance(value, Arithmetic):
        own = as_value(k, value)
        if own.type.is_pair:  # C has no form of two numbers: the word of their bits
            own = own.bitcast(u32 if own.type.bits == u32.bits else u64)
        return Shown(own.type, own)
    if isinstance(value, Address):
        return Shown(ADDRESS, generic_address(k, value))
    if not isinstance(value, (int, float, str, ElementType)):
        advice = "show the elements one by one, such as tile[0], or str() of what is known when the kernel is built"
        VALUE.fail(call=call, given=printed(value), advice=advice)
    return Shown(str(value) if isinstance(value, ElementType) else value)


def promoted(k: Core, value: Value) -> ir.Value:
    """A value as C passes it to a function of any arguments."""
    kind = value.type
    if kind is pred or kind is b1:
        return k.llvm.zext(value.ir, ir.IntType(32)) if kind is pred else value.ir
    if is_packed(kind):
        return _narrow_float(k.llvm, kind, value.ir)
    if is_float(kind):
        return value.to(f64).ir
    wide = kind.bits > s32.bits
    return value.to((s64 if wide else s32) if kind.is_signed else (u64 if wide else u32)).ir


def as_word(k: Core, value: Value) -> ir.Value:
    """A value as the word of 64 bits that a record keeps of it."""
    register = promoted(k, value)
    if register.type == _DOUBLE:
        return k.llvm.bitcast(register, _I64)
    if register.type == _I64:
        return register
    return (k.llvm.sext if value.type.is_signed else k.llvm.zext)(register, _I64)


def _narrow_float(builder: ir.IRBuilder, kind: ElementType, bits: ir.Value) -> ir.Value:
    """A float of 8 bits or less, or a scale factor, in the low bits of a register, as a double.

    No chip has all of these conversions. The bits at the place of a double's are the number but for the bias, which a
    multiplication by a power of two corrects, of subnormal numbers too.
    """

    def number(value: int) -> ir.Constant:
        return ir.Constant(_I64, value)

    nan = ir.Constant(_DOUBLE, float("nan"))
    wide = builder.zext(bits, _I64)
    if kind is ue8m0:
        exponent = builder.add(builder.and_(wide, number(0xFF)), number(_DOUBLE_BIAS - 127))
        power = builder.bitcast(builder.shl(exponent, number(_DOUBLE_MANTISSA)), _DOUBLE)
        is_nan = builder.icmp_unsigned("==", bits, ir.Constant(llvm_type(kind), 0xFF))
        return builder.select(is_nan, nan, power)
    mantissa, bias = _NARROW[kind.name]
    sign = kind.bits - 1
    magnitude = builder.and_(wide, number((1 << sign) - 1))
    shifted = builder.bitcast(builder.shl(magnitude, number(_DOUBLE_MANTISSA - mantissa)), _DOUBLE)
    result = builder.fmul(shifted, ir.Constant(_DOUBLE, 2.0 ** (_DOUBLE_BIAS - bias)))
    if kind in (e4m3, ue4m3):
        result = builder.select(builder.icmp_unsigned("==", magnitude, number(_ALL_ONES)), nan, result)
    if kind.name == "e5m2":
        infinity = ir.Constant(_DOUBLE, float("inf"))
        result = builder.select(builder.icmp_unsigned("==", magnitude, number(_INFINITY_OF_E5M2)), infinity, result)
        result = builder.select(builder.icmp_unsigned(">", magnitude, number(_INFINITY_OF_E5M2)), nan, result)
    if kind is ue4m3:
        return result
    negative = builder.icmp_unsigned("!=", builder.and_(wide, number(1 << sign)), number(0))
    return builder.select(negative, builder.fneg(result), result)
