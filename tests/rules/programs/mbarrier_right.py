"""Kernels that keep the protocol of mbarriers: `program(k, a, n)` with a tensor map of 64 x 64 f16 and an i32."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, i32
from nvbackend.intrinsics.row.types import u8, u64
from tests.rules.programs.program import keeps

LAYOUT = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
BYTES = 64 * 64 * 2


@keeps()
def one_copy(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1, name="full"), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, 0), full)
    k.mbarrier.wait(full, 0)


@keeps()
def a_copy_a_round(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    phase = k.var(0)
    with k.range(n) as step:
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(full, expect_tx=BYTES)
            k.tma.load(tile, a, (0, step * 64), full)
        k.mbarrier.wait(full, phase)
        phase ^= 1
        k.barrier.sync()


@keeps()
def a_phase_by_the_counter(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    with k.range(n) as step:
        with k.if_(k.thread_id() == 0):
            k.mbarrier.arrive(full + step % 4, expect_tx=BYTES)
            k.tma.load(tiles.at(step % 4), a, (0, step * 64), full + step % 4)
        k.mbarrier.wait(full + step % 4, (step // 4) & 1)
        k.barrier.sync()


@keeps()
def a_phase_flipped_where_the_index_wraps(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    stage, phase = k.var(0), k.var(0)
    with k.range(n) as step:
        with k.one_thread():
            k.mbarrier.arrive(full + stage, expect_tx=BYTES)
            k.tma.load(tiles.at(stage), a, (0, step * 64), full + stage)
        k.mbarrier.wait(full + stage, phase)
        stage += 1
        with k.if_(stage == 4):
            stage.set(0)
            phase ^= 1
        k.barrier.sync()


@keeps()
def both_parities_in_a_round(k, a, n):
    done = k.mbarrier.array(1, arrivals=256)
    k.mbarrier.ready()
    with k.range(n):
        k.mbarrier.arrive(done)
        k.mbarrier.wait(done, 0)
        k.mbarrier.arrive(done)
        k.mbarrier.wait(done, 1)


@keeps()
def loaded_once_and_waited_for_in_each_round(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, 0), full)
    with k.range(n):
        k.mbarrier.wait(full, 0)


@keeps()
def every_stage_once(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    with k.range(4) as stage:
        with k.one_thread():
            k.mbarrier.arrive(full + stage, expect_tx=BYTES)
            k.tma.load(tiles.at(stage), a, (0, stage * 64), full + stage)
        k.mbarrier.wait(full + stage, 0)


@keeps()
def two_roles_arrive(k, a, n):
    done = k.mbarrier.array(1, arrivals=129)
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread():
        k.mbarrier.arrive(done)
    with k.else_():
        k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


@keeps()
def several_arrivals_for_one_phase(k, a, n):
    done = k.mbarrier.array(1, arrivals=8)
    k.mbarrier.ready()
    with k.one_thread(), k.range(8):
        k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)


@keeps()
def bytes_of_a_loop(k, a, n):
    full, tiles = k.mbarrier.array(1, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=4 * BYTES)
        with k.range(4) as part:
            k.tma.load(tiles.at(part), a, (0, part * 64), full)
    k.mbarrier.wait(full, 0)


@keeps()
def used_by_the_thread_that_initialises_it(k, a, n):
    done = k.shared(u64, 1, align=8)
    with k.if_(k.thread_id() == 0):
        k.mbarrier.init(done, 1)
        k.mbarrier.arrive(done)
        k.mbarrier.wait(done, 0)


@keeps()
def fenced_for_the_async_proxy_alone(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.fence.proxy_async()
    k.barrier.sync()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, 0), full)
    k.mbarrier.wait(full, 0)


@keeps()
def memory_that_is_a_barrier_for_a_while(k, a, n):
    memory = k.shared(u8, 64, align=8)
    memory.cast(i32)[k.thread_id() % 16] = 1
    k.barrier.sync()
    with k.mbarrier.scope(2, 256, memory=memory) as barriers:
        k.mbarrier.arrive(barriers + 1)
        k.mbarrier.wait(barriers + 1, 0)
    memory.cast(i32)[0] = 2
    k.barrier.sync()
    with k.mbarrier.scope(1, 256, memory=memory) as barrier:
        k.mbarrier.arrive(barrier)
        k.mbarrier.wait(barrier, 0)


@keeps()
def barrier_of_the_caller(k, a, n):
    full = k.shared_address(n.to(nvb.u32), u64, 8, window="cta")
    k.mbarrier.arrive(full)
    k.mbarrier.wait(full, 0)


@keeps()
def once_under_a_condition(k, a, n):
    done = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.range(n) as step, k.if_((step == 0) & (k.thread_id() == 0)):
        k.mbarrier.init(k.shared(u64, 1), 1)
    with k.one_thread():
        k.mbarrier.arrive(done)


@keeps()
def waited_for_a_round_later(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    phase = k.var(1)
    with k.range(n) as step:
        k.mbarrier.wait(full, phase)
        with k.if_(step > 0):
            tile.address.cast(u64)[0]
        k.barrier.sync()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=BYTES)
            k.tma.load(tile, a, (0, step * 64), full)
        phase ^= 1
    k.mbarrier.wait(full, phase)


@keeps()
def a_parity_that_another_loop_has_left_behind(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    phase = k.var(1)
    with k.range(2 * n + 1):
        phase ^= 1
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, 0), full)
    k.mbarrier.wait(full, phase)
    tile.address.cast(u64)[0]


@keeps()
def emptied_before_it_is_filled(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    k.mbarrier.ready()
    phase = k.var(0)
    with k.range(n) as step, k.one_thread():
        k.mbarrier.wait(full, phase ^ 1)
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, step * 64), full)
        k.mbarrier.wait(full, phase)
        tile.address.cast(u64)[0]
        phase ^= 1


@keeps()
def two_roles_by_turns(k, a, n):
    mine, yours = k.mbarrier.array(1, arrivals=128), k.mbarrier.array(1, arrivals=128)
    k.mbarrier.ready()
    with k.if_(k.thread_id() < 128):
        k.mbarrier.arrive(mine)
        k.mbarrier.wait(yours, 0)
    with k.else_():
        k.mbarrier.wait(mine, 0)
        k.mbarrier.arrive(yours)


@keeps()
def only_later_rounds_wait_for_the_release(k, a, n):
    full, tile = k.mbarrier.array(1, arrivals=1), k.shared_tile(LAYOUT)
    empty, phase = k.mbarrier.array(1, arrivals=128), k.var(0)
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(n) as step:
        with k.if_(step > 0):
            k.mbarrier.wait(empty, phase)
            phase ^= 1
        k.mbarrier.arrive(full, expect_tx=BYTES)
        k.tma.load(tile, a, (0, step * 64), full)
    with k.else_(), k.range(n):
        k.mbarrier.wait(full, phase)
        k.mbarrier.arrive(empty)
        phase ^= 1


@keeps()
def all_stages_are_given_back_first(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    empty = k.mbarrier.array(4, arrivals=128)
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(n) as step:
        k.mbarrier.wait(empty + step % 4, (step // 4) & 1)
        k.mbarrier.arrive(full + step % 4, expect_tx=BYTES)
        k.tma.load(tiles.at(step % 4), a, (0, step * 64), full + step % 4)
    with k.else_():
        with k.range(4) as stage:
            k.mbarrier.arrive(empty + stage)
        with k.range(n) as step:
            k.mbarrier.wait(full + step % 4, (step // 4) & 1)
            k.mbarrier.arrive(empty + step % 4)


@keeps()
def several_rounds_arrive_for_one_phase(k, a, n):
    done = k.mbarrier.array(1, arrivals=512)
    k.mbarrier.ready()
    with k.range(2):
        k.mbarrier.arrive(done)
    k.mbarrier.wait(done, 0)
    k.mbarrier.arrive(done)


@keeps()
def each_warpgroup_arrives_at_the_others(k, a, n):
    order = k.mbarrier.array(2, arrivals=128)
    k.mbarrier.ready()
    me = k.warpgroup_id()
    phase = k.var(k.select(me == 0, 1, 0))
    with k.range(n):
        k.mbarrier.wait(order + me, phase)
        k.mbarrier.arrive(order + (me ^ 1))
        phase ^= 1


@keeps()
def each_warpgroup_walks_a_ring_from_a_place_of_its_own(k, a, n):
    full, tiles = k.mbarrier.array(4, arrivals=1), k.shared_tiles(LAYOUT, 4)
    k.mbarrier.ready()
    turn = k.var(k.thread_id() // 128)
    with k.range(n) as step:
        stage, phase = turn % 4, (turn // 4) & 1
        with k.if_(k.thread_id() % 128 == 0):
            k.mbarrier.arrive(full + stage, expect_tx=BYTES)
            k.tma.load(tiles.at(stage), a, (0, step * 64), full + stage)
        k.mbarrier.wait(full + stage, phase)
        k.barrier.sync()
        turn += 2


@keeps()
def each_tile_has_one_of_two_sets_of_barriers(k, a, n):
    full, tiles = k.mbarrier.array(8, arrivals=1), k.shared_tiles(LAYOUT, 8)
    k.mbarrier.ready()
    with k.range(n) as tile:
        first = tile % 2 * 4
        with k.if_(k.thread_id() == 0), k.range(4) as step:
            k.mbarrier.arrive(full + first + step, expect_tx=BYTES)
            k.tma.load(tiles.at(first + step), a, (0, 0), full + first + step)
        with k.range(4) as step:
            k.mbarrier.wait(full + first + step, tile // 2 & 1)
        k.barrier.sync()
