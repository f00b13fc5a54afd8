"""Programs that give a copy to another mbarrier than was meant, or end the life of one that is in use."""

from __future__ import annotations

import numpy as np

from nvbackend import Pointer, f32, i32
from tests.dry_run.fixes.tried import BACK, F32, ROW, ROWS, tried
from tests.dry_run.registry import Out

FIRST = ROW[:128]
WORDS = Pointer[i32]
PLACES = np.arange(128, dtype=np.int32) * 5


@tried("mbarrier.wrong-bytes", ROW, Out(BACK), ROWS, says="complete on full[1], not on full[0]")
def copies_of_all_stages_to_the_first_mbarrier(k, x: F32, y: F32, rows: i32):
    ring, thread = k.shared(f32, 2 * 128, align=16, name="ring"), k.thread_id()
    full = k.mbarrier.array(2, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        stage, row = step % 2, ring + step % 2 * 128
        with k.if_(thread == 0):
            k.mbarrier.arrive(full + stage, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)  # breaks
            k.bulk.load(row, x + step * 128, 512, full + stage)  # keeps
        k.mbarrier.wait(full + stage, step // 2 & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("mbarrier.after-inval", FIRST, Out(FIRST[::-1].copy()))
def mbarrier_that_others_still_wait_for(k, x: F32, y: F32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.if_(thread == 0):
        k.mbarrier.arrive(full, expect_tx=512)
        k.bulk.load(row, x, 512, full)
    k.mbarrier.wait(full, 0)
    k.barrier.sync()  # keeps
    with k.if_(thread == 0):
        k.mbarrier.inval(full)
    y[thread] = row[127 - thread]


@tried("shared.missing-barrier", PLACES, Out(np.bincount(PLACES & 31, minlength=32).astype(np.int32)))
def counts_that_one_warp_reads(k, x: WORDS, y: WORDS):
    counts, thread = k.shared(i32, 32, name="counts"), k.thread_id()
    with k.if_(thread < 32):
        counts[thread] = 0
    k.barrier.sync()
    k.atomic.add(counts + (x[thread] & 31), 1)
    k.barrier.sync()  # keeps
    with k.if_(thread < 32):
        y[thread] = counts[thread]


@tried("mbarrier.late-bytes", ROW, Out(BACK), ROWS, says="announce them before the thread arrives: put line ")
def bytes_that_are_announced_after_the_arrival(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16, name="row"), k.thread_id()
    full = k.mbarrier.array(1, arrivals=128, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        k.mbarrier.arrive(full)  # breaks
        with k.if_(thread == 0):
            k.mbarrier.expect_tx(full, 512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.arrive(full)  # keeps
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("mbarrier.wrong-barrier", ROW, Out(BACK), ROWS, says="announce them in line ")
def bytes_that_are_announced_on_the_next_stage(k, x: F32, y: F32, rows: i32):
    """Warps 0 and 1 fill half a row each; both announce what they bring."""
    ring, thread = k.shared(f32, 2 * 128, align=16, name="ring"), k.thread_id()
    full = k.mbarrier.array(2, arrivals=2, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        stage = step % 2
        for half in range(2):
            with k.one_thread(half):
                there = full + (step + half) % 2  # breaks
                there = full + stage  # keeps
                k.mbarrier.arrive(there, expect_tx=256)
                k.bulk.load(ring + (stage * 128 + half * 64), x + step * 128 + half * 64, 256, full + stage)
        k.mbarrier.wait(full + stage, step // 2 & 1)
        y[step * 128 + thread] = ring[stage * 128 + (127 - thread)]
        k.barrier.sync()
