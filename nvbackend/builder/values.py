"""Typed run-time values with Python operators."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from nvbackend.builder import rules
from nvbackend.builder.llvm_types import llvm_type
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.types import BY_NAME, ElementType, Kind, f16, pred, s32

if TYPE_CHECKING:
    from nvbackend.builder.blocks import Region
    from nvbackend.builder.core import BuilderCore

Number = int | float | bool


@user_facing
class Arithmetic:
    """The operators, for everything that stands for a run-time value (values and variables).

    Integer `//` and `%` round towards minus infinity as in Python; on powers of two they are a shift and a mask.
    Comparisons give predicates. Numbers take the type of the other side.
    """

    __slots__ = ()

    def _value(self) -> Value:
        raise TypeError(f"{type(self).__name__} stands for no value")

    @property
    def type(self) -> ElementType:
        """The element type."""
        return self._value()._type

    def __add__(self, other: Operand) -> Value:
        return _binary("+", self, other, "add", "fadd", lambda a, b: a + b)

    def __radd__(self, other: Operand) -> Value:
        return _binary("+", other, self, "add", "fadd", lambda a, b: a + b)

    def __sub__(self, other: Operand) -> Value:
        return _binary("-", self, other, "sub", "fsub", lambda a, b: a - b)

    def __rsub__(self, other: Operand) -> Value:
        return _binary("-", other, self, "sub", "fsub", lambda a, b: a - b)

    def __mul__(self, other: Operand) -> Value:
        return _binary("*", self, other, "mul", "fmul", lambda a, b: a * b)

    def __rmul__(self, other: Operand) -> Value:
        return _binary("*", other, self, "mul", "fmul", lambda a, b: a * b)

    def __truediv__(self, other: Operand) -> Value:
        return _binary("/", self, other, None, "fdiv", None)

    def __rtruediv__(self, other: Operand) -> Value:
        return _binary("/", other, self, None, "fdiv", None)

    def __floordiv__(self, other: Operand) -> Value:
        return _quotient(self, other)

    def __rfloordiv__(self, other: Operand) -> Value:
        return _quotient(other, self)

    def __mod__(self, other: Operand) -> Value:
        return _remainder(self, other)

    def __rmod__(self, other: Operand) -> Value:
        return _remainder(other, self)

    def __and__(self, other: Operand) -> Value:
        return _binary("&", self, other, "and_", None, lambda a, b: a & b)

    __rand__ = __and__

    def __or__(self, other: Operand) -> Value:
        return _binary("|", self, other, "or_", None, lambda a, b: a | b)

    __ror__ = __or__

    def __xor__(self, other: Operand) -> Value:
        return _binary("^", self, other, "xor", None, lambda a, b: a ^ b)

    __rxor__ = __xor__

    def __lshift__(self, other: Operand) -> Value:
        return _binary("<<", self, other, "shl", None, lambda a, b: a << b)

    def __rshift__(self, other: Operand) -> Value:
        signed = self._value()._type.is_signed
        return _binary(">>", self, other, "ashr" if signed else "lshr", None, lambda a, b: a >> b)

    def __neg__(self) -> Value:
        return 0 - self

    def __invert__(self) -> Value:
        value = self._value()
        return value ^ (True if value._type is pred else -1 if value._type.is_signed else (1 << value._type.bits) - 1)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return _compare("==", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return _compare("!=", self, other)

    def __lt__(self, other: Operand) -> Value:
        return _compare("<", self, other)

    def __le__(self, other: Operand) -> Value:
        return _compare("<=", self, other)

    def __gt__(self, other: Operand) -> Value:
        return _compare(">", self, other)

    def __ge__(self, other: Operand) -> Value:
        return _compare(">=", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:  # noqa: PLE0304
        rules.NO_TRUTH_VALUE.fail()

    def to(self, element: ElementType) -> Value:
        """This value converted to `element`: numeric conversion, floats to integers towards zero."""
        return _convert(self._value(), element)

    def bitcast(self, element: ElementType) -> Value:
        """The same bits as a value of `element`, which must be as wide."""
        value = self._value()
        if llvm_type(element) == llvm_type(value._type):
            return value._k._wrap(value.ir, element)
        if _width(element) != _width(value._type):
            rules.UNSUPPORTED_OPERATION.fail(
                operation=f"bitcast to {element} ({_width(element)} bits)",
                element=f"{value._type} ({_width(value._type)} bits)",
                advice="cast to a type of the same width, or convert with .to()",
            )
        return value._k._wrap(value._k._ir.bitcast(value.ir, llvm_type(element)), element)


class Value(Arithmetic):
    """A value of a kernel: one register of every thread. `constant` is its number where it is known at build time."""

    __slots__ = ("_ir", "_k", "_region", "_type")

    def __init__(self, k: BuilderCore, value: ir.Value, element: ElementType, region: Region) -> None:
        self._k = k
        self._ir = value
        self._type = element
        self._region = region

    def _value(self) -> Value:
        return self

    @property
    def ir(self) -> ir.Value:
        """The llvmlite value, for code that emits with llvmlite itself. Raises value.scope where it is not defined."""
        if not self._region.open and not isinstance(self._ir, ir.Constant):
            rules.OUT_OF_SCOPE.fail(block=self._region.describe())
        return self._ir

    @property
    def constant(self) -> Number | None:
        """The number that it is known to be at build time, None where it is not."""
        found = self._ir.constant if isinstance(self._ir, ir.Constant) else None
        return found if isinstance(found, (int, float)) else None

    @user_facing
    def named(self, name: str) -> Value:
        """The same value under `name` in the IR, for whoever reads it."""
        if not isinstance(name, str):
            raise TypeError("names are text")  # the boundary knows which argument of the call it is
        if isinstance(self._ir, ir.Instruction):
            self._ir.name = name
        return self

    def __repr__(self) -> str:
        return f"<{self._type} {self._ir.get_reference()}>"


Operand = Value | Arithmetic | Number


def as_value(k: BuilderCore, given: object, element: ElementType | None = None) -> Value:
    """`given` as a value of kernel `k`: a value or variable as it is, a number as a constant of `element`."""
    if isinstance(given, Arithmetic):
        value = given._value()
        if value._k is not k:
            rules.FOREIGN_VALUE.fail(owner=value._k.name, user=k.name)
        if element is not None and value._type is not element:
            rules.TYPE_MISMATCH.fail(operation="this place", left=element, right=value._type)
        return value
    if isinstance(given, (bool, int, float)):
        if element is None:
            element = pred if isinstance(given, bool) else s32 if isinstance(given, int) else BY_NAME["f32"]
        return constant(k, given, element)
    rules.NOT_A_VALUE.fail(given=given, element=element or "run-time")


def constant(k: BuilderCore, given: Number, element: ElementType) -> Value:
    """A constant of `element`; integers must be in its range, integer types take no fractions."""
    if element.is_float:
        return k._wrap(ir.Constant(llvm_type(element), _float_constant(given, element)), element)
    low, high = (
        (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if element.is_signed else (0, (1 << element.bits) - 1)
    )
    if not isinstance(given, int) or not low <= given <= high:
        rules.CONSTANT_RANGE.fail(given=given, element=element, allowed=f"an integer from {low} to {high}")
    return k._wrap(ir.Constant(llvm_type(element), int(given)), element)


def _float_constant(given: Number, element: ElementType) -> float:
    """`given` as a float, if `element` holds numbers of its size: LLVM would print another (value.constant)."""
    if _is_packed(element):
        advice = "pack it on the host, and load it as bits"
        rules.UNSUPPORTED_OPERATION.fail(operation="a constant", element=element, advice=advice)
    largest = _LARGEST.get(element.llvm, sys.float_info.max)
    if largest < abs(given) != math.inf:
        rules.CONSTANT_RANGE.fail(given=given, element=element, allowed=f"a number from -{largest} to {largest}")
    return float(given)


_LARGEST = {
    "half": 65504.0,
    "bfloat": float.fromhex("0x1.fep127"),
    "float": float.fromhex("0x1.fffffep127"),
}
"""The largest finite numbers."""


def pair(operation: str, left: object, right: object) -> tuple[Value, Value]:
    """Both operands as values of one type, a Python number taking the other's. Raises value.type where they differ."""
    anchor = left if isinstance(left, Arithmetic) else right
    assert isinstance(anchor, Arithmetic)
    k = anchor._value()._k
    element = anchor._value()._type
    a = as_value(k, left, element if not isinstance(left, Arithmetic) else None)
    b = as_value(k, right, element if not isinstance(right, Arithmetic) else None)
    if a._type is not b._type:
        rules.TYPE_MISMATCH.fail(operation=operation, left=a._type, right=b._type)
    return a, b


def _binary(
    operation: str,
    left: object,
    right: object,
    integer: str | None,
    floating: str | None,
    fold: Callable[[int, int], int] | None,
) -> Value:
    a, b = pair(operation, left, right)
    element = a._type
    method = floating if element.is_float else integer
    if method is None or (element is pred and operation not in "&|^"):
        advice = "use // for integers" if operation == "/" else "convert the operands with .to() first"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    if _is_packed(element):
        advice = "convert the operands to f16 or f32 first, with an instruction that unpacks them"
        rules.UNSUPPORTED_OPERATION.fail(operation=operation, element=element, advice=advice)
    if operation in ("<<", ">>") and isinstance(b.constant, int) and not 0 <= b.constant < element.bits:
        allowed = f"a shift from 0 to {element.bits - 1}"
        rules.CONSTANT_RANGE.fail(given=b.constant, element=element, allowed=allowed)
    if fold is not None and not element.is_float:
        x, y = a.constant, b.constant
        if isinstance(x, int) and isinstance(y, int):
            return a._k._wrap(ir.Constant(llvm_type(element), _wrapped(fold(x, y), element)), element)
        if _is_identity(operation, y):
            return a
        if _is_identity(operation, x) and operation in "+|^":
            return b
        if operation == "*" and (x == 1 or y == 1):
            return b if x == 1 else a
    return a._k._wrap(getattr(a._k._ir, method)(a.ir, b.ir), element)


def _is_identity(operation: str, number: Number | None) -> bool:
    return number is not None and number == 0 and operation in ("+", "-", "|", "^", "<<", ">>")


def _wrapped(number: int, element: ElementType) -> int:
    number &= (1 << element.bits) - 1
    return number - (1 << element.bits) if element.is_signed and number >> (element.bits - 1) else number


def _quotient(left: object, right: object) -> Value:
    """Rounded towards minus infinity."""
    a, b = _division(left, right)
    k, x, y = a._k, a.constant, b.constant
    if isinstance(x, int) and isinstance(y, int):
        return constant(k, x // y, a._type)
    if _is_power_of_two(y):
        return a >> (int(y or 1).bit_length() - 1)
    if not a._type.is_signed:
        return k._wrap(k._ir.udiv(a.ir, b.ir), a._type)
    quotient = k._wrap(k._ir.sdiv(a.ir, b.ir), a._type)
    return k._wrap(k._ir.select(_is_inexact(a, b).ir, (quotient - 1).ir, quotient.ir), a._type)


def _remainder(left: object, right: object) -> Value:
    """What the quotient leaves; it has the divisor's sign."""
    a, b = _division(left, right)
    k, x, y = a._k, a.constant, b.constant
    if isinstance(x, int) and isinstance(y, int):
        return constant(k, x % y, a._type)
    if _is_power_of_two(y):
        return a & (int(y or 1) - 1)
    if not a._type.is_signed:
        return k._wrap(k._ir.urem(a.ir, b.ir), a._type)
    rest = k._wrap(k._ir.srem(a.ir, b.ir), a._type)
    return k._wrap(k._ir.select(_is_inexact(a, b).ir, (rest + b).ir, rest.ir), a._type)


def _division(left: object, right: object) -> tuple[Value, Value]:
    """The operands of // and %, integers of one type."""
    a, b = pair("// and %", left, right)
    if not a._type.is_integer:
        rules.UNSUPPORTED_OPERATION.fail(operation="// or %", element=a._type, advice="use / for floats")
    if b.constant == 0:
        rules.CONSTANT_RANGE.fail(given=0, element=a._type, allowed="a divisor that is not 0")
    return a, b


def _is_power_of_two(number: Number | None) -> bool:
    return isinstance(number, int) and number > 0 and number & (number - 1) == 0


def _is_inexact(a: Value, b: Value) -> Value:
    """Whether LLVM's division, towards zero, is not the floor: a rest is left, and the signs differ."""
    rest = a._k._wrap(a._k._ir.srem(a.ir, b.ir), a._type)
    return (rest != 0) & ((rest ^ b) < 0)


def _compare(operation: str, left: object, right: object) -> Value:
    a, b = pair(operation, left, right)
    builder = a._k._ir
    if a._type.is_float:
        emit = builder.fcmp_unordered if operation == "!=" else builder.fcmp_ordered
    else:
        emit = builder.icmp_signed if a._type.is_signed else builder.icmp_unsigned
    return a._k._wrap(emit(operation, a.ir, b.ir), pred)


def _width(element: ElementType) -> int:
    kind = llvm_type(element)
    return (
        kind.width if isinstance(kind, ir.IntType) else {"half": 16, "bfloat": 16, "float": 32, "double": 64}[str(kind)]
    )


def _convert(value: Value, element: ElementType) -> Value:
    source = value._type
    if source is element:
        return value
    if (Kind.BITS in (source.kind, element.kind) and source is not pred) or _is_packed(source) or _is_packed(element):
        rules.UNSUPPORTED_OPERATION.fail(
            operation=f"conversion to {element}", element=source, advice="use bitcast(), or a conversion instruction"
        )
    method = _conversion(source, element)
    number = value.constant
    if isinstance(number, int) and not element.is_float:
        return value._k._wrap(ir.Constant(llvm_type(element), _wrapped(int(number), element)), element)
    if method is None:
        return value._k._wrap(value.ir, element)
    return value._k._wrap(getattr(value._k._ir, method)(value.ir, llvm_type(element)), element)


def _is_packed(element: ElementType) -> bool:
    return element.bits < f16.bits and not element.is_integer and element is not pred


def _conversion(source: ElementType, element: ElementType) -> str | None:
    """The LLVM operation between two types, None where the bits stay as they are."""
    if source.is_float and element.is_float:
        wider = _width(element) - _width(source)
        return None if wider == 0 else "fpext" if wider > 0 else "fptrunc"
    if source.is_float:
        return "fptosi" if element.is_signed else "fptoui"
    if element.is_float:
        return "sitofp" if source.is_signed else "uitofp"
    wider = _width(element) - _width(source)
    if wider == 0:
        return None
    return "trunc" if wider < 0 else "sext" if source.is_signed else "zext"
