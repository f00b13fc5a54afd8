"""Rows that move matrix fragments between registers and shared memory, and pack what goes there.

PTX ISA 9.7.14 (ldmatrix, stmatrix, movmatrix), 9.7.9 (cvt, prmt). A fragment register holds two neighbouring elements
of a row of an 8x8 matrix of 16-bit elements: lane t holds row t/4, columns 2*(t%4) and 2*(t%4)+1. Lanes 0-7 give the
row addresses of the first matrix, 8-15 of the second and so on, each 16-byte aligned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    PtxVersion,
    RegisterClass,
    Row,
    chosen,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Semantics, reads, writes

MATRIX_COUNTS = (1, 2, 4)
"""8x8 matrices that one ldmatrix or stmatrix moves."""

_SECTION = "9.7.14"
ROWS, ROW_BYTES = 8, 16
"""Rows of a matrix, and bytes of one, which its address is a multiple of. Each lane gives one of them."""
_ADDRESS = operand(
    "address",
    RegisterClass.SHARED,
    meaning="this lane's row of one of the matrices, 16-byte aligned",
    align=ROW_BYTES,
)


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """A kind of matrix that ldmatrix or stmatrix moves: the counts and transpositions that exist, and its registers.

    `name` and `element` are the PTX qualifiers; `registers` a lane has for one matrix.
    """

    name: str
    element: str
    counts: tuple[int, ...] = MATRIX_COUNTS
    transposed: tuple[bool, ...] = (False, True)
    registers: int = 1


PACKED = ("b8x16.b6x16_p32", "b8x16.b4x16_p64")
"""Bytes in registers, 6- or 4-bit elements with padding in shared memory."""
HALVES = MatrixShape("m8n8", "b16")
LOADED: tuple[MatrixShape, ...] = (
    HALVES,
    *(MatrixShape("m16n16", element, (1, 2), (True,), registers=2) for element in ("b8", *PACKED)),
    *(MatrixShape("m8n16", element, transposed=(False,)) for element in PACKED),
)
"""What ldmatrix moves."""
STORED: tuple[MatrixShape, ...] = (HALVES, MatrixShape("m16n8", "b8", transposed=(True,)))
"""What stmatrix moves."""
_NARROW = Feature.SM_100 | Feature.FAMILY_CONDITIONAL
_NARROW_PTX: PtxVersion = (8, 6)


def _found(shapes: tuple[MatrixShape, ...], shape: str, element: str, count: int, transposed: bool) -> MatrixShape:
    by_name = {(each.name, each.element): each for each in shapes}
    matrix = by_name[chosen("shape", (shape, element), by_name)]
    chosen("count", count, matrix.counts)
    chosen("transposed", transposed, matrix.transposed)
    return matrix


def _move(opcode: str, matrix: MatrixShape, count: int, transposed: bool) -> tuple[str, str]:
    """The spelling and the intrinsic's name."""
    shape = spelled(f"sync.aligned.{matrix.name}.x{count}", "trans" if transposed else None)
    space = RegisterClass.SHARED.addrspace
    return f"{opcode}.{shape}.shared.{matrix.element}", f"llvm.nvvm.{opcode}.{shape}.{matrix.element}.p{space}"


def _lanes(matrix: MatrixShape, count: int) -> int:
    """The lanes whose addresses are used; not known of other elements than those of 16 bits."""
    return ROWS * count if matrix is HALVES else 0


@cache
def ldmatrix(count: int, transposed: bool = False, shape: str = HALVES.name, element: str = HALVES.element) -> Row:
    """ldmatrix: `count` matrices from shared memory into `fragment`, one register a matrix (two for m16n16).

    `shape` and `element` are one of LOADED: m8n8 of b16; m16n16, always transposed, and m8n16 of narrow elements.
    """
    matrix = _found(LOADED, shape, element, count, transposed)
    ptx, intrinsic = _move("ldmatrix", matrix, count, transposed)
    return Row(
        family="ldmatrix",
        opcode="ldmatrix",
        ptx=ptx,
        operands=(
            output("fragment", RegisterClass.B32, count * matrix.registers, meaning="the matrices, one after another"),
            _ADDRESS,
        ),
        lowering=Intrinsic(intrinsic, ("address",)),
        requires=Feature.SM_75 if matrix is HALVES else _NARROW,
        ptx_version=(6, 5) if matrix is HALVES else _NARROW_PTX,
        effects=Effect.CONVERGENT | Effect.READS_MEMORY,
        semantics=Semantics(memory=(reads(_ADDRESS.name, ROW_BYTES, _lanes(matrix, count)),)),
        section=f"{_SECTION} (ldmatrix)",
        summary=f"Loads {shape} matrices of {element} elements from shared memory, a warp together.",
        axes={"count": count, "transposed": transposed, "shape": shape, "element": element},
    )


@cache
def stmatrix(count: int, transposed: bool = False, shape: str = HALVES.name, element: str = HALVES.element) -> Row:
    """stmatrix: `count` `fragment` registers into as many matrices in shared memory.

    `shape` and `element` are one of STORED: m8n8 of b16, or m16n8 of b8, always transposed.
    """
    matrix = _found(STORED, shape, element, count, transposed)
    ptx, intrinsic = _move("stmatrix", matrix, count, transposed)
    return Row(
        family="stmatrix",
        opcode="stmatrix",
        ptx=ptx,
        operands=(_ADDRESS, operand("fragment", RegisterClass.B32, count, meaning="one register a matrix")),
        lowering=Intrinsic(intrinsic, ("address", "fragment")),
        requires=Feature.SM_90 if matrix is HALVES else _NARROW,
        ptx_version=(7, 8) if matrix is HALVES else _NARROW_PTX,
        effects=Effect.CONVERGENT | Effect.WRITES_MEMORY,
        semantics=Semantics(memory=(writes(_ADDRESS.name, ROW_BYTES, _lanes(matrix, count)),)),
        section=f"{_SECTION} (stmatrix)",
        summary=f"Stores {shape} matrices of {element} elements to shared memory, a warp together.",
        axes={"count": count, "transposed": transposed, "shape": shape, "element": element},
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
def pack_two(pair: str) -> Row:
    """Four f32 to two pairs of 16 bits in one register, `low` in the lowest bits: `pack` twice, joined.

    For what packs registers by itself; not in the catalogue, which has one instruction a row. Raises NoSuchRow.
    """
    row = pack(chosen("pair", pair, [name for name, kind in PACKED_TYPES.items() if kind[0] is RegisterClass.B16]))
    join = "cvt.u32.u16 word, pair; shl.b32 word, word, 16; "
    lower = "{ptx} pair, {second}, {low}; cvt.u32.u16 {packed}, pair; or.b32 {packed}, {packed}, word; "
    return replace(
        row,
        operands=(
            output("packed", RegisterClass.B32),
            *(operand(name, RegisterClass.F32) for name in ("high", "third", "second", "low")),
        ),
        lowering=Asm(f"{{{{ .reg .b16 pair; .reg .b32 word; {{ptx}} pair, {{high}}, {{third}}; {join}{lower}}}}}"),
        summary="Rounds four f32 to nearest even and packs them.",
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
    for move, shapes in ((ldmatrix, LOADED), (stmatrix, STORED)):
        for shape in shapes:
            for count in shape.counts:
                yield from (move(count, transposed, shape.name, shape.element) for transposed in shape.transposed)
    yield movmatrix()
    yield from (pack(pair, relu) for pair in PACKED_TYPES for relu in (False, True))
    yield prmt()
