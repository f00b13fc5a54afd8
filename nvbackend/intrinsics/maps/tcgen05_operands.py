"""Which cells of tensor memory the scale factors and the sparse metadata of a tcgen05.mma are.

PTX ISA 9.7.16.10.7.2, 9.7.16.10.7.3 (scale factors of A and of B) and 9.7.16.10.8.4 (sparsity metadata) show them in
figures; the numbers here are those of CUTLASS's tmem_sf_frg and tmem_e_frg, and no hardware was asked. A cell is (lane,
32-bit column, byte or bit of it), counted from the address that the instruction is given. Rows are those that a CTA has
of A.
"""

from __future__ import annotations

from dataclasses import dataclass

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.fragments.warpgroup import check_index
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import chosen
from nvbackend.intrinsics.row.semantics import WARP_SIZE

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
    explicit = [one for one in spelled if one is not None and tcgen05.is_explicit(one)]
    given = scale_vector if scale_vector is not None and len(explicit) > 1 else explicit[0]
    return _BLOCK_FACTORS.get(given) or int(given.rpartition("::")[2].removesuffix("X"))


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
"""By kind, of instructions with 128 rows of A in a CTA; no second source says where those of fewer rows are."""
_FOLD = 8


@user_facing
def metadata_cell(kind: str, row: int, chunk: int) -> tuple[int, int, int]:
    """The (lane, column, first bit) of the metadata of `chunk` of `row` of A, with a sparsity selector of 0.

    The kind is that of the instruction, which has 128 rows of A in each CTA. Raises fragment.range; NoSuchRow for
    another kind.
    """
    metadata = METADATA[chosen("kind", kind, METADATA)]
    check_index("row", row, LANES)
    check_index("chunk", chunk, metadata.chunks)
    if not metadata.folded:
        column, bit = divmod(CHUNK_BITS * chunk, _COLUMN_BITS)
        return row, column, bit
    half, inside = divmod(chunk, metadata.chunks // 2)
    sixteen, place = divmod(row, 2 * _FOLD)
    eight, lane = divmod(place, _FOLD)
    return 2 * _FOLD * sixteen + _FOLD * half + lane, 0, _COLUMN_BITS // 2 * eight + CHUNK_BITS * inside
