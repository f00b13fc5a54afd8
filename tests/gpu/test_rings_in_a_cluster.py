"""Rings of a cluster's CTAs that each fill their own, on both devices: a stage comes back to its own CTA."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, runtime
from nvbackend.layout import make_layout
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES
ROW = 128


@nvb.kernel("sm_90a", threads=256, cluster=lambda cluster: cluster)
def sums(
    k: nvb.KernelBuilder,
    x: Annotated[nvb.Pointer, nvb.Pointer(f32)],
    y: Annotated[nvb.Pointer, nvb.Pointer(f32)],
    rows: i32,
    *,
    cluster: int = 2,
) -> None:
    """Each CTA adds every so many'th row, by a ring of two stages that is not multicast."""
    ring = k.pipeline(2, consumers=1, row=(f32, make_layout(ROW)))
    k.mbarrier.ready()
    mine = lambda: k.range(k.block_id(), rows, k.block_count())  # noqa: E731
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), mine() as row, ring.fill() as stage:
        k.bulk.load(stage.row.at(0), x + row * ROW, 4 * ROW, stage.full)
    with k.else_():
        total = k.var(0.0, f32)
        column = k.thread_id() - ROW
        with mine(), ring.drain() as stage:
            total += stage.row.at(column)[0]
            k.barrier.sync(1, 128)
        y[k.block_id() * ROW + column] = total


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_a_stage_comes_back_to_the_cta_that_filled_it(cluster, device):
    from numba import cuda

    x = np.random.default_rng(cluster).integers(-8, 8, (29, ROW)).astype(np.float32)
    y = cuda.to_device(np.zeros((4, ROW), np.float32))
    loaded = runtime.load(sums.compile(cluster=cluster))
    loaded.launch(4, cuda.to_device(x), y, len(x))
    loaded.synchronize()
    assert np.array_equal(y.copy_to_host(), [x[first::4].sum(0) for first in range(4)])
