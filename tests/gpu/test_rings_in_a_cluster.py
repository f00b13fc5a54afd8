"""Rings of a cluster's CTAs that each fill their own, on both devices: a stage comes back to its own CTA."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, runtime
from nvbackend.layout import make_layout
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES
ROW = 128
SIDE = 16
TILE = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B32, f16, SIDE, SIDE)
HALF = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(SIDE // 2, SIDE), swizzle=32)]


@nvb.kernel("sm_90a", threads=256, cluster=lambda cluster: cluster)
def sums(
    k: nvb.KernelBuilder,
    x: Annotated[nvb.Pointer, nvb.Pointer(f32)],
    y: Annotated[nvb.Pointer, nvb.Pointer(f32)],
    rows: i32,
    *,
    cluster: int = 2,
    by: str = "warpgroup",
) -> None:
    """Each CTA adds every so many'th row, by a ring of two stages that is not multicast."""
    ring = k.pipeline(2, consumers=1, released_by=by, row=(f32, make_layout(ROW)))
    k.mbarrier.ready()
    mine = lambda: k.range(k.block_id(), rows, k.block_count())  # noqa: E731
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), mine() as row, ring.fill() as stage:
        k.bulk.load(stage.row.at(0), x + row * ROW, 4 * ROW, stage.full)
    with k.else_():
        total = k.var(0.0, f32)
        column = k.thread_id() - ROW
        with mine(), ring.drain() as stage:
            total += stage.row.at(column)[0]
            if by == "warpgroup":
                k.barrier.sync(1, 128)
        y[k.block_id() * ROW + column] = total


@pytest.mark.parametrize("by", ["warpgroup", "thread"])
@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_a_stage_comes_back_to_the_cta_that_filled_it(cluster, by, device):
    from numba import cuda

    x = np.random.default_rng(cluster).integers(-8, 8, (29, ROW)).astype(np.float32)
    y = cuda.to_device(np.zeros((4, ROW), np.float32))
    loaded = runtime.load(sums.compile(cluster=cluster, by=by))
    loaded.launch(4, cuda.to_device(x), y, len(x))
    loaded.synchronize()
    assert np.array_equal(y.copy_to_host(), [x[first::4].sum(0) for first in range(4)])


@nvb.kernel("sm_90a", threads=256, cluster=2, min_ctas=1)
def doubled(k: nvb.KernelBuilder, x: HALF, y: Annotated[nvb.Pointer, nvb.Pointer(f32)], steps: i32, *, by: str) -> None:
    """Both CTAs of a cluster read all of X, of which each loads a half for both; only readers wait for themselves."""
    ring = k.pipeline(2, consumers=1, multicast=True, released_by=by, tile=TILE)
    k.mbarrier.ready()
    with k.producer(registers=40):
        with k.range(steps) as step, ring.fill() as stage:
            k.tma.load(stage.tile, x, (0, step * SIDE), stage.full, multicast=True)
        ring.finish()
    with k.consumers(registers=120):
        thread = k.thread_id() % 128
        with k.range(steps) as step, ring.drain(in_flight=1) as stage:
            tile = k.tensor(stage.tile.address.cast(f16), stage.tile.cute)
            for half in range(2):
                row, column = half * 8 + thread // SIDE, thread % SIDE
                place = ((k.block_id() * steps + step) * SIDE + row) * SIDE + column
                y[place] = tile[row, column].to(f32) * 2.0
            if by == "warpgroup":
                k.barrier.sync(1, 128)
        ring.release()


@pytest.mark.parametrize("by", ["warpgroup", "thread"])
def test_all_ctas_give_a_stage_back_before_it_is_filled_for_all(by, device):
    from numba import cuda

    steps = 9
    x = np.random.default_rng(steps).integers(-8, 8, (SIDE, steps * SIDE)).astype(np.float16)
    y = cuda.to_device(np.zeros((4, steps, SIDE, SIDE), np.float32))
    loaded = runtime.load(doubled.compile(by=by))
    loaded.launch(4, cuda.to_device(x), y, steps)
    loaded.synchronize()
    expected = x.reshape(SIDE, steps, SIDE).swapaxes(0, 1).astype(np.float32) * 2
    assert np.array_equal(y.copy_to_host(), np.broadcast_to(expected, (4, steps, SIDE, SIDE)))
