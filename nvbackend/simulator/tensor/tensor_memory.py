"""Tensor memory: which cell is which register of tcgen05.ld and .st, and which element of a tcgen05.mma.

PTX ISA 9.7.16.2.3.1 (fragments), 9.7.16.10.5 (data paths), 9.7.16.10.7 (block scaling), 9.7.16.10.8 (metadata). Where
it has figures alone, the formulas are those of CUTLASS's tmem_frg, tmem_sf_frg and tmem_e_frg. A cell is a lane and a
column of 32 bits, counted from an address, whose upper half is the lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.tensor.fragments import WARP

Array = NDArray[Any]

LANES = 128
COLUMNS = 512
_EIGHT = 8
_HALF_WARP = 16
_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Registers of a lane for one repetition of a shape."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of registers: `lane` and `column` of shape (registers, 32); with `packed` (registers, 2, 32), the
    lower 16 bits of a register first."""

    lane: Array
    column: Array

    @property
    def packed(self) -> bool:
        """Whether a register is the lower halves of two cells."""
        return self.lane.ndim == 3


@cache
def register_cells(shape: str, repeats: int, *, split: int, packed: bool = False) -> Cells | None:
    """The cells of `shape` (32x32b, ...) `repeats` times; `split` is the distance of the second half of 16x32bx2."""
    if shape not in _REGISTERS:
        return None
    register = np.arange(_REGISTERS[shape] * repeats)[:, None]
    thread = np.arange(WARP)
    lane, column = np.broadcast_arrays(*_cell(shape, register, thread))
    second = np.where((shape == "16x32bx2") & (thread >= _HALF_WARP), split, 0)
    if not packed:
        return Cells(lane, column + second)
    halves = 2 * column[:, None] + np.arange(2)[:, None] + second
    return Cells(np.broadcast_to(lane[:, None], halves.shape), halves)


def _cell(shape: str, register: Array, thread: Array) -> tuple[Array, Array]:
    group, place = thread // 4, thread % 4
    if shape == "32x32b":
        return thread, register
    if shape == "16x32bx2":
        return thread % _HALF_WARP, register
    if shape == "16x64b":
        return group + _EIGHT * (thread % 2), place // 2 + 2 * register
    if shape == "16x128b":
        return group + _EIGHT * (register % 2), place + 4 * (register // 2)
    return group + _EIGHT * (register // 2 % 2), 2 * place + register % 2 + _EIGHT * (register // 4)


@dataclass(frozen=True, eq=False)
class Accumulator:
    """Where D is, m x n: the CTA of the group of each row, and lane and column of each element, (m, n)."""

    cta: Array
    lane: Array
    column: Array

    @property
    def row_lanes(self) -> Array:
        """The lane of each row where it has one of its own: also that of the row of A."""
        found: Array = self.lane[:, 0]
        return found


@cache
def accumulator(m: int, n: int, ctas: int, *, stationary: bool, sparse: bool) -> Accumulator | None:
    """D of M x N by the layouts A to G of the PTX ISA; None where there is none."""
    row, column = np.arange(m)[:, None], np.arange(n)
    own = row % (m // ctas)
    halves = WARP * (own // _HALF_WARP) + own % _HALF_WARP
    if ctas == 2 and m == 128 and not sparse and not stationary:
        found = own + 64 * (column // (n // 2)), column % (n // 2)  # B
    elif (ctas, m, stationary) in ((2, 256, False), (1, 128, False), (1, 128, True)):
        found = own + 0 * column, column  # A, D
    elif (ctas, m, stationary) in ((1, 64, False), (2, 128, False)):
        found = halves + 0 * column, column  # F, C
    elif (ctas, m, stationary) == (1, 64, True):
        found = own + 64 * (column // (n // 2)), column % (n // 2)  # E
    elif (ctas, m, stationary) == (1, 32, True):
        found = own + 32 * (column // (n // 4)), column % (n // 4)  # G
    else:
        return None
    return Accumulator(row[:, 0] // (m // ctas), *np.broadcast_arrays(*found))


def scale_cells(rows: int, *, split: bool) -> tuple[Array, Array]:
    """Lane and column of the word with the scale factors of each row of A, or column of B.

    The same again is in the lanes 32, 64 and 96 further on; with `split` the second half of B's columns is in lanes
    from 64 on alone.
    """
    row = np.arange(rows)
    half, own = np.divmod(row, rows // 2) if split else (0 * row, row)
    return own % WARP + 64 * half, own // WARP


def metadata_cells(rows: int, chunks: int, width: int, lanes: Array) -> tuple[Array, Array, Array]:
    """Lane, column and lowest bit of the code of each chunk of each row of a CTA, (rows, chunks); `lanes` are those of
    the rows, `width` the bits of an element."""
    row, chunk = np.arange(rows)[:, None], np.arange(chunks)
    if width < 16:
        return np.broadcast_arrays(lanes[:rows, None], chunk // 8, 4 * (chunk % 8))  # type: ignore[return-value]
    half, place = chunk // 4, chunk % 4
    sixteen = lanes[:rows][row[:, 0] // 16 * 16][:, None]
    bit = 16 * (row % 16 // _EIGHT) + 4 * place
    return np.broadcast_arrays(sixteen + _EIGHT * half + row % _EIGHT, 0 * bit, bit)  # type: ignore[return-value]


COPIES: dict[str, tuple[int, int, Callable[[Array], tuple[Array, ...]]]] = {
    # rows and bytes of a row that tcgen05.cp copies, and the lanes that each row comes to
    "128x256b": (128, 32, lambda row: (row,)),
    "128x128b": (128, 16, lambda row: (row,)),
    "4x256b": (4, 32, lambda row: (32 * row,)),
    "64x128b.warpx2::02_13": (64, 16, lambda row: (row, row + 64)),
    "64x128b.warpx2::01_23": (64, 16, lambda row: (row + row // 32 * 32, row + row // 32 * 32 + 32)),
    "32x128b.warpx4": (32, 16, lambda row: (row, row + 32, row + 64, row + 96)),
}
