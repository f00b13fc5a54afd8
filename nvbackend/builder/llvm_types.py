"""The llvmlite types of element types, and bfloat, which llvmlite's IR layer has no class for."""

from __future__ import annotations

import struct

from llvmlite import ir

from nvbackend.intrinsics.types import ElementType

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
        """The upper half of the f32, rounded to nearest even, in LLVM's notation for bfloat."""
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return f"0xR{(bits + 0x7FFF + (bits >> 16 & 1)) >> 16:04X}"


_BFloatType._create_instance()  # llvmlite's float types are singletons, made so
_LLVM_TYPES["bfloat"] = _BFloatType()


def llvm_type(element: ElementType) -> ir.Type:
    """The llvmlite type of an SSA value of `element`."""
    return _LLVM_TYPES[element.llvm]
