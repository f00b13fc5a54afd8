"""Which element each lane holds of what ldmatrix, stmatrix and movmatrix move. PTX ISA 9.7.14.5.15 to 9.7.14.5.17.

A position is (matrix, row, column): a row is the 16 bytes in shared memory that one lane gives the address of, a column
an element in it as it is in the registers (of 4- and 6-bit elements a byte). An index counts the lane's elements: the
lowest bits of register 0 first. The narrow forms are as CUTLASS's traits for sm_100 have them.
"""

from __future__ import annotations

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy.matrix_move import HALVES, MatrixShape
from nvbackend.intrinsics.fragments.warpgroup import check_index
from nvbackend.intrinsics.row.semantics import WARP_SIZE

Position = tuple[int, int, int]

_QUAD = 4
_HALF_ROW = 8
_REGISTER_BYTES = 4
_ROWS_OF_TALL = 16


def elements_a_lane(shape: MatrixShape) -> int:
    """Elements of one matrix that a lane holds: 2 of 16 bits, or 4 or 8 bytes."""
    return shape.registers * (2 if shape.name == HALVES.name else _REGISTER_BYTES)


def rows_of(shape: MatrixShape) -> int:
    """Rows of one matrix, which as many lanes give the addresses of: lanes 0 on those of matrix 0, and so on."""
    return _ROWS_OF_TALL if shape.registers > 1 else _HALF_ROW


@user_facing
def matrix_position(shape: MatrixShape, transposed: bool, lane: int, index: int) -> Position:
    """The (matrix, row, column) of element `index` of `lane`. Raises fragment.range for a lane or index below 0, or
    for a lane beyond the warp."""
    check_index("lane", lane, WARP_SIZE)
    check_index("index", index, elements_a_lane(shape) * max(shape.counts))
    matrix, inside = divmod(index, elements_a_lane(shape))
    group, place = divmod(lane, _QUAD)
    if shape.name == HALVES.name:
        row, column = group, 2 * place + inside
        return (matrix, column, row) if transposed else (matrix, row, column)
    if not transposed:
        return matrix, group, _REGISTER_BYTES * place + inside
    # Two neighbouring rows in the lower half of a register; the same rows, half a row on, in the upper half.
    register, byte = divmod(inside, _REGISTER_BYTES)
    half, odd = divmod(byte, 2)
    return matrix, 2 * (shape.registers * place + register) + odd, group + _HALF_ROW * half


@user_facing
def transposed_position(lane: int, index: int) -> tuple[int, int]:
    """The (row, column) of movmatrix's source that half `index` (0 or 1) of the result in `lane` is."""
    _, row, column = matrix_position(HALVES, True, lane, index)
    return row, column
