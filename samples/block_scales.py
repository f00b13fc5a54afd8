"""Scales of blocks, as the GEMMs with them have them: 1 x 128 elements of A, or 128 x 128 of B, share a factor."""

from __future__ import annotations

from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f32
from samples.program import e4m3_matrix

BLOCK = 128
ALIGNED = 4
"""Scales of 16 bytes, of which the rows of a tensor map have a multiple."""
SCALES_B = 32
"""Scales of B that a step loads, a line of 128 bytes; one of the first four is read."""

ScalesB = Annotated[nvb.TensorMap, nvb.TensorMap(f32, box=(1, SCALES_B), swizzle=0)]


def scaled(random: Any, rows: int, columns: int, rows_a_block: int) -> tuple[Any, Any, Any]:
    """A random matrix: bytes of e4m3, the factors of blocks of so many rows and 128 columns, and the values in f32."""
    import numpy as np

    codes, values = e4m3_matrix(random, rows, columns)
    blocks = -(-columns // BLOCK), -(-rows // (rows_a_block * ALIGNED)) * ALIGNED
    scales = random.uniform(0.25, 4, blocks).astype(np.float32)
    return codes, scales, values * scales.repeat(BLOCK, 0).repeat(rows_a_block, 1)[:columns, :rows].T
