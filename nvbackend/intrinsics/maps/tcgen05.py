"""Which cell of tensor memory is which register of a tcgen05.ld or .st, and which element or factor of a tcgen05.mma.

PTX ISA 9.7.16.2.3.1 (matrix fragments), 9.7.16.10.5 (data path layouts). Scale factors of A and of B (9.7.16.10.7.2,
9.7.16.10.7.3) and sparsity metadata (9.7.16.10.8.4) are shown there in figures; the numbers here are those of CUTLASS's
tmem_sf_frg and tmem_e_frg, and no hardware was asked.

`thread` is the lane of the warp, 0 to 31; a position is (lane, column) of tensor memory, counted from the address that
the instruction is given, columns of 32 bits; a cell of an operand has the byte or bit of it as well. Rows are those
that a CTA has of A.
"""

from __future__ import annotations

from collections.abc import Callable

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.tcgen05_registers import MOST_REGISTERS
from nvbackend.intrinsics.fragments.warpgroup import check_index
from nvbackend.intrinsics.mma import tcgen05
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
    (2, False, True, 128): AccumulatorLayout("C", 64, halves=True),
    **{(1, ws, sparse, 128): AccumulatorLayout("D", 128) for ws in (False, True) for sparse in (False, True)},
    **{(1, True, sparse, 64): AccumulatorLayout("E", 64, blocks=2) for sparse in (False, True)},
    **{(1, False, sparse, 64): AccumulatorLayout("F", 64, halves=True) for sparse in (False, True)},
    **{(1, True, sparse, 32): AccumulatorLayout("G", 32, blocks=4) for sparse in (False, True)},
}
"""PTX ISA 9.7.16.10.5 (data path layouts), and CUTLASS's tmem_frg. Layout C, of a sparse A with M = 128 in two CTAs, is
that of the PTX ISA alone, whose table has it like F in each CTA: tmem_frg has B for it, and no kernel that uses it."""


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


LANES = 128
"""Lanes of tensor memory, and the most rows that a CTA has of A."""
COLUMN_BYTES = 4
_COLUMN_BITS = 8 * COLUMN_BYTES
_BLOCK_FACTORS = {"block16": 4, "block32": 2}


def factors(kind: str, scale_vector: str | None = None) -> int:
    """How many scale factors a row of A has in one instruction (not with K = 96), by the kind and the qualifier.

    Raises NoSuchRow for a kind without them and for a qualifier that the kind does not have.
    """
    spelled = tcgen05.KINDS[chosen("kind", kind, tcgen05.BLOCK_SCALED_KINDS)].scale_vectors
    chosen("scale_vector", scale_vector, spelled)
    explicit = [spelling for spelling in spelled if spelling is not None and tcgen05.is_explicit(spelling)]
    vector = scale_vector if scale_vector is not None and len(explicit) > 1 else explicit[0]
    return _BLOCK_FACTORS.get(vector) or int(vector.rpartition("::")[2].removesuffix("X"))


@user_facing
def scale_a_cell(row: int, factor: int, *, scale_id: int = 0) -> tuple[int, int, int]:
    """The (lane, column, byte) of scale factor `factor` of `row`; the same again in lanes 32, 64 and 96 further on.

    `scale_id` is the scale-factor ID of the instruction descriptor: the byte that the first factor is. Raises
    fragment.range.
    """
    check_index("row", row, LANES)
    return _factor_cell(row, factor, scale_id)


@user_facing
def scale_b_cell(n: int, column: int, factor: int, *, scale_id: int = 0, split: bool = False) -> tuple[int, int, int]:
    """The (lane, column, byte) of scale factor `factor` of `column` of B, which has `n`; again 32 lanes further on.

    Where D of two CTAs has 128 rows the columns are `split`: the right half is in lanes 64 to 127. That is from CUTLASS
    alone (tmem_sf_frg): the PTX ISA (9.7.16.10.7) has all factors in every 32 lanes. Otherwise the factors are in lanes
    64 and 96 further on, too. Raises fragment.range.
    """
    check_index("column", column, n)
    half, own = divmod(column, n // 2) if split else (0, column)
    lane, word, byte = _factor_cell(own, factor, scale_id)
    return lane + half * LANES // 2, word, byte


def _factor_cell(row: int, factor: int, scale_id: int) -> tuple[int, int, int]:
    check_index("scale_id", scale_id, COLUMN_BYTES)
    check_index("factor", factor, COLUMN_BYTES - scale_id)
    return row % WARP_SIZE, row // WARP_SIZE, scale_id + factor


CHUNK_BITS = 4
"""Bits of metadata that say which elements of a chunk are there."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of a kind: of each `elements` elements of a row, `chunks` in an instruction.

    With `folded`, eight rows and the eight after them share eight lanes and their neighbours: two halves of a column
    for the rows, two eights of lanes for the halves of K.
    """

    elements: int
    chunks: int
    folded: bool


METADATA: dict[str, Metadata] = {
    "tf32": Metadata(2, 8, folded=True),
    "f16": Metadata(4, 8, folded=True),
    **dict.fromkeys(("i8", "f8f6f4", "mxf8f6f4"), Metadata(4, 16, folded=False)),
    **dict.fromkeys(("mxf4", "mxf4nvf4"), Metadata(8, 16, folded=False)),
}
"""By kind, of instructions with 128 rows of A in a CTA, by CUTLASS's tmem_e_frg."""
_FOLD = 8


@user_facing
def metadata_cell(kind: str, row: int, chunk: int, *, rows: int = LANES) -> tuple[int, int, int]:
    """The (lane, column, first bit) of the metadata of `chunk` of `row` of A, with a sparsity selector of 0.

    The kind is that of the instruction, which has `rows` of A in each CTA: 128, or 64, which are in the lower half of
    each quarter of the lanes, as D is (PTX ISA 9.7.16.10.8.5). Raises fragment.range; NoSuchRow for another kind.
    """
    metadata = METADATA[chosen("kind", kind, METADATA)]
    check_index("row", row, chosen("rows", rows, (LANES // 2, LANES)))
    check_index("chunk", chunk, metadata.chunks)
    if rows < LANES:
        quarter, own = divmod(row, _HALF_WARP)
        lane, column, bit = metadata_cell(kind, own, chunk)
        return lane + quarter * WARP_SIZE, column, bit
    if not metadata.folded:
        column, bit = divmod(CHUNK_BITS * chunk, _COLUMN_BITS)
        return row, column, bit
    half, inside = divmod(chunk, metadata.chunks // 2)
    sixteen, place = divmod(row, 2 * _FOLD)
    eight, lane = divmod(place, _FOLD)
    return 2 * _FOLD * sixteen + _FOLD * half + lane, 0, _COLUMN_BITS // 2 * eight + CHUNK_BITS * inside
