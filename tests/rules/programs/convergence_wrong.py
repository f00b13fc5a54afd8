"""Programs whose groups of threads do not come together, at the lines that end in `# breaks`; and register budgets."""

from __future__ import annotations

from nvbackend import i32
from tests.rules.programs.program import breaks


@breaks("convergence.warpgroup")
def wgmma_in_one_warp(k, n, a):
    with k.if_(k.warp_id() == 0):
        k.wgmma.fence()  # breaks
        k.wgmma.commit_group()


@breaks("convergence.warpgroup")
def wgmma_in_some_threads(k, n, a):
    with k.if_(k.thread_id() < n):
        k.wgmma.fence()  # breaks


@breaks("convergence.warpgroup")
def setmaxnreg_in_one_warp(k, n, a):
    with k.if_(k.warp_id() == 1):
        k.setmaxnreg.dec(40)  # breaks


@breaks("convergence.warpgroup")
def wgmma_behind_an_exit(k, n, a):
    k.return_if(k.thread_id() >= n)
    k.wgmma.fence()  # breaks


@breaks("convergence.warpgroup")
def wgmma_in_rounds_that_warps_have_of_their_own(k, n, a):
    with k.range(k.warp_id(), n, 8):
        k.wgmma.fence()  # breaks


@breaks("convergence.warp")
def shuffle_in_some_threads(k, n, a):
    with k.if_(k.thread_id() < 40):
        k.warp.shuffle(n, "bfly", 1)  # breaks


@breaks("convergence.warp")
def matrix_in_threads_by_data(k, n, a):
    memory = k.shared(i32, 256)
    with k.if_(a[k.thread_id()] > 0):
        k.mma.ldmatrix(memory, 4)  # breaks


@breaks("convergence.warp")
def vote_where_some_have_left_the_loop(k, n, a):
    with k.loop():
        k.break_if(k.lane_id() == n)
        k.warp.vote("all", n == 0)  # breaks


@breaks("convergence.warp")
def counted_barrier_in_parts_of_warps(k, n, a):
    with k.if_(k.thread_id() % 2 == 0):
        k.barrier.sync(1, 128)  # breaks


@breaks("convergence.warp")
def through_a_variable(k, n, a):
    last = k.var(0)
    with k.if_(k.thread_id() == n):
        last.set(1)
    with k.if_(last == 1):
        k.elect()  # breaks


@breaks("convergence.warp")
def through_the_rounds_of_a_loop(k, n, a):
    rounds = k.var(0)
    with k.range(k.thread_id(), n):
        rounds += 1
    with k.if_(rounds == 4):
        k.elect()  # breaks


@breaks("barrier.divergent")
def barrier_in_one_warpgroup(k, n, a):
    with k.if_(k.warpgroup_id() == 1):
        k.barrier.sync()  # breaks


@breaks("barrier.divergent")
def barrier_in_one_branch_of_each_round(k, n, a):
    with k.range(n), k.if_(k.thread_id() < 128):
        k.barrier.sync()  # breaks


@breaks("barrier.divergent")
def another_barrier_on_the_other_side(k, n, a):
    with k.if_(k.warpgroup_id() == 1):
        k.barrier.sync(3)  # breaks
    with k.else_():
        k.barrier.sync(4)


@breaks("barrier.divergent")
def one_half_of_the_threads_at_two_barriers(k, n, a):
    with k.if_(k.thread_id() < 128):
        k.barrier.sync()  # breaks
    a[0] = n
    with k.if_(k.warpgroup_id() == 0):
        k.barrier.sync()  # breaks


@breaks("barrier.divergent")
def a_barrier_of_its_own_and_one_for_all(k, n, a):
    with k.if_(k.thread_id() < 64):
        k.barrier.sync()  # breaks
    k.barrier.sync()


@breaks("barrier.divergent")
def a_barrier_for_those_who_come_in_time(k, n, a):
    with k.if_(k.clock() > 1000):
        k.barrier.sync()  # breaks


@breaks("barrier.skipped")
def barrier_behind_an_exit(k, n, a):
    k.return_if(k.thread_id() > 3)
    k.barrier.sync()  # breaks


@breaks("barrier.skipped")
def barrier_behind_the_exit_of_a_warp(k, n, a):
    with k.if_(k.warp_id() == 3):
        a[0] = n
        k.return_()
    k.barrier.sync()  # breaks


@breaks("cluster.divergent", cluster=2)
def cluster_barrier_in_one_cta(k, n, a):
    with k.if_(k.cluster.rank() == 0):
        k.cluster.sync()  # breaks


@breaks("cluster.divergent", cluster=2)
def cluster_barrier_in_one_warp(k, n, a):
    with k.if_(k.warp_id() == 0):
        k.cluster.sync()  # breaks


@breaks("cluster.skipped", cluster=2)
def cluster_barrier_behind_an_exit(k, n, a):
    k.return_if(k.block_id() >= n)
    k.cluster.sync()  # breaks


@breaks("setmaxnreg.order")
def up_to_less(k, n, a):
    k.setmaxnreg.dec(64)
    k.setmaxnreg.inc(40)  # breaks


@breaks("setmaxnreg.order")
def down_to_more(k, n, a):
    k.setmaxnreg.dec(40)
    k.setmaxnreg.dec(48)  # breaks


@breaks("setmaxnreg.order", threads=512)
def down_to_more_than_the_launch_gives(k, n, a):
    k.setmaxnreg.dec(136)  # breaks


@breaks("setmaxnreg.order", threads=1024)
def down_in_a_loop_to_more_than_the_launch_gives(k, n, a):
    with k.range(4):
        k.setmaxnreg.dec(128)  # breaks


@breaks("setmaxnreg.order")
def up_in_a_loop_to_less(k, n, a):
    k.setmaxnreg.dec(64)
    with k.range(4):
        k.setmaxnreg.inc(40)  # breaks


@breaks("setmaxnreg.order")
def up_to_less_than_any_way_that_comes_down_has(k, n, a):
    k.setmaxnreg.dec(64)
    with k.if_(k.block_id() == 0):
        k.setmaxnreg.inc(120)
    k.setmaxnreg.dec(96)
    k.setmaxnreg.inc(80)  # breaks


@breaks("setmaxnreg.largest", threads=384)
def kept_back_above_what_any_warpgroup_asks_for(k, n, a):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(40)  # breaks
    with k.else_():
        k.setmaxnreg.inc(24)


@breaks("setmaxnreg.pool", threads=384)
def up_to_more_than_there_is(k, n, a):
    k.setmaxnreg.inc(232)  # breaks


@breaks("setmaxnreg.warpgroup", threads=160)
def a_part_of_a_warpgroup(k, n, a):
    k.setmaxnreg.dec(40)  # breaks
