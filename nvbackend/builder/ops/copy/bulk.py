"""Copies of contiguous bytes by the TMA unit."""

from __future__ import annotations

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import issue, mbarrier_address
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.ops.sync.cluster import Cluster, at_peer
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import cache_control, tma_bulk
from nvbackend.intrinsics.copy.tma import BULK_ALIGNMENT
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, u64
from nvbackend.isel.operands import memory as memory_operands
from nvbackend.isel.operands.tma_places import ALIGNMENT
from nvbackend.isel.select.tma.select import check_multicast_target
from nvbackend.isel.target.target import VARIANT, variant


@user_facing
class Bulk(Noun):
    """Copies of contiguous bytes by the TMA unit (PTX ISA 9.7.9, cp.async.bulk)."""

    __noun__ = "bulk"
    __usual__ = "load"

    def __init__(self, k: Core, cluster: Cluster) -> None:
        super().__init__(k)
        self._cluster = cluster

    def load(
        self,
        destination: Address,
        source: Address,
        size: Operand,
        barrier: Address,
        *,
        space: str = "cluster",
        multicast_mask: Operand | None = None,
        cache_policy: Operand | None = None,
    ) -> None:
        """cp.async.bulk: copy `size` bytes (a multiple of 16) from global to shared memory; they complete on `barrier`.

        With `multicast_mask` (u16, one bit per CTA of the cluster) it writes to each of those CTAs. `space` is
        "cluster", or "cta" for the form without a cluster. Raises mbarrier.address, tma.bulk-size,
        tma.multicast-target, instruction.variant, target.feature. PTX ISA 9.7.9.
        """
        many = multicast_mask is not None
        if many:
            check_multicast_target(self._k.target)
        row = variant("cp.async.bulk", tma_bulk.load_bulk, many, cache_policy is not None, space)
        _check_aligned(destination, source)
        operands = {"destination": destination, "source": source, "bytes": size, "cache_policy": cache_policy}
        issue(self._k, row, **operands, barrier=barrier, multicast_mask=multicast_mask)

    def store(
        self,
        destination: Address,
        source: Address,
        size: Operand,
        *,
        byte_mask: Operand | None = None,
        cache_policy: Operand | None = None,
        rank: Operand | None = None,
        barrier: Address | None = None,
    ) -> None:
        """cp.async.bulk: copy `size` bytes from shared to global memory, in this thread's bulk group.

        Bit i of `byte_mask` says whether byte i of every 16 is written (from compute capability 10.0 on). With `rank`
        and `barrier` they go to `destination` in the shared memory of the cluster's CTA of that rank, and complete on
        `barrier` there. Raises tma.bulk-size, instruction.variant, target.feature. PTX ISA 9.7.9.
        """
        if _is_to_peer("cp.async.bulk", rank, barrier, byte_mask, cache_policy):
            self._issue_to_peer(tma_bulk.copy_bulk(), destination, source, size, rank, barrier)
            return
        _check_aligned(destination, source)
        row = tma_bulk.store_bulk(cache_policy is not None, byte_mask=byte_mask is not None)
        operands = {"destination": destination, "source": source, "bytes": size, "cache_policy": cache_policy}
        issue(self._k, row, **operands, byte_mask=byte_mask)

    def reduce(
        self,
        destination: Address,
        source: Address,
        size: Operand,
        operation: str,
        element: ElementType | str,
        *,
        cache_policy: Operand | None = None,
        rank: Operand | None = None,
        barrier: Address | None = None,
    ) -> None:
        """cp.reduce.async.bulk: combine `size` bytes of shared memory with global memory, in the bulk group.

        `operation` and `element` ("b32" and "b64" for the bitwise ones) are a pair the instruction has, else
        instruction.variant. With `rank` and `barrier` they are combined with `destination` in the shared memory of the
        cluster's CTA of that rank, and complete on `barrier` there. Raises tma.bulk-size too. PTX ISA 9.7.9.
        """
        if _is_to_peer("cp.reduce.async.bulk", rank, barrier, None, cache_policy):
            row = variant("cp.reduce.async.bulk", tma_bulk.reduce_bulk, "cluster", operation, str(element))
            self._issue_to_peer(row, destination, source, size, rank, barrier)
            return
        _check_aligned(destination, source)
        hinted = cache_policy is not None
        row = variant("cp.reduce.async.bulk", tma_bulk.reduce_bulk, "global", operation, str(element), hinted)
        issue(self._k, row, destination=destination, source=source, bytes=size, cache_policy=cache_policy)

    def _issue_to_peer(
        self,
        row: Row,
        destination: Address,
        source: Address,
        size: Operand,
        rank: Operand | None,
        barrier: Address | None,
    ) -> None:
        """Copy to the same place in the CTA of rank `rank`."""
        assert rank is not None
        assert barrier is not None
        _check_aligned(destination, source)
        there = at_peer(self._cluster, destination.bytes, mbarrier_address(self._k, barrier), rank)
        issue(self._k, row, **there, source=source, bytes=size)

    def prefetch(self, source: Address, size: Operand, *, cache_policy: Operand | None = None) -> None:
        """cp.async.bulk.prefetch: bring `size` bytes of global memory to the L2 cache (tma.bulk-size)."""
        row = tma_bulk.prefetch_bulk(cache_policy is not None)
        issue(self._k, row, source=source, bytes=size, cache_policy=cache_policy)

    def clear_shared(self, address: Address | Value, size: Operand) -> None:
        """st.bulk: write zeros to `size` bytes (a multiple of 8) of shared memory, 8-byte aligned.

        `address` may be a generic one (u64) of shared memory. Raises cache.cleared, target.feature.
        PTX ISA 9.7.9 (st.bulk).
        """
        count = as_value(self._k, size, u64)
        if isinstance(count.constant, int) and not self._k.execution.is_unreached():
            known = address.align if isinstance(address, Address) else memory_operands.CLEARED_UNIT
            memory_operands.check_cleared(count.constant, known)
        issue(self._k, cache_control.clear_bulk(shared=isinstance(address, Address)), address=address, bytes=count)


def _is_to_peer(instruction: str, rank: object, barrier: object, byte_mask: object, cache_policy: object) -> bool:
    """Whether the copy goes to another CTA. Raises instruction.variant if no copy takes these operands together."""
    if (rank is None) != (barrier is None):
        missing = "barrier=, which its bytes complete on" if barrier is None else "rank=, the CTA that barrier is of"
        VARIANT.fail(instruction=instruction, reason=f"a copy to another CTA also takes {missing}")
    for name, value in (("byte_mask", byte_mask), ("cache_policy", cache_policy)):
        if rank is not None and value is not None:
            VARIANT.fail(instruction=instruction, reason=f"a copy to another CTA takes no {name}")
    return rank is not None


def _check_aligned(destination: Address, source: Address) -> None:
    """Raises tma.alignment if one of them is in shared memory and not known to be aligned."""
    for operand, address in (("destination", destination), ("source", source)):
        if address.space != GLOBAL_SPACE and address.align % BULK_ALIGNMENT:
            ALIGNMENT.fail(instruction="cp.async.bulk", operand=operand, given=address.align, wanted=BULK_ALIGNMENT)
