"""Programs whose accesses meet, leave their memory, or read what nobody wrote."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32, u32, u64
from tests.corpus.parts import PRODUCT
from tests.dry_run.fixes.tried import BACK, F32, LINES, ROW, ROWS, tried
from tests.dry_run.kernels.parts import MATRIX, TILE, multiply, product, small
from tests.dry_run.registry import Out

LINE = LINES.reshape(-1)
A, B = small(0, 64, 256), small(1, 64, 256)
COLUMNS = small(2, 64, 256)


@tried("proxy.refill-in-flight", ROW, Out(ROW), ROWS)
def row_that_is_filled_while_it_is_stored(k, x: F32, y: F32, rows: i32):
    row = k.shared(f32, 128, align=16)
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        with k.range(rows) as step:
            with k.if_(step & 1 == 1):  # breaks
                k.tma.wait_group(reading=True)  # breaks
            k.tma.wait_group(reading=True)  # keeps
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
            k.mbarrier.wait(full, step & 1)
            k.bulk.store(y + step * 128, row, 512)
            k.tma.commit_group()
        k.tma.wait_group(reading=True)


@tried("dry-run.relaxed-arrival", ROW, Out(BACK), ROWS, says='"release" in place of "relaxed"')
def row_by_a_relaxed_arrival(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    full = k.mbarrier.array(1, arrivals=128, name="full")
    k.mbarrier.ready()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        k.mbarrier.arrive(full, qualifiers=("relaxed", "cta"))  # breaks
        k.mbarrier.arrive(full, qualifiers=("release", "cta"))  # keeps
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("dry-run.two-writers", ROW, Out(BACK), ROWS)
def row_that_is_cleared_and_written(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    with k.range(rows) as step:
        with k.if_(k.warp_id() == 0):
            for first in range(0, 128, 32):
                row[first + thread] = 0.0
        k.barrier.sync()  # keeps
        with k.if_(k.warp_id() >= 0):
            row[thread] = x[step * 128 + thread]
        k.barrier.sync()
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("descriptor.swizzle", A, B, Out(product(A, B)), 4, threads=128, says="the same swizzle in the tensor map and")
def tiles_by_a_plain_descriptor(k, a: MATRIX, b: MATRIX, c: F32, steps: i32):
    tiles = [k.shared(f16, 4096, align=1024, name=name) for name in "ab"]
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    acc, fixed = k.wgmma.accumulator(64), 1 << 16 | (1024 >> 4) << 32
    swizzle = 0  # breaks
    swizzle = 1 << 62  # keeps
    with k.range(steps) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=2 * 8192)
            for tile, source in zip(tiles, (a, b), strict=True):
                k.tma.load_box(tile, source, (step * 64, 0), full)
        k.mbarrier.wait(full, step & 1)
        k.wgmma.fence()
        for part in range(4):
            starts = [(tile.bytes >> 4 & 0x3FFF).to(u64) + part * 2 for tile in tiles]
            operands = [start | fixed | swizzle for start in starts]
            k.wgmma.mma_async(acc, *operands, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
        k.wgmma.commit_group()
        k.wgmma.wait_group(0)
        k.barrier.sync()
    k.store_accumulator(acc, c, 64)


@tried("descriptor.one-tile", A, B, Out(product(A, B)), 4, threads=160, says="the copies begin 8192 bytes apart")
def stages_of_half_a_tile(k, a: MATRIX, b: MATRIX, c: F32, steps: i32):
    tiles = [k.shared(f16, 2 * 4096, align=1024, name=name) for name in "ab"]
    full, empty = (k.mbarrier.array(2, arrivals=count, name=name) for name, count in (("full", 1), ("empty", 4)))
    k.mbarrier.ready()
    acc, fixed = k.wgmma.accumulator(64), 1 << 62 | 1 << 16 | (1024 >> 4) << 32
    with k.if_(k.warp_id() == 4), k.one_thread(4), k.range(steps) as step:
        k.mbarrier.wait(empty + step % 2, step // 2 & 1 ^ 1)
        k.mbarrier.arrive(full + step % 2, expect_tx=2 * 8192)
        for tile, source in zip(tiles, (a, b), strict=True):
            k.tma.load_box(tile + step % 2 * 4096, source, (step * 64, 0), full + step % 2)
    with k.if_(k.warp_id() < 4):
        with k.range(steps) as step:
            k.mbarrier.wait(full + step % 2, step // 2 & 1)
            k.wgmma.fence()
            for part in range(4):
                stage = (step % 2 * 4096).to(u32)  # breaks
                stage = (step % 2 * 8192).to(u32)  # keeps
                operands = [(tile.bytes + stage >> 4 & 0x3FFF).to(u64) + (part * 2 | fixed) for tile in tiles]
                k.wgmma.mma_async(acc, *operands, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
            k.wgmma.commit_group()
            k.wgmma.wait_group(0)
            k.mbarrier.arrive(empty + step % 2, when=k.lane_id() == 0)
        k.store_accumulator(acc, c, 64)


@tried("dry-run.missing-warp-sync", LINE, Out(LINES[:, ::-1].reshape(-1).copy()), ROWS, threads=32)
def words_that_lanes_exchange(k, x: F32, y: F32, rows: i32):
    words, lane = k.shared(f32, 32), k.lane_id()
    with k.range(rows) as step:
        words[lane] = x[step * 32 + lane]
        k.warp.sync()  # keeps
        y[step * 32 + lane] = words[31 - lane]
        k.warp.sync()


@tried("dry-run.unwritten", ROW, Out(np.roll(ROW.reshape(4, 128), -1, 1).reshape(-1)), ROWS, says="fill row before")
def row_without_its_last_word(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 129, name="row"), k.thread_id()
    with k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        with k.if_(thread == 0):  # keeps
            row[128] = x[step * 128]  # keeps
        k.barrier.sync()
        y[step * 128 + thread] = row[thread + 1]
        k.barrier.sync()


@tried("shared.bounds", ROW, Out(BACK), ROWS, says="keep the index of")
def rows_by_a_mask(k, x: F32, y: F32, rows: i32):
    ring, thread = k.shared(f32, 3 * 128), k.thread_id()
    with k.range(rows) as step:
        row = ring + (step & 3) * 128  # breaks
        row = ring + step % 3 * 128  # keeps
        row[thread] = x[step * 128 + thread]
        k.barrier.sync()
        y[step * 128 + thread] = row[127 - thread]
        k.barrier.sync()


@tried("wgmma.lost-product", A, B, Out(product(A, B)), ROWS, says="before the loop over the steps")
def sum_of_the_last_step(k, a: MATRIX, b: MATRIX, c: F32, steps: i32):
    ta, tb = (k.shared_tile(TILE, name=name) for name in "ab")
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    acc = k.wgmma.accumulator(64)
    acc.clear()  # keeps
    with k.range(steps) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=2 * TILE.bytes)
            k.tma.load(ta, a, (0, step * 64), full)
            k.tma.load(tb, b, (0, step * 64), full)
        k.mbarrier.wait(full, step & 1)
        acc.clear()  # breaks
        with k.wgmma.group():
            multiply(k, acc, ta, tb)
        k.barrier.sync()
    k.store_accumulator(acc, c, 64)


@tried("tma.start", COLUMNS, Out(COLUMNS), 4, says="that of tile number i is i * 64")
def columns_counted_in_tiles(k, x: MATRIX, y: MATRIX, steps: i32):
    tile, full = k.shared_tile(TILE, name="tile"), k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.one_thread(), k.range(steps) as step:
        column = step  # breaks
        column = step * 64  # keeps
        k.mbarrier.arrive(full, expect_tx=TILE.bytes)
        k.tma.load(tile, x, (0, column), full)
        k.mbarrier.wait(full, step & 1)
        k.tma.store(y, (0, step * 64), tile)
        k.tma.commit_group()
        k.tma.wait_group(reading=True)


@tried("copy.unread", A, B, Out(product(A, B)), ROWS, says="advance the operand with each step along K")
def columns_that_are_not_multiplied(k, a: MATRIX, b: MATRIX, c: F32, steps: i32):
    ta, tb = (k.shared_tile(TILE, name=name) for name in "ab")
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    acc = k.wgmma.accumulator(64)
    acc.clear()
    with k.range(steps) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=2 * TILE.bytes)
            k.tma.load(ta, a, (0, step * 64), full)
            k.tma.load(tb, b, (0, step * 64), full)
        k.mbarrier.wait(full, step & 1)
        with k.wgmma.group():
            for column in range(0, 64, 16):
                at = (0, 0)  # breaks
                at = (0, column)  # keeps
                k.wgmma.mma_async(acc, ta, tb, PRODUCT, a_at=(0, column), b_at=at)
        k.barrier.sync()
    k.store_accumulator(acc, c, 64)
