"""Scalar arguments: Python and NumPy numbers as the exact bits of a parameter's element type."""

from __future__ import annotations

import enum
import functools
import math
import numbers
import operator
import struct
from typing import Any

from nvbackend.intrinsics.row.types import ElementType, NumberKind
from nvbackend.runtime.arguments.arrays import accepted_dtypes

_PARAMETER_BITS = {
    # LLVM type of the parameter -> bits it takes in the parameter space (PTX ISA 5.2: no register is under 8 bits)
    "i1": 8,
    "i8": 8,
    "i16": 16,
    "half": 16,
    "bfloat": 16,
    "i32": 32,
    "float": 32,
    "i64": 64,
    "double": 64,
}
_FLOAT_FORMATS = {"half": "<e", "float": "<f", "double": "<d"}
_LARGEST = {"half": 65504.0, "bfloat": 3.3895313892515355e38, "float": 3.4028234663852886e38}


class Misfit(enum.Enum):
    """Why a value is not an argument for a scalar parameter."""

    KIND = "kind"
    RANGE = "range"


def scalar_argument(element: ElementType, value: object) -> Any | Misfit:
    """`value` as the NumPy integer that holds the bits of `element`, or what is wrong with it.

    Floating-point values are rounded to nearest even; a finite one that would become infinite is out of range.
    """
    bits = scalar_bits(element, value)
    if isinstance(bits, Misfit):
        return bits
    return _container(element.llvm)(bits & ((1 << _PARAMETER_BITS[element.llvm]) - 1))


@functools.cache
def _container(llvm: str) -> Any:
    """The NumPy integer that passes a scalar: for three of ctypes cuda.core needs twice as long as for the launch."""
    import numpy

    return numpy.dtype(f"uint{_PARAMETER_BITS[llvm]}").type


def scalar_bits(element: ElementType, value: object) -> int | Misfit:
    """The bits of `value` as `element`; negative integers stay negative."""
    if _scalar_dtype(value) in accepted_dtypes(element)[:-1]:
        return int.from_bytes(value.tobytes(), "little")  # type: ignore[attr-defined]
    if element.llvm == "bfloat" or element.llvm in _FLOAT_FORMATS:
        try:
            number = _as_float(value)
        except OverflowError:  # an integer past every floating-point number
            return Misfit.RANGE
        return Misfit.KIND if number is None else _float_bits(element, number)
    if _scalar_dtype(value) == "bool":
        return int(bool(value))
    if not isinstance(value, numbers.Integral):
        return Misfit.KIND
    integer = operator.index(value)
    return integer if integer in integers(element) else Misfit.RANGE


def integers(element: ElementType) -> range:
    """The integers that a scalar of `element` holds: its values, or its bits where it has no arithmetic of its own in
    a scalar register (narrow floats, scale factors, packed bits)."""
    if element.is_integer:
        return element.integers
    bits = element.bits
    if element.kind is NumberKind.BITS and element.llvm != "i1":
        bits = _PARAMETER_BITS[element.llvm]
    return range(1 << bits)


def range_text(element: ElementType) -> str:
    """The values of a scalar of `element`, for people."""
    if element.llvm in _LARGEST:
        return f"-{_LARGEST[element.llvm]:g} to {_LARGEST[element.llvm]:g}"
    if element.llvm in _FLOAT_FORMATS:
        return "a floating-point number"
    held = integers(element)
    bits = "" if element.is_integer or element.kind is NumberKind.BITS else " as raw bits"
    return f"{held[0]} to {held[-1]}{bits}"


def _as_float(value: object) -> float | None:
    # NumPy scalars may be of types that Python's numeric tower does not know, such as ml_dtypes.bfloat16.
    known = isinstance(value, numbers.Real) or _scalar_dtype(value) is not None
    if not known or (isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real)):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _scalar_dtype(value: object) -> str | None:
    """The type name of a NumPy scalar or array without dimensions, None for anything else."""
    if getattr(value, "shape", None) != () or not hasattr(value, "tobytes"):
        return None
    return str(getattr(getattr(value, "dtype", None), "name", ""))


def _float_bits(element: ElementType, number: float) -> int | Misfit:
    if element.llvm == "bfloat":
        return _bfloat_bits(number)
    try:
        packed = struct.pack(_FLOAT_FORMATS[element.llvm], number)
    except OverflowError:
        return Misfit.RANGE
    return int.from_bytes(packed, "little")


def _bfloat_bits(number: float) -> int | Misfit:
    """bfloat16 by rounding the double's own bits, once: by way of float32 it would round twice."""
    double = int.from_bytes(struct.pack("<d", number), "little")
    sign = double >> 63 << 15
    if math.isnan(number):
        return sign | 0x7FC0
    magnitude = abs(number)
    if math.isinf(number):
        return sign | 0x7F80
    # Scaling by a power of two is exact; round() is to nearest even. 2**-133 is the smallest subnormal bfloat16.
    exponent = max(((double >> 52) & 0x7FF) - 1023, -126)
    bits = ((exponent + 126) << 7) + round(magnitude / 2.0 ** (exponent - 7))
    return sign | bits if bits < 0x7F80 else Misfit.RANGE
