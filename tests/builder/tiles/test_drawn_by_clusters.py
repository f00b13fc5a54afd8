"""Clusters that draw tiles, written by hand: one producer draws, and mails the number to every CTA by async stores."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32

CLUSTER, MAILBOXES = 2, 2
Rows = nvb.TensorMap(f16, box=(64, 64))


@nvb.kernel("sm_90a", threads=256, cluster=CLUSTER, min_ctas=1)
def drawn(
    k, a: Rows, b: Rows, c: nvb.Pointer[f32], counter: nvb.Pointer[u32], down: i32(minimum=1), across: i32(minimum=1),
    steps: i32(minimum=1), *, arrivals: int = CLUSTER * 129,
):  # fmt: skip
    """A cluster has two tiles, one above the other, that share their tile of B."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n128k16", f16, f16, f32))
    ring = k.pipeline(3, consumers=1, a=mma.smem_a(64), b=mma.smem_b(64), multicast=True)
    mail = k.shared(u32, MAILBOXES, name="mail")
    posted, taken = k.mbarrier.array(MAILBOXES, arrivals=1), k.mbarrier.array(MAILBOXES, arrivals=arrivals)
    k.mbarrier.ready()
    rank, count, before = k.cluster.rank(), down * across, k.var(0)

    def place(tile):
        return (tile // across * CLUSTER + rank) * 64, tile % across * 128

    def take():
        box = before % MAILBOXES
        k.mbarrier.wait(posted + box, before // MAILBOXES % 2)
        number = mail[box].to(i32)
        k.mbarrier.arrive(taken + box, rank=0)
        return number

    with k.producer(registers=40):
        tile = k.var(k.cluster.id())
        with k.loop():
            box, parity = before % MAILBOXES, before // MAILBOXES % 2
            k.mbarrier.arrive(posted + box, expect_tx=4)
            with k.if_(rank == 0):
                k.mbarrier.wait(taken + box, parity ^ 1)
                for peer in range(CLUSTER):
                    k.async_store.store(mail + box, tile.to(u32), posted + box, peer)
                tile.set(k.atomic.add(counter, 1).to(i32) + k.cluster.count())
            mine = take()
            k.break_if(mine >= count)
            row, column = place(mine)
            with k.range(steps) as step, ring.fill() as stage:
                k.tma.load(stage.a, a, (row, step * 64), stage.full)
                k.tma.load(stage.b, b, (column, step * 64), stage.full, multicast=True)
            before += 1
        ring.finish()
    with k.consumers(registers=232):
        acc = mma.accumulator()
        with k.loop():
            mine = take()
            k.break_if(mine >= count)
            acc.clear()
            with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, stage.a, stage.b)
            k.wgmma.wait_group(0, drains=[acc])
            ring.release()
            row, column = place(mine)
            n = across * 128
            k.store_accumulator(acc, c + row * n + column, stride=n)
            before += 1
    k.cluster.sync()


@pytest.mark.parametrize("clusters", [1, 2, 8])
def test_clusters_that_draw_multiply(clusters):
    random = np.random.default_rng(clusters)
    a, b = (random.integers(-3, 4, (rows, 128)).astype(np.float16) for rows in (256, 384))
    c, counter = np.zeros((256, 384), np.float32), np.zeros(1, np.uint32)
    loaded = nvb.runtime.load(drawn.compile(assemble=None), device="simulator")
    loaded.launch(CLUSTER * clusters, a, b, c, counter, 2, 3, 2)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert counter[0] == 6 + clusters  # each draws one that is not there


def test_a_mailbox_that_waits_for_others_than_take_it_is_found():
    with pytest.raises(nvb.DiagnosticError) as caught:
        drawn.build(arrivals=CLUSTER * 128)
    assert {each.rule_id for each in caught.value.diagnostics} <= {"mbarrier.arrivals", "mbarrier.deadlock"}
