"""Mbarriers: arrivals, transactions and phases (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from nvbackend.builder.core.addresses import MBARRIER_BYTES, mbarrier_address
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.ops.sync.barrier import Barrier
from nvbackend.builder.ops.sync.cluster import Cluster
from nvbackend.builder.ops.sync.fence import Fence
from nvbackend.builder.ops.sync.mbarrier_handle import MbarrierHandle, MbarrierKind, made_handle
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.scopes.naming import name_or
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.guard import GUARD, guarded
from nvbackend.intrinsics.row.types import pred, s32, u32, u64
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import mbarrier, mbarrier_phases
from nvbackend.isel.select import family_rules
from nvbackend.isel.target.variants import variant

Qualifiers = tuple[str, str]
"""Semantics and scope, such as ("release", "cluster")."""


@user_facing
class Mbarrier:
    """Mbarriers: arrivals, transactions and phases (PTX ISA 9.7.13.15)."""

    called = "mbarrier"

    def __init__(self, k: Threads, barrier: Barrier, cluster: Cluster, fence: Fence) -> None:
        self._k = k
        self._barrier = barrier
        self._cluster = cluster
        self._fence = fence

    def array(self, count: int, arrivals: int, *, name: str | None = None) -> Address:
        """`count` mbarriers in shared memory, initialised by thread 0 to `arrivals` arrivals a phase.

        `barriers_ready` makes them visible; no thread may use them before.
        """
        name = name_or(name, "array", "mbarrier")
        barriers = self._k.shared(u64, count, align=MBARRIER_BYTES, name=name)
        self._init_all(barriers, count, arrivals)
        return barriers

    def _init_all(self, barriers: Address, count: int, arrivals: int) -> None:
        with self._k.if_(self._k.thread_id() == 0):
            for index in range(count):
                self.init(barriers + index, arrivals)

    def ready(self, *, aligned: bool = True) -> None:
        """Make every mbarrier initialised so far visible to the async proxy and to all threads of CTA or cluster.

        Before compute capability 9.0, which has neither, it is a barrier of the CTA. Without `aligned` the threads of a
        warp need not execute it together.
        """
        self._release_barriers()
        self._cluster.sync(relaxed=True, aligned=aligned)

    def _release_barriers(self) -> None:
        if self._k.target.has(sync.fence_mbarrier_init().requires):
            self._fence.mbarrier_init()

    @with_block
    def scope(
        self, count: int, arrivals: int, *, memory: Address | None = None, name: str | None = None
    ) -> Iterator[Address]:
        """`count` mbarriers of `arrivals` arrivals a phase for the block: ready inside, no barriers any more behind it.

        They lie at the start of `memory` (shared, at a multiple of 8 bytes), else in memory of their own. All threads
        of the CTA, and of its cluster, come to both ends. Behind the block, when no thread of the cluster uses them any
        more, they are invalidated and that is released to the cluster: the memory may hold something else.
        """
        name = name_or(name, "scope", "mbarrier")
        barriers = self._k.shared(u64, count, align=MBARRIER_BYTES, name=name) if memory is None else memory.cast(u64)
        self._init_all(barriers, count, arrivals)
        self.ready()
        yield barriers
        self._cluster.sync()
        with self._k.if_(self._k.thread_id() == 0):
            for index in range(count):
                self._k.emit(mbarrier.inval(), {"barrier": mbarrier_address(self._k, barriers + index).ir})
        self._release_barriers()
        self._barrier.sync()

    def init(self, barrier: Address, arrivals: int) -> None:
        """Set an mbarrier up for `arrivals` arrivals a phase (1 to 2^20 - 1)."""
        family_rules.check_arrival_count(arrivals)
        self._k.emit(mbarrier.init(), {"barrier": mbarrier_address(self._k, barrier).ir, "count": arrivals})

    def arrive(self, barrier: Address) -> None:
        """Count one arrival on this CTA's mbarrier (release, CTA scope)."""
        self._k.emit(mbarrier.arrive(), {"barrier": mbarrier_address(self._k, barrier).ir})

    def arrive_expect_tx(self, barrier: Address, transaction_bytes: Operand) -> None:
        """Count one arrival and announce `transaction_bytes` bytes of copies, in this phase."""
        count = as_value(self._k, transaction_bytes, s32)
        if isinstance(count.constant, int):
            family_rules.check_transaction_count(count.constant)
        self._k.emit(mbarrier.arrive_expect_tx(), {"barrier": mbarrier_address(self._k, barrier).ir, "bytes": count.ir})

    def wait(self, barrier: Address, parity: Operand) -> None:
        """Wait until the phase of this `parity` (0 for the first) has completed."""
        phase = as_value(self._k, parity, s32)
        if isinstance(phase.constant, int):
            family_rules.check_parity(phase.constant)
        self._k.emit(mbarrier.wait_parity(), {"barrier": mbarrier_address(self._k, barrier).ir, "parity": phase.ir})

    def arrive_peer(self, barrier: Address, rank: Operand, *, when: Operand) -> None:
        """Count one arrival on the same mbarrier of the cluster's CTA `rank`, in the threads where `when` holds.

        Without a cluster it is this CTA's own. The plain form: no fence of GPU scope in the SASS.
        """
        self._arrive_peer(barrier, rank, when, {})

    def _arrive_peer(self, barrier: Address, rank: Operand, when: Operand, known: dict[str, int]) -> None:
        row, address = mbarrier.arrive(), mbarrier_address(self._k, barrier)
        if self._k.cluster_size > 1:
            row, address = mbarrier.arrive_remote(), self._cluster.map_to_peer(address, rank)
        self._k.emit(guarded(row), {"barrier": address.ir, GUARD: as_value(self._k, when, pred).ir}, facts=known)

    # -- mbarrier (PTX ISA 9.7.13.15) -------------------------------------------------------------------------------

    def handle(
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
        return made_handle(self._k, self, arrive_count, kind, expected_txn, tag)

    def inval(self, barrier: Address) -> None:
        """mbarrier.inval: the 8 bytes of `barrier` are memory again. Nobody may use it after. PTX ISA 9.7.13.15.10."""
        self._k.emit(mbarrier.inval(), {"barrier": mbarrier_address(self._k, barrier).ir})

    def arrive_at(
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
        self._k.emit(row, given)

    def arrive_no_complete(
        self, barrier: Address, count: Operand, *, drop: bool = False, qualifiers: Qualifiers | None = None
    ) -> Value:
        """mbarrier.arrive.noComplete: `count` arrivals that do not complete the phase; its state (u64).

        Fewer than the phase still misses, or the behaviour is undefined. `qualifiers` are None or ("release", "cta").
        Raises mbarrier.address, mbarrier.count, instruction.variant, target.feature. PTX ISA 9.7.13.15.13.
        """
        row = variant("mbarrier.arrive.noComplete", mbarrier_phases.arrive_no_complete, qualifiers, drop=drop)
        operands = {"barrier": mbarrier_address(self._k, barrier).ir, "count": self._arrivals(count)}
        return self._k._wrap(self._k.emit(row, operands)["state"][0], u64)

    def expect_tx(
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

    def complete_tx(
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
        self._k.emit(row, {"barrier": self._barrier_of(barrier, rank), "bytes": self._transaction(count)})

    def _barrier_of(self, barrier: Address, rank: Operand | None) -> ir.Value:
        own = mbarrier_address(self._k, barrier)
        return own.ir if rank is None else self._cluster.map_to_peer(own, rank).ir

    def _arrivals(self, count: Operand) -> ir.Value:
        given = as_value(self._k, count, s32)
        if isinstance(given.constant, int):
            family_rules.check_arrival_count(given.constant)
        return given.ir

    def _transaction(self, count: Operand) -> ir.Value:
        given = as_value(self._k, count, s32)
        if isinstance(given.constant, int):
            family_rules.check_transaction_count(given.constant)
        return given.ir

    # -- mbarrier phases (PTX ISA 9.7.13.15) ------------------------------------------------------------------------

    def arrive_state(
        self,
        barrier: Address,
        *,
        count: Operand | None = None,
        expect: Operand | None = None,
        drop: bool = False,
        qualifiers: Qualifiers | None = None,
    ) -> Value:
        """mbarrier.arrive that returns the phase's state (u64): once, or `count` times, or after expecting bytes.

        `drop` leaves the barrier for all later phases; `qualifiers` are (release or relaxed, cta or cluster). Raises
        mbarrier.address, instruction.variant, target.feature.
        """
        expects = expect is not None
        row = variant(
            "mbarrier.arrive",
            mbarrier_phases.arrive_state,
            qualifiers,
            drop=drop,
            expect_tx=expects,
            counted=count is not None,
        )
        given = {"barrier": mbarrier_address(self._k, barrier).ir}
        if count is not None:
            given["count"] = as_value(self._k, count, s32).ir
        if expect is not None:
            given["bytes"] = as_value(self._k, expect, s32).ir
        return self._k._wrap(self._k.emit(row, given)["state"][0], u64)

    def test(
        self,
        barrier: Address,
        *,
        state: Value | None = None,
        parity: Operand = 0,
        sleep: Operand | None = None,
        blocking: bool = False,
        qualifiers: Qualifiers | None = None,
    ) -> Value:
        """mbarrier.test_wait, or try_wait with `blocking`: a predicate, whether the phase has completed.

        The phase is that of `state`, or else of `parity`. try_wait may sleep, for `sleep` nanoseconds where given.
        Raises mbarrier.address, mbarrier.parity, instruction.variant, target.feature.
        """
        row = variant(
            "mbarrier wait",
            mbarrier_phases.wait,
            "try_wait" if blocking else "test_wait",
            "parity" if state is None else "state",
            qualifiers,
            time_hint=sleep is not None,
        )
        given = {"barrier": mbarrier_address(self._k, barrier).ir}
        if state is not None:
            given["state"] = as_value(self._k, state, u64).ir
        else:
            phase = as_value(self._k, parity, s32)
            if isinstance(phase.constant, int):
                family_rules.check_parity(phase.constant)
            given["parity"] = phase.ir
        if sleep is not None:
            given["time_hint"] = as_value(self._k, sleep, s32).ir
        return self._k._wrap(self._k.emit(row, given)["done"][0], pred)

    def pending_count(self, state: Value) -> Value:
        """mbarrier.pending_count: the arrivals (u32) that the phase of `state` still misses."""
        row = mbarrier_phases.pending_count()
        return self._k._wrap(self._k.emit(row, {"state": as_value(self._k, state, u64).ir})["count"][0], u32)
