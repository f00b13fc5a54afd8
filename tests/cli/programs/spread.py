"""A kernel that commands build and show."""

import nvbackend as nvb
from nvbackend import f32, i32


@nvb.kernel("sm_90a", threads=64)
def spread(k: nvb.KernelBuilder, x: nvb.Pointer[f32], n: i32, *, turns: int = 3) -> None:
    cells = k.shared(f32, 64)
    thread = k.thread_id()
    with k.if_(thread < n):
        cells[thread] = x[thread]
    k.barrier.sync()
    for turn in range(turns):
        x[thread + 64 * turn] = cells[63 - thread] * 2.0
