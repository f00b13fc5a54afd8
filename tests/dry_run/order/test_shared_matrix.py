"""The addresses of matrices by their descriptors, held to the simulator's, which reads the words bit by bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nvbackend.dry_run.order import shared_matrix
from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor, SwizzleMode
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.simulator.tensor import descriptors

OFFSETS = range(0, 1 << 14, 16)


@pytest.mark.parametrize("swizzle", [*SwizzleMode, *Tcgen05Swizzle], ids=str)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_the_simulator_finds_the_same_bytes(swizzle: SwizzleMode | Tcgen05Swizzle, bits: int) -> None:
    rng = random.Random(f"{swizzle} {bits}")
    for _ in range(8):
        start, leading, stride = (rng.choice(OFFSETS) for _ in range(3))
        if isinstance(swizzle, SwizzleMode):
            word = SmemDescriptor(start, leading, stride, rng.randrange(8), swizzle).encode()
            matrix, other = shared_matrix.of_wgmma(word), descriptors.of_wgmma(word)
        else:
            word = Tcgen05SmemDescriptor(start, leading, stride, rng.randrange(8), swizzle).encode()
            matrix, other = shared_matrix.of_tcgen05(word), descriptors.of_tcgen05(word)
        rows = rng.choice((64, 128))
        assert matrix is not None and other is not None
        expected = other.chunks(rows, 32, k_major=True, bits=bits).astype(np.int64)
        assert np.array_equal(matrix.rows_of_k(rows, 32), expected)
        expected = other.chunks(rows, 32, k_major=False, bits=bits).astype(np.int64)
        assert np.array_equal(matrix.columns_of_k(rows * bits // 8, 256 // bits), expected)


def test_words_that_say_nothing() -> None:
    assert shared_matrix.of_wgmma(1 << 60) is None
    absolute = Tcgen05SmemDescriptor(0, 16, 16, leading_is_address=True).encode()
    assert shared_matrix.of_tcgen05(absolute) is None
