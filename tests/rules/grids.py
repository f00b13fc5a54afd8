"""Kernels that begin before the previous ones have ended."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from tests.rules.example import kernel


@kernel("griddepcontrol.early-conflict")
def sums_read_before_the_wait(k, x: nvb.Pointer[f32], sums: nvb.Pointer[f32]):
    thread = k.thread_id()
    k.griddepcontrol("wait")  # keeps
    before = sums[thread]
    k.griddepcontrol("wait")  # breaks
    sums[thread] = before + x[thread]


@kernel("griddepcontrol.early-access")
def rows_read_before_the_wait(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32]):
    thread = k.thread_id()
    k.griddepcontrol("wait")  # keeps
    row = x[thread]
    k.griddepcontrol("wait")  # breaks
    y[thread] = row
