"""Chunks of operands in shared memory, byte for byte, against the formulas that were measured on an H200."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.simulator.tensor import descriptors
from tests.support import smem_addresses

WGMMA = {"NONE": 0, "B128": 1, "B64": 2, "B32": 3}
TCGEN05 = {"NONE": 0, "B128": 2, "B64": 4, "B32": 6}
WIDE = {"NONE": 16, "B32": 32, "B64": 64, "B128": 128}


def word(start, lbo, sbo, base, swizzle):
    return start >> 4 | (lbo >> 4) << 16 | (sbo >> 4) << 32 | base << 49 | swizzle


@pytest.mark.parametrize("tcgen05", [False, True])
@pytest.mark.parametrize("mode", WGMMA)
@pytest.mark.parametrize("k_major", [False, True])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("start", "base"), [(0x2000, 0), (0x3460, 0), (0x2D80, 3)])
def test_every_element(start, base, bits, k_major, mode, tcgen05):
    """Also from starts in the middle of the pattern, as a step along K makes them."""
    lbo, sbo = 0x840, 0x1230
    code = TCGEN05[mode] << 61 | 1 << 46 if tcgen05 else WGMMA[mode] << 62
    read = descriptors.of_tcgen05 if tcgen05 else descriptors.of_wgmma
    found = read(word(start, lbo, sbo, base if mode != "NONE" else 0, code))
    rows, row_bytes = 64, 32
    chunks = found.chunks(rows, row_bytes, k_major=k_major, bits=bits)
    image = np.random.default_rng(1).integers(0, 256, 1 << 18, dtype=np.uint8)
    data = image[chunks[..., None].astype(int) + np.arange(16)]
    matrix = found.matrix(data, k_major=k_major, bits=bits)
    size = bits // 8
    assert matrix.shape == (rows, row_bytes // size)
    for place in np.ndindex(*matrix.shape):
        shift = base if mode != "NONE" else 0
        address = smem_addresses.address(k_major, mode, bits, place, start, lbo, sbo, shift)
        assert matrix[place] == image[address : address + size].view(matrix.dtype)[0]


def test_the_atoms_of_32_bytes():
    """Rows of 128 bytes, four of them a pattern: pairs of chunks change places by the row. CuTe's Swizzle<2, 5, 2>."""
    found = descriptors.of_tcgen05(word(0, 4096, 512, 0, 1 << 61))
    chunks = found.chunks(32, 32, k_major=False, bits=32)
    assert chunks.shape == (8, 8)
    for chunk, k in np.ndindex(8, 8):
        linear = chunk * 16 + k % 4 * 128 + k // 4 * 512
        assert chunks[chunk, k] == linear ^ (linear >> 2 & 0x60)


@pytest.mark.parametrize("code", [3, 5, 7])
def test_no_such_swizzle(code):
    assert descriptors.of_tcgen05(code << 61) is None


def test_elements_of_less_than_a_byte():
    data = np.array([[0x21, 0x43]], np.uint8)
    assert descriptors.codes_of(data, 4).tolist() == [[1, 2, 3, 4]]
    assert descriptors.codes_of(np.array([[0b10100001]], np.uint8), 1).tolist() == [[1, 0, 0, 0, 0, 1, 0, 1]]
