"""Work for nothing: products that nothing reads, groups that nothing is in, tiles that are not stored."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, u32
from tests.rules.example import kernel

MMA = nvb.mma.sync("m16n8k16", f16, f16, f32)


@kernel("mma.unread", threads=32)
def sums_that_are_not_stored(k, fragments: nvb.Pointer[u32], out: nvb.Pointer[f32]):
    a, b = [fragments[i] for i in range(4)], [fragments[i] for i in range(4, 6)]
    sums = k.mma.sync(MMA, a, b, [0.0] * 4)
    out[k.thread_id()] = 0.0  # breaks
    out[k.thread_id()] = sums[0]  # keeps


@kernel("async.empty-group", threads=32)
def copies_that_are_loads(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
    row, lane = k.shared(f32, 32), k.thread_id()
    row[lane] = x[lane]  # breaks
    k.cp_async.copy(row + lane, x + lane, 4)  # keeps
    k.cp_async.commit_group()
    k.cp_async.wait_group(0)
    k.barrier.sync()
    out[lane] = row[31 - lane]


@kernel("epilogue.not-stored", threads=128)
def tile_that_is_only_reserved(k, c: nvb.TensorMap(f16, box=(64, 64)), out: nvb.Pointer[f32]):
    output = k.tma_epilogue(c, 64, 1)
    acc = k.wgmma.accumulator(64)
    acc.fill(1.0)
    reserved = output.reserve((0, 0), 0)
    out[k.thread_id()] = acc[0]
    reserved.store(acc)  # keeps
    output.finish()


@kernel("kernel.unused-parameter", threads=32)
def output_that_is_never_stored(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], low: nvb.Pointer[f32]):
    lane = k.thread_id()
    y[lane] = k.warp.reduce("max", x[lane])
    low[lane] = k.warp.reduce("min", x[lane])  # keeps
