"""Which cell of tensor memory each register of a tcgen05.ld or .st is, and each element of D of a tcgen05.mma.

Scale factors and sparse metadata have theirs in `tcgen05_operands`. PTX ISA 9.7.16.2.3.1 (matrix fragments),
9.7.16.10.5 (data path layouts).

`thread` is the lane of the warp, 0 to 31; a position is (lane, column) of tensor memory, counted from the address that
the instruction is given, columns of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy.tcgen05_memory import MOST_REGISTERS
from nvbackend.intrinsics.fragments.warpgroup import check_index
from nvbackend.intrinsics.row.row import chosen
from nvbackend.intrinsics.row.semantics import WARP_SIZE

_QUAD = 4
_ROWS = 8
_HALF_WARP = WARP_SIZE // 2


def _32x32b(thread: int, register: int, _: int) -> tuple[int, int]:
    return thread, register


def _16x64b(thread: int, register: int, _: int) -> tuple[int, int]:
    """Two columns a register, and the two halves of the lanes in neighbouring threads."""
    return thread // _QUAD + _ROWS * (thread % 2), thread // 2 % 2 + 2 * register


def _16x128b(thread: int, register: int, _: int) -> tuple[int, int]:
    block, half = divmod(register, 2)
    return thread // _QUAD + _ROWS * half, thread % _QUAD + _QUAD * block


def _16x256b(thread: int, register: int, _: int) -> tuple[int, int]:
    """As the accumulators of mma.sync."""
    pair, odd = divmod(register, 2)
    block, half = divmod(pair, 2)
    return thread // _QUAD + _ROWS * half, 2 * (thread % _QUAD) + odd + 2 * _QUAD * block


def _16x32bx2(thread: int, register: int, half_split: int) -> tuple[int, int]:
    half, lane = divmod(thread, _HALF_WARP)
    return lane, register + half * half_split


_POSITIONS: dict[str, Callable[[int, int, int], tuple[int, int]]] = {
    "32x32b": _32x32b,
    "16x64b": _16x64b,
    "16x128b": _16x128b,
    "16x256b": _16x256b,
    "16x32bx2": _16x32bx2,
}


@user_facing
def tmem_position(shape: str, thread: int, register: int, *, half_split: int = 0) -> tuple[int, int]:
    """The (lane, column) that `register` of `thread` is, for any number of repetitions of `shape`.

    `half_split` is that of 16x32bx2, whose second half-warp is so many columns further on. Raises fragment.range;
    NoSuchRow for another shape.
    """
    position = _POSITIONS[chosen("shape", shape, _POSITIONS)]
    check_index("thread", thread, WARP_SIZE)
    check_index("register", register, MOST_REGISTERS)
    return position(thread, register, half_split)


@user_facing
def packed_tmem_position(shape: str, thread: int, register: int, half: int, *, half_split: int = 0) -> tuple[int, int]:
    """The (lane, column) of the lower (`half` 0) or upper 16 bits of a register with pack::16b or unpack::16b.

    Each column then holds 16 bits that count. Raises as `tmem_position`.
    """
    check_index("half", half, 2)
    # The distance between the two halves is given in columns of tensor memory, packed or not.
    lane, column = tmem_position(shape, thread, register)
    second = shape == "16x32bx2" and thread >= _HALF_WARP
    return lane, 2 * column + half + (half_split if second else 0)


def packed_element(shape: str, thread: int, index: int) -> tuple[int, int]:
    """`packed_tmem_position` of the thread's 16-bit element `index`, the lower half of register 0 first."""
    return packed_tmem_position(shape, thread, *divmod(index, 2))


@dataclass(frozen=True, slots=True)
class AccumulatorLayout:
    """How D lies in tensor memory, in each CTA of the group: `name` is the letter that the PTX ISA gives it.

    A CTA has `rows` of the rows. `blocks` times the lanes hold them, each with as many of the columns, from left to
    right; with `halves` 16 rows fill the lower half of each quarter of the lanes.
    """

    name: str
    rows: int
    blocks: int = 1
    halves: bool = False


ACCUMULATOR_LAYOUTS: dict[tuple[int, bool, bool, int], AccumulatorLayout] = {
    # cta_group, weight stationary, sparse, M
    **{(2, False, sparse, 256): AccumulatorLayout("A", 128) for sparse in (False, True)},
    (2, False, False, 128): AccumulatorLayout("B", 64, blocks=2),
    **{(1, ws, sparse, 128): AccumulatorLayout("D", 128) for ws in (False, True) for sparse in (False, True)},
    **{(1, True, sparse, 64): AccumulatorLayout("E", 64, blocks=2) for sparse in (False, True)},
    **{(1, False, sparse, 64): AccumulatorLayout("F", 64, halves=True) for sparse in (False, True)},
    **{(1, True, sparse, 32): AccumulatorLayout("G", 32, blocks=4) for sparse in (False, True)},
}
"""PTX ISA 9.7.16.10.5 (data path layouts), and CUTLASS's tmem_frg. Layout C, of a sparse A with M = 128 in two CTAs, is
left out: no second source says where its rows are."""


@user_facing
def accumulator_cell(
    m: int, n: int, row: int, column: int, *, cta_group: int = 1, weight_stationary: bool = False, sparse: bool = False
) -> tuple[int, int, int]:
    """The (CTA of the group, lane, 32-bit column from d on) of element (row, column) of D, M x N, of tcgen05.mma.

    Raises fragment.range for an element beyond the tile; NoSuchRow for an unknown layout.
    """
    layout = ACCUMULATOR_LAYOUTS[
        chosen("cta_group, .ws, .sp and M", (cta_group, weight_stationary, sparse, m), ACCUMULATOR_LAYOUTS)
    ]
    check_index("row", row, m)
    check_index("column", column, n)
    cta, own = divmod(row, layout.rows)
    if layout.halves:
        quarter, lane = divmod(own, _HALF_WARP)
        return cta, WARP_SIZE * quarter + lane, column
    block, inside = divmod(column, n // layout.blocks)
    return cta, layout.rows * block + own, inside
