"""What threads compute together: all of them come, and the operation is one."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from tests.rules.example import kernel


@kernel("cta.threads")
def a_sum_of_a_part_of_the_cta(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
    thread = k.thread_id()
    with k.if_(thread < 64):  # breaks
        out[thread] = k.cta.reduce("add", x[thread])  # breaks
    value = k.var(0.0)  # keeps
    with k.if_(thread < 64):  # keeps
        value.set(x[thread])  # keeps
    out[thread] = k.cta.reduce("add", value)  # keeps


@kernel("cta.group", threads=384)
def two_groups_at_one_barrier(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
    thread, group = k.thread_id(), k.warpgroup_id()
    with k.if_(group > 0):
        barrier = 1  # breaks
        barrier = group  # keeps
        out[thread] = k.cta.reduce("add", x[thread], threads=128, barrier=barrier)


@kernel("reduce.initial")
def nothing_before_the_first_lane(k, x: nvb.Pointer[f32]):
    thread = k.thread_id()
    start = None  # breaks
    start = -1.0  # keeps
    x[thread] = k.warp.scan(k.math.max, x[thread], exclusive=True, initial=start)
