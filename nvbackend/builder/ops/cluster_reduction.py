"""Reductions over the threads of a cluster, through the shared memory of its CTAs."""

from __future__ import annotations

from typing import Any

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Memory
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.ops.combine import Operation, brought, combining, result_of
from nvbackend.builder.ops.cta import CtaWide
from nvbackend.builder.ops.groups import check_all_come
from nvbackend.builder.ops.sync.cluster import Cluster
from nvbackend.builder.ops.words import MOST_BYTES, keep, kept, stored_type
from nvbackend.intrinsics.row.types import u8

_CALL = "k.cluster.reduce"


class ClusterReduction:
    """What `k.cluster.reduce` does, in which `cta` reduces each CTA's part."""

    def __init__(self, k: Core, memory: Memory, threads: Threads, control: Control, cta: CtaWide) -> None:
        self._k = k
        self._memory = memory
        self._threads = threads
        self._control = control
        self._cta = cta

    def __call__(self, cluster: Cluster, operation: Operation, value: Any, *, nan: bool) -> Any:
        """`value` of all threads combined; each CTA leaves its part in shared memory, where the others read it."""
        check_all_come(self._k, _CALL)
        combine = combining(self._k, _CALL, operation, brought(self._k, value), nan=nan)
        own = brought(self._k, self._cta.reduce(operation, value, nan=nan))
        if self._k.cluster_size == 1:
            return result_of(own, value)
        buffer = self._memory.shared(u8, MOST_BYTES * len(own), align=MOST_BYTES, name="cluster_parts")
        cells = [(buffer + MOST_BYTES * place).cast(stored_type(each.type)) for place, each in enumerate(own)]
        with self._control.if_(self._threads.thread_id("linear") == 0):
            for cell, each in zip(cells, own, strict=True):
                keep(self._k, cell, each)
        cluster.sync()
        result = None
        for rank in range(self._k.cluster_size):
            loaded = [cluster.map_shared_rank(cell, rank).load()[0] for cell in cells]
            part = tuple(kept(each, mine.type) for each, mine in zip(loaded, own, strict=True))
            result = part if result is None else combine(result, part)
        cluster.sync()
        assert result is not None, "a cluster has a CTA"
        return result_of(result, value)
