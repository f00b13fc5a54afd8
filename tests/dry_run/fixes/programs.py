"""Programs in which copies and threads access a row in no order, or announce and wait for it wrongly."""

from __future__ import annotations

from nvbackend import f32, i32
from tests.dry_run.fixes.tried import BACK, F32, ROW, ROWS, tried
from tests.dry_run.registry import Out


@tried("shared.missing-barrier", ROW, Out(BACK), ROWS)
def row_without_a_barrier(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        with k.if_(step & 1 == 0):  # breaks
            k.barrier.sync()  # breaks
        k.barrier.sync()  # keeps
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("shared.overwritten-early", ROW, Out(BACK), ROWS)
def next_row_too_early(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        k.barrier.sync()
        y[step * 128 + thread] = row[127 - thread]
        with k.if_(step & 1 == 0):  # breaks
            k.barrier.sync()  # breaks
        k.barrier.sync()  # keeps


@tried("async-copy.read-before-wait", ROW, Out(BACK), ROWS)
def row_of_other_threads_copies(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    with k.range(rows) as step:
        k.cp_async.copy(row + thread, x + (step * 128 + thread), 4)
        k.cp_async.commit_group()
        with k.if_(step & 1 == 0):  # breaks
            k.cp_async.wait_group(0)  # breaks
        k.cp_async.wait_group(0)  # keeps
        k.barrier.sync()
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("proxy.read-before-wait", ROW, Out(BACK), ROWS)
def row_that_is_asked_for_once(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.test(full, parity=step & 1)  # breaks
        k.mbarrier.wait(full, step & 1)  # keeps
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("proxy.refill", ROW, Out(BACK), ROWS)
def row_that_is_filled_too_early(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()  # keeps


@tried("proxy.missing-fence", ROW, Out(ROW), ROWS)
def row_that_is_stored_unseen(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        with k.if_(k.warp_id() == 0):  # breaks
            k.fence.proxy_async()  # breaks
        k.fence.proxy_async()  # keeps
        k.barrier.sync()
        with k.if_(thread == 0):
            k.bulk.store(y + step * 128, row, 512)
            k.tma.commit_group()
            k.tma.wait_group(reading=True)
        k.barrier.sync()


@tried("proxy.write-in-flight", ROW, Out(ROW), ROWS)
def row_that_is_written_while_it_is_stored(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 256, align=16), k.thread_id()
    with k.range(rows) as step:
        here = row + (step & 1) * 128
        (here + thread).store(x[step * 128 + thread])
        k.fence.proxy_async()
        k.barrier.sync()
        with k.if_(thread == 0):
            k.bulk.store(y + step * 128, here, 512)
            k.tma.commit_group()
            k.tma.wait_group(2, reading=True)  # breaks
            k.tma.wait_group(0, reading=True)  # keeps
        k.barrier.sync()
    with k.if_(thread == 0):
        k.tma.wait_group(reading=True)


@tried("proxy.store-not-waited", ROW, Out(ROW), ROWS)
def row_that_is_stored_at_the_end(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        k.fence.proxy_async()
        k.barrier.sync()
        with k.if_(thread == 0):
            k.bulk.store(y + step * 128, row, 512)
            k.tma.commit_group()
            with k.if_(step + 1 < rows):  # breaks
                k.tma.wait_group(reading=True)  # breaks
            k.tma.wait_group(reading=True)  # keeps
        k.barrier.sync()


@tried("mbarrier.wrong-bytes", ROW, Out(BACK), ROWS, says="announce 512 bytes")
def row_of_other_bytes(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=512 + (step >> 1) * 16)  # breaks
            k.mbarrier.arrive(full, expect_tx=512)  # keeps
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("mbarrier.parity-counter", ROW, Out(BACK), ROWS, says="it flips each time")
def row_of_the_wrong_phase(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step >> 1 & 1)  # breaks
        k.mbarrier.wait(full, step & 1)  # keeps
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("mbarrier.parity", ROW, Out(BACK), ROWS, says="pass the phase & 1 here")
def row_of_the_phase_and_not_its_parity(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step)  # breaks
        k.mbarrier.wait(full, step & 1)  # keeps
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("dry-run.barrier-hangs", ROW, Out(BACK), ROWS, says="count 128 threads")
def barrier_of_more_threads_than_come(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        k.barrier.sync(1, 128 + (step & 1) * 32)  # breaks
        k.barrier.sync(1, 128)  # keeps
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried(
    "dry-run.barrier-rounds",
    ROW,
    Out(BACK),
    ROWS,
    says="make as many rounds of its loop in each warp",
    held=("barrier.sync",),
)
def barrier_of_rounds_that_some_warps_do_not_make(k, x: F32, y: F32, rows: i32(minimum=1)):
    row, thread = k.shared(f32, 128), k.thread_id()
    with k.range(k.warp_id() >> 1, rows, 2) as step:  # breaks
        k.barrier.sync()  # breaks
        y[step] = x[step]  # breaks
    with k.range(rows) as step:  # keeps
        k.barrier.sync()  # keeps
        row[thread] = x[step * 128 + thread]  # keeps
        k.barrier.sync()  # keeps
        y[step * 128 + thread] = row[127 - thread]  # keeps
    k.barrier.sync()
