"""Scale-D of wgmma on a GPU, against NumPy: whether an mma adds to what D holds, as a constant and at run time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import f16, f32, i32, s8, s32, u32
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.signature import Parameter, Pointer
from tests.support.devices import ON_DEVICES
from tests.support.wgmma_kernel import fill

pytestmark = ON_DEVICES

N, STEPS = 64, 3
START = 3
"""What every element of D holds before the first mma."""


def accumulate_kernel(element, d, flags):
    """Three mma into one accumulator; `flags` are what each is told, None for the number that the kernel is given."""
    request = WgmmaRequest(n=N, k=256 // element.bits, d=d, a=element, b=element)
    layouts = [SmemLayout(Major.K, SwizzleMode.NONE, element, rows, STEPS * request.k) for rows in (64, N)]
    pointers = {"a": u32, "b": u32, "given": i32, "out": d}
    parameters = [Parameter(name, Pointer(one)) for name, one in pointers.items()]
    allow = {"wgmma.lost-product": "the sums that are overwritten show what the flag does"}
    k = KernelBuilder("accumulate", "sm_90a", threads=128, parameters=parameters, allow=allow)
    a, b, given, out = k.arguments
    tiles = [fill(k, layout, source, k.thread_id()) for layout, source in zip(layouts, (a, b), strict=True)]
    k.fence.proxy_async()
    k.barrier.sync()
    acc = k.wgmma.accumulator(N, d)
    acc.fill(START)
    told = [given[step] != 0 if flag is None else flag for step, flag in enumerate(flags)]
    with k.wgmma.group():
        for step, flag in enumerate(told):
            at = (0, step * request.k)
            k.wgmma.mma_async(acc, *tiles, request, a_at=at, b_at=at, accumulate=flag)
    k.store_accumulator(acc, out, N)
    return k, layouts, request


CONSTANT = [(True, True, True), (False, True, True), (True, False, True), (False, False, False), (1, 0, 1)]
AT_RUN_TIME = [(None, None, None), (None, True, None), (False, None, None)]
GIVEN = [(0, 0, 0), (1, 1, 1), (0, 1, 1), (1, 0, 1), (-5, 2, 0)]
CASES = [*((flags, GIVEN[0]) for flags in CONSTANT), *itertools.product(AT_RUN_TIME, GIVEN)]


@pytest.mark.parametrize(("flags", "given"), CASES)
@pytest.mark.parametrize(("element", "d"), [(f16, f32), (f16, f16), (s8, s32)], ids=str)
def test_each_mma_adds_to_what_was_there_or_overwrites_it(element, d, flags, given):
    from numba import cuda

    from nvbackend import runtime

    k, layouts, request = accumulate_kernel(element, d, flags)
    random = np.random.default_rng(1)
    matrices = [random.integers(-4, 5, (rows, STEPS * request.k)).astype(element.numpy_dtype()) for rows in (64, N)]
    images = [layout.arrange(one).view(np.uint32) for layout, one in zip(layouts, matrices, strict=True)]
    result = cuda.to_device(np.full((64, N), -77, d.numpy_dtype()))
    kernel = runtime.load(k.compile())
    inputs = [cuda.to_device(one) for one in (*images, np.array(given, np.int32))]
    kernel.launch(1, *inputs, result)
    kernel.synchronize()
    expected = np.full((64, N), START, np.float64)
    for step, flag in enumerate(flags):
        a, b = (one[:, step * request.k : (step + 1) * request.k].astype(np.float64) for one in matrices)
        adds = bool(given[step]) if flag is None else bool(flag)
        expected = expected * adds + a @ b.T
    assert np.array_equal(result.copy_to_host(), expected)
