"""The GEMMs of wmma and mma.sync on a GPU, compiled for it, against NumPy accumulating in float32."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import runtime
from samples import ada_gemm, ampere_gemm, turing_gemm
from tests.support.devices import ON_DEVICES, too_long

pytestmark = ON_DEVICES

SAMPLES = {"turing_gemm": turing_gemm, "ampere_gemm": ampere_gemm, "ada_gemm": ada_gemm}
SIZES = [(128, 128, 128), (128, 256, 256), *too_long([(384, 128, 640), (512, 768, 1024), (2048, 1024, 2048)])]


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request, device):
    """The sample and its kernel. What ptxas makes of fp8 here spills, and is told to be emulated: both are expected."""
    module = SAMPLES[request.param]
    return module, runtime.load(module.gemm.compile(target="sm_90a"))


def multiply(sample, a, b):
    from numba import cuda

    module, loaded = sample
    c = cuda.to_device(np.full((a.shape[0], b.shape[0]), np.nan, np.float32))
    module.launch(loaded, cuda.to_device(a), cuda.to_device(b), c)
    loaded.synchronize()
    return c.copy_to_host()


def encoded(module, numbers):
    import ml_dtypes

    if module is ada_gemm:
        return numbers.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return numbers.astype(np.float16)


EDGES = [(1, 8, 16), (100, 72, 48), (129, 136, 144), *too_long([(333, 1000, 80), (257, 264, 1040)])]


@pytest.mark.parametrize(("m", "n", "k"), EDGES)
@pytest.mark.parametrize("module", [ampere_gemm, ada_gemm], ids=["ampere_gemm", "ada_gemm"])
def test_tiles_that_end_past_the_matrices(module, m, n, k):
    """Every element is right, and those behind C stay as they are."""
    from numba import cuda

    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-8, 9, (rows, k)).astype(np.float32) / 2 for rows in (m, n))
    c = cuda.to_device(np.full((m + 8, n), np.nan, np.float32))
    loaded = runtime.load(module.gemm.compile(target="sm_90a"))
    module.launch(loaded, *(cuda.to_device(encoded(module, one)) for one in (a, b)), c)
    loaded.synchronize()
    found = c.copy_to_host()
    assert np.array_equal(found[:m], a @ b.T)
    assert np.isnan(found[m:]).all()


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_exact_numbers_come_out_exact(sample, m, n, k):
    """Small multiples of a half: every product and every sum of them is exact in float32."""
    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-8, 9, (rows, k)).astype(np.float32) / 2 for rows in (m, n))
    found = multiply(sample, *(encoded(sample[0], one) for one in (a, b)))
    assert np.array_equal(found, a @ b.T)


def test_the_samples_own_numbers(sample):
    """Those that its program compares by, decoded by itself."""
    from samples import program

    module, _ = sample
    random = np.random.default_rng(5)
    matrix = program.e4m3_matrix if module is ada_gemm else program.f16_matrix
    (a, a_values), (b, b_values) = (matrix(random, rows, 512) for rows in (256, 384))
    expected = a_values @ b_values.T
    assert np.abs(multiply(sample, a, b) - expected).max() <= 2.0**-14 * np.abs(expected).max()


@pytest.mark.gpu_alone
def test_the_result_is_the_same_every_time(sample):
    random = np.random.default_rng(3)
    a, b = (encoded(sample[0], random.integers(-8, 9, (512, 1024)) / 2) for _ in range(2))
    first = multiply(sample, a, b)
    assert all(np.array_equal(first, multiply(sample, a, b)) for _ in range(20))
