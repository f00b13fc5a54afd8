"""An accumulator stored from its registers on a GPU, against NumPy, for every accumulator type and a padded stride."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import f16, f32, s8, s32, u32
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.signature import Parameter, Pointer
from tests.support.devices import ON_DEVICES
from tests.support.wgmma_kernel import fill

pytestmark = ON_DEVICES

N = 72


@pytest.mark.parametrize("stride", [N, N + 6])
@pytest.mark.parametrize(("element", "d"), [(f16, f32), (f16, f16), (s8, s32)], ids=str)
def test_the_product_arrives_in_rows(element, d, stride):
    from numba import cuda

    from nvbackend import runtime

    n = 80 if d is s32 else N  # integers have fewer N
    stride += n - N
    request = WgmmaRequest(n=n, k=256 // element.bits, d=d, a=element, b=element)
    layouts = [SmemLayout(Major.K, SwizzleMode.B32, element, rows, request.k) for rows in (64, n)]
    parameters = [Parameter("a", Pointer(u32)), Parameter("b", Pointer(u32)), Parameter("out", Pointer(d))]
    k = KernelBuilder("store_accumulator", "sm_90a", threads=128, parameters=parameters)
    a, b, out = k.arguments
    tiles = [fill(k, layout, source, k.thread_id()) for layout, source in zip(layouts, (a, b), strict=True)]
    k.fence.proxy_async()
    k.barrier.sync()
    acc = k.wgmma.accumulator(n, d)
    with k.wgmma.group():
        k.wgmma.mma_async(acc, *tiles, request)
    k.store_accumulator(acc, out, stride)
    random = np.random.default_rng(n + stride)
    matrices = [random.integers(-4, 5, (rows, request.k)).astype(element.numpy_dtype()) for rows in (64, n)]
    images = [layout.arrange(one).view(np.uint32) for layout, one in zip(layouts, matrices, strict=True)]
    empty = np.full((64, stride), -77, d.numpy_dtype())
    result = cuda.to_device(empty)
    kernel = runtime.load(k.compile())
    kernel.launch(1, *(cuda.to_device(image) for image in images), result)
    kernel.synchronize()
    expected = empty.copy()
    expected[:, :n] = matrices[0].astype(np.float64) @ matrices[1].astype(np.float64).T
    assert np.array_equal(result.copy_to_host(), expected)
