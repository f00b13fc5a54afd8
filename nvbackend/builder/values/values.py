"""Typed run-time values with Python expressions, and an index as a distance in bytes.

An index is extended to the width of an address first, so that the product does not wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from llvmlite import ir

from nvbackend.builder.lower import conversions, expressions, rounded
from nvbackend.builder.lower.conversions import Number, is_packed, known_number, llvm_constant
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.blocks import Region
from nvbackend.builder.scopes.names import check_name
from nvbackend.builder.values.attributes import missing_attribute
from nvbackend.builder.values.math_policy import MathPolicy
from nvbackend.diagnostics import Uncopied, printed, user_facing
from nvbackend.diagnostics.boundary import plain_number
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, pred, s32, s64, tf32, u32
from nvbackend.isel.target.target import Target

GLOBAL_SPACE = 1
SHARED_SPACE = 3
CLUSTER_SPACE = 7
"""Shared memory of any CTA of the cluster, whose addresses say which."""


def address_type(space: int) -> ElementType:
    """The integer type of a space's addresses: u32 in shared memory, which wraps as its addresses do, else s64."""
    return s64 if space == GLOBAL_SPACE else u32


def as_index(k: Emitter, operand: Operand) -> Value:
    """`operand` as an integer value of kernel `k` (value.operation)."""
    index = as_value(k, operand)
    if not index.type.is_integer:
        rules.UNSUPPORTED_OPERATION.fail(operation="an index", element=index.type, advice="index with integers")
    return index


def _checked(index: float, unit: int, address: ElementType) -> float:
    """`index`, a number of steps of `unit` bytes: an integer whose bytes fit in an address (value.constant).

    A diagnostic shows the index, because the user did not write the bytes.
    """
    half, bytes_ = 1 << address.bits - 1, unit or 1  # a stride may be 0: then every index is the same place
    low, high = -(half // bytes_), ((half if address.is_signed else 2 * half) - 1) // bytes_
    if not isinstance(index, int) or not low <= index <= high:
        problem = f"{printed(index)} is not an index of elements of {unit} byte(s)"
        rules.CONSTANT_RANGE.fail(problem=problem, allowed=f"an integer from {low} to {high}")
    return index


def scaled(k: Emitter, index: Operand, unit: int, space: int) -> Any:
    """`index * unit` bytes: a Python number for a constant, else a value as wide as an address of `space`."""
    if isinstance(index, (int, float)):
        return _checked(index, unit, address_type(space)) * unit
    return as_index(k, index).to(address_type(space)) * unit


class ThreadsHere(Protocol):
    """What is known of the threads that come to a place."""

    def is_unreached(self) -> bool:
        """Whether certainly no thread comes here."""


class Emitter(Protocol):
    """What values need from their builder: where to emit instructions, and how to wrap their results."""

    name: str
    target: Target
    llvm: ir.IRBuilder
    math: MathPolicy

    @property
    def execution(self) -> ThreadsHere:
        """Which threads come here."""

    def wrap(self, value: ir.Value, element: ElementType) -> Value:
        """An llvmlite value as one of `element`."""


@user_facing
class Arithmetic(Uncopied):
    """The operators of run-time values and variables.

    Integers wrap around in the bits of their type. Their `//` and `%` round towards minus infinity as in Python; on
    powers of two they are a shift and a mask. By zero both give all ones, as the hardware's do: -1, or the largest
    unsigned number. Shifts take the amount as an unsigned number, and past the bits of the type give 0, or copies of
    the sign. Comparisons give predicates. Python numbers take the type of the other operand.
    """

    __slots__ = ()

    def _value(self) -> Value:
        raise TypeError(f"{type(self).__name__} is not a value")

    @property
    def type(self) -> ElementType:
        """The element type."""
        return self._value()._type

    def __add__(self, other: Operand) -> Value:
        return _binary("+", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _binary("+", other, self)

    def __sub__(self, other: Operand) -> Value:
        return _binary("-", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _binary("-", other, self)

    def __mul__(self, other: Operand) -> Value:
        return _binary("*", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _binary("*", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return _divided("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Value:
        return _divided("//", other, self)

    def __mod__(self, other: Operand) -> Value:
        return _divided("%", self, other)

    def __rmod__(self, other: Operand) -> Value:
        return _divided("%", other, self)

    def __divmod__(self, other: Operand) -> tuple[Value, Value]:
        return self // other, self % other

    def __rdivmod__(self, other: Operand) -> tuple[Value, Value]:
        return other // self._value(), other % self._value()

    def __and__(self, other: Operand) -> Value:
        return _binary("&", self, other)

    __rand__ = __and__

    def __or__(self, other: Operand) -> Value:
        return _binary("|", self, other)

    __ror__ = __or__

    def __xor__(self, other: Operand) -> Value:
        return _binary("^", self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Operand) -> Value:
        return _binary("<<", self, other)

    def __rshift__(self, other: Operand) -> Value:
        return _binary(">>", self, other)

    def __rlshift__(self, other: Operand) -> Value:
        return _binary("<<", other, self)

    def __rrshift__(self, other: Operand) -> Value:
        return _binary(">>", other, self)

    def __neg__(self) -> Value:
        value = self._value()
        return _made(value, value, expressions.negated(value._k.llvm, value._type, value.ir))

    def __invert__(self) -> Value:
        value = self._value()
        if value._type.is_float:
            advice = f"take its bits first: .bitcast(u{value._type.bits})"
            rules.UNSUPPORTED_OPERATION.fail(operation="~", element=value._type, advice=advice)
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
        from nvbackend.builder.values.truth import refuse_truth

        refuse_truth()

    def __format__(self, spec: str) -> str:
        rules.NO_NUMBER.fail(
            error=f"it is formatted, as an f-string does{f' with {spec!r}' if spec else ''}",
            advice='print it when the kernel runs, k.print("{}", value); its name while it is built is repr(value)',
        )

    if not TYPE_CHECKING:  # it would make a type checker accept every name

        def __getattr__(self, name: str) -> Any:
            """Raises value.attribute."""
            raise missing_attribute(self, name, f"a {type(self).__name__.lower()} of the kernel", "type")

    def to(self, element: ElementType, *, rounding: str | None = None, saturate: bool = False) -> Value:
        """This value converted to `element`.

        Floats are rounded to nearest, to tf32 with ties away from zero. Integers wrap around in fewer bits. Floats go
        to integers towards zero and stop at the ends of the type, as cvt does; NaN is 0, or only the highest bit from
        f64 and to 64 bits. `rounding` is rn (nearest, ties to even), rz (towards zero), rm (down), rp (up), or rna of
        tf32. With `saturate`, integers stop at the ends of `element`, f16, bf16 and tf32 at its largest finite number.

        A value of e4m3, e5m2, e2m3, e3m2, e2m1, ue4m3 or ue8m0 is its code; these are rounded to nearest and always
        saturate, ue4m3 at 0 as well; ue8m0 is rounded by rz, or rp. Chips before sm_89 have no e4m3 and e5m2, and those
        without a suffix of sm_100a and later nothing narrower and no ue8m0 (target.feature). Each conversion rounds
        once. Raises value.operation for any other. PTX ISA 9.7.9 (cvt).
        """
        value = self._value()
        if value._type is element:
            if rounding is not None or saturate:
                said = " and ".join(
                    word for word, is_said in (("rounding=", rounding), ("saturate=", saturate)) if is_said
                )
                advice = f"leave {said} out: it is one already, and stays as it is"
                rules.UNSUPPORTED_OPERATION.fail(
                    operation=f"conversion to {element} with {said}", element=element, advice=advice
                )
            return value
        k = value._k
        number = rounded.converted(k.llvm, k.target, value.ir, value._type, element, rounding, saturate)
        return k.wrap(number, element)

    def widened(self, largest: int) -> Value:
        """This integer in a type of at least 32 bits that holds `largest`: its own, s32 or s64.

        It is used for products that count elements. A value of another type stays as it is.
        """
        value = self._value()
        if not value._type.is_integer or (value._type.bits >= s32.bits and largest <= _largest(value._type)):
            return value
        return value.to(s32 if largest <= _largest(s32) else s64)

    def bitcast(self, element: ElementType) -> Value:
        """The same bits as a value of `element`, which must be as wide."""
        value = self._value()
        return value._k.wrap(conversions.bitcast(value._k.llvm, value.ir, value._type, element), element)


class Value(Arithmetic):
    """A value of a kernel: one register of every thread. `constant` is its number if it is a build-time constant."""

    __slots__ = ("_ir", "_k", "_region", "_type")

    def __init__(self, k: Emitter, value: ir.Value, element: ElementType, region: Region) -> None:
        self._k = k
        self._ir = value
        self._type = element
        self._region = region

    def _value(self) -> Value:
        return self

    @property
    def ir(self) -> ir.Value:
        """The llvmlite value, for code that emits with llvmlite itself. Raises value.scope if its block has ended."""
        if not self._region.open and not isinstance(self._ir, ir.Constant):
            self._region.fail_scope()
        return self._ir

    @property
    def constant(self) -> Number | None:
        """Its value if it is known at build time, else None."""
        return known_number(self._ir, self._type)

    @user_facing
    def named(self, name: str) -> Value:
        """The same value under `name` in the IR, for readers."""
        check_name(name)
        if isinstance(self._ir, ir.Instruction):
            self._ir.name = name
        return self

    def __repr__(self) -> str:
        return f"<{self._type} {self._ir.get_reference()}>"


Operand = Value | Arithmetic | Number
"""What calls take for a value: a run-time value, a variable, or a number of Python's."""


def _largest(element: ElementType) -> int:
    return (1 << element.bits - element.is_signed) - 1


def as_value(k: Emitter, operand: object, element: ElementType | None = None) -> Value:
    """`operand` as a value of kernel `k`: a value or variable as it is, a number as a constant of `element`."""
    if isinstance(operand, Arithmetic):
        value = operand._value()
        if value._k is not k:
            rules.FOREIGN_VALUE.fail(owner=value._k.name, user=k.name)
        if element is not None and value._type is not element:
            _wrong_type(element, value._type)
        return value
    operand = plain_number(operand)
    if isinstance(operand, (bool, int, float)):
        if element is None:
            element = pred if isinstance(operand, bool) else s32 if isinstance(operand, int) else BY_NAME["f32"]
        return constant(k, operand, element)
    from nvbackend.builder.values.instead import instead

    kind = "a run-time value" if element is None else f"a value of {element}"
    rules.NOT_A_VALUE.fail(given=operand, kind=kind, advice=instead(operand))


def _wrong_type(wanted: ElementType, actual: ElementType) -> NoReturn:
    advice = f"convert it: .to({wanted})"
    if wanted is pred:
        advice = "compare it with 0: value != 0"
        if actual is tf32:
            advice = "compare it with 0: value.to(nvb.f32) != 0"
        elif actual.is_pair:
            advice = f'compare one of its numbers with 0: k.packed.unpack("{actual}", value)[0] != 0'
    elif wanted.is_pair or actual.is_pair:
        advice = f"keep the bits: .bitcast(nvb.{wanted})"
        if wanted.is_pair and actual.is_pair:
            advice = f'use "{actual}", or convert the numbers: k.packed.unpack, .to(...) and k.packed.pack'
        elif wanted.bits != actual.bits:
            advice = "k.packed.pack makes a pair of two numbers, and k.packed.unpack gives them"
    elif is_packed(wanted):
        advice = "store bits as an integer: pointer.cast(nvb.u8)[0] = byte, pointer.cast(nvb.u16)[0] = pair"
    elif wanted.is_integer and not actual.is_integer and actual is not pred:
        advice += ", or keep its bits: .bitcast(...); the registers of a fragment hold packed elements"
    rules.TYPE_MISMATCH.fail(problem=f"expected {wanted}, but the value is {actual}", advice=advice)


_BY_PREDICATE = "choose by the predicate: k.select(condition, a, b)"


def _two_types(operation: str, left: ElementType, right: ElementType) -> NoReturn:
    advice = f"convert one of them: .to({left}) or .to({right})"
    if pred in (left, right):
        advice = _BY_PREDICATE
    elif left.is_integer != right.is_integer:
        real = right if left.is_integer else left
        advice = f"convert the integer: .to({real}); a variable that adds up floats starts as one: k.var(0.0)"
    _apart(operation, (left, right), advice)


def _apart(operation: str, types: tuple[object, object], advice: str) -> NoReturn:
    problem = f"{operation} takes two values of one type, not {types[0]} and {types[1]}"
    rules.TYPE_MISMATCH.fail(problem=problem, advice=advice)


def constant(k: Emitter, number: Number, element: ElementType) -> Value:
    """A constant of `element`; integers must be in its range, integer types take no fractions."""
    return k.wrap(llvm_constant(number, element), element)


def pair(operation: str, left: object, right: object) -> tuple[Value, Value]:
    """Both operands as values of one type, a Python number taking the other's. Raises value.type where they differ."""
    anchor = left if isinstance(left, Arithmetic) else right
    assert isinstance(anchor, Arithmetic)
    k = anchor._value()._k
    element = anchor._value()._type
    for operand in (left, right):
        if isinstance(operand, float) and element.is_integer:
            allowed = "an integer, or convert the other operand: .to(nvb.f32)"
            rules.CONSTANT_RANGE.fail(problem=f"{printed(operand)} is not a value of {element}", allowed=allowed)
        if element is pred and isinstance(operand, (int, float)) and operand not in (0, 1):
            number = type(operand).__name__
            types = (pred, number) if operand is right else (number, pred)
            _apart(operation, types, _BY_PREDICATE)
    a = as_value(k, left, element if not isinstance(left, Arithmetic) else None)
    b = as_value(k, right, element if not isinstance(right, Arithmetic) else None)
    if a._type is not b._type:
        _two_types(operation, a._type, b._type)
    return a, b


def _binary(operation: str, left: object, right: object) -> Value:
    a, b = pair(operation, left, right)
    _check_written(operation, b, right)
    flags = a._k.math._flags(operation, a._type)
    return _made(a, b, expressions.binary(a._k.llvm, operation, a._type, a.ir, b.ir, flags))


def _divided(operation: str, left: object, right: object) -> Value:
    a, b = pair("// and %", left, right)
    _check_written(operation, b, right)
    divided = expressions.quotient if operation == "//" else expressions.remainder
    return _made(a, b, divided(a._k.llvm, a._type, a.ir, b.ir))


def _check_written(operation: str, number: Value, right: object) -> None:
    """Refuse a number of Python on the right of `operation` that cannot be meant, if a thread may come here."""
    known = None if isinstance(right, Arithmetic) else number.constant
    if known is not None and not number._k.execution.is_unreached():
        expressions.check_written(operation, number._type, known)


def _made(a: Value, b: Value, result: ir.Value) -> Value:
    """The result of an operator: one of its operands, which keeps its own region, or a new value."""
    if result is a._ir or result is b._ir:
        return a if result is a._ir else b
    return a._k.wrap(result, a._type)


def _compare(operation: str, left: object, right: object) -> Value:
    a, b = pair(operation, left, right)
    return a._k.wrap(expressions.compare(a._k.llvm, operation, a._type, a.ir, b.ir), pred)
