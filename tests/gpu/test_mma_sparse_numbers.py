"""Sparse mma.sync on a GPU, against NumPy: every type, shape and selector, with metadata placed by the figures."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.mma import mma
from nvbackend.isel.select.mma.request import MmaRequest
from tests.gpu.test_mma_numbers import INSTRUCTIONS, product, random_matrix, run, start
from tests.support.devices import ON_DEVICES
from tests.support.mma_formulas import LANES, METADATA

pytestmark = ON_DEVICES

SPARSE = {ptx: one for ptx, one in INSTRUCTIONS.items() if one.sparsity}
CASES = [
    (ptx, selector)
    for ptx, one in SPARSE.items()
    for selector in mma.mma(one).operand("selector").values
    if selector == 0 or not one.satfinite
]


def sparse_matrix(element, k, ordered, seed):
    """A of 16 x k with half of each chunk kept: as stored, in full, and the 4-bit metadata of each row's chunks.

    A chunk is 2 elements of 32 bits, 4 of 16 or 8 bits, or 4 pairs of 4 bits. Unless `ordered`, some chunks store the
    second of what they keep first.
    """
    random = np.random.default_rng(seed)
    units, kept, unit = {32: (2, 1, 1), 4: (4, 2, 2)}.get(element.bits, (4, 2, 1))
    chunks = k // (units * unit)
    places = np.argsort(random.random((16, chunks, units)), axis=2)[..., :kept]
    if ordered:
        places = np.sort(places, axis=2)
    stored = random_matrix(element, 16, k // 2, seed + 1)
    full = np.zeros((16, chunks, units, unit), stored.dtype)
    np.put_along_axis(full, places[..., None], stored.reshape(16, chunks, kept, unit), axis=2)
    # A 32-bit element counts as two halves, so place p of two keeps 2p and 2p + 1 of four.
    first, second = (2 * places[..., 0], 2 * places[..., 0] + 1) if kept == 1 else (places[..., 0], places[..., 1])
    return stored, full.reshape(16, k), (first | second << 2).astype(np.uint32)


def metadata_registers(codes, bits, k, selector):
    """A word a thread from the code of each chunk, (row, chunk); words that do not count are all ones."""
    threads, formula = METADATA[bits, k]
    width = k // codes.shape[1]
    words = np.full(32, 0xFFFFFFFF, np.uint32)
    for lane in LANES:
        if lane % 4 // threads == selector:
            words[lane] = 0
            for chunk in range(8):
                row, column = formula(lane // 4, lane % 4 % threads, chunk)
                words[lane] |= codes[row, column // width] << np.uint32(4 * chunk)
    return words


@pytest.mark.parametrize(("ptx", "selector"), CASES)
def test_sparse_a(ptx, selector):
    one = SPARSE[ptx]
    m, n, k = one.shape
    stored, a, codes = sparse_matrix(one.a, k, one.sparsity != "sp", k)
    b, c = random_matrix(one.b, k, n, k + 7), start(one.c, k + 8, (m, n))
    metadata = metadata_registers(codes, one.a.bits, k, selector)
    found = run(MmaRequest(one, selector=selector), a, b, c, a_stored=stored, metadata=metadata)
    assert np.array_equal(found, product(a, b, c, one))
