"""Programs whose groups of threads come together: a builder, a number and an array of integers."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32
from tests.rules.programs.program import keeps


@keeps()
def roles_by_warpgroup(k, n, a):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(40)
    with k.else_():
        k.setmaxnreg.inc(232)
        multiply(k)


@keeps()
def roles_by_thread_number(k, n, a):
    with k.if_(k.thread_id() < 128):
        multiply(k)
        k.barrier.sync(1, 128)


@keeps()
def roles_by_a_quotient(k, n, a):
    with k.if_(k.thread_id() // 128 == n):
        multiply(k)


@keeps()
def warps_wait_for_a_time_and_meet(k, n, a):
    start = k.clock()
    with k.loop():
        now = k.clock()
        with k.if_(now - start > 500):
            k.warp.shuffle(n, "bfly", 1)
        k.break_if(now - start > 1000)
    k.barrier.sync()
    a[k.thread_id()] = n


@keeps()
def warps_by_number(k, n, a):
    with k.if_((k.thread_id() // 32) % 4 == 2):
        k.warp.shuffle(n, "bfly", 1)
        k.barrier.sync(2, 64)


@keeps()
def all_threads_pass_the_test(k, n, a):
    with k.if_(k.thread_id() < 256):
        k.barrier.sync()


@keeps()
def a_barrier_on_both_sides(k, n, a):
    with k.if_(k.warpgroup_id() == 0):
        k.barrier.sync()
    with k.else_():
        k.barrier.sync()


@keeps()
def a_barrier_in_two_ifs(k, n, a):
    with k.if_(k.warpgroup_id() == 0):
        k.barrier.sync()
    with k.if_(k.warpgroup_id() == 1):
        k.barrier.sync()


@keeps()
def a_barrier_of_two_warpgroups_in_turn(k, n, a):
    group = k.warpgroup_id()
    with k.range(n) as i, k.if_(i % 2 == group):
        k.barrier.sync()


@keeps()
def together_again_behind_the_branch(k, n, a):
    with k.if_(k.thread_id() < n):
        a[k.thread_id()] = n
    k.barrier.sync()
    multiply(k)


@keeps()
def as_many_rounds_in_every_thread(k, n, a):
    with k.range(k.thread_id(), 1024, 256) as i:
        a[i] = n
        k.barrier.sync()


@keeps()
def behind_a_loop_of_different_lengths(k, n, a):
    with k.range(k.thread_id(), n, 256) as i:
        a[i] = n
    k.barrier.sync()


@keeps()
def the_same_variable_set_on_both_sides(k, n, a):
    x = k.var(0)
    with k.if_(k.thread_id() < n):
        x.set(1)
    with k.else_():
        x.set(1)
    with k.if_(x == 1):
        k.barrier.sync()


@keeps()
def a_variable_set_anew_behind_the_branch(k, n, a):
    x = k.var(0)
    with k.if_(k.thread_id() < n):
        x.set(1)
        a[k.thread_id()] = x
    x.set(2)
    with k.if_(x == n):
        k.barrier.sync()


@keeps()
def a_variable_that_no_side_sets(k, n, a):
    x = k.var(n)
    with k.if_(k.thread_id() < n):
        a[k.thread_id()] = x
    with k.if_(x == 1):
        k.barrier.sync()


@keeps()
def a_word_that_all_threads_load(k, n, a):
    with k.if_(a[n] == 1):
        k.barrier.sync()
        multiply(k)


@keeps()
def made_the_same_in_the_warp(k, n, a):
    with k.if_(k.uniform(a[k.thread_id()]) == 1):
        k.warp.shuffle(n, "idx", 3)
    with k.if_(k.warp.vote("any", a[k.thread_id()] == 1)):
        k.elect()


@keeps()
def all_ctas_of_the_cluster_leave_or_none(k, n, a):
    k.return_if(k.cluster.id() >= n)
    k.cluster.sync()


@keeps()
def some_lanes_that_are_named(k, n, a):
    with k.if_(k.thread_id() % 32 < 8):
        k.warp.shuffle(n, "idx", 0, members=0xFF)
        k.warp.vote("any", n == 1, members=k.warp.active_lanes())


@keeps()
def one_warpgroup_ends_and_the_rest_count(k, n, a):
    k.return_if(k.warpgroup_id() == 0)
    k.barrier.sync(1, 128)
    multiply(k)


@keeps()
def barriers_of_three_parts(k, n, a):
    thread = k.thread_id()
    with k.if_(thread < 64):
        k.barrier.sync()
    with k.if_((thread >= 64) & (thread < 192)):
        k.barrier.sync()
    with k.if_(thread >= 192):
        k.barrier.sync()


@keeps()
def a_whole_cta_ends(k, n, a):
    k.return_if(k.block_id() >= n)
    k.barrier.sync()


@keeps()
def down_and_up_again(k, n, a):
    with k.if_(n == 0):
        k.setmaxnreg.dec(40)
    with k.else_():
        k.setmaxnreg.dec(64)
    k.setmaxnreg.inc(64)


def multiply(k):
    acc = k.wgmma.accumulator(64)
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
    with k.wgmma.group():
        k.wgmma.mma_async(acc, tile, tile, nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
