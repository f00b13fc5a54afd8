"""Thread-value layouts: which elements of an operand each thread of an MMA atom has, as CuTe writes it.

(thread, value) goes to row + rows * column of the tile: M x K of A, N x K of B, M x N of C. One formula a kind of
operand serves all shapes and widths. PTX ISA 9.7.14.5, 9.7.15.5.1; CUTLASS include/cute/atom/mma_traits_sm*.hpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.intrinsics.fragments.mma import QUAD, chunk_width, metadata_threads
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.words.smem_descriptor import CORE_ROWS, Major
from nvbackend.layout import IntTuple, Layout

_REGISTER_BITS = 32
_CHUNKS = 8
"""Groups of elements that a register of metadata speaks of."""
_WHOLE_ROW_BITS = 8
"""Up to this width all metadata of a register belongs to one row of A."""
_PAIR = 2
"""Adjacent elements of an accumulator's row that one thread holds."""

Mode = tuple[int, int]
"""Extent and stride."""


def multiplicand(rows: int, columns: int, bits: int, warps: int = 1) -> Layout:
    """A in registers, M x K, or B as N x K, elements of `bits`: a register has neighbours along K.

    Of a sparse A, `columns` are those stored.
    """
    neighbours = max(1, _REGISTER_BITS // bits)
    block = QUAD * neighbours
    values = ((neighbours, rows), (rows // warps // CORE_ROWS, CORE_ROWS), (columns // block, block * rows))
    return _layout(_threads(rows, neighbours, warps), _only_long(values))


def accumulator(m: int, n: int, warps: int = 1) -> Layout:
    """C and D in registers, M x N, of any width: two neighbours of a row, then the core matrices downwards."""
    down, right = (m // warps // CORE_ROWS, CORE_ROWS), (n // CORE_ROWS, CORE_ROWS * m)
    if warps > 1:
        return _layout(_threads(m, _PAIR, warps), ((_PAIR, m), down, right))  # CuTe keeps the mode of N, also of N = 8
    return _layout(_threads(m, _PAIR, warps), _only_long(((_PAIR, m), down, right)))


def four_matrices_multiplicand(major: Major) -> Layout:
    """A or B of m8n8k4 of f16, in the eight threads that multiply one pair of matrices. PTX ISA 9.7.14.5.1."""
    if major is Major.K:
        return Layout((CORE_ROWS, QUAD), (1, CORE_ROWS))
    return Layout(((QUAD, 2), QUAD), ((CORE_ROWS, QUAD), 1))


def four_matrices_accumulator(bits: int) -> Layout:
    """C or D of m8n8k4 of f16, of 16 or 32 bits. PTX ISA 9.7.14.5.1."""
    if bits < _REGISTER_BITS:
        return Layout((CORE_ROWS, CORE_ROWS), (1, CORE_ROWS))
    return Layout(((2, 2, 2), (2, 2, 2)), ((1, 2 * CORE_ROWS, QUAD), (CORE_ROWS, 2, QUAD * CORE_ROWS)))


def four_matrices_threads() -> Layout:
    """The lanes of the eight threads of the first pair of matrices: CuTe's ThrID."""
    return Layout((QUAD, 2), (1, WARP_SIZE // 2))


def metadata(m: int, k: int, bits: int, warps: int = 1) -> Layout:
    """The elements of a sparse A, M x K unpacked, that a thread's metadata register speaks of: CuTe's ELayout.

    Where only the threads of the sparsity selector give metadata, all have the same layout. PTX ISA 9.7.14.6.2.
    """
    tile = (m // warps, CORE_ROWS, k)
    count, width = metadata_threads(tile, bits), chunk_width(bits)
    down = (m // warps // CORE_ROWS, CORE_ROWS)
    if bits <= _WHOLE_ROW_BITS:  # a register speaks of one row; the next thread's of that eight rows below
        along = _CHUNKS * width
        quad: tuple[Mode, ...] = (down, (count // down[0], along * m), (QUAD // count, 0))
        values: tuple[Mode, ...] = ((along, m),)
    else:
        along = _CHUNKS // down[0] * width
        quad = ((count, along * m), (QUAD // count, 0))
        values = ((along, m), down)
    threads = (*_only_long(quad), (CORE_ROWS, 1), *_only_long(((warps, m // warps),)))
    return _layout(threads, values)


def scale_factors_a(m: int, k: int) -> Layout:
    """The elements of A whose scale factors a thread's register has: CuTe's SFALayout. PTX ISA 9.7.14.3.

    Two threads of a quad have the same; thread-id-a says which of them counts.
    """
    return _layout(((m // CORE_ROWS, CORE_ROWS), (QUAD * CORE_ROWS // m, 0), (CORE_ROWS, 1)), ((k, m),))


def scale_factors_b(n: int, k: int) -> Layout:
    """The elements of B whose scale factors a thread's register has: CuTe's SFBLayout. PTX ISA 9.7.14.3.

    The threads of a quad have the same; thread-id-b says which of them counts.
    """
    return _layout(((QUAD, 0), (CORE_ROWS, 1)), ((k, n),))


def whole(rows: int, columns: int, threads: int) -> Layout:
    """An operand in memory, whole for all threads."""
    return Layout((threads, (rows, columns)), (0, (1, rows)))


def split(rows: int, columns: int, parts: int) -> Layout:
    """An operand in memory of which each of the CTAs of a group has its rows."""
    each = rows // parts
    return Layout((parts, (each, columns)), (each if parts > 1 else 0, (1, rows)))


def _threads(rows: int, neighbours: int, warps: int) -> tuple[Mode, ...]:
    """A quad along the row, eight quads down, and then the warps."""
    lanes = ((QUAD, neighbours * rows), (CORE_ROWS, 1))
    return (*lanes, (warps, rows // warps)) if warps > 1 else lanes


def _only_long(modes: Sequence[Mode]) -> tuple[Mode, ...]:
    """The modes without those of one element, as CuTe writes the layouts of a warp."""
    return tuple(mode for mode in modes if mode[0] > 1)


def _layout(threads: Sequence[Mode], values: Sequence[Mode]) -> Layout:
    modes = (threads, values or ((1, 0),))
    shape, stride = (tuple(_bare([mode[part] for mode in each]) for each in modes) for part in (0, 1))
    return Layout(shape, stride)


def _bare(numbers: list[int]) -> IntTuple:
    return numbers[0] if len(numbers) == 1 else tuple(numbers)
