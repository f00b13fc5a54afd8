"""Division of integers: what `//` and `%` emit, defined for every dividend and divisor.

LLVM's own are undefined for a divisor of 0, and for the one quotient that does not fit: a guard that the program has
around a division would be taken out, as it could only be false where the division has no meaning.
"""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.lower.expressions import binary
from nvbackend.builder.lower.numbers import Number, known_number, llvm_constant, wrapped, wrapped_constant
from nvbackend.builder.scopes import rules
from nvbackend.intrinsics.row.types import ElementType


def quotient(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a // b` of integers, rounded towards minus infinity; all ones for a `b` of 0 (value.operation, value.constant).

    The quotient of the lowest number and -1 is the lowest number again, as integers wrap around.
    """
    x, y = _division(element, a, b)
    if isinstance(x, int) and isinstance(y, int):
        return wrapped_constant(x // y, element)
    if _is_power_of_two(y):
        return binary(builder, ">>", element, a, llvm_constant(int(y or 1).bit_length() - 1, element))
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
    """`a % b`: what the quotient leaves; it has the divisor's sign. All ones for a `b` of 0.

    Raises value.operation, value.constant.
    """
    x, y = _division(element, a, b)
    if isinstance(x, int) and isinstance(y, int):
        return wrapped_constant(x % y, element)
    if _is_power_of_two(y):
        return binary(builder, "&", element, a, llvm_constant(int(y or 1) - 1, element))
    if y == -1:
        return llvm_constant(0, element)
    divisor, is_zero = _divisor(builder, element, a, b)
    if not element.is_signed:
        return _unless_zero(builder, element, is_zero, builder.urem(a, divisor))
    rest = builder.srem(a, divisor)
    inexact = _is_inexact(builder, element, a, divisor)
    return _unless_zero(builder, element, is_zero, builder.select(inexact, builder.add(rest, divisor), rest))


def _division(element: ElementType, a: ir.Value, b: ir.Value) -> tuple[Number | None, Number | None]:
    """What is known of the operands of // and %, once these are integers."""
    if not element.is_integer:
        rules.UNSUPPORTED_OPERATION.fail(operation="// or %", element=element, advice="use / for floats")
    divisor = known_number(b, element)
    if divisor == 0:
        rules.CONSTANT_RANGE.fail(problem="division by the constant 0", allowed="a divisor that is not 0")
    return known_number(a, element), divisor


def _is_power_of_two(number: Number | None) -> bool:
    return isinstance(number, int) and number > 0 and number & (number - 1) == 0


def _divisor(builder: ir.IRBuilder, element: ElementType, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """A divisor that LLVM's division is defined for, and whether `b` is 0; a constant, which is not, as it is.

    By 1 the lowest number is itself, and leaves 0: what it does by -1 where integers wrap around.
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
    """Whether LLVM's division, towards zero, is not the floor: a rest is left, and the signs differ."""
    rest, zero = builder.srem(a, b), llvm_constant(0, element)
    is_left = builder.icmp_signed("!=", rest, zero)
    return builder.and_(is_left, builder.icmp_signed("<", builder.xor(rest, b), zero))
