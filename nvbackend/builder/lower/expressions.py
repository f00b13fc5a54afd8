"""What Python's operators emit: which types have them, what is known at build time, and the LLVM instructions.

Operands are LLVM values of one element type. What needs no instruction is an operand itself, or a constant.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir

from nvbackend.builder.lower.llvm_types import llvm_type
from nvbackend.builder.lower.lowering import declare
from nvbackend.builder.lower.numbers import (
    Number,
    is_packed,
    known_number,
    llvm_constant,
    width,
    wrapped,
    wrapped_constant,
)
from nvbackend.builder.scopes import rules
from nvbackend.intrinsics.row.types import ElementType, pred, tf32


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
"""The operations of integers, on numbers of Python."""
_SHIFT_SIGNED = "ashr"
_OF_PREDICATES = "&|^"
_SHIFTS = ("<<", ">>")
_GROWING = ("+", "-", "*", "<<")
"""Operations whose result may need more bits than the operands."""
_LEAST_SHIFT, _AMOUNT = 16, 32
"""The bits of the narrowest shift, and of every shift's amount (PTX ISA 9.7.8, shl)."""


def binary(builder: ir.IRBuilder, operation: str, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """`a operation b`. Raises value.operation where the type has none, value.constant for a shift past its bits."""
    integer, floating = _OPERATORS[operation]
    method = floating if element.is_float else integer
    if method is None or (element is pred and operation not in _OF_PREDICATES):
        advice = "use // for integers" if operation == "/" else "convert the operands with .to() first"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    _check_arithmetic(operation, element)
    x, y = known_number(a, element), known_number(b, element)
    if operation in _SHIFTS and isinstance(y, int) and not 0 <= y < element.bits:
        problem = f"a shift by {y} of a type of {element.bits} bits"
        rules.CONSTANT_RANGE.fail(problem=problem, allowed=f"a shift from 0 to {element.bits - 1}")
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
    result = getattr(builder, method)(a, b)
    return wrapped(builder, result, element) if operation in _GROWING else result


def _check_arithmetic(operation: str, element: ElementType) -> None:
    if is_packed(element):
        advice = "convert the operands to f16 or f32 first, with an instruction that unpacks them"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    if element is tf32:
        advice = "convert the operands to f32 first: .to(f32)"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)


def _is_identity(operation: str, number: Number | None) -> bool:
    return number is not None and number == 0 and operation in ("+", "-", "|", "^", *_SHIFTS)


def negated(builder: ir.IRBuilder, element: ElementType, a: ir.Value) -> ir.Value:
    """`-a`: of floats the sign bit alone changes, so that -0.0 comes of 0.0 (value.operation)."""
    if not element.is_float or element is tf32 or is_packed(element):
        zero = wrapped_constant(0, element) if element.is_integer or element is pred else a
        return binary(builder, "-", element, zero, a)
    number = known_number(a)
    return builder.fneg(a) if number is None else llvm_constant(-number, element)


def _shifted(builder: ir.IRBuilder, operation: str, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """A shift by a run-time amount, an unsigned number: as PTX has it, what lies past the bits counts as all of them.

    LLVM's shifts have no result there. What is written here is one instruction for it, shl or shr, where the amount
    is one of 32 bits.
    """
    bits, arithmetic = width(element), operation == ">>" and element.is_signed
    kind = a.type
    if element.is_signed and element.bits < bits:
        b = builder.and_(b, ir.Constant(kind, (1 << element.bits) - 1))  # the amount is not signed
    if bits < _LEAST_SHIFT:
        kind, bits = ir.IntType(_LEAST_SHIFT), _LEAST_SHIFT
        extend = builder.sext if arithmetic else builder.zext
        a, b = extend(a, kind), builder.zext(b, kind)
    elif bits > _AMOUNT:
        # LLVM's pattern for the instruction looks at the low 32 bits of the amount alone.
        b = _least(builder, b, bits)
    if arithmetic:
        moved = builder.ashr(a, _least(builder, b, bits - 1))
    else:
        shift = builder.shl if operation == "<<" else builder.lshr
        is_within = builder.icmp_unsigned("<", b, ir.Constant(kind, bits))
        moved = builder.select(is_within, shift(a, b), ir.Constant(kind, 0))
    own = llvm_type(element)
    return wrapped(builder, moved if moved.type == own else builder.trunc(moved, own), element)


def _least(builder: ir.IRBuilder, amount: ir.Value, limit: int) -> ir.Value:
    least = declare(builder.module, f"llvm.umin.{amount.type}", amount.type, [amount.type, amount.type])
    return builder.call(least, [amount, ir.Constant(amount.type, limit)])


def compare(builder: ir.IRBuilder, operation: str, element: ElementType, a: ir.Value, b: ir.Value) -> ir.Value:
    """The predicate `a operation b`; NaN is unequal to all, and in no order (value.operation)."""
    _check_arithmetic(operation, element)
    if element.is_float:
        emit = builder.fcmp_unordered if operation == "!=" else builder.fcmp_ordered
    else:
        emit = builder.icmp_signed if element.is_signed else builder.icmp_unsigned
    return emit(operation, a, b)
