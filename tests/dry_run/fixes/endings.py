"""Programs that end, or whose CTAs or warpgroups do, while others still need them."""

from __future__ import annotations

import numpy as np

from nvbackend import f32, i32
from tests.dry_run.fixes.tried import BACK, F32, ROW, ROWS, tried
from tests.dry_run.registry import Out

WORDS = np.arange(ROWS * 2 * 32, dtype=np.float32).reshape(ROWS, 2, 32)
OF_THE_PEER = WORDS.reshape(-1), Out(WORDS[:, ::-1].reshape(-1).copy()), ROWS


@tried(
    "cluster.divergent",
    *OF_THE_PEER,
    verified=True,
    says="all threads of all CTAs come to k.cluster.sync()",
    cluster=2,
    threads=64,
)
def warps_that_meet_at_other_barriers(k, x: F32, y: F32, rows: i32):
    words, lane, rank = k.shared(f32, 32), k.lane_id(), k.cluster.rank()
    theirs = k.cluster.map_shared_rank(words, rank ^ 1)
    with k.range(rows) as step:
        with k.if_(k.warp_id() == 0):
            words[lane] = x[step * 64 + rank * 32 + lane]
        with k.if_((k.warp_id() == 0) | (step != 1)):  # breaks
            k.cluster.sync()  # breaks
        k.cluster.sync()  # keeps
        k.barrier.sync()
        with k.if_(k.warp_id() == 1):
            y[step * 64 + rank * 32 + lane] = theirs[lane]
        k.cluster.sync()


@tried("cluster.access-before-start", *OF_THE_PEER, verified=True, threads=32, cluster=2)
def words_of_a_cta_that_may_not_run(k, x: F32, y: F32, rows: i32):
    words, lane, rank = k.shared(f32, 32), k.lane_id(), k.cluster.rank()
    theirs = k.cluster.map_shared_rank(words, rank ^ 1)
    k.cluster.sync()  # keeps
    with k.range(rows) as step:
        theirs[lane] = x[step * 64 + rank * 32 + lane]
        k.cluster.sync()
        y[step * 64 + rank * 32 + lane] = words[lane]
        k.cluster.sync()


@tried("cluster.exit-before-access", *OF_THE_PEER, verified=True, threads=32, cluster=2)
def words_of_a_cta_that_may_have_ended(k, x: F32, y: F32, rows: i32):
    words, lane, rank = k.shared(f32, 2 * 32), k.lane_id(), k.cluster.rank()
    theirs = k.cluster.map_shared_rank(words, rank ^ 1)
    with k.range(rows) as step:
        words[step % 2 * 32 + lane] = x[step * 64 + rank * 32 + lane]
        k.cluster.sync()
        y[step * 64 + rank * 32 + lane] = theirs[step % 2 * 32 + lane]
    k.cluster.sync()  # keeps


@tried("proxy.store-not-committed", ROW, Out(ROW), ROWS)
def row_that_is_not_committed(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        k.fence.proxy_async()
        k.barrier.sync()
        with k.if_(thread == 0):
            k.bulk.store(y + step * 128, row, 512)
            with k.if_(step + 1 < rows):  # breaks
                k.tma.commit_group()  # breaks
            k.tma.commit_group()  # keeps
            k.tma.wait_group(reading=True)
        k.barrier.sync()


@tried("dry-run.fill-left", ROW, Out(BACK), ROWS, says="fill as many stages as are drained")
def row_past_the_last(k, x: F32, y: F32, rows: i32):
    ring, thread = k.shared(f32, 2 * 128, align=16), k.thread_id()
    full = k.mbarrier.array(2, arrivals=1, name="full")
    k.mbarrier.ready()

    def fill(step):
        k.mbarrier.arrive(full + step % 2, expect_tx=512)
        k.bulk.load(ring + step % 2 * 128, x + step * 128, 512, full + step % 2)

    with k.if_(thread == 0):
        fill(k.const(0, i32))
    with k.range(rows) as step:
        k.mbarrier.wait(full + step % 2, step // 2 & 1)
        with k.if_(thread == 0):  # breaks
            fill(step + 1)  # breaks
        with k.if_((thread == 0) & (step + 1 < rows)):  # keeps
            fill(step + 1)  # keeps
        y[step * 128 + thread] = ring[step % 2 * 128 + 127 - thread]
        k.barrier.sync()


@tried("setmaxnreg.pool", np.tile(ROW, 2), Out(np.tile(BACK, 2)), ROWS, threads=384, min_ctas=1)
def registers_that_come_late(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 256), k.thread_id()
    with k.if_(thread >= 256):
        k.setmaxnreg.dec(40)  # keeps
        with k.range(rows):
            k.barrier.sync(1, 384)
        k.setmaxnreg.dec(40)  # breaks
    with k.else_():
        k.setmaxnreg.inc(232)
        with k.range(rows) as step:
            place = (thread // 128 * rows + step) * 128 + thread % 128
            row[thread] = x[place]
            k.barrier.sync(1, 384)
            y[place] = row[thread ^ 127]
            k.barrier.sync(2, 256)
    k.barrier.sync()
