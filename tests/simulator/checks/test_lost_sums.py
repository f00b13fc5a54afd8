"""Lanes that load, add and store one word lose sums, whether they meet in between or not: the fix is an atomic."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, i32, u32


@nvb.kernel("sm_80", threads=32)
def kernel(k, x: Pointer[i32], out: Pointer[u32], *, atomic):
    bins, thread = k.shared(u32, 32, name="bins"), k.thread_id()
    bins[thread] = 0
    k.barrier.sync()
    there = bins + (x[thread] & 31)
    if atomic:
        there.atomic("add", 1)
    else:
        there[0] = there[0] + 1
    k.barrier.sync()
    out[thread] = bins[thread]


def test_lanes_that_add_to_one_word_are_told_of_an_atomic() -> None:
    x, out = np.arange(32, dtype=np.int32) // 2, np.zeros(32, np.uint32)
    wrong, right = (
        nvb.runtime.load(kernel.compile(atomic=atomic, check=False, assemble=False), device="simulator")
        for atomic in (False, True)
    )
    with pytest.raises(nvb.DiagnosticError) as caught:
        wrong.launch(1, x, out)
    assert all("atomic('add', value)" in (one.fix or "") for one in caught.value.diagnostics)
    right.launch(1, x, out)
    assert np.array_equal(out, np.bincount(x, minlength=32))
