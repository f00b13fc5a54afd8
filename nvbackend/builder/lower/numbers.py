"""Element types as llvmlite's, with bfloat, which llvmlite has no class for, and Python's numbers as constants."""

from __future__ import annotations

import math
import struct
import sys
from typing import NoReturn

from llvmlite import ir

from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import printed
from nvbackend.intrinsics.row.types import ElementType, f16, f64, pred, tf32

_LLVM_TYPES: dict[str, ir.Type] = {
    "i1": ir.IntType(1),
    "i8": ir.IntType(8),
    "i16": ir.IntType(16),
    "i32": ir.IntType(32),
    "i64": ir.IntType(64),
    "half": ir.HalfType(),
    "float": ir.FloatType(),
    "double": ir.DoubleType(),
}


_BFLOAT_SIGNIFICAND, _BFLOAT_LEAST = 8, -133
"""The bits of a bf16's significand, and the exponent of the last bit of its subnormal numbers."""


class _BFloatType(ir.HalfType):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite's IR layer has no class for."""

    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloatType)

    def __hash__(self) -> int:
        return hash("bfloat")

    def format_constant(self, value: float) -> str:
        """The nearest bf16, of two the even one, in LLVM's notation for bfloat: the upper half of an f32.

        It is rounded once: by way of the nearest f32, a number beside a tie would become the tie.
        """
        if math.isfinite(value):
            last = max(math.frexp(value)[1] - _BFLOAT_SIGNIFICAND, _BFLOAT_LEAST)
            value = math.copysign(math.ldexp(round(math.ldexp(value, -last)), last), value)
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return f"0xR{bits >> 16:04X}"


_BFloatType._create_instance()  # llvmlite's float types are singletons, made so
_LLVM_TYPES["bfloat"] = _BFloatType()


def llvm_type(element: ElementType) -> ir.Type:
    """The llvmlite type of an SSA value of `element`."""
    return _LLVM_TYPES[element.llvm]


Number = int | float | bool

_LARGEST = {
    "half": 65504.0,
    "bfloat": float.fromhex("0x1.fep127"),
    "float": float.fromhex("0x1.fffffep127"),
}
"""The largest finite numbers."""
_LARGEST_TF32 = float.fromhex("0x1.ffcp127")
_PRECISION = {"half": (11, -24), "bfloat": (8, -133), "float": (24, -149)}
"""The bits of the significand, and the exponent of the last bit of the subnormal numbers."""
_TF32_PRECISION = (11, -136)
_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def llvm_constant(given: Number, element: ElementType) -> ir.Constant:
    """A constant of `element`: integers in its range, no fractions for integer types (value.constant)."""
    if element.is_float:
        return ir.Constant(llvm_type(element), _float_constant(given, element))
    low, high = (
        (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if element.is_signed else (0, (1 << element.bits) - 1)
    )
    if not isinstance(given, int) or not low <= given <= high:
        not_a_value(given, element, f"an integer from {low} to {high}")
    return ir.Constant(llvm_type(element), int(given))


def not_a_value(given: Number, element: ElementType, allowed: str) -> NoReturn:
    """Raises value.constant for a number that `element` does not hold."""
    rules.CONSTANT_RANGE.fail(problem=f"{printed(given)} is not a value of {element}", allowed=allowed)


def wrapped_constant(number: int, element: ElementType) -> ir.Constant:
    """The constant that is left of `number` in the bits of an integer type."""
    number &= (1 << element.bits) - 1
    return ir.Constant(
        llvm_type(element),
        number - (1 << element.bits) if element.is_signed and number >> (element.bits - 1) else number,
    )


def wrapped(builder: ir.IRBuilder, value: ir.Value, element: ElementType) -> ir.Value:
    """What is left of `value`, in the register of an `element`, in the bits of that type."""
    spare = width(element) - element.bits if element.is_integer else 0
    if not spare:
        return value
    number = known_number(value)
    if isinstance(number, int):
        return wrapped_constant(number, element)
    if not element.is_signed:
        return builder.and_(value, ir.Constant(value.type, (1 << element.bits) - 1))
    shift = ir.Constant(value.type, spare)
    return builder.ashr(builder.shl(value, shift), shift)


def known_number(value: ir.Value, element: ElementType | None = None) -> Number | None:
    """The number that `value`, of `element`, is known to be at build time, None where it is not."""
    found = value.constant if isinstance(value, ir.Constant) else None
    if isinstance(found, int) and element is not None and (element.is_integer or element is pred):
        found = wrapped_constant(found, element).constant  # LLVM's constants of a type may be written either way
    return found if isinstance(found, (int, float)) else None


def width(element: ElementType) -> int:
    """The bits of an SSA value of `element`."""
    kind = llvm_type(element)
    return kind.width if isinstance(kind, ir.IntType) else _FLOAT_BITS[str(kind)]


def is_packed(element: ElementType) -> bool:
    """Whether values of `element` only come several to a register, so that no LLVM type is one of them."""
    return element.bits < f16.bits and not element.is_integer and element is not pred


def _float_constant(given: Number, element: ElementType) -> float:
    """`given` as a float, if `element` holds numbers of its size: LLVM would print another (value.constant)."""
    if is_packed(element):
        advice = "pack it on the host, and load it as bits"
        rules.UNSUPPORTED_OPERATION.fail(operation="a constant", element=element, advice=advice)
    largest = _LARGEST_TF32 if element is tf32 else _LARGEST.get(element.llvm, sys.float_info.max)
    try:
        number = _rounded(float(given), element)
    except OverflowError:  # past the largest double
        number = None
    if number is None or (largest < abs(number) and math.isfinite(given)):
        not_a_value(given, element, f"a number from -{largest} to {largest}")
    return number


def _rounded(number: float, element: ElementType) -> float:
    """The nearest number of `element`, of two the even one, of tf32 the one away from zero as cvt.rna gives."""
    if element is f64 or not math.isfinite(number):
        return number
    significand, least = _TF32_PRECISION if element is tf32 else _PRECISION[element.llvm]
    last = max(math.frexp(number)[1] - significand, least)
    steps = math.ldexp(abs(number), -last)
    nearest = math.floor(steps + 0.5) if element is tf32 else round(steps)
    return math.copysign(math.ldexp(nearest, last), number)
