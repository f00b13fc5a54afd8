"""Bulk copies and clusters: multicast by hand, exchanges between CTAs, epilogues, reductions, convolution, rows."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, i32, i64, u16, u32
from tests.corpus.parts import MATRIX, TILE, multiply, store_chunks, warp_sum

F32 = nvb.Pointer[f32]
PIXELS = nvb.TensorMap(f16, box=(64, 64), im2col=nvb.Im2col(4, (-1, -1), (-1, -1)))
QUARTER = nvb.TensorMap(f16, box=(16, 64))


@nvb.kernel("sm_90a", threads=256, cluster=2)
def multicast_by_hand(k, a: MATRIX, b: nvb.TensorMap(f16, box=(32, 64)), c: F32, steps: i32):
    """Each CTA multiplies its own rows of A by the same B, half of which each loads for both."""
    stages = 4
    ta, tb = (k.shared_tiles(TILE, stages, name=name) for name in "ab")
    full, empty = k.mbarrier.array(stages, arrivals=1, name="full"), k.mbarrier.array(stages, arrivals=2, name="empty")
    k.mbarrier.ready()
    rank, cta = k.cluster.rank(), k.block_id()
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(steps) as step:
        stage = step % stages
        k.mbarrier.wait(empty + stage, (step // stages & 1) ^ 1)
        k.mbarrier.arrive(full + stage, expect_tx=2 * TILE.bytes)
        k.tma.load(ta.at(stage), a, (cta * 64, step * 64), full + stage)
        half = tb.at(stage).address.byte_offset(rank * (TILE.bytes // 2))
        k.tma.load_box(half, b, (step * 64, rank * 32), full + stage, multicast_mask=0b11)
    with k.else_():
        acc = k.wgmma.accumulator(64)
        with k.range(steps) as step:
            stage = step % stages
            k.mbarrier.wait(full + stage, step // stages & 1)
            with k.wgmma.group():
                multiply(k, acc, ta.at(stage), tb.at(stage))
            thread = k.thread_id() % 128
            k.mbarrier.arrive(empty + stage, rank=thread, when=thread < 2)
        k.store_accumulator(acc, c + cta * 4096, 64)
    k.cluster.sync()  # nobody ends while the other still loads into it, or arrives


@nvb.kernel("sm_90a", threads=128, cluster=2)
def sums_of_a_pair(k, x: F32, y: F32):
    """Both CTAs of a pair get the sum of their vectors of 512: one stored with st.async, one copied in bulk."""
    mine, theirs, stored = (k.shared(f32, 512, align=128, name=name) for name in ("mine", "theirs", "stored"))
    full = k.mbarrier.array(2, arrivals=1)
    k.mbarrier.ready()
    place = k.thread_id() * 4
    values = (x + (k.block_id() * 512 + place)).load(4)
    (mine + place).store(*values)
    k.fence.proxy_async()
    k.barrier.sync()
    with k.if_(k.thread_id() == 0):
        for index in range(2):
            k.mbarrier.arrive(full + index, expect_tx=2048)
        k.bulk.store(theirs, mine, 2048, barrier=full, rank=k.cluster.peer_rank())
    k.async_store.store(stored + place, values, full + 1, k.cluster.peer_rank())
    for index in range(2):
        k.mbarrier.wait(full + index, 0)
    sums = [
        (own + a + b) * 0.5
        for own, a, b in zip(values, (theirs + place).load(4), (stored + place).load(4), strict=True)
    ]
    halves = [own * 0.5 for own in values]
    (y + (k.block_id() * 512 + place)).store(*[a + b for a, b in zip(sums, halves, strict=True)])
    k.cluster.sync()


@nvb.kernel("sm_90a", threads=128)
def epilogue_of_two_buffers(k, a: MATRIX, b: MATRIX, c: MATRIX, tiles: i32):
    """C (64 * tiles x 64) = A * B^T with K of 64: stmatrix and TMA, a store reads while the next tile multiplies."""
    ta, tb, out = k.shared_tile(TILE, name="a"), k.shared_tile(TILE, name="b"), k.shared_tiles(TILE, 2, name="out")
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    first = k.thread_id() == 0
    acc = k.wgmma.accumulator(64)
    with k.range(tiles) as tile:
        with k.if_(first):
            k.mbarrier.arrive(full, expect_tx=2 * TILE.bytes)
            k.tma.load(ta, a, (tile * 64, 0), full)
            k.tma.load(tb, b, (0, 0), full)
        k.mbarrier.wait(full, tile & 1)
        acc.clear()
        with k.wgmma.group():
            multiply(k, acc, ta, tb)
        with k.if_(first):
            k.tma.wait_group(1, reading=True)
        k.barrier.sync()
        store_chunks(k, out.at(tile & 1), acc)
        k.fence.proxy_async()
        k.barrier.sync()
        with k.if_(first):
            k.tma.store(c, (tile * 64, 0), out.at(tile & 1))
            k.tma.commit_group()
    with k.if_(first):
        k.tma.wait_group()


@nvb.kernel("sm_90a", threads=128)
def reduced_in_bulk(k, x: F32, y: F32, count: i32):
    """y (512) += the sum of x (count x 512): one thread loads and adds, two buffers."""
    buffers = k.shared(f32, 1024, align=128, name="buffers")
    full = k.mbarrier.array(2, arrivals=1)
    k.mbarrier.ready()
    with k.if_(k.thread_id() == 0):
        with k.range(count) as step:
            buffer = buffers + (step & 1) * 512
            with k.if_(step >= 2):
                k.tma.wait_group(1, reading=True)
            k.mbarrier.arrive(full + (step & 1), expect_tx=2048)
            k.bulk.load(buffer, x + step * 512, 2048, full + (step & 1))
            k.mbarrier.wait(full + (step & 1), (step >> 1) & 1)
            k.bulk.reduce(y, buffer, 2048, "add", f32)
            k.tma.commit_group()
        k.tma.wait_group()


@nvb.kernel("sm_90a", threads=128)
def four_loaders(k, a: QUARTER, y: nvb.Pointer[f16], rounds: i32):
    """Each warp loads its quarter of the tile, on one barrier that all four expect their own bytes on."""
    tile = k.shared_tile(TILE)
    full = k.mbarrier.array(1, arrivals=4)
    k.mbarrier.ready()
    warp = k.warp_id()
    with k.range(rounds) as step:
        with k.if_(k.elect()):
            k.mbarrier.arrive(full, expect_tx=TILE.bytes // 4)
            k.tma.load_box(tile.address.byte_offset(warp * (TILE.bytes // 4)), a, (0, step * 64 + warp * 16), full)
        k.mbarrier.wait(full, step & 1)
        row = k.thread_id() % 64  # the first chunk of 16 bytes of each row
        chunk = tile.address.cast(f16).byte_offset(row * 128 + row % 8 * 16, align=16)
        (y + (step * 1024 + k.thread_id() * 8)).store(*chunk.load(8))
        k.barrier.sync()


@nvb.kernel("sm_90a", threads=256)
def rows_prefetched(k, x: F32, y: F32, rows: i32):
    """Rows of 1024 by their root mean square, persistent: the next row is on its way while one is worked on."""
    length = 1024
    buffers, parts = k.shared(f32, 2 * length, align=128, name="rows"), k.shared(f32, 8, name="parts")
    full = k.mbarrier.array(2, arrivals=1)
    k.mbarrier.ready()
    thread = k.thread_id()
    row, turn = k.var(k.block_id()), k.var(0)

    def fetch(number, buffer):
        with k.if_((thread == 0) & (number < rows)):
            k.mbarrier.arrive(full + buffer, expect_tx=4 * length)
            k.bulk.load(buffers + buffer * length, x + number * length, 4 * length, full + buffer)

    fetch(row, 0)
    with k.loop():
        k.break_if(row >= rows)
        buffer, following = turn & 1, row + k.block_count()
        fetch(following, buffer ^ 1)
        k.mbarrier.wait(full + buffer, (turn >> 1) & 1)
        values = (buffers + (buffer * length + thread * 4)).load(4)
        squares = warp_sum(k, sum((one * one for one in values[1:]), values[0] * values[0]))
        with k.if_(thread % 32 == 0):
            parts[thread // 32] = squares
        k.barrier.sync()
        total = parts[0]
        for index in range(1, 8):
            total = total + parts[index]
        factor = k.math.rsqrt(total / float(length))
        (y + (row * length + thread * 4)).store(*[one * factor for one in values])
        k.barrier.sync()
        row.set(following)
        turn += 1


@nvb.kernel("sm_90a", threads=128)
def convolution(k, x: PIXELS, w: MATRIX, y: F32):
    """3 x 3 taps, 64 channels: the pixels of a tap are a copy in im2col mode."""
    ta, tb = k.shared_tile(TILE, name="x"), k.shared_tile(TILE, name="w")
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    acc = k.wgmma.accumulator(64)
    with k.range(9) as tap:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=2 * TILE.bytes)
            offsets = (tap % 3).to(u16), (tap // 3).to(u16)
            k.tma.load_box(ta.address, x, (0, -1, k.block_id() - 1, 0), full, mode="im2col", offsets=offsets)
            k.tma.load(tb, w, (0, tap * 64), full)
        k.mbarrier.wait(full, tap & 1)
        with k.wgmma.group():
            multiply(k, acc, ta, tb)
        k.barrier.sync()
    k.store_accumulator(acc, y + k.block_id() * 4096, 64)


@nvb.kernel("sm_90a", threads=128)
def maps_made_by_the_kernel(k, maps: nvb.Pointer(u32, align=128), bases: nvb.Pointer[i64], c: F32, groups: i32):
    """Grouped: the map of each group is the first one with another address, A = B = the matrix there. One CTA."""
    scratch = k.shared(u32, 32, align=128, name="scratch")
    tile, full = k.shared_tile(TILE), k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    made = maps + 32
    acc = k.wgmma.accumulator(64)
    with k.range(groups) as group:
        with k.if_(k.warp_id() == 0):
            lane = k.lane_id()
            scratch[lane] = maps[lane]
            k.warp.sync()
            with k.if_(lane == 0):
                k.tensormap.replace(scratch, "global_address", bases[group])
            k.warp.sync()
            k.tensormap.publish(made, scratch)
            k.tensormap.acquire(made)
            with k.if_(lane == 0):
                k.mbarrier.arrive(full, expect_tx=TILE.bytes)
                k.tma.load(tile, k.tensormap.at(made, MATRIX), (0, 0), full)
        k.mbarrier.wait(full, group & 1)
        acc.clear()
        with k.wgmma.group():
            multiply(k, acc, tile, tile)
        k.store_accumulator(acc, c + group * 4096, 64)
        k.barrier.sync()
