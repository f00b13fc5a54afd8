"""Implicit-GEMM convolutions by im2col maps with padding, stride and dilation, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import runtime
from tests.support.convolution import CHANNELS, FILTERS, PIXELS, convolution, expected
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES
CASES = {
    # shape of the images, extent of the filter, padding, stride, dilation
    "padding": ((2, 9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    "stride 2, dilation 2, padding 1": ((4, 9, 11), (3, 3), (1, 1), (2, 2), (2, 2)),
    "strides that differ": ((3, 12, 13), (2, 3), (0, 2), (3, 1), (1, 3)),
    "a stride past the end": ((2, 10, 10), (1, 1), (0, 0), (4, 3), (1, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_convolution_is_numpys(case, device):
    from numba import cuda

    shape, extent, padding, stride, dilation = CASES[case]
    random = np.random.default_rng(len(case))
    x = random.integers(-2, 3, (*shape, CHANNELS)).astype(np.float16)
    weights = random.integers(-2, 3, (FILTERS, *extent, CHANNELS)).astype(np.float16)
    right = expected(x, weights, padding, stride, dilation)
    walk = nvb.Im2col.of_convolution(extent, padding, stride, dilation)
    rows, columns = walk.walked(x.shape)
    assert right.shape == (shape[0], rows, columns, FILTERS)
    tiles = -(-shape[0] * rows * columns // PIXELS)
    out = cuda.to_device(np.full((tiles * PIXELS, FILTERS), np.nan, np.float32))
    loaded = runtime.load(convolution(walk, extent, dilation).compile())
    loaded.launch(tiles, cuda.to_device(x), cuda.to_device(weights.reshape(FILTERS, -1)), out, rows, columns)
    loaded.synchronize()
    found = out.copy_to_host()
    assert np.array_equal(found[: right.size // FILTERS].reshape(right.shape), right)
    assert not found[right.size // FILTERS :].any()
