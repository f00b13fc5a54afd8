"""What Python's operators emit: which types have them, what is known at build time, and the LLVM instructions.

Operands are LLVM values of one element type. What needs no instruction is an operand itself, or a constant.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir

from nvbackend.builder import rules
from nvbackend.builder.numbers import Number, is_packed, known_number, llvm_constant, wrapped_constant
from nvbackend.intrinsics.types import ElementType, pred


class _Operator(NamedTuple):
    """The IRBuilder's methods for integers and for floats, and the same on numbers of Python."""

    integer: str | None
    floating: str | None
    fold: Callable[[int, int], int] | None


_OPERATORS = {
    "+": _Operator("add", "fadd", operator.add),
    "-": _Operator("sub", "fsub", operator.sub),
    "*": _Operator("mul", "fmul", operator.mul),
    "/": _Operator(None, "fdiv", None),
    "&": _Operator("and_", None, operator.and_),
    "|": _Operator("or_", None, operator.or_),
    "^": _Operator("xor", None, operator.xor),
    "<<": _Operator("shl", None, operator.lshift),
    ">>": _Operator("lshr", None, operator.rshift),
}
_SHIFT_SIGNED = "ashr"
_OF_PREDICATES = "&|^"
_SHIFTS = ("<<", ">>")


def binary(builder: ir.IRBuilder, operation: str, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a operation b`. Raises value.operation where the type has none, value.constant for a shift past its bits."""
    integer, floating, fold = _OPERATORS[operation]
    method = floating if element.is_float else integer
    if method is None or (element is pred and operation not in _OF_PREDICATES):
        advice = "use // for integers" if operation == "/" else "convert the operands with .to() first"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    if is_packed(element):
        advice = "convert the operands to f16 or f32 first, with an instruction that unpacks them"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    x, y = known_number(a), known_number(b)
    if operation in _SHIFTS and isinstance(y, int) and not 0 <= y < element.bits:
        rules.CONSTANT_RANGE.fail(given=y, element=element, allowed=f"a shift from 0 to {element.bits - 1}")
    if fold is not None and not element.is_float:
        if isinstance(x, int) and isinstance(y, int):
            return wrapped_constant(fold(x, y), element)
        if _is_identity(operation, y):
            return a
        if _is_identity(operation, x) and operation in "+|^":
            return b
        if operation == "*" and (x == 1 or y == 1):
            return b if x == 1 else a
    if operation == ">>" and element.is_signed:
        method = _SHIFT_SIGNED
    return getattr(builder, method)(a, b)


def _is_identity(operation: str, number: Number | None) -> bool:
    return number is not None and number == 0 and operation in ("+", "-", "|", "^", *_SHIFTS)


def quotient(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a // b` of integers, rounded towards minus infinity (value.operation, value.constant)."""
    x, y = _division(element, a, b)
    if isinstance(x, int) and isinstance(y, int):
        return llvm_constant(x // y, element)
    if _is_power_of_two(y):
        return binary(builder, ">>", element, a, llvm_constant(int(y or 1).bit_length() - 1, element))
    if not element.is_signed:
        return builder.udiv(a, b)
    towards_zero = builder.sdiv(a, b)
    inexact = _is_inexact(builder, element, a, b)
    return builder.select(inexact, builder.sub(towards_zero, llvm_constant(1, element)), towards_zero)


def remainder(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a % b`: what the quotient leaves; it has the divisor's sign (value.operation, value.constant)."""
    x, y = _division(element, a, b)
    if isinstance(x, int) and isinstance(y, int):
        return llvm_constant(x % y, element)
    if _is_power_of_two(y):
        return binary(builder, "&", element, a, llvm_constant(int(y or 1) - 1, element))
    if not element.is_signed:
        return builder.urem(a, b)
    rest = builder.srem(a, b)
    inexact = _is_inexact(builder, element, a, b)
    return builder.select(inexact, builder.add(rest, b), rest)


def _division(element: ElementType, a: ir.Value, b: ir.Value) -> tuple[Number | None, Number | None]:
    """What is known of the operands of // and %, once these are integers."""
    if not element.is_integer:
        rules.UNSUPPORTED_OPERATION.fail(operation="// or %", element=element, advice="use / for floats")
    divisor = known_number(b)
    if divisor == 0:
        rules.CONSTANT_RANGE.fail(given=0, element=element, allowed="a divisor that is not 0")
    return known_number(a), divisor


def _is_power_of_two(number: Number | None) -> bool:
    return isinstance(number, int) and number > 0 and number & (number - 1) == 0


def _is_inexact(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """Whether LLVM's division, towards zero, is not the floor: a rest is left, and the signs differ."""
    rest, zero = builder.srem(a, b), llvm_constant(0, element)
    is_left = builder.icmp_signed("!=", rest, zero)
    return builder.and_(is_left, builder.icmp_signed("<", builder.xor(rest, b), zero))


def compare(builder: ir.IRBuilder, operation: str, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """The predicate `a operation b`; floats that are no numbers are unequal to all, and in no order."""
    if element.is_float:
        emit = builder.fcmp_unordered if operation == "!=" else builder.fcmp_ordered
    else:
        emit = builder.icmp_signed if element.is_signed else builder.icmp_unsigned
    return emit(operation, a, b)
