"""Large kernels of tiles: what shows with one step a tile, or at another place of the grid, has room in the runs."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import Major, SwizzleMode, f16, f32, i32
from tests.dry_run.refusals import refusals

A, B = (nvb.TensorMap(f16, box=(rows, 64)) for rows in (128, 64))
ADDED = nvb.SmemLayout(Major.K, SwizzleMode.B128, f16, 128, 64)
Count = i32(minimum=1)


def with_an_addend(released_by):
    """Each thread reads an addend of the tile, and all meet after that: with more steps than stages, the next addend
    is loaded after a release of A and B that comes after the barrier."""

    @nvb.kernel("sm_90a", threads=384, min_ctas=1)
    def kernel(k, a: A, b: B, added: A, out: nvb.Pointer[f32], tiles: Count, steps: Count):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(2, 1))
        ring = k.pipeline(3, consumers=2, a=mma.smem_a(64), b=mma.smem_b(64))
        addends = k.pipeline(1, consumers=2, released_by=released_by, tile=ADDED)
        k.mbarrier.ready()
        walk = lambda: k.range(k.block_id(), tiles, k.block_count(), name="tile")  # noqa: E731
        with k.producer(registers=40), walk() as tile:
            with k.range(steps) as step, ring.fill() as stage:
                k.tma.load(stage.a, a, (tile * 128, step * 64), stage.full)
                k.tma.load(stage.b, b, (0, step * 64), stage.full)
            with addends.fill() as stage:
                k.tma.load(stage.tile, added, (tile * 128, 0), stage.full)
        with k.consumers(registers=232) as warpgroup:
            acc = mma.accumulator()
            with walk() as tile:
                acc.clear()
                with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                    mma.accumulate(acc, stage.a, stage.b, warpgroup)
                k.wgmma.wait_group(0, drains=[acc])
                ring.release()
                with addends.drain() as stage:
                    for (row, column), value in acc.items(warpgroup):
                        addend = stage.tile.at(row, column)[0].to(f32)
                        out[(tile * 128 + row) * 64 + column] = value + addend
                k.barrier.sync(1 + warpgroup, 128)

    return kernel


def counted_by(count):
    """Stages and parities follow from how many tiles came before in the producer: `count` of the tile and of those."""

    @nvb.kernel("sm_90a", threads=384)
    def kernel(k, a: A, b: B, scales: nvb.Pointer(f32, align=16), out: nvb.Pointer[f32], tiles: Count, steps: Count):
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=(2, 1))
        lefts, rights = k.shared_tiles(mma.smem_a(64), 3), k.shared_tiles(mma.smem_b(64), 3)
        near = k.shared(f32, 3 * 128, align=128, name="near")
        full, empty = k.mbarrier.array(3, arrivals=1, name="full"), k.mbarrier.array(3, arrivals=8, name="empty")
        k.mbarrier.ready()
        before = k.var(0)
        with k.if_(k.thread_id() == 0), k.range(k.block_id(), tiles, k.block_count()) as tile:
            with k.range(steps) as step:
                at = count(tile, before) * steps + step
                stage = at % 3
                k.mbarrier.wait(empty + stage, at // 3 & 1 ^ 1)
                k.mbarrier.arrive(full + stage, expect_tx=24576 + 512)
                k.tma.load(lefts.at(stage), a, (tile * 128, step * 64), full + stage)
                k.tma.load(rights.at(stage), b, (0, step * 64), full + stage)
                k.bulk.load(near + stage * 128, scales + tile * 128, 512, full + stage)
            before += 1
        with k.if_(k.warpgroup_id() > 0):
            acc, lane = mma.accumulator(), k.lane_id()
            row = (k.warp_id() - 4) * 16 + lane // 4
            with k.range(k.block_id(), tiles, k.block_count()) as tile:
                sums = [k.var(0.0) for _ in range(32)]
                with k.range(steps) as step:
                    at = before * steps + step
                    stage = at % 3
                    k.mbarrier.wait(full + stage, at // 3 & 1)
                    factors = [near[stage * 128 + row + below] for below in (0, 8)]
                    acc.clear()
                    with k.wgmma.group():
                        mma.accumulate(acc, lefts.at(stage), rights.at(stage), k.warpgroup_id() - 1)
                    k.warp.sync()
                    k.mbarrier.arrive(empty + stage, when=lane == 0)
                    for number, value in enumerate(acc.values()):
                        sums[number] += value * factors[number % 4 // 2]
                before += 1
                for number, ((r, c), _) in enumerate(acc.items(k.warpgroup_id() - 1)):
                    out[(tile * 128 + r) * 64 + c] = sums[number]

    return kernel


def refusal(kernel):
    with pytest.raises(nvb.DiagnosticError) as error:
        kernel.build()
    (said,) = error.value.diagnostics
    return said


def test_each_thread_releases_what_it_reads():
    assert refusals(with_an_addend("thread")) == []


def test_one_thread_releases_what_others_read():
    said = refusal(with_an_addend("warpgroup"))
    assert said.rule_id == "proxy.refill" and "steps = 1)" in said.message


def test_as_many_tiles_as_came_before():
    assert refusals(counted_by(lambda tile, before: before)) == []


def test_the_number_of_the_tile():
    """At the first place of the grid it is how many tiles came before."""
    assert refusal(counted_by(lambda tile, before: tile)).rule_id == "mbarrier.deadlock"
