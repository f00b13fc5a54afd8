"""Which element each register holds of a matrix that a warp or a warpgroup has: PTX ISA 9.7.14.5, 9.7.14.6, 9.7.15.5.

groupID is lane / 4, and the thread of the group lane % 4. A register of 32 bits holds neighbours: along K of A and B,
along N of C and D.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass

Array = NDArray[Any]

WARP = 32
REGISTER = 32
"""Bits."""
_EIGHT = 8


@dataclass(frozen=True, eq=False)
class Fragment:
    """A matrix of `rows` x `columns` in the registers of `threads` threads, elements of `width` bits.

    `row` and `column` say where element i of each thread is, arrays of shape (elements, threads); the lowest bits of
    register 0 are element 0. Registers are uint32, of f64 uint64.
    """

    rows: int
    columns: int
    width: int
    row: Array
    column: Array

    @property
    def threads(self) -> int:
        """32 of a warp, 128 of a warpgroup."""
        return int(self.row.shape[1])

    @property
    def packed(self) -> int:
        """Elements of a register."""
        return max(1, REGISTER // self.width)

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return len(self.row) // self.packed

    @cached_property
    def _places(self) -> Array:
        """The place in the matrix of each thread's elements, one thread after the other."""
        places: Array = (self.row * self.columns + self.column).T.ravel()
        return places

    @cached_property
    def _sources(self) -> Array:
        """Of each place in the matrix, the first element of a thread that is there."""
        return np.unique(self._places, return_index=True)[1]

    def matrix(self, registers: Array) -> Array:
        """The codes of the matrices in (registers, n) of n / threads warps or warpgroups: (matrices, rows, columns)."""
        elements = _unpacked(registers, self.width)
        flat = elements.reshape(-1, self.threads * len(self.row))
        return np.take(flat, self._sources, axis=1).reshape(-1, self.rows, self.columns)

    def fill(self, matrices: Array) -> Array:
        """The registers of such matrices of codes: `matrix` undone."""
        flat = np.take(matrices.reshape(len(matrices), -1), self._places, axis=1)
        return _packed(flat.reshape(-1, len(self.row)), self.width)


def _unpacked(registers: Array, width: int) -> Array:
    """(n, elements) of (registers, n)."""
    if width >= REGISTER:
        return registers.T
    steps = np.arange(0, REGISTER, width, dtype=np.uint32)
    codes = (registers.T[:, :, None] >> steps) & np.uint32((1 << width) - 1)
    return codes.reshape(registers.shape[1], -1)


def _packed(elements: Array, width: int) -> Array:
    """(registers, n) of (n, elements)."""
    if width == 2 * REGISTER:
        return np.ascontiguousarray(elements.T.astype(np.uint64))
    codes = elements.astype(np.uint32).reshape(len(elements), -1, REGISTER // width)
    steps = np.arange(0, REGISTER, width, dtype=np.uint32)
    words: Array = np.bitwise_or.reduce(codes << steps, axis=2)
    return np.ascontiguousarray(words.T)


def _fragment(rows: int, columns: int, width: int, row: Array, column: Array) -> Fragment:
    """The fragment, with both formulas at full shape."""
    return Fragment(rows, columns, width, *np.broadcast_arrays(row, column))


def _elements(count: int, threads: int = WARP) -> tuple[Array, Array, Array]:
    """Element numbers, groupID and threadID_in_group, which broadcast to (elements, threads)."""
    lane = np.arange(threads) % WARP
    return np.arange(count)[:, None], lane >> 2, lane & 3


def _per_register(width: int) -> int:
    return max(1, REGISTER // width)


@cache
def a_fragment(m: int, k: int, width: int) -> Fragment:
    """A of mma.sync, m x k, or of wgmma with m = 64; k counts the elements that are stored where A is sparse."""
    threads = WARP * max(1, m // 16)
    i, group, thread = _elements(m * k // threads, threads)
    per = _per_register(width)
    register, inside = i // per, i % per
    halves = 2 if m >= 16 else 1
    row = group + _EIGHT * (register % halves) + 16 * (np.arange(threads) // WARP)
    return _fragment(m, k, width, row, thread * per + inside + 4 * per * (register // halves))


@cache
def b_fragment(k: int, n: int, width: int) -> Fragment:
    """B of mma.sync, k x 8."""
    i, group, thread = _elements(k * n // WARP)
    per = _per_register(width)
    row = thread * per + i % per + 4 * per * (i // per)
    return _fragment(k, n, width, row, group)


@cache
def d_fragment(m: int, n: int, width: int) -> Fragment:
    """C and D of mma.sync, m x 8, and of wgmma, 64 x n."""
    threads = WARP * max(1, m // 16)
    i, group, thread = _elements(m * n // threads, threads)
    if m < 16:
        return _fragment(m, n, width, group, 2 * thread + i)
    row = group + _EIGHT * (i // 2 % 2) + 16 * (np.arange(threads) // WARP)
    return _fragment(m, n, width, row, _EIGHT * (i // 4) + 2 * thread + i % 2)


@cache
def quad_a_fragment(layout: str) -> Fragment:
    """A of the four multiplications of m8n8k4 of f16, one below the other: 32 x 4. PTX ISA 9.7.14.5.1."""
    i, lane, matrix, high = _quads(4)
    row, column = (lane % 4, i) if layout == "row" else (i, lane % 4)
    return _fragment(32, 4, 16, 8 * matrix + row + high, column)


@cache
def quad_b_fragment(layout: str) -> Fragment:
    """B of the four multiplications, one below the other: 16 x 8."""
    i, lane, matrix, high = _quads(4)
    row, column = (lane % 4, i) if layout == "row" else (i, lane % 4)
    return _fragment(16, 8, 16, 4 * matrix + row, column + high)


@cache
def quad_d_fragment(width: int) -> Fragment:
    """C and D of the four multiplications, of f16 or f32, one below the other: 32 x 8."""
    i, lane, matrix, high = _quads(8)
    if width == 16:
        return _fragment(32, 8, 16, 8 * matrix + lane % 4 + high, i)
    return _fragment(32, 8, 32, 8 * matrix + (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1))


def _quads(count: int) -> tuple[Array, Array, Array, Array]:
    """Elements, lanes, which of the four multiplications a lane is part of, and 4 for its upper half."""
    lane = np.arange(WARP)
    return np.arange(count)[:, None], lane, lane % 16 // 4, 4 * (lane // 16)
