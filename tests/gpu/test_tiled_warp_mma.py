"""Tiled mma.sync on a GPU: every atom that it has, over random layouts and tiles, against NumPy, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend import runtime
from tests.support.devices import ON_DEVICES
from tests.support.warp_mma import cases

pytestmark = ON_DEVICES

CASES = cases(7, 140)
"""Each atom once, then random ones."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.atom}-{'x'.join(map(str, case.tile))}-{case.threads}")
def test_products_are_exact(case):
    """Small integers, whose sums all types of accumulators have."""
    from numba import cuda

    m, n, _ = case.tile
    *given, product = case.matrices(case.threads + m)
    c = cuda.to_device(np.zeros((m, n), case.atom.d.storage))
    a, b, *metadata = map(cuda.to_device, given)
    loaded = runtime.load(case.kernel().finish().compile())
    loaded.launch(1, a, b, c, *metadata)
    loaded.synchronize()
    assert np.array_equal(c.copy_to_host().astype(np.int64), product)
