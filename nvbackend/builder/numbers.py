"""Python numbers as LLVM constants, and what element types are as LLVM types."""

from __future__ import annotations

import math
import sys

from llvmlite import ir

from nvbackend.builder import rules
from nvbackend.builder.llvm_types import llvm_type
from nvbackend.intrinsics.types import ElementType, f16, pred

Number = int | float | bool

_LARGEST = {
    "half": 65504.0,
    "bfloat": float.fromhex("0x1.fep127"),
    "float": float.fromhex("0x1.fffffep127"),
}
"""The largest finite numbers."""
_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def llvm_constant(given: Number, element: ElementType) -> ir.Constant:
    """A constant of `element`: integers in its range, no fractions for integer types (value.constant)."""
    if element.is_float:
        return ir.Constant(llvm_type(element), _float_constant(given, element))
    low, high = (
        (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if element.is_signed else (0, (1 << element.bits) - 1)
    )
    if not isinstance(given, int) or not low <= given <= high:
        rules.CONSTANT_RANGE.fail(given=given, element=element, allowed=f"an integer from {low} to {high}")
    return ir.Constant(llvm_type(element), int(given))


def wrapped_constant(number: int, element: ElementType) -> ir.Constant:
    """The constant that is left of `number` in the bits of an integer type."""
    number &= (1 << element.bits) - 1
    return ir.Constant(
        llvm_type(element),
        number - (1 << element.bits) if element.is_signed and number >> (element.bits - 1) else number,
    )


def known_number(value: ir.Value) -> Number | None:
    """The number that `value` is known to be at build time, None where it is not."""
    found = value.constant if isinstance(value, ir.Constant) else None
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
    largest = _LARGEST.get(element.llvm, sys.float_info.max)
    if largest < abs(given) != math.inf:
        rules.CONSTANT_RANGE.fail(given=given, element=element, allowed=f"a number from -{largest} to {largest}")
    return float(given)
