"""Programs whose mbarriers and barriers of threads are begun, counted or waited for wrongly."""

from __future__ import annotations

from nvbackend import f32, i32, u64
from tests.dry_run.fixes.tried import BACK, F32, PAIRS, ROW, ROWS, tried
from tests.dry_run.registry import Out


@tried("mbarrier.uninitialised", ROW, Out(BACK), ROWS)
def ring_without_its_last_mbarrier(k, x: F32, y: F32, rows: i32):
    ring, thread = k.shared(f32, 2 * 128, align=16), k.thread_id()
    full = k.shared(u64, 2, name="full")
    with k.one_thread():
        k.mbarrier.init(full, 1)
        k.mbarrier.init(full + 1, 1)  # keeps
    k.mbarrier.ready()
    with k.range(rows) as step:
        row = ring + step % 2 * 128
        with k.if_(thread == 0):
            k.mbarrier.arrive(full + step % 2, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full + step % 2)
        k.mbarrier.wait(full + step % 2, step // 2 & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("mbarrier.not-ready", ROW, Out(BACK), ROWS)
def mbarrier_that_others_have_not_seen(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.fence.mbarrier_init()  # breaks
    k.barrier.sync(1 + k.warp_id() // 2, 64)  # breaks
    k.mbarrier.ready()  # keeps
    with k.range(rows) as step:
        with k.if_(thread == 96):
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("mbarrier.overwritten", ROW, Out(BACK), ROWS, says="put the data elsewhere")
def row_where_the_mbarrier_is(k, x: F32, y: F32, rows: i32):
    memory, thread = k.shared(u64, 68, align=128, name="memory"), k.thread_id()
    first = 0  # breaks
    first = 2  # keeps
    row = (memory + first).cast(f32)
    with k.one_thread():
        k.mbarrier.init(memory, 1)
    k.mbarrier.ready()
    with k.range(rows) as step:
        with k.if_(thread == 0):
            k.mbarrier.arrive(memory, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, memory)
        k.mbarrier.wait(memory, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("mbarrier.double-init", ROW, Out(BACK), ROWS)
def mbarrier_that_a_warp_initialises(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.shared(u64, 1, name="full")
    with k.if_(k.warp_id() == 0):  # breaks
        k.mbarrier.init(full, 1)  # breaks
    with k.one_thread():  # keeps
        k.mbarrier.init(full, 1)  # keeps
    k.mbarrier.ready()
    with k.range(rows) as step:
        with k.if_(thread == 0):
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("mbarrier.arrivals", ROW, Out(BACK), ROWS, says="initialise met to 128")
def mbarrier_that_counts_three_warps(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    count = 96  # breaks
    count = 128  # keeps
    met = k.mbarrier.array(1, arrivals=count, name="met")
    k.mbarrier.ready()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        token = k.mbarrier.arrive(met, state=True)
        with k.loop():
            k.break_if(k.mbarrier.test(met, state=token))
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("dry-run.unwaited-phase", ROW, Out(BACK), ROWS)
def arrival_of_the_next_phase(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    met = k.mbarrier.array(1, arrivals=128, name="met")
    k.mbarrier.ready()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        k.mbarrier.arrive(met)
        k.mbarrier.wait(met, 0)
        y[step * 128 + thread] = row[127 - thread]
        k.mbarrier.arrive(met)
        k.mbarrier.wait(met, 1)  # keeps


@tried("dry-run.overrun", ROW, Out(BACK))
def rows_that_nobody_waits_for(k, x: F32, y: F32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full = k.mbarrier.array(1, arrivals=1, name="full")
    free = k.mbarrier.array(1, arrivals=128, name="free")  # keeps
    k.mbarrier.ready()
    with k.range(ROWS) as step:
        with k.if_(thread == 0):
            k.mbarrier.wait(free, step & 1 ^ 1)  # keeps
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.mbarrier.arrive(free)  # keeps


@tried("mbarrier.deadlock", ROW, Out(BACK), ROWS, held=("mbarrier.arrive",), says="once for each round")
def row_that_is_not_given_back(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128, align=16), k.thread_id()
    full, free = (k.mbarrier.array(1, arrivals=count, name=name) for count, name in ((1, "full"), (128, "free")))
    k.mbarrier.ready()
    with k.range(rows) as step:
        with k.if_(thread == 0):
            k.mbarrier.wait(free, step & 1 ^ 1)
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        with k.if_(step != 1):  # breaks
            k.mbarrier.arrive(free)  # breaks
        k.mbarrier.arrive(free)  # keeps


@tried("barrier.crowd", ROW, Out(PAIRS), ROWS, says="a barrier of its own number")
def pairs_of_warps_at_one_barrier(k, x: F32, y: F32, rows: i32):
    row, thread, warp = k.shared(f32, 128), k.thread_id(), k.warp_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        k.barrier.sync(1 + step % 2, 64)  # breaks
        k.barrier.sync(1 + warp // 2, 64)  # keeps
        y[step * 128 + thread] = row[thread ^ 63]
        k.barrier.sync()


@tried("dry-run.barrier-counts", ROW, Out(BACK), ROWS, says="count 128 threads here too")
def barrier_of_two_counts(k, x: F32, y: F32, rows: i32):
    row, thread, warp = k.shared(f32, 128), k.thread_id(), k.warp_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        with k.if_(warp < 3):
            k.barrier.sync(1, 128)
        with k.else_():
            k.barrier.sync(1, 96)  # breaks
            k.barrier.sync(1, 128)  # keeps
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()
