"""How many bytes of shared memory each row accesses at an address that it is given, as far as that is known.

An extent goes from the address to the last byte that is accessed; where there are gaps between, `dense_extent` counts
the bytes themselves. Of what warps do together, where each lane gives an address, it is the extent at each of these.
"""

from __future__ import annotations

from collections.abc import Mapping

from nvbackend.intrinsics.row.row import Operand, RegisterClass, Row
from nvbackend.intrinsics.row.semantics import BARRIER, Matrix

STRIDE = "stride"
_BARRIER_BYTES = 8
Constants = Mapping[str, int]
"""Operands of an instruction that are known at build time, by name."""


def known_extent(row: Row, operand: Operand, constants: Constants) -> int | None:
    """The bytes from the address in `operand` to the end of the access, where row and constants say so."""
    if operand.name == BARRIER:
        return _BARRIER_BYTES
    access = row.semantics.accesses(operand.name)
    extent = None if access is None or operand.register is RegisterClass.B64 else access.extent
    if isinstance(extent, Matrix):
        stride = constants.get(STRIDE) if row.has_operand(STRIDE) else extent.line
        return None if stride is None else extent.extent(stride)
    return constants.get(extent) if isinstance(extent, str) else extent


def dense_extent(row: Row, operand: str, bytes: int) -> int:
    """How many of the `bytes` of an access are accessed for certain: a matrix has gaps between its lines.

    So has the operand of an mma, whose layout or instruction descriptor says how large they are.
    """
    access = row.semantics.accesses(operand)
    if access is None:
        return bytes
    if isinstance(access.extent, Matrix):
        return min(bytes, access.extent.bytes)
    if row.operand(operand).register is not RegisterClass.B64:
        return bytes
    return min(bytes, access.extent) if isinstance(access.extent, int) else 0
