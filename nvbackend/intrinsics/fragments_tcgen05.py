"""Which cell of tensor memory each register of a tcgen05.ld or .st is. PTX ISA 9.7.16.2.3.1 (matrix fragments).

`thread` is the lane of the warp, 0 to 31; a position is (lane, column) of tensor memory, counted from the address that
the instruction is given, columns of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.axes import chosen
from nvbackend.intrinsics.fragments import check_index
from nvbackend.intrinsics.hierarchy import WARP_SIZE
from nvbackend.intrinsics.tcgen05_memory import MOST_REGISTERS

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
