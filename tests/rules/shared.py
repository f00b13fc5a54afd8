"""Ordinary shared memory between the threads of a CTA."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from tests.rules.example import kernel


@kernel("shared.missing-barrier")
def neighbour_that_may_not_have_written(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
    buffer, thread = k.shared(f32, 128), k.thread_id()
    buffer[thread] = x[thread]
    k.barrier.sync()  # keeps
    out[thread] = buffer[127 - thread]


@kernel("shared.overwritten-early")
def buffer_that_slower_threads_still_read(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32], rounds: nvb.i32):
    buffer, thread = k.shared(f32, 128), k.thread_id()
    with k.range(rounds) as step:
        buffer[thread] = x[step * 128 + thread]
        k.barrier.sync()
        out[step * 128 + thread] = buffer[127 - thread]
        k.barrier.sync()  # keeps


@kernel("shared.bounds")
def threads_past_the_end(k, x: nvb.Pointer[f32], out: nvb.Pointer[f32]):
    buffer, thread = k.shared(f32, 64), k.thread_id()
    buffer[thread] = x[thread]  # breaks
    with k.if_(thread < 64):  # keeps
        buffer[thread] = x[thread]  # keeps
    k.barrier.sync()
    out[thread] = buffer[thread % 64]
