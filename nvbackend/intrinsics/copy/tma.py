"""TMA rows: bulk copies between global and shared memory by the async proxy. PTX ISA 9.7.9 (cp.async.bulk...).

The family in one name: boxes of tensors (`tma_tensor`), bytes in a row (`tma_bulk`), the tensor map (`tensormap`).
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.intrinsics.copy import tensormap, tma_bulk, tma_tensor
from nvbackend.intrinsics.copy.tma_bulk import (
    commit_group,
    copy_bulk,
    load_bulk,
    prefetch_bulk,
    reduce_bulk,
    store_bulk,
    wait_group,
)
from nvbackend.intrinsics.copy.tma_parts import BULK_ALIGNMENT, TENSOR_ALIGNMENT
from nvbackend.intrinsics.copy.tma_tensor import RANKS, load_tensor, prefetch_tensor, reduce_tensor, store_tensor
from nvbackend.intrinsics.row.row import Row

__all__ = [
    "BULK_ALIGNMENT",
    "RANKS",
    "TENSOR_ALIGNMENT",
    "commit_group",
    "copy_bulk",
    "load_bulk",
    "load_tensor",
    "load_tile",
    "prefetch_bulk",
    "prefetch_tensor",
    "prefetch_tensormap",
    "prefetch_tile",
    "reduce_bulk",
    "reduce_tensor",
    "rows",
    "store_bulk",
    "store_tensor",
    "store_tile",
    "wait_group",
]


def load_tile(rank: int, multicast: bool = False, cache_hint: bool = False) -> Row:
    """The load of a box to shared::cluster: `load_tensor` in tile mode."""
    return load_tensor(rank, multicast=multicast, cache_hint=cache_hint)


def store_tile(rank: int, cache_hint: bool = False) -> Row:
    """The store of a box: `store_tensor` in tile mode."""
    return store_tensor(rank, cache_hint=cache_hint)


def prefetch_tile(rank: int, cache_hint: bool = False) -> Row:
    """The prefetch of a box: `prefetch_tensor` in tile mode."""
    return prefetch_tensor(rank, cache_hint=cache_hint)


def prefetch_tensormap() -> Row:
    """The prefetch of a tensor map at a generic address."""
    return tensormap.prefetch()


def rows() -> Iterator[Row]:
    """Every TMA row."""
    for module in (tma_tensor, tma_bulk, tensormap):
        yield from module.rows()
