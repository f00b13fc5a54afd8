"""Tiles that CTAs draw from a counter."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, i32
from tests.rules.example import kernel
from tests.rules.setup import wgmma_parts

Counter = nvb.Pointer[i32]
Count = i32(minimum=1)
Numbers = nvb.Pointer[i32]


@kernel("dynamic-tiles.cluster", threads=256, cluster=2)
def tiles_of_each_cta_of_a_cluster(k, counter: Counter, out: Numbers, count: Count):
    tiles = k.dynamic_tiles(counter, count, consumers=1)  # breaks
    k.mbarrier.ready()  # breaks
    with k.producer(40), tiles.draw():  # breaks
        pass  # breaks
    with k.consumers(232), tiles.take() as tile:  # breaks
        out[tile * 2 + k.cluster.rank()] = tile  # breaks
    with k.range(k.cluster.id(), count, k.cluster.count()) as tile:  # keeps
        out[tile * 2 + k.cluster.rank()] = counter[tile]  # keeps


@kernel("dynamic-tiles.consumers", threads=384)
def each_consumer_with_tiles_of_its_own(k, counter: Counter, out: Numbers, count: Count):
    tiles = k.dynamic_tiles(counter, count, consumers=2)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232) as warpgroup:
        with k.if_(k.warpgroup_id() == 1), tiles.take() as tile:  # breaks
            out[tile] = warpgroup  # breaks
        with tiles.take() as tile, k.if_(tiles.before % 2 == warpgroup):  # keeps
            out[tile] = warpgroup  # keeps


@kernel("dynamic-tiles.count", threads=256)
def no_tile_at_all(k, counter: Counter, out: Numbers):
    rows = 100
    count = rows // 128  # breaks
    count = -(-rows // 128)  # keeps
    tiles = k.dynamic_tiles(counter, count, consumers=1)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as tile:
        out[tile] = tile


@kernel("dynamic-tiles.counter", threads=256)
def counter_of_one_cta(k, counter: Counter, out: Numbers, count: Count):
    tiles = k.dynamic_tiles(k.shared(i32, 1), count, consumers=1)  # breaks
    tiles = k.dynamic_tiles(counter, count, consumers=1)  # keeps
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as tile:
        out[tile] = counter[1]


@kernel("dynamic-tiles.left", threads=256)
def tile_that_is_left_out(k, counter: Counter, out: Numbers, count: Count, least: i32):
    tiles = k.dynamic_tiles(counter, count, consumers=1)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as tile:
        k.continue_if(tile < least)  # breaks
        out[tile] = tile  # breaks
        with k.if_(tile >= least):  # keeps
            out[tile] = tile  # keeps


@kernel("dynamic-tiles.mailboxes", threads=256)
def nowhere_to_write_a_tile_to(k, counter: Counter, out: Numbers, count: Count):
    ahead = 0  # breaks
    ahead = 1  # keeps
    tiles = k.dynamic_tiles(counter, count, consumers=1, mailboxes=ahead)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as tile:
        out[tile] = tile


@kernel("dynamic-tiles.once", threads=256)
def tiles_drawn_step_by_step(k, counter: Counter, out: Numbers, count: Count, steps: i32):
    tiles = k.dynamic_tiles(counter, count, consumers=1)
    k.mbarrier.ready()
    with k.producer(40):
        with k.range(steps), tiles.draw() as tile:  # breaks
            k.cache.prefetch(out + tile, "L2")  # breaks
        with tiles.draw() as tile, k.range(steps):  # keeps
            k.cache.prefetch(out + tile, "L2")  # keeps
    with k.consumers(232), tiles.take() as tile:
        out[tile] = tile


@kernel("dynamic-tiles.place", threads=256)
def part_of_a_place_that_is_no_integer(k, counter: Counter, scales: nvb.Pointer[f32], out: nvb.Pointer[f32], n: Count):
    tiles = k.dynamic_tiles(counter, n, 1, place=lambda tile: (tile * 64, scales[tile]))  # breaks
    tiles = k.dynamic_tiles(counter, n, 1, place=lambda tile: (tile * 64, tile))  # keeps
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as (row, second):
        out[row] = scales[second]  # keeps
        out[row] = second  # breaks


@kernel("dynamic-tiles.role", threads=256)
def tiles_drawn_by_a_warp(k, counter: Counter, out: Numbers, count: Count):
    tiles = k.dynamic_tiles(counter, count, consumers=1)
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0):
        with k.if_(k.warp_id() == 0), tiles.draw():  # breaks
            pass  # breaks
        with k.one_thread(0), tiles.draw():  # keeps
            pass  # keeps
    with k.else_(), tiles.take() as tile:
        out[tile] = tile


@kernel("dynamic-tiles.unused", threads=256)
def drawn_and_computed_by_other_numbers(k, counter: Counter, out: Numbers, count: Count):
    tiles = k.dynamic_tiles(counter, count, consumers=1)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232):
        with k.range(k.block_id(), count, k.block_count()) as tile:  # breaks
            out[tile] = tile  # breaks
        with tiles.take() as tile:  # keeps
            out[tile] = tile  # keeps


@kernel("dynamic-tiles.parted", threads=256)
def tiles_that_are_left_for_each_cta(k, counter: Counter, out: Numbers, count: Count):
    share = -(-count // k.block_count())
    tiles = k.dynamic_tiles(counter, count - k.block_id() * share, consumers=1)  # breaks
    tiles = k.dynamic_tiles(counter, count, consumers=1)  # keeps
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as tile:
        out[tile] = share


@kernel("accumulator.carried", threads=256)
def sums_of_the_tiles_before(k, counter: Counter, out: nvb.Pointer[f32], count: Count):
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32))
    acc, a, b = mma.accumulator(), mma.fragment_a(16), mma.fragment_b(16)
    tiles = k.dynamic_tiles(counter, count, consumers=1)
    k.mbarrier.ready()
    with k.producer(40), tiles.draw():
        pass
    with k.consumers(232), tiles.take() as number:
        acc.clear()  # keeps
        mma.gemm(acc, a, b)
        out[number * 256 + k.thread_id()] = acc.registers()[0]


@kernel("accumulator.carried-by-grid", threads=128)
def sums_that_depend_on_the_grid(k, out: nvb.Pointer[f32], count: Count):
    mma, acc, tile = wgmma_parts(k)
    with k.range(k.block_id(), count, k.block_count()) as number:
        acc.clear()  # keeps
        with k.wgmma.group():
            mma.accumulate(acc, tile, tile)
        k.store_accumulator(acc, out + number * 4096, 64)
