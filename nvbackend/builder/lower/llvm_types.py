"""The llvmlite types of element types, and bfloat, which llvmlite's IR layer has no class for."""

from __future__ import annotations

import math
import struct

from llvmlite import ir

from nvbackend.intrinsics.row.types import ElementType

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
