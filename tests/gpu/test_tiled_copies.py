"""Tiled copies on a GPU: matrices come through unchanged, and a GEMM that is written with them equals NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import Major, SwizzleMode, f16, f32, runtime, u8
from nvbackend.signature import Parameter
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words
from tests.support.tiled_gemm import TILE, gemm
from tests.support.tiled_kernels import EXTENT, THREADS, through_matrices, through_registers, tma_boxes

pytestmark = ON_DEVICES


@pytest.fixture(scope="module")
def loaded(device):
    return runtime.load(gemm.compile())


@pytest.mark.parametrize(
    ("m", "n", "depth"), [(64, 64, 64), (128, 192, 256), (100, 72, 88), (1, 8, 8), (333, 200, 120)]
)
def test_a_gemm_of_tiled_copies(loaded, m, n, depth):
    """Small integers, whose sums are exact in f16; also tiles that end past the matrices, which must stay untouched."""
    from numba import cuda

    random = np.random.default_rng(m + n + depth)
    a, b = (random.integers(-2, 3, (rows, depth)).astype(np.float16) for rows in (m, n))
    c = cuda.to_device(np.full((m + 1, n), np.nan, np.float16))
    grid = (-(-m // TILE), -(-n // TILE))
    loaded.launch(grid, cuda.to_device(a), cuda.to_device(b), c, m, n // 8, depth // 8)
    loaded.synchronize()
    found = c.copy_to_host()
    assert np.array_equal(found[:m], (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))
    assert np.isnan(found[m]).all()


@pytest.mark.parametrize("operand", ["A", "C"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix_bring_a_tile_through(count, transposed, operand):
    source = np.random.default_rng(count).permutation(EXTENT * EXTENT).astype(np.uint16)
    body = through_matrices(count, transposed, operand)
    found = words(body, source, EXTENT * EXTENT // 2, threads=THREADS)
    assert np.array_equal(found.view(np.uint16), source)


@pytest.mark.parametrize(
    ("element", "bits"),
    [(u8, 8), (u8, 16), (u8, 64), (f16, 16), (f16, 32), (f16, 64), (f16, 128), (f32, 32), (f32, 128)],
)
def test_loads_and_stores_of_every_width(element, bits):
    """The first 48 rows come through; of those outside, registers have zeros."""
    size = EXTENT * EXTENT * element.bits // 8
    source = np.random.default_rng(bits).integers(0, 256, size, np.uint64).astype(np.uint8)
    found = words(through_registers(element, bits), source, size // 4, threads=THREADS).view(np.uint8)
    inside = size * 48 // EXTENT
    assert np.array_equal(found[:inside], source[:inside])
    assert not found[inside:].any()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("order", ["left", (2, 1)])
@pytest.mark.parametrize("mode", SwizzleMode)
@pytest.mark.parametrize("major", Major)
def test_tma_fills_a_layout_box_by_box(major, mode, order, whole):
    from numba import cuda

    matrix = np.random.default_rng(3).permutation(256 * 128).astype(np.uint16).view(np.float16).reshape(256, 128)
    stored = matrix if major is Major.K else np.ascontiguousarray(matrix.T)
    kind, body = tma_boxes(major, mode, order, whole)
    given = Parameter("tensor_map", kind), cuda.to_device(stored)
    found = words(body, np.zeros(1, np.uint32), 128 * EXTENT // 2, given, threads=THREADS)
    wanted = np.ascontiguousarray(matrix[64:192, 64:128])
    assert np.array_equal(found.view(np.uint16).reshape(128, EXTENT), wanted.view(np.uint16))
