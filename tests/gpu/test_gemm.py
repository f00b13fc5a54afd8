"""The sample GEMM on a GPU, against NumPy accumulating in float32."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import runtime
from samples import hopper_gemm
from tests.support.devices import ON_DEVICES, too_long

pytestmark = ON_DEVICES

SIZES = [
    (256, 256, 64),
    (256, 256, 256),
    *too_long([(256, 256, 1024), (512, 768, 448), (2048, 1024, 4096), (4096, 4096, 4096), (8192, 8192, 1024)]),
]


@pytest.fixture(scope="module")
def gemm(device):
    return runtime.load(hopper_gemm.gemm.compile())


def multiply(gemm, a, b):
    from numba import cuda

    (m, k), n = a.shape, b.shape[0]
    c = cuda.to_device(np.full((m, n), np.nan, np.float16))
    gemm.launch(
        hopper_gemm.grid(m, n, gemm.device.limits.multiprocessors),
        cuda.to_device(a),
        cuda.to_device(b),
        c,
        *hopper_gemm.extents(m, n, k),
    )
    gemm.synchronize()
    return c.copy_to_host()


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_exact_numbers_come_out_exact(gemm, m, n, k):
    """Small multiples of a half: every product and sum is exact in float32, so only the rounding to f16 is left."""
    random = np.random.default_rng(m + n + k)
    a, b = ((random.integers(-8, 9, (rows, k)) / 2).astype(np.float16) for rows in (m, n))
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    assert np.array_equal(multiply(gemm, a, b), expected)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_random_numbers_differ_by_rounding_only(gemm, m, n, k):
    random = np.random.default_rng(m + n + k + 1)
    a, b = (random.standard_normal((rows, k), np.float32).astype(np.float16) for rows in (m, n))
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    # One rounding to f16, half a unit in the last place; and the tensor core cuts, where NumPy rounds, the float32 sum
    # that each instruction leaves: up to a unit in the last place of the largest one for each of k / 16.
    bound = np.abs(expected) * 2.0**-11 + k / 16 * 2.0**-23 * np.abs(expected).max()
    assert np.all(np.abs(multiply(gemm, a, b).astype(np.float32) - expected) <= bound)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 256, 64), (300, 200, 72), *too_long([(1000, 1000, 1000)])])
def test_edges_that_fill_no_tile(gemm, m, n, k):
    random = np.random.default_rng(m)
    a, b = ((random.integers(-8, 9, (rows, k)) / 2).astype(np.float16) for rows in (m, n))
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    assert np.array_equal(multiply(gemm, a, b), expected)


@pytest.mark.gpu_alone
def test_the_result_is_the_same_every_time(gemm):
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((1024, 1024), np.float32).astype(np.float16) for _ in range(2))
    first = multiply(gemm, a, b)
    assert all(np.array_equal(first, multiply(gemm, a, b)) for _ in range(20))
