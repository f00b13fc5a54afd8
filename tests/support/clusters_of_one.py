"""The four instructions that end a kernel which is launched without a cluster, sent by a CTA to itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvbackend import u32

LANES = 32


def _store(k: Any, to: Any, _source: Any, *peer: Any) -> None:
    lane = k.thread_id()
    k.async_store.store(to + lane, (lane * 3).to(u32), *peer)


def _reduce(k: Any, to: Any, _source: Any, *peer: Any) -> None:
    lane = k.thread_id()
    k.async_store.reduce(to + lane, "add", (lane * 3).to(u32), *peer)


def _copy(k: Any, to: Any, source: Any, barrier: Any, rank: Any) -> None:
    with k.if_(k.thread_id() == 0):
        k.bulk.store(to, source, 4 * LANES, rank=rank, barrier=barrier)


def _copy_reduced(k: Any, to: Any, source: Any, barrier: Any, rank: Any) -> None:
    with k.if_(k.thread_id() == 0):
        k.bulk.reduce(to, source, 4 * LANES, "add", u32, rank=rank, barrier=barrier)


SENDS: dict[str, Callable[..., None]] = {
    "st.async": _store,
    "red.async": _reduce,
    "cp.async.bulk": _copy,
    "cp.reduce.async.bulk": _copy_reduced,
}
"""By opcode: each leaves 3 times the lane, where `to` is zeros and `source` has that."""


def send(k: Any, opcode: str, out: Any) -> None:
    """The kernel's body: write to its own shared memory, or to a peer's, and what came to `out`."""
    to, source = k.shared(u32, LANES, align=128), k.shared(u32, LANES, align=128)
    barrier = k.mbarrier.array(1, 1)
    lane = k.thread_id()
    to[lane], source[lane] = 0, (lane * 3).to(u32)
    k.fence.proxy_async("shared::cta")
    k.mbarrier.ready()
    with k.if_(lane == 0):
        k.mbarrier.arrive(barrier, expect_tx=4 * LANES)
    meet, rank = (k.barrier.sync, 0) if k.cluster_size == 1 else (k.cluster.sync, 1 - k.cluster.rank())
    meet()
    SENDS[opcode](k, to, source, barrier, rank)
    k.mbarrier.wait(barrier, 0)
    out[lane] = to[lane]
    meet()
