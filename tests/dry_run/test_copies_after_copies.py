"""A stage that cp.async fills first and bulk copies later, by proxies between which a fence belongs."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.refusals import refusals

CHUNK = 128
CHUNKS = nvb.Pointer(f32, align=128)


@nvb.kernel("sm_90", threads=CHUNK)
def first_by_threads(k, x: CHUNKS, y: nvb.Pointer[f32], tiles: i32(minimum=1), *, fence, again):
    stages, full = k.shared(f32, 2 * CHUNK, align=128), k.mbarrier.array(2, arrivals=1)
    k.mbarrier.ready()
    thread = k.thread_id()
    k.cp_async.copy(stages + (tiles % 2 * CHUNK + thread), x + thread, 4)
    k.cp_async.commit_group()
    k.cp_async.wait_group(0)
    y[thread] = stages[tiles % 2 * CHUNK + thread]
    if fence:
        k.fence.proxy_async()
    k.barrier.sync()
    with k.range(tiles, name="tile") as tile:
        stage = tile % 2
        if again == "by threads":
            k.cp_async.copy(stages + (stage * CHUNK + thread), x + (tile * CHUNK + thread), 4)
            k.cp_async.commit_group()
            k.cp_async.wait_group(0)
        else:
            with k.if_(thread == 0):
                k.mbarrier.arrive(full + stage, expect_tx=4 * CHUNK)
                k.bulk.load(stages + stage * CHUNK, x + tile * CHUNK, 4 * CHUNK, full + stage)
            k.mbarrier.wait(full + stage, tile // 2 % 2)
        y[tile * CHUNK + thread] = stages[stage * CHUNK + thread]
        k.barrier.sync()


@pytest.mark.parametrize(
    ("fence", "again", "rules"),
    [(True, "in bulk", []), (False, "in bulk", ["proxy.missing-fence"]), (False, "by threads", [])],
)
def test_a_fence_between_the_proxies(fence, again, rules) -> None:
    assert refusals(first_by_threads, fence=fence, again=again) == rules
