"""Which element each thread of a warp holds for mma.sync: A, B, C and D, sparse metadata, scale factors.

PTX ISA 9.7.14.3 (scale factors), 9.7.14.5 (fragments) and 9.7.14.6 (sparse A). `shape` is the instruction's (M, N, K);
`lane` the thread's number in its warp, 0 to 31; positions are (row, column) of the M x K, K x N or M x N tile. An index
counts the thread's elements: the lowest bits of register 0 first, then upwards, then register 1. `bits` is what an
element takes in a register: 8 for the types of 6 and 4 bits of `kind::f8f6f4` and `kind::mxf8f6f4`.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.intrinsics.fragments.warpgroup import check_index
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import ElementType, f32

Shape = tuple[int, int, int]
"""M, N and K in elements."""

QUAD = 4
"""Consecutive threads that share a row of A and a column of B."""
FOUR_MATRICES: Shape = (8, 8, 4)
"""The shape of f16 in which a warp multiplies four pairs of matrices, each in the threads of two quads."""
_MATRICES = 4
_CORE_ROWS = 8
_REGISTER_BITS = 32
_CHUNK_BITS = 4
_CHUNKS = _REGISTER_BITS // _CHUNK_BITS


def _elements_a_register(bits: int) -> int:
    return max(1, _REGISTER_BITS // bits)


def _matrices(shape: Shape, bits: int) -> int:
    """The multiplications that a warp does at once: several for f16 and its accumulators, in one shape."""
    return _MATRICES if shape == FOUR_MATRICES and bits <= _REGISTER_BITS else 1


def a_registers(shape: Shape, bits: int) -> int:
    """Registers a thread that hold A; an f64 counts as one. A sparse A is one of K/2 columns."""
    m, _, k = shape
    return _matrices(shape, bits) * m * k // WARP_SIZE // _elements_a_register(bits)


def b_registers(shape: Shape, bits: int) -> int:
    """Registers a thread that hold B."""
    _, n, k = shape
    return _matrices(shape, bits) * k * n // WARP_SIZE // _elements_a_register(bits)


def d_registers(shape: Shape, bits: int) -> int:
    """Registers a thread that hold C or D."""
    m, n, _ = shape
    return _matrices(shape, bits) * m * n // WARP_SIZE // _elements_a_register(bits)


def a_position(shape: Shape, bits: int, lane: int, index: int) -> tuple[int, int]:
    """Row and column of element `index` of A. Of a sparse A give K/2: the column is one of the packed matrix."""
    per_register = _elements_a_register(bits)
    check_index("lane", lane, WARP_SIZE)
    check_index("index", index, a_registers(shape, bits) * per_register)
    register, place = divmod(index, per_register)
    block, core = divmod(register, shape[0] // _CORE_ROWS)
    return core * _CORE_ROWS + lane // QUAD, (block * QUAD + lane % QUAD) * per_register + place


def b_position(shape: Shape, bits: int, lane: int, index: int) -> tuple[int, int]:
    """Row (along K) and column of element `index` of B."""
    per_register = _elements_a_register(bits)
    check_index("lane", lane, WARP_SIZE)
    check_index("index", index, b_registers(shape, bits) * per_register)
    register, place = divmod(index, per_register)
    return (register * QUAD + lane % QUAD) * per_register + place, lane // QUAD


def d_position(shape: Shape, lane: int, index: int) -> tuple[int, int]:
    """Row and column of element `index` of C and D; of f16, index 0 is the lower half of register 0."""
    m, n, _ = shape
    check_index("lane", lane, WARP_SIZE)
    check_index("index", index, m * n // WARP_SIZE)
    core, lower = divmod(index, 2)
    return core * _CORE_ROWS + lane // QUAD, 2 * (lane % QUAD) + lower


def matrix_of(lane: int) -> int:
    """Which of the four multiplications of FOUR_MATRICES `lane` takes part in. PTX ISA 9.7.14.5.1."""
    check_index("lane", lane, WARP_SIZE)
    return lane // QUAD % _MATRICES


def four_matrices_a_position(layout: str, lane: int, index: int) -> tuple[int, int]:
    """Row and column of f16 `index` (0 to 3) of A in its matrix; `layout` is row or col. PTX ISA 9.7.14.5.1."""
    quad, inner, index = _of_four_matrices(lane, index, QUAD)
    return (quad * QUAD + inner, index) if layout == "row" else (quad * QUAD + index, inner)


def four_matrices_b_position(layout: str, lane: int, index: int) -> tuple[int, int]:
    """Row and column of f16 `index` (0 to 3) of B in its matrix; `layout` is row or col. PTX ISA 9.7.14.5.1."""
    quad, inner, index = _of_four_matrices(lane, index, QUAD)
    return (inner, quad * QUAD + index) if layout == "row" else (index, quad * QUAD + inner)


def four_matrices_d_position(element: ElementType, lane: int, index: int) -> tuple[int, int]:
    """Row and column of element `index` (0 to 7) of C or D of type f16 or f32 in its matrix. PTX ISA 9.7.14.5.1."""
    quad, inner, index = _of_four_matrices(lane, index, 2 * QUAD)
    if element is not f32:
        return quad * QUAD + inner, index
    return quad * QUAD + inner % 2 + (index & 2), (index & 4) + (inner & 2) + index % 2


def _of_four_matrices(lane: int, index: int, elements: int) -> tuple[int, int, int]:
    check_index("lane", lane, WARP_SIZE)
    check_index("index", index, elements)
    return lane // (QUAD * _MATRICES), lane % QUAD, index


def chunk_width(bits: int) -> int:
    """Columns of the unpacked A that 4 bits of metadata speak of: half of them are kept.

    1 of 2 elements of 32 bits, 2 of 4 of 16 and 8 bits, 2 of 4 pairs of 4 bits. PTX ISA 9.7.14.6.1.
    """
    return {32: 2, 4: 8}.get(bits, 4)


def metadata_threads(shape: Shape, bits: int) -> int:
    """How many threads of each quad give metadata: 1, 2 or 4."""
    cores = shape[0] // _CORE_ROWS
    return cores * shape[2] // chunk_width(bits) * _CHUNK_BITS // _REGISTER_BITS


def selectors(shape: Shape, bits: int) -> tuple[int, ...]:
    """The sparsity selectors: which of the groups of `metadata_threads` threads of each quad gives the metadata."""
    return tuple(range(QUAD // metadata_threads(shape, bits)))


def metadata_counts(shape: Shape, bits: int, lane: int, selector: int) -> bool:
    """Whether the hardware reads the metadata register of `lane` under sparsity `selector`."""
    check_index("lane", lane, WARP_SIZE)
    check_index("selector", selector, len(selectors(shape, bits)))
    return lane % QUAD // metadata_threads(shape, bits) == selector


def metadata_chunk(shape: Shape, bits: int, lane: int, chunk: int) -> tuple[int, int]:
    """Row and first column (of the unpacked A) that 4-bit `chunk` (0 to 7) of the metadata of `lane` speaks of.

    PTX ISA 9.7.14.6.2, figures of the metadata.
    """
    check_index("lane", lane, WARP_SIZE)
    check_index("chunk", chunk, _CHUNKS)
    rank = lane % QUAD % metadata_threads(shape, bits)
    if bits <= 8:
        block, core = divmod(rank, 2)
        return core * _CORE_ROWS + lane // QUAD, (block * _CHUNKS + chunk) * chunk_width(bits)
    core, place = divmod(chunk, _CHUNKS // 2)
    return core * _CORE_ROWS + lane // QUAD, (rank * _CHUNKS // 2 + place) * chunk_width(bits)


SCALE_A_THREADS = (0, 1)
"""Legal thread-id-a: which two threads of each quad give the scale factors of its two rows of A."""
SCALE_B_THREADS: Sequence[int] = tuple(range(QUAD))
"""Legal thread-id-b: which thread of each quad gives the scale factors of its column of B."""


def scale_bytes(scale_vec: int) -> tuple[int, ...]:
    """Legal byte-id for `scale_vec` (1, 2 or 4) factors a row or column: the byte of the first of them."""
    return tuple(range(0, _REGISTER_BITS // 8, scale_vec))


def scale_a_row(lane: int, thread_id: int) -> int | None:
    """The row of A whose scale factors `lane` gives, None where its register does not count. PTX ISA 9.7.14.3."""
    check_index("lane", lane, WARP_SIZE)
    check_index("thread-id-a", thread_id, len(SCALE_A_THREADS))
    pair, core = divmod(lane % QUAD, 2)
    return core * _CORE_ROWS + lane // QUAD if pair == thread_id else None


def scale_b_column(lane: int, thread_id: int) -> int | None:
    """The column of B whose scale factors `lane` gives, None where its register does not count. PTX ISA 9.7.14.3."""
    check_index("lane", lane, WARP_SIZE)
    check_index("thread-id-b", thread_id, len(SCALE_B_THREADS))
    return lane // QUAD if lane % QUAD == thread_id else None


def scale_a_position(lane: int, index: int) -> tuple[int, int]:
    """Row of A, and number of the factor along K, of factor `index` (0 to 3) of `lane`, where its register counts.

    The factor is byte `index` after byte-id-a. PTX ISA 9.7.14.3.
    """
    check_index("index", index, _REGISTER_BITS // 8)
    row = scale_a_row(lane, lane % QUAD // 2)
    assert row is not None
    return row, index


def scale_b_position(lane: int, index: int) -> tuple[int, int]:
    """Number of the factor along K, and column of B, of factor `index` (0 to 3) of `lane`, where its register counts.

    The factor is byte `index` after byte-id-b. PTX ISA 9.7.14.3.
    """
    check_index("index", index, _REGISTER_BITS // 8)
    column = scale_b_column(lane, lane % QUAD)
    assert column is not None
    return index, column
