"""Rows divided by their length, on Hopper: a cluster holds a row that is too long for one CTA, and reads it once.

Each CTA sums the squares of its part of the row, and writes its sum to the shared memory of all CTAs of the cluster.
`k.cluster.reduce` does this in one call. Run it as it is.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f32, i32, i64
from samples.problem import Problem
from samples.problem import main as solve

CLUSTER, THREADS = 8, 512
WIDTH, VECTORS = 4, 4  # elements of a 16-byte access, and accesses of a thread
PART = THREADS * WIDTH * VECTORS  # elements of a CTA

Columns = Annotated[i32, nvb.Scalar(i32, minimum=4, maximum=CLUSTER * PART, multiple_of=WIDTH)]


@nvb.kernel("sm_90", threads=THREADS, cluster=CLUSTER)
def normalise(k: nvb.KernelBuilder, x: nvb.Pointer[f32], y: nvb.Pointer[f32], columns: Columns) -> None:
    sums = k.shared(f32, CLUSTER, name="sums")  # what each CTA of the cluster has written here
    rank, thread = k.cluster.rank(), k.thread_id()
    begin = k.cluster.id().to(i64) * columns.to(i64)
    places = [rank * PART + (vector * THREADS + thread) * WIDTH for vector in range(VECTORS)]
    vectors = [(x + begin + at).load(WIDTH, where=at < columns, evict="L1::no_allocate") for at in places]

    squares = [value * value for vector in vectors for value in vector]
    mine = k.cta.reduce("add", sum(squares[1:], start=squares[0]))
    k.cluster.sync(relaxed=True)  # every CTA has started: its shared memory is there
    with k.if_(thread < CLUSTER):
        k.cluster.map_shared_rank(sums, thread)[rank] = mine
    k.cluster.sync()

    total = sum((sums[other] for other in range(1, CLUSTER)), start=sums[0])
    scale = k.math.rsqrt(total)
    for at, vector in zip(places, vectors, strict=True):
        (y + begin + at).store(*(value * scale for value in vector), where=at < columns, cache="cs")


def launch(loaded: nvb.runtime.LoadedKernel, x: Any, y: Any) -> None:
    """Start the kernel on X and Y (rows x columns): a cluster a row."""
    rows, columns = x.shape
    loaded.launch(rows * CLUSTER, x, y, columns)


def problem(rows: int, columns: int) -> Problem:
    """Random rows, and their quotients in f64."""
    import numpy as np

    x = np.random.default_rng(rows + columns).standard_normal((rows, columns), np.float32)
    length = np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True))
    return Problem(normalise, launch, (x,), x / length, np.full_like(x, np.nan), 1e-5)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="rows and columns",
        multiples=(1, WIDTH),
        on_the_gpu=(1000, 60000),
        in_the_simulator=(2, 9000),
    )


if __name__ == "__main__":
    sys.exit(main())
