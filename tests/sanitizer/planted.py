"""Kernels with a mistake that one of the tools reports, and one without: `python -m tests.sanitizer.planted ...`.

It takes what `tests.sanitizer.worker` takes. No build can know of the mistakes: each depends on an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import nvbackend as nvb
from nvbackend import f32, i32, u32
from samples.problem import Problem
from tests.sanitizer.worker import main

THREADS, FAR = 64, 1 << 28


@nvb.kernel("sm_90a", threads=THREADS)
def outside(k: nvb.KernelBuilder, out: nvb.Pointer[f32], n: i32) -> None:
    out[k.thread_id()] = 1.0
    out[k.thread_id() + n] = 1.0


@nvb.kernel("sm_90a", threads=THREADS)
def race(k: nvb.KernelBuilder, out: nvb.Pointer[f32], n: i32) -> None:
    tile, thread = k.shared(f32, THREADS), k.thread_id()
    tile[thread] = 1.0
    out[thread] = tile[(thread + n) % THREADS]


@nvb.kernel("sm_90a", threads=THREADS)
def apart(k: nvb.KernelBuilder, out: nvb.Pointer[f32], n: i32) -> None:
    k.warp.sync(n.to(u32))
    out[k.thread_id()] = 1.0


def problem(kernel: nvb.KernelDefinition, n: int) -> Problem:
    ones, zeros = np.ones(THREADS, np.float32), np.zeros(THREADS, np.float32)
    return Problem(kernel, lambda loaded, out: loaded.launch(1, out, n), (), ones, zeros, 0.5)


RIGHT = "right"
PLANTED: dict[str, Callable[[], Problem]] = {
    "memcheck": partial(problem, outside, FAR),
    RIGHT: partial(problem, outside, 0),
    "racecheck": partial(problem, race, THREADS // 2),
    "synccheck": partial(problem, apart, 1),
}
"""By the tool that reports it; the first one also keeps the others of its process from being run."""

if __name__ == "__main__":
    main(PLANTED)
