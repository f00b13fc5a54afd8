"""What Python's operators emit: the types that have them, constant folding, and the LLVM instructions.

Operands are LLVM values of one element type. A result that needs no instruction is an operand itself, or a constant.
`//` and `%` are defined for every dividend and divisor. LLVM's own are undefined for a divisor of 0 and for the one
quotient that does not fit, and LLVM would remove a program's guard around such a division.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir

from nvbackend.builder.lower.conversions import (
    Number,
    is_packed,
    known_number,
    llvm_constant,
    llvm_type,
    width,
    wrapped,
    wrapped_constant,
)
from nvbackend.builder.lower.lowering import declare
from nvbackend.builder.scopes import rules
from nvbackend.intrinsics.row.types import ElementType, pred, tf32


def quotient(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a // b` of integers, rounded towards minus infinity; all ones for a `b` of 0 (value.operation).

    The quotient of the lowest number and -1 is the lowest number again, as integers wrap around.
    """
    x, y = _division("//", element, a, b)
    if y == 0:
        return wrapped_constant(-1, element)
    if isinstance(x, int) and isinstance(y, int):
        return wrapped_constant(x // y, element)
    if (shift := _exponent(y)) is not None:
        return binary(builder, ">>", element, a, llvm_constant(shift, element))
    if y == -1:
        return binary(builder, "-", element, llvm_constant(0, element), a)
    divisor, is_zero = _divisor(builder, element, a, b)
    if not element.is_signed:
        return _unless_zero(builder, element, is_zero, builder.udiv(a, divisor))
    towards_zero = builder.sdiv(a, divisor)
    inexact = _is_inexact(builder, element, a, divisor)
    floor = builder.select(inexact, builder.sub(towards_zero, llvm_constant(1, element)), towards_zero)
    return _unless_zero(builder, element, is_zero, floor)


def remainder(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a % b`: the remainder, which has the divisor's sign; all ones for a `b` of 0 (value.operation)."""
    x, y = _division("%", element, a, b)
    if y == 0:
        return wrapped_constant(-1, element)
    if isinstance(x, int) and isinstance(y, int):
        return wrapped_constant(x % y, element)
    if (bits := _exponent(y)) is not None:
        return binary(builder, "&", element, a, llvm_constant((1 << bits) - 1, element))
    if y == -1:
        return llvm_constant(0, element)
    divisor, is_zero = _divisor(builder, element, a, b)
    if not element.is_signed:
        return _unless_zero(builder, element, is_zero, builder.urem(a, divisor))
    rest = builder.srem(a, divisor)
    inexact = _is_inexact(builder, element, a, divisor)
    return _unless_zero(builder, element, is_zero, builder.select(inexact, builder.add(rest, divisor), rest))


def _division(operation: str, element: ElementType, a: ir.Value, b: ir.Value) -> tuple[Number | None, Number | None]:
    """The constants among the operands of // and %, which must be integers."""
    if not element.is_integer:
        _check_arithmetic(operation, element)
        advice = _OF_FLOATS[operation] if element.is_float else _CONVERT
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    return known_number(a, element), known_number(b, element)


def check_written(operation: str, element: ElementType, number: Number) -> None:
    """Raises value.constant for a divisor of 0, or a shift past the bits, that a program has as a number.

    A value that is known to be such a number gives what it gives at run time: a program may guard it, or drop it.
    """
    if not element.is_integer:
        return
    if operation in _DIVISIONS and number == 0:
        rules.CONSTANT_RANGE.fail(problem="division by the constant 0", allowed="a divisor that is not 0")
    if operation in _SHIFTS and not 0 <= number < element.bits:
        problem = f"a shift by {number} of a type of {element.bits} bits"
        rules.CONSTANT_RANGE.fail(problem=problem, allowed=f"a shift from 0 to {element.bits - 1}")


def _exponent(number: Number | None) -> int | None:
    """That of a power of two, for a number that is not 0; None for any other."""
    return number.bit_length() - 1 if isinstance(number, int) and number & -number == number else None


def _divisor(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """A divisor for which LLVM's division is defined, and whether `b` is 0. A constant, which is not 0, stays as it is.

    The lowest number divided by 1 is itself with remainder 0: what -1 gives where integers wrap around.
    """
    if known_number(b) is not None:
        return b, None
    zero, one = llvm_constant(0, element), llvm_constant(1, element)
    is_zero = unusable = builder.icmp_unsigned("==", b, zero)
    lowest = -(1 << element.bits - 1)
    if element.is_signed and known_number(a, element) in (None, lowest):
        minus_one, least = llvm_constant(-1, element), llvm_constant(lowest, element)
        overflows = builder.and_(builder.icmp_signed("==", b, minus_one), builder.icmp_signed("==", a, least))
        unusable = builder.or_(is_zero, overflows)
    return builder.select(unusable, one, b), is_zero


def _unless_zero(builder: ir.IRBuilder, element: ElementType, is_zero: ir.Value | None, result: ir.Value) -> ir.Value:
    if is_zero is None:
        return result
    ones = wrapped_constant(-1, element)
    return builder.select(is_zero, ones, wrapped(builder, result, element))


def _is_inexact(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """Whether truncating division differs from the floor: the remainder is not 0 and the signs differ."""
    rest, zero = builder.srem(a, b), llvm_constant(0, element)
    is_left = builder.icmp_signed("!=", rest, zero)
    return builder.and_(is_left, builder.icmp_signed("<", builder.xor(rest, b), zero))


class _Operator(NamedTuple):
    """The IRBuilder's methods for integers and for floats."""

    integer: str | None
    floating: str | None


_OPERATORS = {
    "+": _Operator("add", "fadd"),
    "-": _Operator("sub", "fsub"),
    "*": _Operator("mul", "fmul"),
    "/": _Operator(None, "fdiv"),
    "&": _Operator("and_", None),
    "|": _Operator("or_", None),
    "^": _Operator("xor", None),
    "<<": _Operator("shl", None),
    ">>": _Operator("lshr", None),
}
_FOLDS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
"""Integer operations on Python numbers, for constant folding."""
_SHIFT_SIGNED = "ashr"
_OF_PREDICATES = "&|^"
_SHIFTS, _DIVISIONS = ("<<", ">>"), ("//", "%")
_GROWING = ("+", "-", "*", "<<")
"""Operations whose result may need more bits than the operands."""
_LEAST_SHIFT, _AMOUNT = 16, 32
"""The bits of the narrowest shift, and of every shift's amount (PTX ISA 9.7.8, shl)."""

_CONVERT = "convert the operands with .to() first"
_OF_FLOATS = {
    "//": "write k.math.floor(x / y)",
    "%": "write x - y * k.math.floor(x / y), whose sign is that of y, or with k.math.trunc, whose sign is that of x",
}
"""What to write for the operators that floats do not have."""


def binary(
    builder: ir.IRBuilder,
    operation: str,
    element: ElementType,
    a: ir.Value,
    b: ir.Value,
    flags: tuple[str, ...] = (),
) -> ir.Value:
    """`a operation b`. Raises value.operation if the type lacks it.

    `flags` are LLVM's for floats: what it may do with the operation.
    """
    integer, floating = _OPERATORS[operation]
    method = floating if element.is_float else integer
    if method is None or (element is pred and operation not in _OF_PREDICATES):
        advice = "use // for integers" if operation == "/" else _CONVERT
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    _check_arithmetic(operation, element)
    x, y = known_number(a, element), known_number(b, element)
    if operation in _SHIFTS and isinstance(y, int) and not 0 <= y < element.bits:  # the amount is not signed
        x = x if operation == ">>" and element.is_signed else 0
        y, b = element.bits - 1, wrapped_constant(element.bits - 1, element)
    if not element.is_float:
        if isinstance(x, int) and isinstance(y, int):
            return wrapped_constant(_FOLDS[operation](x, y), element)
        if _is_identity(operation, y):
            return a
        if _is_identity(operation, x) and operation in "+|^":
            return b
        if operation == "*" and (x == 1 or y == 1):
            return b if x == 1 else a
    if operation in _SHIFTS and y is None:
        return _shifted(builder, operation, element, a, b)
    if operation == ">>" and element.is_signed:
        method = _SHIFT_SIGNED
    result = getattr(builder, method)(a, b, flags=flags) if element.is_float else getattr(builder, method)(a, b)
    return wrapped(builder, result, element) if operation in _GROWING else result


def _check_arithmetic(operation: str, element: ElementType) -> None:
    if is_packed(element):
        advice = "convert the operands to f16 or f32 first, with an instruction that unpacks them"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    if element.is_pair:
        advice = f'k.packed computes with pairs, as in k.packed.add("{element}", a, b); .bitcast gives its bits'
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    if element is tf32:
        advice = "convert the operands to f32 first: .to(f32)"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)


def _is_identity(operation: str, number: Number | None) -> bool:
    return number is not None and number == 0 and operation in ("+", "-", "|", "^", *_SHIFTS)


def negated(builder: ir.IRBuilder, element: ElementType, a: ir.Value) -> ir.Value:
    """`-a`; of a float only the sign bit changes, so that 0.0 becomes -0.0 (value.operation)."""
    if not element.is_float or element is tf32 or is_packed(element):
        zero = wrapped_constant(0, element) if element.is_integer else a
        return binary(builder, "-", element, zero, a)
    number = known_number(a)
    return builder.fneg(a) if number is None else llvm_constant(-number, element)


def _shifted(builder: ir.IRBuilder, operation: str, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """A shift by a run-time amount, which is unsigned. As in PTX, an amount past the bits shifts all of them out.

    LLVM's shifts are undefined there. LLVM selects one instruction, shl or shr, for the select if the amount has 32
    bits. Of a wider amount it would look at the low 32 bits alone, so that is shifted in two halves, with no select.
    """
    bits, arithmetic = width(element), operation == ">>" and element.is_signed
    kind = a.type
    if element.is_signed and element.bits < bits:
        b = builder.and_(b, ir.Constant(kind, (1 << element.bits) - 1))  # the amount is not signed
    if bits < _LEAST_SHIFT:
        kind, bits = ir.IntType(_LEAST_SHIFT), _LEAST_SHIFT
        extend = builder.sext if arithmetic else builder.zext
        a, b = extend(a, kind), builder.zext(b, kind)
    shift = builder.shl if operation == "<<" else builder.lshr
    if arithmetic:
        moved = builder.ashr(a, _least(builder, b, bits - 1))
    elif bits > _AMOUNT:
        amount = _least(builder, b, bits)
        half = builder.lshr(amount, ir.Constant(kind, 1))
        moved = shift(shift(a, half), builder.sub(amount, half))
    else:
        is_within = builder.icmp_unsigned("<", b, ir.Constant(kind, bits))
        moved = builder.select(is_within, shift(a, b), ir.Constant(kind, 0))
    own = llvm_type(element)
    return wrapped(builder, moved if moved.type == own else builder.trunc(moved, own), element)


def _least(builder: ir.IRBuilder, amount: ir.Value, limit: int) -> ir.Value:
    least = declare(builder.module, f"llvm.umin.{amount.type}", amount.type, [amount.type, amount.type])
    return builder.call(least, [amount, ir.Constant(amount.type, limit)])


def compare(builder: ir.IRBuilder, operation: str, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """The predicate `a operation b`; NaN is unequal to everything and unordered (value.operation)."""
    _check_arithmetic(operation, element)
    if element.is_float:
        emit = builder.fcmp_unordered if operation == "!=" else builder.fcmp_ordered
    else:
        emit = builder.icmp_signed if element.is_signed else builder.icmp_unsigned
    return emit(operation, a, b)
