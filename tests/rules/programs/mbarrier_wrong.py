"""Kernels that break one rule of mbarriers each, at the lines marked so; arguments as of the kept ones."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16
from nvbackend.intrinsics.row.types import u64
from tests.rules.programs.program import breaks

LAYOUT = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
BYTES = 64 * 64 * 2


@breaks("mbarrier.uninitialised")
def never_initialised(k, a, n):
    full = k.shared(u64, 1, align=8, name="full")
    k.mbarrier.arrive(full)  # breaks
    k.mbarrier.wait(full, 0)


@breaks("mbarrier.uninitialised")
def initialised_further_down(k, a, n):
    full = k.shared(u64, 1, align=8, name="full")
    k.mbarrier.arrive(full)  # breaks
    k.mbarrier.init(full, 256)
    k.mbarrier.ready()


@breaks("mbarrier.not-ready")
def no_barrier_behind_the_init(k, a, n):
    done = k.mbarrier.array(1, arrivals=256)
    k.fence.mbarrier_init()
    k.mbarrier.arrive(done)  # breaks
    k.mbarrier.wait(done, 0)


@breaks("mbarrier.not-ready")
def no_fence_behind_the_init(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.barrier.sync()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, 0), full)  # breaks
    k.mbarrier.wait(full, 0)


@breaks("mbarrier.double-init")
def initialised_in_every_round(k, a, n):
    done = k.shared(u64, 1, align=8, name="done")
    with k.range(n):
        with k.if_(k.thread_id() == 0):
            k.mbarrier.init(done, 256)  # breaks
        k.mbarrier.ready()
        k.mbarrier.arrive(done)
        k.mbarrier.wait(done, 0)
        k.barrier.sync()


@breaks("mbarrier.double-init")
def initialised_twice(k, a, n):
    done = k.mbarrier.array(1, arrivals=256)
    with k.if_(k.thread_id() == 0):
        k.mbarrier.init(done, 256)  # breaks
    k.mbarrier.ready()
    k.mbarrier.arrive(done)


@breaks("mbarrier.after-inval")
def used_behind_its_end(k, a, n):
    done = k.mbarrier.array(1, arrivals=256)
    k.mbarrier.ready()
    k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)
    k.barrier.sync()
    with k.if_(k.thread_id() == 0):
        k.mbarrier.inval(done)
    k.mbarrier.arrive(done)  # breaks


@breaks("mbarrier.after-inval")
def used_behind_its_scope(k, a, n):
    with k.mbarrier.scope(1, 256) as done:
        k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)  # breaks


@breaks("mbarrier.overwritten")
def written_while_it_is_a_barrier(k, a, n):
    memory = k.shared(u64, 4, align=8)
    with k.if_(k.thread_id() == 0):
        k.mbarrier.init(memory, 256)
    k.mbarrier.ready()
    k.mbarrier.arrive(memory)
    k.mbarrier.wait(memory, 0)
    memory[0] = 1  # breaks


@breaks("mbarrier.arrivals")
def every_thread_arrives_for_one(k, a, n):
    done = k.mbarrier.array(1, arrivals=2)  # breaks
    k.mbarrier.ready()
    k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


@breaks("mbarrier.arrivals")
def one_arrival_too_many_expected(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=2), k.shared_tile(LAYOUT)  # breaks
    k.mbarrier.ready()
    phase = k.var(0)
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=BYTES)
            k.tma.load(tile, a, (0, step * 64), full)
        k.mbarrier.wait(full, phase)
        phase ^= 1
        k.barrier.sync()


@breaks("mbarrier.no-arrival")
def nobody_arrives(k, a, n):
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    k.mbarrier.wait(done, 0)  # breaks


@breaks("mbarrier.no-arrival")
def bytes_without_an_arrival(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.expect_tx(full, BYTES)
        k.tma.load(tile, a, (0, 0), full)
    k.mbarrier.wait(full, 0)  # breaks


@breaks("mbarrier.unexpected-bytes")
def nothing_announced(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full)
        k.tma.load(tile, a, (0, 0), full)  # breaks
    k.mbarrier.wait(full, 0)


@breaks("mbarrier.missing-bytes")
def nothing_comes(k, a, n):
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)  # breaks
    k.mbarrier.wait(full, 0)


@breaks("mbarrier.wrong-bytes")
def half_the_bytes(k, a, n):
    full, tiles = k.mbarrier.array(2, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    stage, phase = k.var(0), k.var(0)
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full + stage, expect_tx=BYTES)  # breaks
            k.tma.load(tiles.at(stage), a, (0, step * 64), full + stage)
            k.tma.load(tiles.at(stage + 2), a, (0, step * 64), full + stage)
        k.mbarrier.wait(full + stage, phase)
        phase.set(k.select(stage == 1, phase ^ 1, phase.value))
        stage ^= 1
        k.barrier.sync()


@breaks("mbarrier.wrong-bytes")
def bytes_on_the_other_barrier(k, a, n):
    full, tiles = k.mbarrier.array(2, arrivals=1), k.shared_tiles(LAYOUT, 2)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=2 * BYTES)  # breaks
        k.tma.load(tiles.at(0), a, (0, 0), full)
        k.mbarrier.arrive(full + 1, expect_tx=BYTES)
        k.tma.load(tiles.at(1), a, (0, 0), full + 1)
    k.mbarrier.wait(full, 0)
    k.mbarrier.wait(full + 1, 0)


@breaks("mbarrier.wrong-barrier")
def both_copies_on_one_barrier(k, a, n):
    full, tiles = k.mbarrier.array(2, arrivals=1), k.shared_tiles(LAYOUT, 2)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.mbarrier.arrive(full + 1, expect_tx=BYTES)
        k.tma.load(tiles.at(0), a, (0, 0), full)
        k.tma.load(tiles.at(1), a, (0, 0), full)  # breaks
    k.mbarrier.wait(full, 0)
    k.mbarrier.wait(full + 1, 0)


@breaks("mbarrier.parity-first")
def the_phase_before_the_first(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, 0), full)
    k.mbarrier.wait(full, 1)  # breaks


@breaks("mbarrier.parity-first")
def a_phase_that_begins_at_one(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    phase = k.var(1)
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=BYTES)
            k.tma.load(tile, a, (0, step * 64), full)
        k.mbarrier.wait(full, phase)  # breaks
        tile.address.cast(u64)[0]
        phase ^= 1
        k.barrier.sync()


@breaks("mbarrier.parity-first")
def the_other_parity_of_each_phase(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    index, phase = k.var(0), k.var(0)
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full + index, expect_tx=BYTES)
            k.tma.load(tiles.at(index), a, (0, step * 64), full + index)
        k.mbarrier.wait(full + index, 1 - phase)  # breaks
        tiles.at(index).address.cast(u64)[0]
        phase.set(k.select(index == 3, phase ^ 1, phase))
        index.set(k.select(index == 3, 0, index + 1))
        k.barrier.sync()


@breaks("mbarrier.parity-fixed")
def one_parity_for_ever(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=BYTES)
            k.tma.load(tile, a, (0, step * 64), full)
        k.mbarrier.wait(full, 0)  # breaks
        k.barrier.sync()


@breaks("mbarrier.parity-fixed")
def a_variable_that_nobody_flips(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    phase = k.var(0)
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=BYTES)
            k.tma.load(tile, a, (0, step * 64), full)
        k.mbarrier.wait(full, phase)  # breaks
        k.barrier.sync()


@breaks("mbarrier.parity-fixed")
def one_parity_around_the_ring(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full + step % 4, expect_tx=BYTES)
            k.tma.load(tiles.at(step % 4), a, (0, step * 64), full + step % 4)
        k.mbarrier.wait(full + step % 4, 0)  # breaks
        k.barrier.sync()


@breaks("mbarrier.parity-counter")
def the_parity_of_another_loop(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    with k.range(n) as tile, k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full + step % 4, expect_tx=BYTES)
            k.tma.load(tiles.at(step % 4), a, (0, step * 64), full + step % 4)
        k.mbarrier.wait(full + step % 4, tile & 1)  # breaks
        k.barrier.sync()


@breaks("mbarrier.parity-counter")
def flipped_in_each_round(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    phase = k.var(0)
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full + step % 4, expect_tx=BYTES)
            k.tma.load(tiles.at(step % 4), a, (0, step * 64), full + step % 4)
        k.mbarrier.wait(full + step % 4, phase)  # breaks
        phase ^= 1
        k.barrier.sync()


@breaks("mbarrier.deadlock")
def the_release_before_the_first_fill(k, a, n):
    full, empty = k.mbarrier.array(4, arrivals=1, name="full"), k.mbarrier.array(4, arrivals=128, name="empty")
    tiles, stage, phase = k.shared_tiles(LAYOUT, 4), k.var(0), k.var(0)
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(n) as step:
        k.mbarrier.wait(empty + stage, phase)  # breaks
        k.mbarrier.arrive(full + stage, expect_tx=BYTES)
        k.tma.load(tiles.at(stage), a, (0, step * 64), full + stage)
        phase.set(k.select(stage == 3, phase ^ 1, phase))
        stage.set(k.select(stage == 3, 0, stage + 1))
    with k.else_(), k.range(n):
        k.mbarrier.wait(full + stage, phase)
        k.mbarrier.arrive(empty + stage)
        phase.set(k.select(stage == 3, phase ^ 1, phase))
        stage.set(k.select(stage == 3, 0, stage + 1))


@breaks("mbarrier.deadlock")
def the_arrival_behind_the_wait(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    k.mbarrier.wait(full, 0)  # breaks
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, 0), full)


@breaks("mbarrier.deadlock")
def one_of_two_arrivals_behind_the_wait(k, a, n):
    done = k.mbarrier.array(1, arrivals=512)
    k.mbarrier.ready()
    k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)  # breaks
    k.mbarrier.arrive(done)


@breaks("mbarrier.deadlock")
def two_roles_that_wait_for_each_other(k, a, n):
    mine, yours = k.mbarrier.array(1, arrivals=128), k.mbarrier.array(1, arrivals=128)
    k.mbarrier.ready()
    with k.if_(k.thread_id() < 128):
        k.mbarrier.wait(yours, 0)  # breaks
        k.mbarrier.arrive(mine)
    with k.else_():
        k.mbarrier.wait(mine, 0)
        k.mbarrier.arrive(yours)
