"""CTAs, clusters and grids of three dimensions: every index of a thread, against loops over all of them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import i32
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES

SHAPES = [
    ((4, 8, 2), (1, 1, 1), (2, 3, 2)),
    ((32, 2, 1), (2, 1, 1), (4, 2, 1)),
    ((3, 4, 8), (1, 2, 2), (3, 2, 4)),
    ((2, 16, 1), (2, 2, 1), (2, 4, 2)),
    ((1, 2, 32), (1, 1, 3), (1, 2, 3)),
]
AXES = "xyz"


def places(extents):
    """All indices (x, y, z), x first."""
    return [place[::-1] for place in itertools.product(*(range(extent) for extent in reversed(extents)))]


def expected(block, cluster, grid):
    """A row for each thread, of CTAs and of threads in the order of their numbers."""
    rows = []
    for cta in places(grid):
        inner = [one % each for one, each in zip(cta, cluster, strict=True)]
        outer = [one // each for one, each in zip(cta, cluster, strict=True)]
        clusters = [all_ // each for all_, each in zip(grid, cluster, strict=True)]
        rank = places(cluster).index(tuple(inner))
        for number, thread in enumerate(places(block)):
            here = [number, *thread, number % 32, number // 32, number // 128]
            rows.append([*here, *cta, *grid, rank, *inner, *outer, *clusters])
    return rows


@pytest.mark.parametrize(("block", "cluster", "grid"), SHAPES)
def test_every_thread_has_its_indices(block, cluster, grid) -> None:
    from numba import cuda

    from nvbackend import runtime

    rows = np.array(expected(block, cluster, grid), np.int32)

    @nvb.kernel("sm_90a", threads=block, cluster=cluster)
    def indices(k, out: nvb.Pointer[i32]):
        number = k.thread_id("linear")
        cta = (k.block_id("z") * k.block_count("y") + k.block_id("y")) * k.block_count("x") + k.block_id("x")
        values = [number, *(k.thread_id(axis) for axis in AXES), k.lane_id(), k.warp_id(), k.warpgroup_id()]
        values += [*(k.block_id(axis) for axis in AXES), *(k.block_count(axis) for axis in AXES), k.cluster.rank()]
        for read in (k.cluster.rank, k.cluster.id, k.cluster.count):
            values += [read(axis) for axis in AXES]
        row = out + (cta * math.prod(block) + number) * len(values)
        for place, value in enumerate(values):
            row[place] = value

    kernel = runtime.load(indices.compile())
    out = cuda.to_device(np.full(rows.shape, -1, np.int32))
    kernel.launch(grid, out)
    kernel.synchronize()
    assert np.array_equal(out.copy_to_host(), rows)


def test_every_cta_reads_its_neighbours_along_each_axis() -> None:
    """In a cluster of 2 x 2 CTAs of 8 x 16 threads, by the ranks of the neighbours."""
    from numba import cuda

    from nvbackend import runtime

    @nvb.kernel("sm_90a", threads=(8, 16), cluster=(2, 2))
    def exchange(k, out: nvb.Pointer[i32]):
        own, thread = k.shared(i32, 128), k.thread_id("linear")
        x, y = k.cluster.rank("x"), k.cluster.rank("y")
        own[thread] = thread + (x + y * 2) * 1000
        k.cluster.sync()
        row = out + ((k.block_id("y") * k.block_count() + k.block_id()) * 128 + thread) * 2
        row[0] = k.cluster.map_shared_rank(own, (1 - x) + y * 2)[thread]
        row[1] = k.cluster.map_shared_rank(own, x + (1 - y) * 2)[127 - thread]
        k.cluster.sync()

    kernel = runtime.load(exchange.compile())
    out = cuda.to_device(np.zeros((4, 4, 128, 2), np.int32))
    kernel.launch((4, 4), out)
    kernel.synchronize()
    thread = np.arange(128)
    for y, x in itertools.product(range(4), repeat=2):
        found = out.copy_to_host()[y, x]
        assert np.array_equal(found[:, 0], thread + ((1 - x % 2) + y % 2 * 2) * 1000)
        assert np.array_equal(found[:, 1], 127 - thread + (x % 2 + (1 - y % 2) * 2) * 1000)
