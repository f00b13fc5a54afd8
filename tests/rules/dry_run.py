"""What only a run of the whole kernel shows: the dry run of `build` tries these out."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, i32
from tests.rules.example import kernel
from tests.rules.pipeline import TILE, A
from tests.rules.setup import load_parts, tensor_memory


@kernel("dry-run.two-writers")
def word_that_two_warps_write(k, out: nvb.Pointer[i32]):
    word = k.shared(i32, 1)
    with k.if_(k.thread_id() == 0):
        word[0] = 1
    k.barrier.sync()  # keeps
    with k.if_(k.thread_id() == 32):
        word[0] = 2
    k.barrier.sync()
    out[k.thread_id()] = word[0]


@kernel("dry-run.unwritten")
def half_that_is_not_filled(k, out: nvb.Pointer[i32]):
    buffer = k.shared(i32, 256)
    buffer[k.thread_id()] = k.thread_id()
    k.barrier.sync()
    out[k.thread_id()] = buffer[128 + k.thread_id()]  # breaks
    out[k.thread_id()] = buffer[127 - k.thread_id()]  # keeps


@kernel("descriptor.one-tile", threads=160)
def stages_of_half_a_tile(k, a: A, steps: i32):
    tiles = k.shared(nvb.f16, 2 * 4096, align=1024)
    full, empty = k.mbarrier.array(2, arrivals=1), k.mbarrier.array(2, arrivals=4)
    k.mbarrier.ready()
    with k.if_(k.warp_id() == 4), k.one_thread(4), k.range(steps) as step:
        k.mbarrier.wait(empty + step % 2, step // 2 & 1 ^ 1)
        k.mbarrier.arrive(full + step % 2, expect_tx=8192)
        k.tma.load_box(tiles + step % 2 * 4096, a, (0, 0), full + step % 2)
    with k.if_(k.warp_id() < 4), k.range(steps) as step:
        k.mbarrier.wait(full + step % 2, step // 2 & 1)
        stage = (step % 2 * 4096).to(nvb.u32)  # breaks
        stage = (step % 2 * 8192).to(nvb.u32)  # keeps
        tile = (tiles.bytes + stage >> 4 & 0x3FFF).to(nvb.u64) | 1 << 62 | 1 << 16 | (1024 >> 4) << 32
        acc = k.wgmma.accumulator(64)
        with k.wgmma.group():
            k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", nvb.f16, nvb.f16, nvb.f32))
        k.mbarrier.arrive(empty + step % 2, when=k.lane_id() == 0)


@kernel("dry-run.missing-warp-sync", threads=32)
def words_that_lanes_exchange(k, out: nvb.Pointer[i32]):
    words, lane = k.shared(i32, 32), k.lane_id()
    words[lane] = lane
    k.warp.sync()  # keeps
    out[lane] = words[31 - lane]  # breaks
    out[lane] = words[31 - lane]  # keeps


@kernel("dry-run.no-sizes")
def promise_that_no_number_keeps(k, n: i32):
    k.assume((n > 4) & (n < 4))  # breaks
    k.assume((n > 4) & (n < 8))  # keeps
    with k.range(n):
        k.barrier.sync()


@kernel("dry-run.fill-left", threads=256)
def stage_that_nobody_drains(k, a: A, steps: i32):
    ring = k.pipeline(2, 1, a=TILE)
    k.mbarrier.ready()
    filled = steps + 1  # breaks
    filled = steps  # keeps
    with k.producer(40), k.range(filled), ring.fill() as stage:
        k.tma.load(stage.a, a, (0, 0), stage.full)
    with k.consumers(232), k.range(steps), ring.drain():
        k.barrier.sync(1, 128)


@kernel("copy.unread", threads=128)
def half_of_a_tile_that_is_multiplied(k, a: A, b: A, c: nvb.Pointer[f32]):
    ta, tb = k.shared_tile(TILE, name="a"), k.shared_tile(TILE, name="b")
    full, acc = k.mbarrier.array(1, arrivals=1), k.wgmma.accumulator(64)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=2 * TILE.bytes)
        k.tma.load(ta, a, (0, 0), full)
        k.tma.load(tb, b, (0, 0), full)
    k.mbarrier.wait(full, 0)
    with k.wgmma.group():
        for column in range(0, 64, 16):
            right = (0, column // 2 // 16 * 16)  # breaks
            right = (0, column)  # keeps
            product = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
            k.wgmma.mma_async(acc, ta, tb, product, a_at=(0, column), b_at=right)
    k.store_accumulator(acc, c, 64)


@kernel("dry-run.barrier-counts")
def barrier_that_is_counted_in_two_ways(k):
    with k.if_(k.warp_id() < 2):
        k.barrier.arrive(1, 128)
    with k.else_():
        k.barrier.sync(1, 64)  # breaks
        k.barrier.sync(1, 128)  # keeps


@kernel("dry-run.barrier-hangs")
def barrier_of_more_than_come(k):
    with k.if_(k.warp_id() < 2):
        k.barrier.sync(1, 128)  # breaks
        k.barrier.sync(1, 64)  # keeps


@kernel("dry-run.barrier-rounds")
def barrier_of_rounds_that_not_all_warps_make(k, rows: i32(minimum=1)):
    with k.range(k.warp_id(), rows, 4):  # breaks
        k.barrier.sync()  # breaks
    with k.range(rows):  # keeps
        k.barrier.sync()  # keeps
    k.barrier.sync()


@kernel("dry-run.tensor-bounds", "sm_100a")
def columns_past_the_allocation(k, at: i32):
    with tensor_memory(k, 32) as tmem:
        mine = tmem + (k.warp_id() << 21).bitcast(nvb.u32)
        last = k.math.min(at, k.const(32, i32))  # breaks
        last = k.math.min(at, k.const(31, i32))  # keeps
        k.tcgen05.st(mine + last.bitcast(nvb.u32), "32x32b", [0])
        k.tcgen05.wait_st()


@kernel("dry-run.tensor-lanes", "sm_100a")
def lanes_of_another_warp(k):
    with tensor_memory(k, 32) as tmem:
        first = (k.warp_id() * 32 + 32) % 128  # breaks
        first = k.warp_id() * 32  # keeps
        k.tcgen05.st(tmem + (first << 16).bitcast(nvb.u32), "32x32b", [0])
        k.tcgen05.wait_st()


@kernel("dry-run.tensor-unwritten", "sm_100a")
def column_that_is_not_filled(k, out: nvb.Pointer[nvb.u32]):
    buffer = k.shared(i32, 128)
    buffer[k.thread_id()] = k.thread_id()
    with tensor_memory(k, 32) as tmem:
        mine = tmem + (k.warp_id() << 21).bitcast(nvb.u32)
        k.tcgen05.st(mine, "32x32b", [buffer[k.thread_id()].bitcast(nvb.u32)])
        k.tcgen05.wait_st()
        column = 1  # breaks
        column = 0  # keeps
        loaded = k.tcgen05.ld(mine + column, "32x32b", 1)
        k.tcgen05.wait_ld(loaded)
        out[k.thread_id()] = loaded[0]


@kernel("dry-run.tensor-overlap", "sm_100a")
def product_over_its_own_a(k, b: nvb.TensorMap(f16, box=(64, 64))):
    done = k.mbarrier.array(1, arrivals=1)
    tile, full = load_parts(k)
    with k.tcgen05.tmem(128) as tmem:
        k.tcgen05.st(tmem.lanes(32 * k.warp_id()), "32x32b", [0] * 8)
        k.tcgen05.wait_st()
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
        with k.one_thread():
            k.tcgen05.fence_after_thread_sync()
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, b, (0, 0), full)
            k.mbarrier.wait(full, 0)
            d = tmem.columns(0, 64)  # breaks
            d = tmem.columns(64, 64)  # keeps
            shape = nvb.InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
            k.tcgen05.mma(nvb.Tcgen05Request("f16", a_in_tmem=True), d, tmem, tile, shape, accumulate=False)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)


@kernel("dry-run.relaxed-arrival")
def arrival_that_orders_nothing(k, out: nvb.Pointer[i32]):
    word = k.shared(i32, 1)
    written = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        word[0] = 1
        k.mbarrier.arrive(written, qualifiers=("relaxed", "cta"))  # breaks
        k.mbarrier.arrive(written, qualifiers=("release", "cta"))  # keeps
    k.mbarrier.wait(written, 0)
    out[k.thread_id()] = word[0]


@kernel("dry-run.unwaited-phase")
def arrival_of_the_next_phase(k):
    met = k.mbarrier.array(1, arrivals=128)
    k.mbarrier.ready()
    k.mbarrier.arrive(met)
    k.mbarrier.wait(met, 0)  # keeps
    token = k.mbarrier.arrive(met, state=True)
    with k.loop():
        k.break_if(k.mbarrier.test(met, state=token))


@kernel("dry-run.overrun")
def rows_that_nobody_waits_for(k, x: nvb.Pointer[nvb.f32], y: nvb.Pointer[nvb.f32]):
    row = k.shared(nvb.f32, 128, align=16)
    full, empty = (k.mbarrier.array(1, arrivals=count) for count in (1, 128))
    k.mbarrier.ready()
    with k.range(4) as step:
        with k.if_(k.thread_id() == 0):
            k.mbarrier.wait(empty, (step & 1) ^ 1)  # keeps
            k.mbarrier.arrive(full, expect_tx=512)
            k.bulk.load(row, x + step * 128, 512, full)
        k.mbarrier.wait(full, step & 1)
        y[step * 128 + k.thread_id()] = row[k.thread_id()]
        k.mbarrier.arrive(empty)  # keeps


@kernel("cluster.each-asks", "sm_100a", threads=64, cluster=2)
def rows_of_clusters_that_are_taken_over(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
    answer, thread, rank = k.shared(nvb.u32, 4, align=16), k.thread_id(), k.cluster.rank()
    asked = k.mbarrier.array(1, arrivals=1, name="asked")
    k.mbarrier.ready()
    k.cluster.sync()
    turn, block = k.var(0), k.var(k.block_id())
    with k.loop():
        with k.if_(thread == 0):
            k.mbarrier.arrive(asked, expect_tx=16)
            k.launch_control.try_cancel(answer, asked)  # breaks
            with k.if_(rank == 0):  # keeps
                k.launch_control.try_cancel(answer, asked, multicast=True)  # keeps
        y[block * 64 + thread] = x[block * 64 + thread] * 2.0
        k.mbarrier.wait(asked, turn & 1)
        more, (first, _, _) = k.launch_control.canceled_cluster(answer)
        k.fence.proxy_async()
        k.cluster.sync()
        k.break_if(~more)
        block.set(first.to(i32) + rank)
        turn += 1


@kernel("tcgen05.lost-product", "sm_100a")
def sum_of_the_last_product(k, b: nvb.TensorMap(f16, box=(64, 64)), out: nvb.Pointer[nvb.u32]):
    done = k.mbarrier.array(1, arrivals=1)
    tile, full = load_parts(k)
    with k.tcgen05.tmem(64) as tmem:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, b, (0, 0), full)
            k.mbarrier.wait(full, 0)
            shape = nvb.InstructionDescriptor(kind="f16", m=64, n=64, a=f16, b=f16, d=f32)
            for column in range(0, 64, 16):
                at = (0, column)
                more = False  # breaks
                more = column > 0  # keeps
                k.tcgen05.mma(nvb.Tcgen05Request("f16"), tmem, tile, tile, shape, a_at=at, b_at=at, accumulate=more)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()
        with k.if_(k.warp_id() == 0):
            load = k.tcgen05.ld(tmem, "32x32b", 1)
            k.tcgen05.wait_ld(load)
            out[k.lane_id()] = load.values[0]


@kernel("wgmma.lost-product")
def sum_of_the_last_step(k, b: A, steps: i32, out: nvb.Pointer[f32]):
    tile, full = load_parts(k)
    acc = k.wgmma.accumulator(64)
    acc.clear()  # keeps
    with k.range(steps) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
            k.tma.load(tile, b, (0, step * 64), full)
        k.mbarrier.wait(full, step & 1)
        acc.clear()  # breaks
        with k.wgmma.group():
            k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
        k.barrier.sync()
    k.store_accumulator(acc, out, 64)
