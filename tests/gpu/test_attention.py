"""Flash attention from accumulators' elements, on a GPU and in the simulator, against NumPy in f64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nvbackend import runtime
from tests.support import attention
from tests.support.devices import ON_DEVICES, target_on

pytestmark = ON_DEVICES
KERNELS = (attention.by_warps, attention.by_a_warpgroup)
SCALE = math.log2(math.e) / math.sqrt(attention.DEPTH)


@pytest.mark.parametrize("rows", [64, 192, 100])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_attention_is_numpys(kernel, causal, rows, device):
    from numba import cuda

    q, keys, values = attention.matrices(rows, rows)
    o, lse = cuda.to_device(np.full_like(q, 7)), cuda.to_device(np.full(len(q), 7, np.float32))
    inputs = [cuda.to_device(one) for one in (q, keys, values)]
    loaded = runtime.load(
        kernel.build(target=target_on(device, str(kernel.target)), constants={"causal": causal}).compile()
    )
    loaded.launch(len(q) // attention.BLOCK, *inputs, o, lse, rows, SCALE)
    loaded.synchronize()
    right, sums = attention.expected(q, keys, values, rows, SCALE, causal=causal)
    np.testing.assert_allclose(o.copy_to_host()[:rows].astype(np.float64), right, atol=2e-3, rtol=2e-3)
    np.testing.assert_allclose(lse.copy_to_host()[:rows], sums, atol=1e-4)
    assert (o.copy_to_host()[rows:] == 7).all()
    assert (lse.copy_to_host()[rows:] == 7).all()
