"""Branches, loops and exits."""

from __future__ import annotations

import contextlib

import nvbackend as nvb
from nvbackend import i32
from tests.rules.example import kernel, program


@kernel("control.else")
def else_far_from_its_if(k, out: nvb.Pointer[i32]):
    with k.if_(k.thread_id() == 0):
        out[0] = 1
    out[1] = 2  # breaks
    with k.else_():
        out[0] = 3


@kernel("control.endless")
def endless(k, flag: nvb.Pointer[i32]):
    with k.loop():
        seen = flag[0]
        k.break_if(seen == 1)  # keeps
        flag[1] = seen


@kernel("control.left")
def return_of_python(k, out: nvb.Pointer[i32]):
    with k.if_(k.thread_id() != 0):  # breaks
        return  # breaks
    k.return_if(k.thread_id() != 0)  # keeps
    out[0] = 1


@kernel("control.loop")
def break_outside_of_a_loop(k, out: nvb.Pointer[i32], count: i32):
    k.break_if(count == 0)  # breaks
    with k.range(count) as i:
        k.break_if(i == 7)  # keeps
        out[i] = i


@kernel("control.not-entered")
def if_without_with(k, out: nvb.Pointer[i32]):
    k.if_(k.thread_id() == 0)  # breaks
    out[0] = 1  # breaks
    with k.if_(k.thread_id() == 0):  # keeps
        out[0] = 1  # keeps


@kernel("control.entered-twice")
def one_if_for_two_blocks(k, out: nvb.Pointer[i32]):
    first = k.if_(k.thread_id() == 0)
    with first:
        out[0] = 1
    with first:  # breaks
        out[1] = 2  # breaks
    with k.if_(k.thread_id() == 0):  # keeps
        out[1] = 2  # keeps


@kernel("control.one-thread")
def barrier_in_one_thread(k, out: nvb.Pointer[i32]):
    with k.one_thread():
        out[0] = 1
        k.barrier.sync()  # breaks
    k.barrier.sync()  # keeps


@program("control.open")
def finish_inside_a_block():
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    with contextlib.suppress(RuntimeError), k.if_(k.thread_id() == 0):  # breaks
        return k.finish()  # breaks
    with k.if_(k.thread_id() == 0):  # keeps
        k.special_register("clock")  # keeps
    return k.finish()  # keeps


@kernel("control.range-end")
def counter_that_wraps(k, out: nvb.Pointer[i32]):
    last = 2**31 - 1  # breaks
    last = 2**31 - 4  # keeps
    with k.range(0, last, 4) as i:
        out[0] = i


@kernel("control.step")
def count_down(k, out: nvb.Pointer[i32]):
    with k.range(8, 0, -1) as i:  # breaks
        out[i] = i  # breaks
    with k.range(8) as i:  # keeps
        out[8 - i] = 8 - i  # keeps


@kernel("control.unroll")
def rounds_that_are_not_known(k, x: nvb.Pointer[i32], count: i32):
    with k.range(count, unroll=True) as i:  # breaks
        x[i] = i  # breaks
    with k.range(count, unroll=4) as i:  # keeps
        x[i] = i  # keeps


@program("control.torn")
def exception_through_a_block():
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    with contextlib.suppress(KeyError), k.if_(k.thread_id() == 0):  # breaks
        k.const({}["size"], i32)  # breaks
    with k.if_(k.thread_id() == 0), contextlib.suppress(KeyError):  # keeps
        k.const({}["size"], i32)  # keeps
    return k.finish()


@kernel("control.unreachable")
def code_behind_a_return(k, out: nvb.Pointer[i32]):
    with k.if_(k.thread_id() == 0):
        k.return_()  # breaks
        out[0] = 1
        k.return_()  # keeps


@kernel("control.with")
def loop_of_python(k, out: nvb.Pointer[i32]):
    for i in k.range(4):  # breaks
        out[i] = i  # breaks
    with k.range(4) as i:  # keeps
        out[i] = i  # keeps
