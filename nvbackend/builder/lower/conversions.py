"""Element types as llvmlite types, Python numbers as constants, and the code for conversions.

Each conversion gives CUDA's value, or a diagnostic. LLVM's own conversions are undefined out of range,
and LLVM has none to tf32 or to 4-bit integers, so some take several instructions. Each rounds once. llvmlite has no
class for bfloat.
"""

from __future__ import annotations

import math
import struct
import sys
from typing import NoReturn

from llvmlite import ir

from nvbackend.builder.lower.lowering import declare
from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import printed
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.types import ElementType, bf16, f16, f32, f64, pred, s4, tf32, u4
from nvbackend.isel.target.target import Target

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
    """LLVM's bfloat, for which llvmlite's IR layer has no class."""

    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloatType)

    def __hash__(self) -> int:
        return hash("bfloat")

    def format_constant(self, value: float) -> str:
        """The nearest bf16, of two the even one, in LLVM's notation for bfloat: the upper half of an f32.

        It is rounded once: rounding to f32 first could turn a number next to a tie into the tie.
        """
        if math.isfinite(value):
            last = max(math.frexp(value)[1] - _BFLOAT_SIGNIFICAND, _BFLOAT_LEAST)
            value = math.copysign(math.ldexp(round(math.ldexp(value, -last)), last), value)
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return f"0xR{bits >> 16:04X}"


_BFloatType._create_instance()  # as llvmlite's own float types, it is a singleton
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


def llvm_constant(number: Number, element: ElementType) -> ir.Constant:
    """A constant of `element`: integers in its range, no fractions for integer types (value.constant)."""
    if element.is_pair:
        half = element.name.removesuffix("x2")
        advice = (
            f"k.packed.broadcast(k.const({printed(number)}, nvb.{half})) has it twice; k.packed.pack takes two values"
        )
        rules.UNSUPPORTED_OPERATION.fail(operation="a constant", element=element, advice=advice)
    if element.is_float:
        return ir.Constant(llvm_type(element), _float_constant(number, element))
    low, high = (
        (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if element.is_signed else (0, (1 << element.bits) - 1)
    )
    if not isinstance(number, int) or not low <= number <= high:
        not_a_value(number, element, f"an integer from {low} to {high}")
    return ir.Constant(llvm_type(element), int(number))


def not_a_value(number: Number, element: ElementType, allowed: str) -> NoReturn:
    """Raises value.constant for a number that `element` does not hold."""
    rules.CONSTANT_RANGE.fail(problem=f"{printed(number)} is not a value of {element}", allowed=allowed)


def wrapped_constant(number: int, element: ElementType) -> ir.Constant:
    """`number` wrapped to the bits of an integer type, as a constant."""
    return ir.Constant(llvm_type(element), _wrapped(number, element))


def _wrapped(number: int, element: ElementType) -> int:
    number &= (1 << element.bits) - 1
    return number - (1 << element.bits) if element.is_signed and number >> (element.bits - 1) else number


def wrapped(builder: ir.IRBuilder, value: ir.Value, element: ElementType) -> ir.Value:
    """`value`, in the register of an `element`, wrapped to the bits of that type."""
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
    """The build-time constant that `value`, of `element`, is; None if it is not a constant."""
    number = value.constant if isinstance(value, ir.Constant) else None
    if isinstance(number, int) and element is not None and (element.is_integer or element is pred):
        number = _wrapped(number, element)  # LLVM's constants of a type may be written either way
    return number if isinstance(number, (int, float)) else None


def width(element: ElementType) -> int:
    """The bits of an SSA value of `element`."""
    kind = llvm_type(element)
    return kind.width if isinstance(kind, ir.IntType) else _FLOAT_BITS[str(kind)]


def is_packed(element: ElementType) -> bool:
    """Whether values of `element` are always packed several to a register, so that no LLVM type holds one."""
    return element.bits < f16.bits and not element.is_integer and element is not pred


def _float_constant(exact: Number, element: ElementType) -> float:
    """`exact` as a float. Raises value.constant if `element` cannot hold it: LLVM would print another number."""
    if is_packed(element):
        advice = f"compute in f32, value.to(nvb.f32), and convert the result: .to(nvb.{element})"
        rules.UNSUPPORTED_OPERATION.fail(operation="a constant", element=element, advice=advice)
    largest = _LARGEST_TF32 if element is tf32 else _LARGEST.get(element.llvm, sys.float_info.max)
    try:
        number = _rounded(float(exact), element)
    except OverflowError:  # past the largest double
        number = None
    if number is None or (largest < abs(number) and math.isfinite(exact)):
        not_a_value(exact, element, f"a number from -{largest} to {largest}")
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


_HALF_BITS, _F32_BITS = ir.IntType(16), ir.IntType(32)
_OTHER_HALF = {f16: bf16, bf16: f16}
_FOUR_BITS = frozenset({s4, u4})
_TF32_MASK = 0xFFFFE000
"""The bits of a register that are a tf32's: sign, 8 of exponent, 10 of mantissa (PTX ISA 5.2.3)."""


def converted(
    builder: ir.IRBuilder, target: Target, value: ir.Value, source: ElementType, element: ElementType
) -> ir.Value:
    """`value` of `source` as the same number of `element` (value.operation).

    Integers wrap around. Floats are truncated and saturate at the ends of an integer type; NaN is what cvt makes of it.
    """
    if is_packed(source) or is_packed(element):
        advice = "compare its f32 with 0: value.to(nvb.f32) != 0" if element is pred else "access words of its bits"
        rules.UNSUPPORTED_OPERATION.fail(operation=f"conversion to {element}", element=source, advice=advice)
    if element is pred:
        advice = "compare it with 0: value != 0"
        rules.UNSUPPORTED_OPERATION.fail(operation="conversion to pred", element=source, advice=advice)
    if not source.is_float:
        if not element.is_float:
            return _integer_to_integer(builder, value, source, element)
        return _integer_to_float(builder, target, value, source, element)
    if not element.is_float:
        return float_to_integer(builder, value, source, element, "rz")
    return _float_to_float(builder, target, value, source, element)


def bitcast(builder: ir.IRBuilder, value: ir.Value, source: ElementType, element: ElementType) -> ir.Value:
    """The bits of `value`, of `source`, as an `element`, which must be as wide (value.operation)."""
    bits, wanted = _register_bits(source, element), _register_bits(element, source)
    if bits != wanted:
        rules.UNSUPPORTED_OPERATION.fail(
            operation=f"bitcast to {element} ({wanted} bits)",
            element=f"{source} ({bits} bits)",
            advice="cast to a type of the same width, or convert with .to()",
        )
    if _OTHER_HALF.get(source) is element:
        return builder.bitcast(_moved(builder, builder.bitcast(value, _HALF_BITS)), llvm_type(element))
    if llvm_type(element) != llvm_type(source):
        return builder.bitcast(value, llvm_type(element))
    number = known_number(value)
    if isinstance(number, int) and element.is_integer:
        return wrapped_constant(number, element)
    if source in _FOUR_BITS:
        # A signed number fills its register with copies of its sign.
        return wrapped(builder, value, element if element.is_integer else u4)
    return wrapped(builder, value, element)


def _moved(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The same 16 bits, hidden from LLVM's optimiser.

    Where it sees a float made of the bits of another float, and a comparison of it with zero, it ends the process
    (LLVM 22.1, InstCombine: it takes what a bitcast reads for an integer).
    """
    kind = ir.FunctionType(_HALF_BITS, [_HALF_BITS])
    return builder.call(ir.InlineAsm(kind, "mov.b16 $0, $1;", "=h,h", side_effect=False), [value])


def _register_bits(element: ElementType, other: ElementType) -> int:
    """The bits of a value: those of its register, except for 4-bit integers."""
    return element.bits if element in _FOUR_BITS or other in _FOUR_BITS else width(element)


def _integer_to_integer(builder: ir.IRBuilder, value: ir.Value, source: ElementType, element: ElementType) -> ir.Value:
    number = known_number(value, source)
    if isinstance(number, int):
        return wrapped_constant(int(number), element)
    widened = builder.sext if source.is_signed else builder.zext
    method = builder.trunc if width(element) < width(source) else widened
    return wrapped(builder, method(value, llvm_type(element)), element)


def _integer_to_float(
    builder: ir.IRBuilder, target: Target, value: ir.Value, source: ElementType, element: ElementType
) -> ir.Value:
    rounds_in_f32 = element is tf32 or (element is bf16 and not target.has(Feature.SM_90))
    if rounds_in_f32:
        # There is no such instruction: it takes two, by way of f32.
        exact = source.bits < f32.bits  # of 16 bits at most
        middle = _cast(builder, value, source, f32) if exact else odd_from_integer(builder, value, source)
        return _float_to_float(builder, target, middle, f32, element)
    return _cast(builder, value, source, element)


def _cast(builder: ir.IRBuilder, value: ir.Value, source: ElementType, element: ElementType) -> ir.Value:
    method = builder.sitofp if source.is_signed else builder.uitofp
    return method(value, llvm_type(element))


def odd_from_integer(builder: ir.IRBuilder, value: ir.Value, source: ElementType) -> ir.Value:
    """An integer as an f32 whose last bit is sticky, so that a second rounding is correct."""
    letters = ("" if source.is_signed else "u") + ("ll" if source.bits == f64.bits else "i")
    cut = _call(builder, f"llvm.nvvm.{letters}2f.rz", f32, value)
    back = declare(builder.module, f"llvm.nvvm.f2{letters}.rz", value.type, [cut.type])
    return _odd(builder, cut, builder.icmp_unsigned("!=", builder.call(back, [cut]), value))


def odd_from_double(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """An f64 as an f32 whose last bit is sticky."""
    cut = _call(builder, "llvm.nvvm.d2f.rz", f32, value)
    inexact = builder.fcmp_ordered("!=", builder.fpext(cut, llvm_type(f64)), value)
    return _odd(builder, cut, inexact)


def _odd(builder: ir.IRBuilder, cut: ir.Value, inexact: ir.Value) -> ir.Value:
    bits = builder.or_(builder.bitcast(cut, _F32_BITS), builder.zext(inexact, _F32_BITS))
    return builder.bitcast(bits, llvm_type(f32))


def float_to_integer(
    builder: ir.IRBuilder, value: ir.Value, source: ElementType, element: ElementType, rounding: str
) -> ir.Value:
    """cvt.rni, rzi, rmi or rpi: to 32 or 64 bits, and to fewer from there."""
    if source is not f64:
        value, source = _to_f32(builder, value, source), f32
    letters = ("" if element.is_signed else "u") + ("ll" if element.bits == f64.bits else "i")
    name = f"llvm.nvvm.{'d' if source is f64 else 'f'}2{letters}.{rounding}"
    kind = ir.IntType(64 if element.bits == f64.bits else 32)
    whole = builder.call(declare(builder.module, name, kind, [value.type]), [value])
    if element.bits >= kind.width:
        return whole
    limits = {"smax": -(1 << element.bits - 1), "smin": (1 << element.bits - 1) - 1}
    for bound, limit in (limits if element.is_signed else {"umin": (1 << element.bits) - 1}).items():
        least = declare(builder.module, f"llvm.{bound}.i32", kind, [kind, kind])
        whole = builder.call(least, [whole, ir.Constant(kind, limit)])
    if source is f64 and not element.is_signed:
        # cvt turns NaN into the highest bit alone, which in 32 bits is out of range (PTX ISA 9.7.9, cvt).
        is_nan = builder.fcmp_unordered("uno", value, value)
        whole = builder.select(is_nan, ir.Constant(kind, 1 << element.bits - 1), whole)
    return builder.trunc(whole, llvm_type(element))


def _float_to_float(
    builder: ir.IRBuilder, target: Target, value: ir.Value, source: ElementType, element: ElementType
) -> ir.Value:
    if element is tf32:
        if not target.has(Feature.SM_80):
            advice = "use f32 or f16: tf32 is for the tensor cores of sm_80 and later"
            rules.UNSUPPORTED_OPERATION.fail(
                operation="conversion to tf32", element=f"{source} on {target}", advice=advice
            )
        single = odd_from_double(builder, value) if source is f64 else _to_f32(builder, value, source)
        rounded = declare(builder.module, "llvm.nvvm.f2tf32.rna", _F32_BITS, [single.type])
        return builder.bitcast(builder.call(rounded, [single]), llvm_type(tf32))
    if width(source) < f32.bits or source is tf32:
        value, source = _to_f32(builder, value, source), f32
    wider = width(element) - width(source)
    if not wider:
        return value
    return (builder.fpext if wider > 0 else builder.fptrunc)(value, llvm_type(element))


def _to_f32(builder: ir.IRBuilder, value: ir.Value, source: ElementType) -> ir.Value:
    """A float of at most 32 bits as an f32, which holds each of them."""
    if source is tf32:
        bits = builder.bitcast(value, _F32_BITS)
        return builder.bitcast(builder.and_(bits, ir.Constant(_F32_BITS, _TF32_MASK)), llvm_type(f32))
    if source is bf16:
        # The upper half of an f32. With ftz LLVM prints fpext as cvt.ftz.f32.bf16, many times slower than a shift.
        bits = builder.zext(builder.bitcast(value, _HALF_BITS), _F32_BITS)
        return builder.bitcast(builder.shl(bits, ir.Constant(_F32_BITS, f32.bits - bf16.bits)), llvm_type(f32))
    return builder.fpext(value, llvm_type(f32)) if source is f16 else value


def _call(builder: ir.IRBuilder, name: str, element: ElementType, value: ir.Value) -> ir.Value:
    return builder.call(declare(builder.module, name, llvm_type(element), [value.type]), [value])
