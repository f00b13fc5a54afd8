"""Copy atoms: one instruction that moves elements, and the threads that hold them before and after it.

The layouts go from (thread, value) to a number that both sides share: the bit, or the element, of what is moved. They
are CuTe's SrcLayout, DstLayout and RefLayout. PTX ISA 9.7.9 (ld, st, cp.async), 9.7.14 (ldmatrix, stmatrix); CUTLASS
include/cute/atom/copy_traits_sm*.hpp.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import field
from functools import partial

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.copy.load_store import ACCESS_BYTES
from nvbackend.intrinsics.copy.matrix_move import HALVES, ROW_BYTES, MatrixShape
from nvbackend.intrinsics.maps.matrix import rows_of
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.smem_descriptor import CORE_ROWS
from nvbackend.layout import Layout, recast_layout, size
from nvbackend.layout.algebra.swizzle import BYTE_BITS
from nvbackend.tiled.copy_rules import ELEMENT, WIDTH

_ROW_BITS = ROW_BYTES * BYTE_BITS
_REGISTER_BITS = 32
_MATRIX_BITS = CORE_ROWS * _ROW_BITS
_QUAD = 4
_WIDE_ACCESS_BYTES = 32
UNIVERSAL_BITS = (*(BYTE_BITS * each for each in ACCESS_BYTES), BYTE_BITS * _WIDE_ACCESS_BYTES)
"""Bits that a thread loads or stores at once; the widest only in global memory, from compute capability 10.0 on."""


class CopyKind(enum.Enum):
    """The kind of instruction that an atom moves elements with."""

    UNIVERSAL = "load and store"
    CP_ASYNC = "cp.async"
    LDMATRIX = "ldmatrix"
    STMATRIX = "stmatrix"

    def __str__(self) -> str:
        return self.value


@user_facing
@dataclass(frozen=True)
class CopyAtom:
    """One copy instruction for elements of type `element`, by CuTe's `name`. Made by the functions of this module.

    `src_bits`, `dst_bits` go from (thread, value) to a bit of what is moved; `access_bytes` is what one address leads
    to in shared or global memory, and what it must be a multiple of. `make_row` gives the instruction's row, None for
    a load and a store. Raises copy.element where a thread would hold parts of elements.
    """

    name: str
    kind: CopyKind
    element: ElementType
    src_bits: Layout
    dst_bits: Layout
    access_bytes: int
    make_row: Callable[[], Row] | None = field(compare=False, repr=False, default=None)

    def __post_init__(self) -> None:
        run = min(map(_run, (self.src_bits, self.dst_bits)))
        if run % self.element.bits:
            problem = f"a thread has {run} bits that follow each other, and an element {self.element.bits}"
            ELEMENT.fail(atom=self.name, element=self.element, problem=problem, wanted=f"at most {run}")

    def _in_elements(self, bits: Layout) -> Layout:
        return recast_layout(bits, 1, self.element.bits)

    @property
    def row(self) -> Row | None:
        """The instruction; None for a load and a store, which LLVM picks."""
        return None if self.make_row is None else self.make_row()

    @property
    def threads(self) -> int:
        """The threads that execute it together: 1, or a warp."""
        return size(self.src_bits, 0)

    @property
    def thr_id(self) -> Layout:
        """From a thread of the atom to its number in the warp: CuTe's ThrID."""
        return Layout(self.threads)

    @property
    def layout_src_tv(self) -> Layout:
        """(thread, value) of the source to the element: CuTe's ValLayoutSrc.

        In the source of ldmatrix a thread has the row that it gives the address of.
        """
        return self._in_elements(self.src_bits)

    @property
    def layout_dst_tv(self) -> Layout:
        """(thread, value) of the destination to the element: CuTe's ValLayoutDst."""
        return self._in_elements(self.dst_bits)

    @property
    def layout_ref_tv(self) -> Layout:
        """The layout that a tiled copy is laid out by: that of the registers (CuTe's ValLayoutRef)."""
        return self.layout_src_tv if self.kind is CopyKind.STMATRIX else self.layout_dst_tv

    @property
    def values(self) -> int:
        """The elements that a thread holds in registers."""
        return size(self.layout_ref_tv, 1)

    def __str__(self) -> str:
        return self.name


def _run(bits: Layout) -> int:
    """The bits of one thread's first values that follow each other."""
    return size(bits[1].modes[0])


@user_facing
def universal_copy(element: ElementType, bits: int | None = None) -> CopyAtom:
    """A load and a store of `bits` bits per thread, by default one element: CuTe's UniversalCopy<uint128_t>.

    256 bits are for global memory alone, from compute capability 10.0 on. Raises copy.width and copy.element.
    """
    width = element.bits if bits is None else bits
    if width not in UNIVERSAL_BITS:
        WIDTH.fail(instruction="load or store", given=f"{width} bits", legal=_listed(UNIVERSAL_BITS, "bits"))
    whole = Layout((1, width))
    return CopyAtom(f"UniversalCopy<uint{width}_t>", CopyKind.UNIVERSAL, element, whole, whole, width // BYTE_BITS)


@user_facing
def cp_async_copy(element: ElementType, bits: int = _ROW_BITS, *, cache: str = "ca") -> CopyAtom:
    """cp.async of 32, 64 or 128 bits per thread (`cache` "cg": 128) from global to shared memory.

    CuTe's SM80_CP_ASYNC_CACHEALWAYS and SM80_CP_ASYNC_CACHEGLOBAL. Raises copy.width and copy.element.
    """
    from nvbackend.intrinsics.copy import cp_async

    sizes = cp_async.SIZES.get(cache, ())
    if bits % BYTE_BITS or bits // BYTE_BITS not in sizes:
        known = {name: [BYTE_BITS * each for each in sizes] for name, sizes in cp_async.SIZES.items()}
        legal = "; ".join(f"{name}: {_listed(each, 'bits')}" for name, each in known.items())
        WIDTH.fail(instruction=f"cp.async.{cache}", given=f"{bits} bits", legal=legal)
    whole = Layout((1, bits))
    level = "CACHEALWAYS" if cache == "ca" else "CACHEGLOBAL"
    return CopyAtom(
        f"SM80_CP_ASYNC_{level}<uint{bits}_t>",
        CopyKind.CP_ASYNC,
        element,
        whole,
        whole,
        bits // BYTE_BITS,
        partial(cp_async.copy, cache, bits // BYTE_BITS),
    )


@user_facing
def ldmatrix_copy(
    element: ElementType,
    count: int = 4,
    *,
    transposed: bool = False,
    narrow: bool = False,
    packed: int | None = None,
) -> CopyAtom:
    """ldmatrix of `count` matrices: CuTe's SM75_U32x4_LDSM_N, with `transposed` SM75_U16x8_LDSM_T.

    `narrow` is the m16n16 matrix of bytes of sm_100a, which is always transposed: SM100_U8x16_LDSM_T. `packed` 4 or 6
    unpacks elements of as many bits, 16 of them and padding in the 16 bytes of a row, into bytes: `element` is that of
    the registers, and of shared memory counted in bytes; SM100_SU4_DU8x16_x4_LDSM_N. Raises copy.width, copy.element.
    """
    if packed is not None:
        return _packed_copy(element, count, packed, transposed=transposed)
    return _matrix_copy(CopyKind.LDMATRIX, element, count, transposed=transposed, narrow=narrow)


@user_facing
def stmatrix_copy(element: ElementType, count: int = 4, *, transposed: bool = False, narrow: bool = False) -> CopyAtom:
    """stmatrix of `count` matrices: CuTe's SM90_U32x4_STSM_N, with `transposed` SM90_U16x8_STSM_T.

    `narrow` is the m16n8 matrix of bytes of sm_100a, which is always transposed: SM100_U8x16_STSM_T. Raises
    copy.width and copy.element.
    """
    return _matrix_copy(CopyKind.STMATRIX, element, count, transposed=transposed, narrow=narrow)


@dataclass(frozen=True, slots=True)
class _Move:
    """The matrices of halves and of bytes that an instruction moves, its row, and in CuTe's names chip and word."""

    halves: MatrixShape
    narrow: MatrixShape
    make_row: Callable[[int, bool, str, str], Row]
    tier: int
    word: str


_MOVES = {
    CopyKind.LDMATRIX: _Move(matrix_move.LOADED[0], matrix_move.LOADED[1], matrix_move.ldmatrix, 75, "LDSM"),
    CopyKind.STMATRIX: _Move(matrix_move.STORED[0], matrix_move.STORED[1], matrix_move.stmatrix, 90, "STSM"),
}
_NARROW_TIER = 100


def _matrix_copy(kind: CopyKind, element: ElementType, count: int, *, transposed: bool, narrow: bool) -> CopyAtom:
    move = _MOVES[kind]
    shape = move.narrow if narrow else move.halves
    transposed = transposed or narrow
    if count not in shape.counts:
        WIDTH.fail(
            instruction=kind, given=f"{count} matrices", legal=_listed(shape.counts, f"matrices of {shape.name}")
        )
    registers = fragment_bits(shape, count, transposed=transposed)
    rows = row_bits(shape, count)
    unit = _run(registers) if transposed else _REGISTER_BITS
    values = f"U{unit}x{size(registers, 1) // unit}"
    name = f"SM{_NARROW_TIER if narrow else move.tier}_{values}_{move.word}_{'T' if transposed else 'N'}"
    src, dst = (rows, registers) if kind is CopyKind.LDMATRIX else (registers, rows)
    return CopyAtom(
        name, kind, element, src, dst, ROW_BYTES, partial(move.make_row, count, transposed, shape.name, shape.element)
    )


_PACKED = {6: matrix_move.PACKED[0], 4: matrix_move.PACKED[1]}
"""The PTX qualifier for bytes that are unpacked from narrower elements."""


def _packed_copy(element: ElementType, count: int, packed: int, *, transposed: bool) -> CopyAtom:
    instruction = f"ldmatrix that unpacks to bytes{' and transposes' if transposed else ''}"
    if packed not in _PACKED:
        WIDTH.fail(instruction=instruction, given=f"elements of {packed} bits", legal=_listed(sorted(_PACKED), "bits"))
    shapes = (
        matrix for matrix in matrix_move.LOADED if matrix.element == _PACKED[packed] and transposed in matrix.transposed
    )
    shape = next(shapes)
    if count not in shape.counts:
        WIDTH.fail(instruction=instruction, given=f"{count} matrices", legal=_listed(shape.counts, "matrices"))
    name = f"SM{_NARROW_TIER}_SU{packed}_DU8x16_x{count}_LDSM_{'T' if transposed else 'N'}"
    if element.bits != BYTE_BITS:
        problem = f"each element has a byte in a register, not {element.bits} bits"
        ELEMENT.fail(atom=name, element=element, problem=problem, wanted=f"{BYTE_BITS}")
    return CopyAtom(
        name,
        CopyKind.LDMATRIX,
        element,
        row_bits(shape, count),
        fragment_bits(shape, count, transposed=transposed),
        ROW_BYTES,
        partial(matrix_move.ldmatrix, count, transposed, shape.name, shape.element),
    )


def row_bits(shape: MatrixShape, count: int) -> Layout:
    """(lane, bit) to the bit of the row that the lane gives the address of; lanes beyond the rows repeat them."""
    rows = rows_of(shape) * count
    if rows == WARP_SIZE:
        return Layout((WARP_SIZE, _ROW_BITS), (_ROW_BITS, 1))
    return Layout(((rows, WARP_SIZE // rows), _ROW_BITS), ((_ROW_BITS, 0), 1))


def fragment_bits(shape: MatrixShape, count: int, *, transposed: bool) -> Layout:
    """(lane, bit of its registers) to the bit of the rows, of which the first matrix has the first."""
    if not transposed:
        matrices = ((count, _MATRIX_BITS),) if count > 1 else ()
        return _modes(((WARP_SIZE, _REGISTER_BITS),), ((_REGISTER_BITS, 1), *matrices))
    bits = 2 * BYTE_BITS if shape is HALVES else BYTE_BITS
    half_a_row = () if shape is HALVES else ((2, _ROW_BITS // 2),)
    whole = ((shape.registers, 2 * _ROW_BITS), (count, rows_of(shape) * _ROW_BITS))
    neighbours = ((2, _ROW_BITS), *half_a_row, *(mode for mode in whole if mode[0] > 1))
    lanes = ((_QUAD, 2 * shape.registers * _ROW_BITS), (CORE_ROWS, bits))
    return _modes(lanes, ((bits, 1), *neighbours))


def _modes(*parts: tuple[tuple[int, int], ...]) -> Layout:
    shapes, strides = (
        tuple(tuple(mode[place] for mode in part) if len(part) > 1 else part[0][place] for part in parts)
        for place in (0, 1)
    )
    return Layout(shapes, strides)


def _listed(numbers: Iterable[int], unit: str) -> str:
    return f"{', '.join(map(str, numbers))} {unit}"
