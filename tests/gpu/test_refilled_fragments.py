"""A of wgmma loaded and converted for the next step while the tensor core multiplies this one, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import runtime
from tests.support.devices import ON_DEVICES
from tests.support.refilled import COLUMNS, DEPTH, ROWS, arranged, weights_of_bytes

pytestmark = ON_DEVICES


@pytest.fixture(scope="module")
def loaded(device):
    return runtime.load(weights_of_bytes.compile())


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_the_numbers_are_numpys(loaded, steps):
    from numba import cuda

    random = np.random.default_rng(steps)
    a = random.integers(-8, 8, (ROWS, DEPTH * steps)).astype(np.int8)
    b = random.integers(-2, 3, (COLUMNS, DEPTH * steps)).astype(np.float16)
    out = cuda.to_device(np.zeros((ROWS, COLUMNS), np.float32))
    loaded.launch(1, cuda.to_device(arranged(a)), cuda.to_device(b), out, steps)
    loaded.synchronize()
    assert np.array_equal(out.copy_to_host(), a.astype(np.float32) @ b.astype(np.float32).T)
