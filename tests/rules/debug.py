"""Prints, assertions and traps."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32
from tests.rules.example import kernel, program


@kernel("debug.format")
def a_value_without_a_place(k, x: nvb.Pointer[f32]):
    value = x[k.thread_id()]
    k.print("thread {}", k.thread_id(), value)  # breaks
    k.print("thread {} has {:.3f}", k.thread_id(), value)  # keeps


@kernel("debug.value")
def a_whole_fragment_is_printed(k, x: nvb.Pointer[f32]):
    values = x.load(1)
    k.print("{}", values)  # breaks
    k.print("{}", values[0])  # keeps


@program("launch.assertion", located=True)
def an_index_past_the_end():
    @nvb.kernel("sm_90a", threads=32)
    def scale(k, x: nvb.Pointer[f32], n: i32):
        thread = k.thread_id()
        k.assert_(thread < n, "thread {} of {}", thread, n)
        x[thread] = x[thread] * 2.0

    count = 24  # breaks
    count = 32  # keeps
    nvb.runtime.load(scale.compile(assemble=False), device="simulator").launch(1, np.zeros(32, np.float32), count)


@kernel("location.place")
def place_on_no_line(k, out: nvb.Pointer[f32]):
    line = -3  # breaks
    line = 3  # keeps
    with k.location("relu.dsl", line, name="relu"):
        out[k.thread_id()] = 0.0
