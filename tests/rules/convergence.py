"""Who comes to what groups of threads execute together."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, i32
from tests.rules.example import kernel


@kernel("convergence.warpgroup", threads=256)
def setmaxnreg_in_one_warp(k):
    with k.if_(k.warp_id() == 0):  # breaks
        k.setmaxnreg.dec(40)  # breaks
    with k.if_(k.warpgroup_id() == 0):  # keeps
        k.setmaxnreg.dec(40)  # keeps


@kernel("convergence.warp")
def shuffle_in_some_lanes(k, out: nvb.Pointer[i32]):
    number = k.thread_id()
    sum_of_two = number + k.warp.shuffle(number, "bfly", 1)  # keeps
    with k.if_(number < 40):
        sum_of_two = number + k.warp.shuffle(number, "bfly", 1)  # breaks
        out[number] = sum_of_two


@kernel("barrier.divergent", threads=256)
def barrier_in_one_warpgroup(k):
    with k.if_(k.warpgroup_id() == 1):
        k.barrier.sync()  # breaks
        k.barrier.sync(1, threads=128)  # keeps


@kernel("barrier.skipped")
def barrier_behind_an_exit(k, out: nvb.Pointer[i32], count: i32):
    number = k.block_id() * 128 + k.thread_id()
    k.return_if(number >= count)  # breaks
    with k.if_(number < count):  # keeps
        out[number] = 0  # keeps
    k.barrier.sync()


@kernel("cluster.divergent", cluster=2)
def cluster_barrier_in_one_cta(k, out: nvb.Pointer[i32]):
    with k.if_(k.cluster.rank() == 0):
        out[0] = 1
        k.cluster.sync()  # breaks
    k.cluster.sync()  # keeps


@kernel("cluster.skipped", cluster=2)
def cluster_barrier_behind_an_exit(k, count: i32):
    k.return_if(k.block_id() >= count)  # breaks
    k.return_if(k.cluster.id() >= count)  # keeps
    k.cluster.sync()


@kernel("setmaxnreg.order", threads=256)
def up_to_less(k):
    k.setmaxnreg.dec(64)
    k.setmaxnreg.inc(40)  # breaks
    k.setmaxnreg.inc(128)  # keeps


@kernel("setmaxnreg.largest", threads=384)
def more_than_any_warpgroup_asks_for(k):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(40)  # breaks
        k.setmaxnreg.dec(24)  # keeps
    with k.else_():
        k.setmaxnreg.inc(32)


@kernel("setmaxnreg.pool", threads=384)
def more_than_a_share_for_all(k):
    with k.if_(k.warpgroup_id() == 0):  # keeps
        k.setmaxnreg.dec(40)  # keeps
    with k.else_():  # keeps
        k.setmaxnreg.inc(232)  # keeps
    k.setmaxnreg.inc(232)  # breaks


@kernel("setmaxnreg.warpgroup", threads=160)
def a_warpgroup_of_one_warp(k):
    with k.if_(k.thread_id() < 128):  # keeps
        k.setmaxnreg.dec(40)  # keeps
    k.setmaxnreg.dec(40)  # breaks


@kernel("convergence.operand", threads=32)
def a_row_of_each_lane(k, a: nvb.Pointer(f16, align=32), out: nvb.Pointer(f32, align=32)):
    rows = a + k.lane_id() // 2 * 16  # breaks
    rows = a  # keeps
    left, right = k.wmma.load("a", "m16n16k16", f16, rows), k.wmma.load("b", "m16n16k16", f16, a)
    k.wmma.store(out, k.wmma.mma(left, right, k.wmma.accumulator("m16n16k16")))
