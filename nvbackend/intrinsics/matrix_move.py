"""Rows that move matrix fragments between registers and shared memory, and pack what goes there.

PTX ISA 9.7.14 (ldmatrix, stmatrix, movmatrix), 9.7.9 (cvt, prmt). A fragment register holds two neighbouring elements
of a row of an 8x8 matrix of 16-bit elements: lane t holds row t/4, columns 2*(t%4) and 2*(t%4)+1. Lanes 0-7 give the
row addresses of the first matrix, 8-15 of the second and so on, each 16-byte aligned.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.axes import chosen, spelled
from nvbackend.intrinsics.features import Feature
from nvbackend.intrinsics.row import Asm, Effect, Intrinsic, PtxVersion, RegisterClass, Row, operand, output

MATRIX_COUNTS = (1, 2, 4)
"""8x8 matrices that one ldmatrix or stmatrix moves."""

_SECTION = "9.7.14"
_ADDRESS = operand("address", RegisterClass.SHARED, meaning="this lane's row of one of the matrices, 16-byte aligned")


def _move(opcode: str, count: int, transposed: bool) -> tuple[str, str]:
    """The qualifiers after the opcode, with and without the state space: as PTX has them, and as LLVM does."""
    shape = spelled("sync.aligned.m8n8", f"x{chosen('count', count, MATRIX_COUNTS)}", "trans" if transposed else None)
    return f"{opcode}.{shape}.shared.b16", f"llvm.nvvm.{opcode}.{shape}.b16.p{RegisterClass.SHARED.addrspace}"


@cache
def ldmatrix(count: int, transposed: bool = False) -> Row:
    """ldmatrix: `count` 8x8 matrices of 16-bit elements from shared memory into `count` `fragment` registers."""
    ptx, intrinsic = _move("ldmatrix", count, transposed)
    return Row(
        family="ldmatrix",
        opcode="ldmatrix",
        ptx=ptx,
        operands=(output("fragment", RegisterClass.B32, count, meaning="one register a matrix"), _ADDRESS),
        lowering=Intrinsic(intrinsic, ("address",)),
        requires=Feature.SM_75,
        ptx_version=(6, 5),
        effects=Effect.CONVERGENT | Effect.READS_MEMORY,
        section=f"{_SECTION} (ldmatrix)",
        summary="Loads 8x8 matrices of 16-bit elements from shared memory, a warp together.",
        axes={"count": count, "transposed": transposed},
    )


@cache
def stmatrix(count: int, transposed: bool = False) -> Row:
    """stmatrix: `count` `fragment` registers into 8x8 matrices of 16-bit elements in shared memory."""
    ptx, intrinsic = _move("stmatrix", count, transposed)
    return Row(
        family="stmatrix",
        opcode="stmatrix",
        ptx=ptx,
        operands=(_ADDRESS, operand("fragment", RegisterClass.B32, count, meaning="one register a matrix")),
        lowering=Intrinsic(intrinsic, ("address", "fragment")),
        requires=Feature.SM_90,
        ptx_version=(7, 8),
        effects=Effect.CONVERGENT | Effect.WRITES_MEMORY,
        section=f"{_SECTION} (stmatrix)",
        summary="Stores 8x8 matrices of 16-bit elements to shared memory, a warp together.",
        axes={"count": count, "transposed": transposed},
    )


@cache
def movmatrix() -> Row:
    """movmatrix: transpose one 8x8 matrix of 16-bit elements in registers. LLVM has no intrinsic for it."""
    return Row(
        family="movmatrix",
        opcode="movmatrix",
        ptx="movmatrix.sync.aligned.m8n8.trans.b16",
        operands=(output("fragment", RegisterClass.B32), operand("source", RegisterClass.B32)),
        lowering=Asm("{ptx} {fragment}, {source};"),
        requires=Feature.SM_75,
        ptx_version=(7, 8),
        effects=Effect.CONVERGENT,
        section=f"{_SECTION} (movmatrix)",
        summary="Transposes an 8x8 matrix that lies across the warp's registers.",
    )


PACKED_TYPES: dict[str, tuple[RegisterClass, Feature, PtxVersion, str | None]] = {
    "f16x2": (RegisterClass.B32, Feature.SM_80, (7, 0), None),
    "bf16x2": (RegisterClass.B32, Feature.SM_80, (7, 0), None),
    "e4m3x2": (RegisterClass.B16, Feature.SM_89, (8, 1), "satfinite"),
    "e5m2x2": (RegisterClass.B16, Feature.SM_89, (8, 1), "satfinite"),
}
"""Pair types: register, what the conversion needs, and the saturation that its spelling must have."""


@cache
def pack(pair: str, relu: bool = False) -> Row:
    """cvt.rn from two f32 to a pair: `high` goes to the upper half of `packed`, `low` to the lower.

    `relu` clamps negative values to zero. Raises NoSuchRow for a pair that PACKED_TYPES lacks. By asm, so that a pair
    is an integer register like every other operand, where LLVM's intrinsics return vectors of two.
    """
    register, requires, ptx_version, saturation = PACKED_TYPES[chosen("pair", pair, PACKED_TYPES)]
    return Row(
        family="convert",
        opcode="cvt",
        ptx=spelled("cvt.rn", saturation, "relu" if relu else None, pair, "f32"),
        operands=(
            output("packed", register),
            operand("high", RegisterClass.F32),
            operand("low", RegisterClass.F32),
        ),
        lowering=Asm("{ptx} {packed}, {high}, {low};"),
        requires=requires,
        ptx_version=ptx_version,
        section="9.7.9 (cvt)",
        summary="Rounds two f32 to nearest even and packs them.",
        axes={"pair": pair, "relu": relu},
    )


@cache
def prmt() -> Row:
    """prmt: four bytes picked out of `low` (bytes 0-3) and `high` (4-7) by the nibbles of `selector`."""
    return Row(
        family="convert",
        opcode="prmt",
        ptx="prmt.b32",
        operands=(
            output("bytes", RegisterClass.B32),
            operand("low", RegisterClass.B32),
            operand("high", RegisterClass.B32),
            operand("selector", RegisterClass.B32, meaning="a nibble for each byte; bit 3 replicates the sign"),
        ),
        lowering=Intrinsic("llvm.nvvm.prmt", ("low", "high", "selector")),
        section="9.7.9 (prmt)",
        summary="Permutes bytes.",
    )


def rows() -> Iterator[Row]:
    """Every row of this module."""
    for count in MATRIX_COUNTS:
        for transposed in (False, True):
            yield from (ldmatrix(count, transposed), stmatrix(count, transposed))
    yield movmatrix()
    yield from (pack(pair, relu) for pair in PACKED_TYPES for relu in (False, True))
    yield prmt()
