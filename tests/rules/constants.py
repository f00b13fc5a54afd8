"""Constant memory, and what is asserted when a kernel is built."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32, i32
from tests.rules.example import kernel


@kernel("constant.size")
def table_of_all_angles(k, out: nvb.Pointer[f32]):
    table = k.constant.array([n / 32768 for n in range(32768)], f32)  # breaks
    table = k.constant.array([n / 16384 for n in range(16384)], f32)  # keeps
    out[k.thread_id()] = table[k.thread_id() * 100]


@kernel("constant.data")
def rows_of_unequal_lengths(k, out: nvb.Pointer[f32]):
    table = k.constant.array([[1.0, 2.0], [3.0]], f32)  # breaks
    table = k.constant.array([[1.0, 2.0], [3.0, 0.0]], f32)  # keeps
    out[k.thread_id()] = table[k.thread_id() % 2, 0]


@kernel("constant.index")
def thread_past_the_table(k, out: nvb.Pointer[f32]):
    table = k.constant.array([1.0, 2.0, 4.0, 8.0], f32)
    out[k.thread_id()] = table[k.thread_id()]  # breaks
    out[k.thread_id()] = table[k.thread_id() % 4]  # keeps


@kernel("constant.write")
def counts_in_constant_memory(k, out: nvb.Pointer[i32], n: i32):
    counts = k.constant.array([0, 0, 0, 0], i32)  # breaks
    counts = k.local.array(i32, 4, fill=0)  # keeps
    counts[n % 4] = 1
    out[k.thread_id()] = counts[0]


@kernel("static-assert.failed")
def rows_that_no_warp_divides(k, out: nvb.Pointer[f32]):
    rows = 40  # breaks
    rows = 64  # keeps
    k.static_assert(rows % 32 == 0, "{} rows are not whole warps", rows)
    out[k.thread_id()] = rows


@kernel("static-assert.unknown")
def assertion_of_a_parameter(k, out: nvb.Pointer[f32], n: i32):
    k.static_assert(n > 0)  # breaks
    k.assert_(n > 0)  # keeps
    out[k.thread_id()] = 1.0


@kernel("control.assume")
def assumption_that_fails(k, out: nvb.Pointer[f32]):
    k.assume(k.thread_id() < 32)  # breaks
    k.assume(k.thread_id() < 128)  # keeps
    out[k.thread_id()] = 1.0
