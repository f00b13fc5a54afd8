"""Mbarriers, barriers and fences, one instruction a call: every form; `Threads` and `Copies` have the usual ones."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.copies import Copies
from nvbackend.builder.mbarrier_handle import MbarrierHandle, MbarrierKind, made_handle
from nvbackend.builder.memory import Address
from nvbackend.builder.values import Operand, Value, as_value
from nvbackend.intrinsics import cluster, mbarrier, mbarrier_phases, sync, warp
from nvbackend.intrinsics.types import s32, u32, u64
from nvbackend.isel.families import family_rules
from nvbackend.isel.families.memory_rules import check_sleep
from nvbackend.isel.variants import variant

Qualifiers = tuple[str, str]
"""Semantics and scope, such as ("release", "cluster")."""


class Barriers(Copies):
    """Single instructions of mbarrier, bar, barrier.cluster, fence and griddepcontrol (PTX ISA 9.7.13)."""

    # -- mbarrier (PTX ISA 9.7.13.15) -------------------------------------------------------------------------------

    def mbarrier_handle(
        self,
        arrive_count: int = 1,
        *,
        kind: MbarrierKind = MbarrierKind.ORDINARY,
        expected_txn: int | None = None,
        tag: str = "mbarrier",
    ) -> MbarrierHandle:
        """An mbarrier that knows its kind, its phase and what completes one: `arrive_count` arrivals and, of kind TMA,
        `expected_txn` bytes of copies.

        Thread 0 initialises it; `barriers_ready` makes it visible. `tag` is its name in the machine form and in
        diagnostics. Raises mbarrier.kind, mbarrier.count, mbarrier.expect-tx.
        """
        return made_handle(self, arrive_count, kind, expected_txn, tag)

    def mbarrier_invalidate(self, barrier: Address) -> None:
        """mbarrier.inval: the 8 bytes of `barrier` are memory again. Nobody may use it after. PTX ISA 9.7.13.15.10."""
        self.emit(mbarrier.inval(), {"barrier": self._mbarrier(barrier).ir})

    def mbarrier_arrive_at(
        self,
        barrier: Address,
        *,
        rank: Operand | None = None,
        count: Operand | None = None,
        expect: Operand | None = None,
        drop: bool = False,
        qualifiers: Qualifiers | None = None,
    ) -> None:
        """mbarrier.arrive without a result: once, `count` times, or once after expecting `expect` bytes.

        With `rank` it is the same barrier of the cluster's CTA of that rank. `drop` leaves the barrier for all later
        phases; `qualifiers` are (release or relaxed, cta or cluster). Raises mbarrier.address, mbarrier.count,
        mbarrier.expect-tx, instruction.variant and target.feature. PTX ISA 9.7.13.15.13.
        """
        row = variant(
            "mbarrier.arrive",
            mbarrier.arrive,
            "cta" if rank is None else "cluster",
            qualifiers,
            drop=drop,
            expect_tx=expect is not None,
            counted=count is not None,
        )
        given = {"barrier": self._barrier_of(barrier, rank)}
        if count is not None:
            given["count"] = self._arrivals(count)
        if expect is not None:
            given["bytes"] = self._transaction(expect)
        self.emit(row, given)

    def mbarrier_arrive_no_complete(
        self, barrier: Address, count: Operand, *, drop: bool = False, qualifiers: Qualifiers | None = None
    ) -> Value:
        """mbarrier.arrive.noComplete: `count` arrivals that do not complete the phase; its state (u64).

        Fewer than the phase still misses, or the behaviour is undefined. `qualifiers` are None or ("release", "cta").
        Raises mbarrier.address, mbarrier.count, instruction.variant, target.feature. PTX ISA 9.7.13.15.13.
        """
        row = variant("mbarrier.arrive.noComplete", mbarrier_phases.arrive_no_complete, qualifiers, drop=drop)
        operands = {"barrier": self._mbarrier(barrier).ir, "count": self._arrivals(count)}
        return self._wrap(self.emit(row, operands)["state"][0], u64)

    def mbarrier_expect_tx(
        self,
        barrier: Address,
        transaction_bytes: Operand,
        *,
        scope: str | None = None,
        rank: Operand | None = None,
    ) -> None:
        """mbarrier.expect_tx: this phase waits for `transaction_bytes` more, without an arrival (relaxed).

        With `rank` on the barrier of that CTA of the cluster; `scope` spells "cta" or "cluster". Raises
        mbarrier.address, mbarrier.expect-tx, instruction.variant, target.feature. PTX ISA 9.7.13.15.11.
        """
        self._change_transaction("expect_tx", barrier, transaction_bytes, scope, rank)

    def mbarrier_complete_tx(
        self,
        barrier: Address,
        transaction_bytes: Operand,
        *,
        scope: str | None = None,
        rank: Operand | None = None,
    ) -> None:
        """mbarrier.complete_tx: `transaction_bytes` of this phase count as come, though no copy brought them (relaxed).

        With `rank` on the barrier of that CTA of the cluster; `scope` spells "cta" or "cluster". Raises
        mbarrier.address, mbarrier.expect-tx, instruction.variant, target.feature. PTX ISA 9.7.13.15.12.
        """
        self._change_transaction("complete_tx", barrier, transaction_bytes, scope, rank)

    def _change_transaction(
        self, operation: str, barrier: Address, count: Operand, scope: str | None, rank: Operand | None
    ) -> None:
        space = "cta" if rank is None else "cluster"
        row = variant(f"mbarrier.{operation}", mbarrier_phases.transaction, operation, space, scope)
        self.emit(row, {"barrier": self._barrier_of(barrier, rank), "bytes": self._transaction(count)})

    def _barrier_of(self, barrier: Address, rank: Operand | None) -> ir.Value:
        own = self._mbarrier(barrier)
        return own.ir if rank is None else self.map_to_peer(own, rank).ir

    def _arrivals(self, count: Operand) -> ir.Value:
        given = as_value(self, count, s32)
        if isinstance(given.constant, int):
            family_rules.check_arrival_count(given.constant)
        return given.ir

    def _transaction(self, count: Operand) -> ir.Value:
        given = as_value(self, count, s32)
        if isinstance(given.constant, int):
            family_rules.check_transaction_count(given.constant)
        return given.ir

    # -- barriers of warp and cluster (PTX ISA 9.7.13.2 and 9.7.13.3) ------------------------------------------------

    def warp_sync(self, members: Operand = warp.ALL_LANES) -> None:
        """bar.warp.sync: wait for the lanes of the mask `members`, and order their accesses. PTX ISA 9.7.13.2."""
        self.emit(sync.warp_sync(), {"mask": as_value(self, members, u32).ir})

    def cluster_arrive(self, semantics: str | None = None, *, aligned: bool = True) -> None:
        """barrier.cluster.arrive: this thread has arrived; "release" is the default, "relaxed" orders no access.

        Raises instruction.variant, target.feature. PTX ISA 9.7.13.3.
        """
        self.emit(variant("barrier.cluster.arrive", cluster.barrier_arrive, semantics, aligned=aligned), {})

    def cluster_wait(self, semantics: str | None = None, *, aligned: bool = True) -> None:
        """barrier.cluster.wait: wait for every thread of the cluster and acquire; `semantics` may spell "acquire".

        Raises instruction.variant, target.feature. PTX ISA 9.7.13.3.
        """
        self.emit(variant("barrier.cluster.wait", cluster.barrier_wait, semantics, aligned=aligned), {})

    def cluster_rank_of(self, address: Value) -> Value:
        """getctarank: the rank (u32) of the CTA whose shared memory the shared::cluster `address` (u32) is in.

        PTX ISA 9.7.9 (getctarank).
        """
        row = cluster.getctarank()
        return self._wrap(self.emit(row, {"address": as_value(self, address, u32).ir})["rank"][0], u32)

    # -- fences and grids (PTX ISA 9.7.13) --------------------------------------------------------------------------

    def fence_shared(self, semantics: str, *, proxy: bool = False) -> None:
        """fence.acquire or release restricted to shared memory, at cluster scope; with `proxy` toward the async proxy.

        "acquire" is on shared::cluster, "release" on shared::cta. Raises instruction.variant, target.feature,
        target.row-ptx-version. PTX ISA 9.7.13.4.
        """
        self.emit(variant("fence", sync.fence_shared, semantics, proxy=proxy), {})

    def fence_proxy_alias(self) -> None:
        """fence.proxy.alias: order accesses to one place through different virtual addresses. PTX ISA 9.7.13.4."""
        self.emit(sync.fence_proxy_alias(), {})

    def membar(self, level: str) -> None:
        """membar: the older spelling of fence.sc, at "cta", "gl" (the GPU) or "sys" (instruction.variant)."""
        self.emit(variant("membar", sync.membar, level), {})

    def griddepcontrol(self, action: str) -> None:
        """griddepcontrol: "wait" for the grids before this one, or "launch_dependents" of it.

        Raises instruction.variant, target.feature. PTX ISA 9.7.13.13.
        """
        self.emit(variant("griddepcontrol", sync.griddepcontrol, action), {})

    def nanosleep(self, nanoseconds: Operand) -> None:
        """nanosleep: suspend the thread for 0 to twice `nanoseconds`, which is at most 1,000,000 (nanosleep.range)."""
        given = as_value(self, nanoseconds, s32)
        if isinstance(given.constant, int):
            check_sleep(given.constant)
        self.emit(sync.nanosleep(), {"nanoseconds": given.ir})
