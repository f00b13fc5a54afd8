"""Rings, and the roles around them."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16
from tests.rules.example import kernel, program

A = nvb.TensorMap(f16, box=(64, 64))
TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)


@kernel("pipeline.consumers", threads=384)
def ring_for_one_of_two_consumers(k, a: A):
    ring = k.pipeline(2, 1, a=TILE)  # breaks
    ring = k.pipeline(2, 2, a=TILE)  # keeps
    k.mbarrier.ready()
    with k.producer(40), ring.fill() as stage:
        k.tma.load(stage.a, a, (0, 0), stage.full)
    with k.consumers(232), ring.drain():
        pass


@kernel("pipeline.group")
def tiles_in_groups_of_no_rows(k, columns: nvb.i32):
    rows = 8
    k.grouped(k.block_id(), rows, columns, rows // 16)  # breaks
    k.grouped(k.block_id(), rows, columns, rows // 4)  # keeps


@kernel("pipeline.in-flight", threads=256)
def stage_given_back_while_it_is_multiplied(k, a: A, steps: nvb.i32):
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, nvb.f32))
    ring = k.pipeline(3, 1, a=TILE)
    k.mbarrier.ready()
    with k.producer(40), k.range(steps), ring.fill() as stage:
        k.tma.load(stage.a, a, (0, 0), stage.full)
    with k.consumers(232):
        acc = mma.accumulator()
        in_flight = 0  # breaks
        in_flight = 1  # keeps
        with k.range(steps), ring.drain(in_flight) as stage, k.wgmma.group(in_flight=1):
            mma.accumulate(acc, stage.a, stage.a)
        k.wgmma.wait_group(0)


@kernel("pipeline.left", threads=256)
def loop_left_inside_of_a_stage(k, a: A, steps: nvb.i32):
    ring = k.pipeline(2, 1, a=TILE)
    k.mbarrier.ready()
    with k.producer(40), k.range(steps), ring.fill() as stage:
        k.tma.load(stage.a, a, (0, 0), stage.full)
    with k.consumers(232):
        done = k.var(0)
        with k.loop():
            with ring.drain():
                done += 1
                k.barrier.sync(1, 128)
                k.break_if(done == steps)  # breaks
            k.break_if(done == steps)  # keeps


@kernel("pipeline.not-ready", threads=256)
def ring_used_before_it_is_there(k, a: A):
    ring = k.pipeline(2, 1, a=TILE)
    k.mbarrier.ready()  # keeps
    with k.producer(40), ring.fill() as stage:
        k.tma.load(stage.a, a, (0, 0), stage.full)
    with k.consumers(232), ring.drain():
        pass


@kernel("pipeline.registers", threads=384)
def more_registers_than_there_are(k):
    wanted = 240  # breaks
    wanted = 232  # keeps
    with k.producer(40):
        pass
    with k.consumers(wanted):
        pass


@kernel("pipeline.role", threads=256)
def consumers_that_fill(k, a: A):
    ring = k.pipeline(2, 1, a=TILE)
    k.mbarrier.ready()
    with k.producer(40):
        with ring.fill() as stage:  # keeps
            k.tma.load(stage.a, a, (0, 0), stage.full)  # keeps
        ring.finish()
    with k.consumers(232):
        with ring.fill() as stage:  # breaks
            k.tma.load(stage.a, a, (0, 0), stage.full)  # breaks
        with ring.drain():  # keeps
            pass  # keeps


@program("pipeline.roles")
def producer_without_a_consumer():
    k = nvb.KernelBuilder("k", "sm_90a", threads=128)  # breaks
    k = nvb.KernelBuilder("k", "sm_90a", threads=256)  # keeps
    with k.producer(40):
        pass
    with k.consumers(232):
        pass


@kernel("pipeline.stages", threads=256)
def stage_that_never_comes_free(k, a: A):
    stages = 1  # breaks
    stages = 2  # keeps
    ring = k.pipeline(stages, 1, a=TILE)
    k.mbarrier.ready()
    with k.producer(40), ring.fill() as stage:
        k.tma.load(stage.a, a, (0, 0), stage.full)
    with k.consumers(232), ring.drain(in_flight=1):
        pass


@kernel("pipeline.tiles")
def ring_of_nothing(k):
    k.pipeline(2, 1)  # breaks
    k.pipeline(2, 1, a=TILE)  # keeps


@kernel("pipeline.apart", threads=256)
def part_that_is_left_out(k, a: A):
    ring = k.pipeline(2, 1, apart=("key",), key=TILE, value=TILE)  # breaks
    ring = k.pipeline(2, 1, apart=("key", "value"), key=TILE, value=TILE)  # keeps
    k.mbarrier.ready()
    with k.producer(40), ring.key.fill() as stage:
        k.tma.load(stage.key, a, (0, 0), stage.full)
    with k.consumers(232), ring.key.drain():
        pass


@kernel("pipeline.bytes", threads=256)
def more_bytes_than_a_tile_has(k, x: nvb.Pointer[nvb.f32]):
    ring = k.pipeline(2, 1, row=(nvb.f32, 128))
    k.mbarrier.ready()
    with k.producer(40):
        with ring.fill(bytes={"row": 1024}) as stage:  # breaks
            k.bulk.load(stage.row, x, 1024, stage.full)  # breaks
        with ring.fill(bytes={"row": 256}) as stage:  # keeps
            k.bulk.load(stage.row, x, 256, stage.full)  # keeps
    with k.consumers(232), ring.drain():
        pass


@kernel("pipeline.parts", threads=256)
def parts_drained_together(k, a: A):
    ring = k.pipeline(2, 1, apart=True, key=TILE, value=TILE)
    k.mbarrier.ready()
    with k.producer(40), ring.key.fill() as stage:
        k.tma.load(stage.key, a, (0, 0), stage.full)
    with k.consumers(232):
        with ring.drain():  # breaks
            pass  # breaks
        with ring.key.drain():  # keeps
            pass  # keeps


@kernel("pipeline.turn", threads=384)
def stage_drained_out_of_turn(k, a: A, tiles: nvb.i32):
    ring = k.pipeline(2, consumers=2, pingpong=True, a=TILE)
    k.mbarrier.ready()
    with k.producer(40), k.range(tiles) as tile, ring.fill() as stage:
        k.tma.load(stage.a, a, (tile * 64, 0), stage.full)
    with k.consumers(232) as warpgroup, k.range(warpgroup, tiles, 2):
        with ring.drain():  # breaks
            k.barrier.sync(warpgroup + 1, 128)  # breaks
        with ring.turn(warpgroup), ring.drain():  # keeps
            k.barrier.sync(warpgroup + 1, 128)  # keeps
