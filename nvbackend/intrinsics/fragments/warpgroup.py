"""Which element of the tile each thread of a warpgroup holds in its registers. PTX ISA 9.7.15.5.1, 9.7.15.6.2.

`thread` is the thread's number in its warpgroup, 0 to 127; positions are (row, column) of the M x N or M x K tile, in
elements. An index counts the thread's elements: the lowest bits of register 0 first, then upwards, then register 1.
"""

from __future__ import annotations

from nvbackend.diagnostics import Rule, user_facing
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE

A_REGISTERS = 4
"""32-bit registers a thread that hold A, dense or sparse."""
_WARP_ROWS = 16
_QUAD = 4
"""Threads that hold one row of a core matrix."""
_CORE_ROWS = 8
_REGISTER_BITS = 32
_MOST_ELEMENTS = 128
"""Elements of D a thread holds at the largest N, 256."""
_CHUNK_BITS = 4
METADATA_CHUNKS = _REGISTER_BITS // _CHUNK_BITS
"""Chunks of 4 bits in the metadata register of a thread."""

FRAGMENT_RANGE = Rule(
    id="fragment.range",
    message="{what} {given} is outside of {lowest} to {highest}",
    fix="use {what} {lowest} to {highest}",
    why="The formula continues past the tile, so an element outside it would be read or written.",
    reference="PTX ISA 9.7.15.5.1",
)
FRAGMENT_TYPE = Rule(
    id="fragment.type",
    message="no register fragment is defined for elements of {bits} bits",
    fix="use elements of {legal} bits",
    why="The element would be looked for in the wrong thread.",
    reference="PTX ISA 9.7.15.5.1, 9.7.15.6.2",
)


@user_facing
def accumulator_position(thread: int, index: int) -> tuple[int, int]:
    """Where element `index` of D is: index 0 to N/2 - 1.

    32-bit D: register `index`. f16 D: half `index` % 2 (0 is the lower one) of register `index` // 2.
    """
    check_index("thread", thread, WARPGROUP_SIZE)
    check_index("index", index, _MOST_ELEMENTS)
    pair, lower = divmod(index, 2)
    column_block, half = divmod(pair, 2)
    return _row(thread, half), column_block * 2 * _QUAD + 2 * (thread % _QUAD) + lower


@user_facing
def a_position(thread: int, index: int, bits: int) -> tuple[int, int]:
    """Where element `index` of A in registers is, elements being `bits` wide (1, 8, 16, 32): index 0 to 128/bits - 1.

    Of a sparse A the column is one of the packed matrix, of K/2 columns.
    """
    _check_bits(bits, (1, 8, 16, 32))
    check_index("thread", thread, WARPGROUP_SIZE)
    per_register = _REGISTER_BITS // bits
    check_index("index", index, A_REGISTERS * per_register)
    register, lane = divmod(index, per_register)
    k_half, half = divmod(register, 2)
    return _row(thread, half), (k_half * _QUAD + thread % _QUAD) * per_register + lane


@user_facing
def metadata_chunk(thread: int, chunk: int, bits: int) -> tuple[int, int]:
    """Row and first column of the elements of the sparse A that 4-bit `chunk` (0 to 7) of the metadata speaks of.

    The chunk covers `chunk_width(bits)` columns of the unpacked A. `bits` is the width of A's elements: 8, 16 or 32.
    """
    check_index("thread", thread, WARPGROUP_SIZE)
    check_index("chunk", chunk, METADATA_CHUNKS)
    width = chunk_width(bits)
    if bits == 8:
        return _row(thread, thread % 2), ((thread // 2) % 2 * METADATA_CHUNKS + chunk) * width
    half, place = divmod(chunk, METADATA_CHUNKS // 2)
    return _row(thread, half), (thread % 2 * (METADATA_CHUNKS // 2) + place) * width


@user_facing
def metadata_counts(thread: int, selector: int, bits: int) -> bool:
    """Whether the hardware reads the metadata register of `thread` under sparsity selector `selector`."""
    check_index("thread", thread, WARPGROUP_SIZE)
    _check_bits(bits, (8, 16, 32))
    return bits == 8 or (thread // 2) % 2 == selector


@user_facing
def chunk_width(bits: int) -> int:
    """Columns of the unpacked A that 4 bits of metadata speak of: 4 with two kept, or 2 with one kept at 32 bits."""
    _check_bits(bits, (8, 16, 32))
    return 2 if bits == 32 else 4


@user_facing
def two_of_four(first: int, second: int) -> int:
    """The 4 bits of metadata that keep elements `first` < `second` of four (8-bit and 16-bit A)."""
    check_index("second", second, 4)
    check_index("first", first, second)
    return first | second << 2


@user_facing
def one_of_two(place: int) -> int:
    """The 4 bits of metadata that keep element `place` of two (32-bit A): the hardware counts in 16-bit halves."""
    check_index("place", place, 2)
    return two_of_four(2 * place, 2 * place + 1)


def _row(thread: int, half: int) -> int:
    warp, lane = divmod(thread, WARP_SIZE)
    return warp * _WARP_ROWS + half * _CORE_ROWS + lane // _QUAD


def check_index(what: str, index: int, count: int) -> None:
    """Raises fragment.range unless `index`, called `what` in the message, is 0 to `count` - 1."""
    if not 0 <= index < count:
        FRAGMENT_RANGE.fail(what=what, given=index, lowest=0, highest=count - 1)


def _check_bits(bits: int, legal: tuple[int, ...]) -> None:
    if bits not in legal:
        FRAGMENT_TYPE.fail(bits=bits, legal=", ".join(map(str, legal)))
