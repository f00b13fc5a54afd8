"""The products that a benchmark compares GEMMs with are those of its operands, so many times."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from benchmarks.tables.bounds import ROWS, STAGES, THREADS, Same

DEPTH, ROUNDS = 64 * STAGES, 3


@pytest.mark.parametrize("in_registers", [False, True])
def test_a_cta_adds_its_products_in_each_round(in_registers: bool) -> None:
    random, same = np.random.default_rng(1), Same((ROWS, 64, DEPTH), columns=64, in_registers=in_registers)
    a, b = (random.integers(-3, 4, (rows, DEPTH)).astype(np.float16) for rows in (ROWS, 64))
    words, sums = np.full((ROWS * 64,), 2, np.float16).view(np.uint32), np.zeros(THREADS, np.float32)
    loaded = nvb.runtime.load(same.kernel.compile(), device="simulator")
    loaded.launch(1, a, b, words, sums, ROUNDS)
    left = np.full((ROWS, DEPTH), 2, np.float32) if in_registers else a.astype(np.float32)
    assert sums.sum() == ROUNDS * (left @ b.astype(np.float32).T).sum() != 0


def test_the_same_number_of_products() -> None:
    grid, rounds = Same((8192, 8192, 8192)).launch_of(132)
    products = grid * rounds * ROWS * 256 * DEPTH
    assert 1 <= products / 8192**3 < 1.01 and grid == 132
    assert Same((128, 8192, 8192), columns=128, in_registers=True).launch_of(132) == (128, 16)
