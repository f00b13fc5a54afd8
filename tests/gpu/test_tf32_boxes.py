"""What copies by a map of tf32 make of values of f32: a load rounds them, a store leaves them."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, tf32, u32
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES

ROWS, COLUMNS = 16, 32
CUT = 0x1FFF
"""The bits of an f32 that tf32 lacks."""
TIES = [0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F802FFF, 0x3F803000, 0x3F803001, 0xBF801000, 0xBF803000, 0x7F7FEFFF]
ENDS = [0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0, 0x80000000, 1, 0x80000001, 0x1000, 0x1FFF, 0x007FFFFF]
NANS = [0x7F800001, 0xFF800001, 0x7FC00001, 0x7FFFFFFF, 0xFFFFFFFF]


@nvb.kernel("sm_90a", threads=32)
def through(
    k: nvb.KernelBuilder,
    x: nvb.TensorMap(tf32, (ROWS, COLUMNS), 0),
    words: nvb.Pointer[u32],
    y: nvb.TensorMap(tf32, (ROWS, COLUMNS), 0),
    loaded: nvb.Pointer[u32],
):
    """Load X, and write what came; store `words` to Y."""
    lane = k.lane_id()
    came, stored = (k.shared(f32, ROWS * COLUMNS, align=128, name=name) for name in ("came", "stored"))
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=4 * ROWS * COLUMNS)
        k.tma.load_box(came, x, (0, 0), full)
    k.mbarrier.wait(full, 0)
    for row in range(ROWS):
        at = row * COLUMNS + lane
        loaded[at] = came[at].bitcast(u32)
        stored[at] = words[at].bitcast(f32)
    k.fence.proxy_async("shared::cta")
    k.warp.sync()
    with k.one_thread():
        k.tma.store_box(y, (0, 0), stored)
        k.tma.commit_group()
        k.tma.wait_group(0)


@pytest.fixture(scope="module")
def copied(device):
    """The words given, those that a load brought, and those that a store wrote."""
    from numba import cuda

    words = np.random.default_rng(9).integers(0, 2**32, (ROWS, COLUMNS), np.uint32)
    words.flat[: len(TIES + ENDS + NANS)] = TIES + ENDS + NANS
    given, plain = cuda.to_device(words.view(np.float32)), cuda.to_device(words.ravel())
    written = cuda.to_device(np.zeros((ROWS, COLUMNS), np.float32))
    came = cuda.to_device(np.zeros(ROWS * COLUMNS, np.uint32))
    nvb.runtime.load(through.compile()).launch(1, given, plain, written, came)
    return words, came.copy_to_host().reshape(words.shape), written.copy_to_host().view(np.uint32)


def test_a_load_rounds_to_nearest_even(copied):
    words, came, _ = copied
    number = words.astype(np.uint64)
    nearest = (number + CUT // 2 + (number >> 13 & 1)) & ~np.uint64(CUT)
    np.testing.assert_array_equal(came, np.where(np.isnan(words.view(np.float32)), 0x7FFFE000, nearest))


def test_a_store_changes_nothing(copied):
    words, _, written = copied
    np.testing.assert_array_equal(written, words)
