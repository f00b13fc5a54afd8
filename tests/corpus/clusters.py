"""Clusters that have roles: which CTAs do what is said by numbers of CTAs, of threads of the grid, or of clusters."""

from __future__ import annotations

from collections.abc import Callable

import nvbackend as nvb
from nvbackend import f32, i32

F32 = nvb.Pointer(f32)
THREADS = 64


def exchange(k: nvb.KernelBuilder, x: nvb.Address, y: nvb.Address, first: Callable[[], nvb.Value]) -> None:
    """The CTAs of the clusters for which `first` holds give what they load to the next one of their cluster."""
    box, at = k.shared(f32, THREADS, name="box"), k.block_id() * THREADS + k.thread_id()
    with k.if_(first()):
        box[k.thread_id()] = x[at]
        k.cluster.sync()
        y[at] = k.cluster.map_shared_rank(box, (k.cluster.rank() + 1) % k.cluster_size)[k.thread_id()]
        k.cluster.sync()
    with k.else_():
        y[at] = 1.0


@nvb.kernel("sm_90", threads=THREADS, cluster=2)
def roles_by_half_the_block(k, x: F32, y: F32, clusters: i32(minimum=1)):
    exchange(k, x, y, lambda: k.block_id() // 2 < clusters)


@nvb.kernel("sm_90", threads=THREADS, cluster=2)
def roles_by_an_even_number_of_blocks(k, x: F32, y: F32):
    exchange(k, x, y, lambda: k.block_id() < 4)


@nvb.kernel("sm_90", threads=THREADS, cluster=3)
def roles_by_an_even_number_of_threads(k, x: F32, y: F32, clusters: i32(minimum=1)):
    """The last cluster of the grid, and as many of the first as are asked for."""
    at = k.block_id() * THREADS + k.thread_id()
    exchange(k, x, y, lambda: (at < 3 * THREADS * clusters) | (k.block_id() >= k.block_count() - 3))


@nvb.kernel("sm_90", threads=THREADS, cluster=(2, 2, 1))
def roles_in_a_square(k, x: F32, y: F32):
    exchange(k, x, y, lambda: (k.block_id() // 2 + k.block_id("y") // 2) % 2 == 0)
