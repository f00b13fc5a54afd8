"""ldmatrix, stmatrix and movmatrix: which byte of which row is where in the registers. PTX ISA 9.7.14.5.15 to 17.

A row is the 16 bytes at the address that one lane gives. Of m16n16 and of the transposed m16n8, where the PTX ISA has
figures alone, the formulas are those of CuTe's traits for sm_100.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.tensor.descriptors import in_bytes
from nvbackend.simulator.tensor.fragments import WARP

Array = NDArray[Any]
ROW = 16
"""Bytes of a row; also of a row of 4- or 6-bit elements with its padding."""
_SHAPES = {
    # rows of a matrix and registers that hold it, by instruction, shape and element
    ("ldmatrix", "m8n8", "b16"): (8, 1),
    ("ldmatrix", "m16n16", "b8"): (16, 2),
    ("ldmatrix", "m8n16", "b8"): (8, 1),
    ("stmatrix", "m8n8", "b16"): (8, 1),
    ("stmatrix", "m16n8", "b8"): (8, 1),
}
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_SOURCES = {"b6x16_p32": 6, "b4x16_p64": 4}
_KNOWN = frozenset({"sync", "aligned", "trans", "shared", "shared::cta", "b8x16"})


@dataclass(frozen=True, eq=False)
class MatrixMove:
    """An ldmatrix or stmatrix of `matrices` matrices: lanes 0 to `rows` - 1 give the addresses of rows, 16 bytes each.

    `registers` a lane; `bits` are those of an element in memory that is a byte in registers: 8, 6 or 4.
    """

    rows: int
    registers: int
    bits: int
    row: Array
    byte: Array
    """Of each byte of the registers, (registers, lanes, 4): the lane that gives its row's address, its place there."""

    @cached_property
    def _sources(self) -> Array:
        places: Array = self.row * ROW + self.byte
        return places

    def load(self, data: Array) -> Array:
        """The registers (registers, 32 warps) of the rows (warps, rows, 16) of uint8."""
        rows = in_bytes(data, self.bits)
        found = rows.reshape(len(rows), -1)[:, self._sources]
        words = np.ascontiguousarray(found).view(np.uint32)[..., 0]
        return words.transpose(1, 0, 2).reshape(self.registers, -1)

    def store(self, registers: Array) -> Array:
        """The rows of registers: `load` undone."""
        words = registers.reshape(self.registers, -1, WARP).transpose(1, 0, 2)
        found = np.zeros((len(words), self.rows * ROW), np.uint8)
        found[:, self._sources] = np.ascontiguousarray(words[..., None]).view(np.uint8)
        return found.reshape(-1, self.rows, ROW)


def find(parts: tuple[str, ...]) -> MatrixMove | None:
    """The move of an opcode, None where a piece of it is unknown."""
    name, *rest = parts
    count = next((_COUNTS[part] for part in rest if part in _COUNTS), 0)
    shape = next((part for part in rest if part.startswith("m")), "")
    source = next((part for part in rest if part in _SOURCES), "")
    element = "b8" if source else rest[-1]
    if (name, shape, element) not in _SHAPES or not count:
        return None
    if set(rest) - {shape, element, source} - _COUNTS.keys() - _KNOWN:
        return None
    rows, registers = _SHAPES[name, shape, element]
    matrix, inside = np.divmod(np.arange(count * registers), registers)
    row, byte = _places(shape, "trans" in rest)
    first = (rows * matrix)[:, None, None] + row(inside[:, None, None])
    first, second = np.broadcast_arrays(first, byte(inside[:, None, None]))
    return MatrixMove(rows * count, registers * count, _SOURCES.get(source, 8), first, second)


def _places(shape: str, transposed: bool) -> Any:
    """The row and the byte in it, as functions of the register, of each byte of a lane's register."""
    lane, byte = np.arange(WARP)[:, None], np.arange(4)
    group, thread = lane >> 2, lane & 3
    half, low = byte >> 1, byte & 1
    if shape == "m8n8" and transposed:
        return (lambda _: 2 * thread + half), (lambda _: 2 * group + low)
    if shape == "m16n16":
        return (lambda register: 4 * thread + 2 * register + low), (lambda _: group + 8 * half)
    if shape == "m16n8":
        return (lambda _: 2 * thread + low), (lambda _: group + 8 * half)
    return (lambda _: group + 0 * byte), (lambda _: 4 * thread + byte)


def transposed(registers: Array) -> Array:
    """movmatrix: the register (n,) of each lane, of the transposed 8 x 8 matrix of 16 bits that a warp holds."""
    halves = np.ascontiguousarray(registers).view(np.uint16).reshape(-1, 8, 8)
    return np.ascontiguousarray(halves.transpose(0, 2, 1)).reshape(-1).view(np.uint32)
