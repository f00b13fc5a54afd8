"""One thread of the consumers feeds tcgen05: the warpgroup takes tiles, one of its threads multiplies, all store."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.layout import Layout

Rows = nvb.TensorMap(f16, box=(128, 64))
Columns = nvb.TensorMap(f16, box=(64, 64))


@nvb.kernel("sm_100a", threads=256, min_ctas=1)
def of_dynamic_tiles(
    k, a: Rows, b: Columns, c: nvb.Pointer[f32], counter: nvb.Pointer[i32], count: i32(minimum=1),
    across: i32(minimum=1), steps: i32(minimum=1), *, feeds=lambda k: k.one_thread(4),
):  # fmt: skip
    mma = k.tiled_mma(nvb.tcgen05.mma("m128n64k16", f16, f16, f32))
    ring = k.pipeline(3, consumers=1, a=mma.smem_a(64), b=mma.smem_b(64))
    tiles, done = k.dynamic_tiles(counter, count, 1), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(64) as acc:
        with k.producer(40), tiles.draw() as tile, k.range(steps) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (tile // across * 128, step * 64), stage.full)
            k.tma.load(stage.b, b, (tile % across * 64, step * 64), stage.full)
        with k.consumers(232), tiles.take() as tile:
            with feeds(k):
                k.tcgen05.fence_after_thread_sync()
                with k.range(steps) as step, ring.feed() as stage:
                    mma.accumulate(acc, stage.a, stage.b, accumulate=step > 0)
                k.tcgen05.commit(done)
            k.mbarrier.wait(done, tiles.before % 2)
            k.tcgen05.fence_after_thread_sync()
            whole = k.tensor(c, Layout((count // across * 128, across * 64), (across * 64, 1)))
            mma.load(acc).store(whole.tile((128, 64), (tile // across, tile % across)))
            k.tcgen05.fence_before_thread_sync()
            k.barrier.sync(1, 128)


@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_one_thread_of_the_consumers_feeds(ctas):
    random = np.random.default_rng(ctas)
    a, b = (random.integers(-3, 4, (rows, 192)).astype(np.float16) for rows in (256, 192))
    c, counter = np.zeros((256, 192), np.float32), np.zeros(1, np.int32)
    loaded = nvb.runtime.load(of_dynamic_tiles.compile(assemble=None), device="simulator")
    loaded.launch(ctas, a, b, c, counter, 6, 3, 3)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert counter[0] == 0


@pytest.mark.parametrize(
    ("feeds", "rule"),
    [
        (lambda k: k.if_(k.warpgroup_id() == 1), "pipeline.role"),
        (lambda k: k.if_(k.elect()), "mbarrier.arrivals"),
        (lambda k: k.if_(k.thread_id() < 130), "pipeline.role"),
    ],
    ids=["all", "one of each warp", "two"],
)
def test_several_consumers_do_not_feed(feeds, rule):
    with pytest.raises(nvb.DiagnosticError) as caught:
        of_dynamic_tiles.build(feeds=feeds)
    assert [each.rule_id for each in caught.value.diagnostics] == [rule]
