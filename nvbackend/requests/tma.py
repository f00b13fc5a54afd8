"""TMA tensor copies: `nvb.tma.load(2)`, `nvb.tma.reduce(3, "add")`."""

from __future__ import annotations

import sys

from nvbackend.diagnostics import user_facing
from nvbackend.isel.select.tma.request import TmaRequest
from nvbackend.isel.select.tma.select import select_tma as select
from nvbackend.requests import Requests

__all__ = ["load", "prefetch", "reduce", "select", "store"]
sys.modules[__name__].__class__ = Requests


@user_facing
def load(
    rank: int,
    *,
    mode: str = "tile",
    destination: str = "cluster",
    multicast: bool = False,
    cta_group: int | None = None,
    cache_hint: bool = False,
) -> TmaRequest:
    """A load of a box of a tensor of `rank` dimensions into shared memory, in one of PTX's modes ("tile", "im2col").

    `destination` is "cluster" or "cta". PTX ISA 9.7.9 (cp.async.bulk.tensor).
    """
    return TmaRequest(
        rank,
        mode=mode,
        destination=destination,
        multicast=multicast,
        cta_group=cta_group,
        cache_hint=cache_hint,
    )


@user_facing
def store(rank: int, *, mode: str = "tile", cache_hint: bool = False) -> TmaRequest:
    """A store of a box from shared memory. PTX ISA 9.7.9 (cp.async.bulk.tensor)."""
    return TmaRequest(rank, "store", mode, cache_hint=cache_hint)


@user_facing
def reduce(rank: int, operation: str, *, mode: str = "tile", cache_hint: bool = False) -> TmaRequest:
    """A reduction of a box into global memory by `operation`, such as "add". PTX ISA 9.7.9."""
    return TmaRequest(rank, "reduce", mode, operation=operation, cache_hint=cache_hint)


@user_facing
def prefetch(rank: int, *, mode: str = "tile", cache_hint: bool = False) -> TmaRequest:
    """A prefetch of a box to L2. PTX ISA 9.7.9 (cp.async.bulk.prefetch.tensor)."""
    return TmaRequest(rank, "prefetch", mode, cache_hint=cache_hint)
