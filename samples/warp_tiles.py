"""What the GEMMs of mma.sync have in common: eight warps, tiles of 128 rows, and rows of 128 bytes in shared memory."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend.layout import ComposedLayout, Layout, Swizzle
from nvbackend.tiled import TiledCopy, cp_async_copy, make_tiled_copy

ROWS, ROW_BYTES = 128, 128  # rows of a tile of A or B, bytes of a row: as many as the 32 banks hold
WARPS = (2, 4, 1)  # along M, N and K
THREADS = 256
CHUNK = 16  # bytes that a thread copies at once


def columns(element: nvb.ElementType) -> int:
    """The columns of a tile."""
    return ROW_BYTES * 8 // element.bits


def swizzled(element: nvb.ElementType) -> ComposedLayout:
    """A tile in shared memory: chunks change places so that the 8 rows of an ldmatrix matrix meet all banks."""
    chunk = CHUNK * 8 // element.bits
    swizzle = Swizzle(3, chunk.bit_length() - 1, 3)
    return ComposedLayout(swizzle, 0, Layout((ROWS, columns(element)), (columns(element), 1)))


def fill(element: nvb.ElementType) -> TiledCopy:
    """The copy of a tile to shared memory: eight neighbouring threads a row, 16 bytes each."""
    across = ROW_BYTES // CHUNK
    threads = Layout((THREADS // across, across), (across, 1))
    return make_tiled_copy(cp_async_copy(element, cache="cg"), threads, Layout((1, CHUNK * 8 // element.bits)))


class Rows:
    """A block of `ROWS` rows of a matrix, as tiles along K: those of `address` with `count` rows of `depth` columns."""

    def __init__(
        self, k: nvb.KernelBuilder, address: nvb.Address, block: nvb.Value, count: nvb.Value, depth: nvb.Value
    ) -> None:
        self.k, self.block, self.count, self.depth = k, block, count, depth
        self.matrix = k.tensor(address, Layout((count, depth), (depth, 1)))

    def fetch(self, step: nvb.Value, tile: nvb.Tensor) -> None:
        """Start to copy the tile at `step` along K; what is outside of the matrix becomes zeros."""
        shape = ROWS, columns(tile.element)
        at = self.k.identity_tensor(shape, at=(self.block * ROWS, step * shape[1]))
        source = self.matrix.tile(shape, (self.block, step))
        self.k.copy_tile(fill(tile.element), source, tile, where=at.below(self.count, self.depth))


def place_of_c(
    k: nvb.KernelBuilder, c: nvb.Address, row: nvb.Value, column: nvb.Value, m: nvb.Value, n: nvb.Value
) -> tuple[nvb.Tensor, nvb.Inside]:
    """The CTA's tile of C, m x n, and what of it is inside."""
    tile = k.tensor(c, Layout((m, n), (n, 1))).tile((ROWS, ROWS), (row, column))
    return tile, k.identity_tensor((ROWS, ROWS), at=(row * ROWS, column * ROWS)).below(m, n)
