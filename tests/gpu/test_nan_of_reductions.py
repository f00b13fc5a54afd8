"""The bits of a NaN that a bulk reduction leaves."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import u32
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES

WORDS = 4
NANS = {
    "f32": (np.uint32, [0x7F800001, 0xFFC00001, 0x7F800000, 0x3F800000], [0x7FFFFFFF, 0x7FFFFFFF]),
    "f16": (np.uint16, [0x7C01, 0xFE01, 0x7C00, 0x3C00, 0, 0, 0, 0], [0x7FFF, 0x7FFF]),
    "bf16": (np.uint16, [0x7F81, 0xFFC1, 0x7F80, 0x3F80, 0, 0, 0, 0], [0x7FFF, 0x7FFF]),
    "f64": (np.uint64, [0x7FF0000000000001, 0xFFF8000000000001], [0x7FF0000000000001, 0xFFF8000000000001]),
}
"""For each type, how its bits are numbers, what is added to zeros, and what becomes of the first two, which are NaN."""


def adding(element: str) -> nvb.KernelDefinition:
    @nvb.kernel("sm_90a", threads=32)
    def added(k: nvb.KernelBuilder, x: nvb.Pointer[u32], out: nvb.Pointer(u32, align=16)) -> None:
        tile, lane = k.shared(u32, WORDS, align=16), k.lane_id()
        with k.if_(lane < WORDS):
            tile[lane] = x[lane]
        k.fence.proxy_async("shared::cta")
        k.warp.sync()
        with k.one_thread():
            k.bulk.reduce(out, tile, 4 * WORDS, "add", element)
            k.tma.commit_group()
            k.tma.wait_group(0)

    return added


@pytest.mark.parametrize("element", NANS)
def test_a_nan_that_is_added(element: str) -> None:
    from numba import cuda

    unsigned, given, nans = NANS[element]
    x, out = cuda.to_device(np.array(given, unsigned).view(np.uint32)), cuda.to_device(np.zeros(WORDS, np.uint32))
    nvb.runtime.load(adding(element).compile()).launch(1, x, out)
    assert out.copy_to_host().view(unsigned).tolist() == [*nans, *given[2:]]
