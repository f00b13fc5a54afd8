"""How often each byte occurs: every warp counts in its own shared memory, and the CTA adds the counts to global memory.

Run it as it is: it builds and verifies the kernel, prints what was built, counts random bytes (without a GPU in the
simulator), and compares with NumPy.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import i32, u8, u32
from samples.problem import Problem
from samples.problem import main as solve

BINS = THREADS = 256
WARPS = THREADS // 32
BYTES = 16  # of a load

Data = Annotated[nvb.Pointer, nvb.Pointer(u8, align=BYTES, const=True)]


@nvb.kernel("sm_80", threads=THREADS)
def histogram(k: nvb.KernelBuilder, data: Data, bins: nvb.Pointer[u32], count: i32) -> None:
    counts = k.shared(u32, WARPS * BINS)
    thread = k.thread_id()
    for warp in range(WARPS):
        counts[warp * BINS + thread] = 0
    k.barrier.sync()

    mine = counts + k.warp_id() * BINS
    one_more = lambda byte: k.atomic.reduce(mine + byte.to(i32), "add", 1, scope="cta")  # noqa: E731
    first, stride = (k.block_id() * THREADS + thread) * BYTES, k.block_count() * (THREADS * BYTES)
    with k.range(first, count, stride) as at:
        with k.if_(at + BYTES <= count):
            for byte in (data + at).load(BYTES):
                one_more(byte)
        with k.else_(), k.range(at, count) as last:
            one_more(data[last])
    k.barrier.sync()

    total = sum((counts[warp * BINS + thread] for warp in range(1, WARPS)), start=counts[thread])
    k.atomic.reduce(bins + thread, "add", total)


def launch(loaded: nvb.runtime.LoadedKernel, data: Any, bins: Any) -> None:
    """Start the kernel on bytes, and bins that are 0: CTAs that fill the GPU, and no more than have bytes."""
    count = data.shape[0]
    grid = min(-(-count // (THREADS * BYTES)), 8 * loaded.device.limits.multiprocessors)
    loaded.launch(grid, data, bins, count)


def problem(count: int) -> Problem:
    """Random bytes, of which some come often."""
    import numpy as np

    random = np.random.default_rng(count)
    data = (random.standard_normal(count) * 20 + 100).astype(np.int32).astype(np.uint8)
    return Problem(histogram, launch, (data,), np.bincount(data, minlength=BINS), np.zeros(BINS, np.uint32), 1e-9)


def main() -> int:
    return solve(__doc__, problem, sizes="the number of bytes", on_the_gpu=(2**28 + 5,), in_the_simulator=(9005,))


if __name__ == "__main__":
    sys.exit(main())
