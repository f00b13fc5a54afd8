"""The extents of operand tiles: whole instructions, and whole swizzle atoms."""

from __future__ import annotations

from nvbackend import Major, SwizzleMode, e4m3, f16
from nvbackend.layout import check_tile
from tests.rules.example import program


@program("tile.mma-atom")
def half_an_instruction():
    """Two swizzle atoms of 16 rows, but no instruction reads 32 rows of A."""
    check_tile(Major.MN, SwizzleMode.B32, f16, tile=(32, 64), instruction=(64, 16))  # breaks
    check_tile(Major.MN, SwizzleMode.B32, f16, tile=(64, 64), instruction=(64, 16))  # keeps


@program("tile.swizzle-atom")
def half_a_swizzle_atom():
    """Two instructions of K = 32, in rows of the pattern that have 128 elements."""
    check_tile(Major.K, SwizzleMode.B128, e4m3, tile=(64, 64), instruction=(64, 32))  # breaks
    check_tile(Major.K, SwizzleMode.B64, e4m3, tile=(64, 64), instruction=(64, 32))  # keeps
