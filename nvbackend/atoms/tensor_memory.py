"""Layouts of what a tcgen05.mma has in tensor memory besides D: scale factors and sparse metadata.

An address is a lane and a column. The layouts count elements of some bits, as CuTe's do: the next column of 32 bits is
32 / bits further on, the next lane 65536 times that. `intrinsics.maps.tcgen05_operands` names the cells one by one.
CUTLASS include/cute/atom/mma_traits_sm100_frag.hpp (tmem_sf_frg, tmem_e_frg).
"""

from __future__ import annotations

from nvbackend.intrinsics.maps.tcgen05 import CHUNK_BITS, COLUMN_BYTES, LANES, METADATA
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.layout import Layout

COLUMN_BITS = 32
FACTOR_BITS = 8
_LANE_BIT = 16
"""Where the lane begins in an address."""
_EIGHT = 8


def lane_stride(bits: int) -> int:
    """How many elements of `bits` one lane is from the next."""
    return (1 << _LANE_BIT) * COLUMN_BITS // bits


def scale_factors(rows: int, block: int, count: int, *, split: bool = False) -> Layout:
    """(row, k, copy) to the byte of its scale factor, of `count` blocks of `block` elements along K.

    Rows fill 32 lanes and then columns, so that they come in multiples of 32; each 32 lanes have a copy. With `split`
    the second half of the rows has the lanes from 64 on, and there are two copies.
    """
    lane = lane_stride(FACTOR_BITS)
    halves = 2 if split else 1
    words = -(-rows // (WARP_SIZE * halves))
    copies = LANES // WARP_SIZE // halves
    extents, strides = (WARP_SIZE, words, halves), (lane, COLUMN_BYTES, LANES // halves * lane)
    modes = 3 if split else 2
    return Layout((extents[:modes], (block, count), copies), (strides[:modes], (0, 1), WARP_SIZE * lane))


def sparse_metadata(kind: str) -> Layout:
    """(row, k) of the 128 rows of a sparse A in a CTA, unpacked, to the first bit of the 4 that speak of it."""
    of, lane = METADATA[kind], lane_stride(1)
    if not of.folded:
        return Layout((LANES, (of.elements, of.chunks)), (lane, (0, CHUNK_BITS)))
    sixteen = 2 * _EIGHT
    rows = ((_EIGHT, 2, LANES // sixteen), (lane, COLUMN_BITS // 2, sixteen * lane))
    along = ((of.elements, of.chunks // 2, 2), (0, CHUNK_BITS, _EIGHT * lane))
    return Layout((rows[0], along[0]), (rows[1], along[1]))
