"""Copies by each thread from global to shared memory."""

from __future__ import annotations

from nvbackend.builder.core.addresses import mbarrier_address
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import cp_async
from nvbackend.intrinsics.row.types import pred, s32, u64
from nvbackend.intrinsics.sync import mbarrier_phases
from nvbackend.isel.select.memory_rules import check_copy_policy, check_read_bytes
from nvbackend.isel.target.variants import variant


@user_facing
class CpAsync(Noun):
    """Copies by each thread from global to shared memory (PTX ISA 9.7.9, cp.async)."""

    __noun__ = "cp_async"

    def __init__(self, k: Core) -> None:
        self._k = k

    # -- cp.async (PTX ISA 9.7.9) -----------------------------------------------------------------------------------

    def copy(
        self,
        destination: Address,
        source: Address,
        size: int,
        *,
        cache: str = "ca",
        read_bytes: Operand | None = None,
        ignore: Operand | None = None,
        prefetch: int | None = None,
        cache_policy: Value | None = None,
    ) -> None:
        """cp.async: `size` bytes (4, 8, 16; cg: 16) from global to shared memory, each thread its own.

        `read_bytes` are read and the rest filled with zeros, or all where the predicate `ignore` holds; `prefetch` 64,
        128 or 256 bytes go to L2 as well. Raises instruction.variant, target.feature, async-copy.read-bytes,
        async-copy.policy, and memory.misaligned where an address is certainly no multiple of `size`.
        PTX ISA 9.7.9 (cp.async).
        """
        fill = "ignore" if ignore is not None else None if read_bytes is None else "bytes"
        row = variant(
            "cp.async", cp_async.copy, cache, size, fill, prefetch=prefetch, cache_hint=cache_policy is not None
        )
        for address in (destination, source):
            own(self._k, address).check_aligned(size, row.ptx)
        given = {"destination": destination.bytes.ir, "source": source.bytes.ir}
        if read_bytes is not None:
            count = as_value(self._k, read_bytes, s32)
            if isinstance(count.constant, int):
                check_read_bytes(count.constant, size)
            given["bytes"] = count.ir
        if ignore is not None:
            given["ignore"] = as_value(self._k, ignore, pred).ir
        if cache_policy is not None:
            policy = as_value(self._k, cache_policy, u64)
            if isinstance(policy.constant, int):
                check_copy_policy(policy.constant)
            given["cache_policy"] = policy.ir
        self._k.emit(row, given)

    def commit_group(self) -> None:
        """cp.async.commit_group: close this thread's group of copies."""
        self._k.emit(cp_async.commit_group(), {})

    def wait_group(self, pending: int | None = None) -> None:
        """cp.async.wait_group: wait until at most `pending` groups are left; without a number, for every copy.

        Raises async-copy.pending for a number that the wait cannot count.
        """
        if pending is None:
            self._k.emit(cp_async.wait_all(), {})
        else:
            self._k.emit(cp_async.wait_group(), {"pending": pending})

    def mbarrier_arrive(self, barrier: Address, *, no_increment: bool = False) -> None:
        """cp.async.mbarrier.arrive: arrive on `barrier` once this thread's copies so far have completed.

        With `no_increment` it is one of the arrivals that the barrier expects; else it adds one. Raises
        mbarrier.address.
        """
        self._k.emit(
            mbarrier_phases.copy_arrive(no_increment=no_increment), {"barrier": mbarrier_address(self._k, barrier).ir}
        )
