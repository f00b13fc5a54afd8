"""Copies by each thread from global to shared memory."""

from __future__ import annotations

from nvbackend.builder.core.instructions import issue
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.values.values import Operand
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import cp_async
from nvbackend.intrinsics.sync import mbarrier_phases
from nvbackend.isel.target.target import variant


@user_facing
class CpAsync(Noun):
    """Copies by each thread from global to shared memory (PTX ISA 9.7.9, cp.async)."""

    __noun__ = "cp_async"
    __usual__ = "copy"

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
        cache_policy: Operand | None = None,
    ) -> None:
        """cp.async: copy `size` bytes (4, 8, 16; with cg only 16) from global to shared memory, in each thread.

        Only `read_bytes` are read, and the rest is filled with zeros; where the predicate `ignore` holds, all of it is.
        `prefetch` 64, 128 or 256 bytes to L2 as well. Raises instruction.variant, target.feature,
        async-copy.read-bytes, cache.policy, and memory.misaligned if an address is certainly not a multiple of
        `size`. PTX ISA 9.7.9 (cp.async).
        """
        fill = "ignore" if ignore is not None else None if read_bytes is None else "bytes"
        row = variant(
            "cp.async", cp_async.copy, cache, size, fill, prefetch=prefetch, cache_hint=cache_policy is not None
        )
        operands = {"destination": destination, "source": source, "bytes": read_bytes}
        issue(self._k, row, **operands, ignore=ignore, cache_policy=cache_policy)

    def commit_group(self) -> None:
        """cp.async.commit_group: close this thread's group of copies."""
        issue(self._k, cp_async.commit_group())

    def wait_group(self, pending: int | None = None) -> None:
        """cp.async.wait_group: wait until at most `pending` groups are in flight; without a number, for every copy.

        Raises async-copy.pending for a number that the wait cannot count.
        """
        issue(self._k, cp_async.wait_all() if pending is None else cp_async.wait_group(), pending=pending)

    def mbarrier_arrive(self, barrier: Address, *, no_increment: bool = False) -> None:
        """cp.async.mbarrier.arrive: arrive on `barrier` once this thread's copies so far have completed.

        With `no_increment` it is one of the arrivals that the barrier expects; else it adds one. Raises
        mbarrier.address.
        """
        issue(self._k, mbarrier_phases.copy_arrive(no_increment=no_increment), barrier=barrier)
