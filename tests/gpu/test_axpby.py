"""alpha * A * B + beta * C on a GPU, against NumPy: wgmma, C of its own or in D's place, with and without beta."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.row.types import f16, f32, u32
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.signature import Pointer, Scalar
from tests.support.axpby import product, warpgroup_kernel
from tests.support.devices import ON_DEVICES
from tests.support.wgmma_kernel import fill

pytestmark = ON_DEVICES

N, K, STRIDE = 72, 16, 80


@pytest.mark.parametrize("own_c", [False, True])
@pytest.mark.parametrize("beta", [0.0, -1.5])
@pytest.mark.parametrize("d", [f32, f16], ids=str)
def test_the_linear_epilogue_is_numpys(d, beta, own_c) -> None:
    from numba import cuda

    from nvbackend import runtime

    layouts = [SmemLayout(Major.K, SwizzleMode.B32, f16, rows, K) for rows in (64, N)]
    words = Pointer(u32)
    k = warpgroup_kernel(a=words, b=words, d=Pointer(d), c=Pointer(f32), alpha=Scalar(f32), beta=Scalar(f32))
    a, b, to, of, alpha, by = k.arguments
    tiles = [fill(k, layout, source, k.thread_id()) for layout, source in zip(layouts, (a, b), strict=True)]
    k.fence.proxy_async()
    k.barrier.sync()
    mma, acc = product(k, N)
    with k.wgmma.group():
        mma.accumulate(acc, *tiles)
    mma.axpby(alpha, acc, by, to, STRIDE, **({"c": of} if own_c else {}))
    random = np.random.default_rng(N)
    matrices = [random.integers(-4, 5, (rows, K)).astype(np.float16) for rows in (64, N)]
    images = [layout.arrange(one).view(np.uint32) for layout, one in zip(layouts, matrices, strict=True)]
    before = random.integers(-9, 10, (64, STRIDE)).astype(d.numpy_dtype())
    addend = random.integers(-9, 10, (64, STRIDE)).astype(np.float32)
    if beta == 0:
        (addend if own_c else before)[:, :N] = np.nan
    result = cuda.to_device(before)
    kernel = runtime.load(k.compile())
    kernel.launch(1, *(cuda.to_device(one) for one in images), result, cuda.to_device(addend), 0.5, beta)
    kernel.synchronize()
    numbers = 0.5 * (matrices[0].astype(np.float64) @ matrices[1].astype(np.float64).T)
    expected = before.copy()
    c = 0 if beta == 0 else (addend if own_c else before)[:, :N].astype(np.float64)
    expected[:, :N] = numbers + beta * c
    assert np.array_equal(result.copy_to_host(), expected, equal_nan=True)
