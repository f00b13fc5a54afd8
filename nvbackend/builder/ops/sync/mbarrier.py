"""Mbarriers: arrivals, transactions and phases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, overload

from llvmlite import ir

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import MBARRIER_BYTES, issue, mbarrier_address, result
from nvbackend.builder.core.memory import Address, Memory
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.threads import LINEAR, Threads
from nvbackend.builder.ops.sync.barrier import Barrier
from nvbackend.builder.ops.sync.cluster import Cluster, known_rank
from nvbackend.builder.ops.sync.fence import Fence
from nvbackend.builder.ops.sync.mbarrier_handle import MbarrierHandle, MbarrierKind, made_handle
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.scopes.names import name_or
from nvbackend.builder.values.values import Operand, Value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.row import Row, guarded
from nvbackend.intrinsics.row.types import u64
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.select.rows import check_row
from nvbackend.isel.target.target import VARIANT, variant

Qualifiers = tuple[str, str]
"""Semantics and scope, such as ("release", "cluster")."""


@user_facing
class Mbarrier(Noun):
    """Mbarriers: arrivals, transactions and phases (PTX ISA 9.7.13.15)."""

    __noun__ = "mbarrier"
    __usual__ = "wait"

    def __init__(
        self,
        k: Core,
        control: Control,
        memory: Memory,
        threads: Threads,
        barrier: Barrier,
        cluster: Cluster,
        fence: Fence,
    ) -> None:
        super().__init__(k)
        self._control = control
        self._memory = memory
        self._threads = threads
        self._barrier = barrier
        self._cluster = cluster
        self._fence = fence

    def array(self, count: int, arrivals: int, *, name: str | None = None) -> Address:
        """`count` mbarriers in shared memory, initialised by thread 0 to `arrivals` arrivals a phase.

        `k.mbarrier.ready` makes them visible; no thread may use them before.
        """
        name = name_or(name, "array", "mbarrier")
        return self._init_all(self._memory.shared(u64, count, align=MBARRIER_BYTES, name=name), count, arrivals)

    def _init_all(self, barriers: Address, count: int, arrivals: int) -> Address:
        check_row(mbarrier.init(), self._k.target, {})  # before the block: a refused call leaves nothing
        with self._control.if_(self._threads.thread_id(LINEAR) == 0):
            for index in range(count):
                self.init(barriers + index, arrivals)
        return barriers

    def ready(self, *, aligned: bool = True) -> None:
        """Make every mbarrier initialised so far visible to the async proxy and to all threads of CTA or cluster.

        In a cluster it publishes the mbarriers alone: other data that peers write or read needs k.cluster.sync().
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
        """`count` mbarriers of `arrivals` arrivals a phase for the block: ready inside, plain memory after it.

        They use the start of `memory` (shared, 8-byte aligned), or memory of their own. All threads of the CTA, and of
        its cluster, enter and leave the block together. At its end, when no thread of the cluster uses them any more,
        they are invalidated, and their memory may hold something else.
        """
        name = name_or(name, "scope", "mbarrier")
        barriers = (
            self._memory.shared(u64, count, align=MBARRIER_BYTES, name=name) if memory is None else memory.cast(u64)
        )
        self._init_all(barriers, count, arrivals)
        self.ready()
        yield barriers
        self._cluster.sync()
        with self._control.if_(self._threads.thread_id(LINEAR) == 0):
            for index in range(count):
                self.inval(barriers + index)
        self._release_barriers()
        self._barrier.sync()

    def init(self, barrier: Address, arrivals: int) -> None:
        """Initialise an mbarrier for `arrivals` arrivals a phase (1 to 2^20 - 1)."""
        issue(self._k, mbarrier.init(), barrier=barrier, count=arrivals)

    def wait(self, barrier: Address, parity: Operand) -> None:
        """Wait until the phase of this `parity` (0 for the first) has completed."""
        issue(self._k, mbarrier.wait_parity(), parity=parity, barrier=barrier)

    def handle(
        self,
        arrive_count: int = 1,
        *,
        kind: MbarrierKind = MbarrierKind.ORDINARY,
        expected_txn: int | None = None,
        tag: str = "mbarrier",
    ) -> MbarrierHandle:
        """An mbarrier that keeps its kind and its phase.

        `arrive_count` arrivals complete a phase, and for kind TMA the `expected_txn` bytes of its copies. Thread 0
        initialises it; `k.mbarrier.ready` makes it visible. `tag` is its name in the machine form and in diagnostics.
        Raises mbarrier.kind, mbarrier.count, mbarrier.expect-tx.
        """
        return made_handle(self._k, self, arrive_count, kind, expected_txn, tag)

    def inval(self, barrier: Address) -> None:
        """mbarrier.inval: the 8 bytes of `barrier` are ordinary memory from here on. PTX ISA 9.7.13.15.10."""
        issue(self._k, mbarrier.inval(), barrier=barrier)

    @overload
    def arrive(
        self,
        barrier: Address,
        *,
        rank: Operand | None = None,
        when: Operand | None = None,
        count: Operand | None = None,
        expect_tx: Operand | None = None,
        drop: bool = False,
        qualifiers: Qualifiers | None = None,
        state: Literal[False] = False,
        no_complete: Literal[False] = False,
    ) -> None: ...

    @overload
    def arrive(
        self,
        barrier: Address,
        *,
        count: Operand | None = None,
        expect_tx: Operand | None = None,
        drop: bool = False,
        qualifiers: Qualifiers | None = None,
        state: Literal[True],
    ) -> Value: ...

    @overload
    def arrive(
        self,
        barrier: Address,
        *,
        count: Operand,
        drop: bool = False,
        qualifiers: Qualifiers | None = None,
        state: bool = False,
        no_complete: Literal[True],
    ) -> Value: ...

    def arrive(
        self,
        barrier: Address,
        *,
        rank: Operand | None = None,
        when: Operand | None = None,
        count: Operand | None = None,
        expect_tx: Operand | None = None,
        drop: bool = False,
        qualifiers: Qualifiers | None = None,
        state: bool = False,
        no_complete: bool = False,
    ) -> Value | None:
        """mbarrier.arrive: count one arrival, or `count`, or one after announcing `expect_tx` bytes of copies.

        With `rank`, it arrives at the same barrier in the cluster's CTA of that rank (without a cluster, at this CTA's
        own). With `when`, only threads where that holds arrive. `drop` leaves the barrier for all later phases.
        `qualifiers` are (release or relaxed, cta or cluster); the plain form needs no fence of GPU scope. With `state`
        it returns the phase's state (u64). So it does with `no_complete`: `count` must not complete the phase, or the
        behaviour is undefined. Raises mbarrier.address, mbarrier.count, mbarrier.expect-tx, cluster.rank,
        instruction.variant and target.feature. PTX ISA 9.7.13.15.13.
        """
        expects, counted = expect_tx is not None, count is not None
        amount = {"count": count, "bytes": expect_tx}
        if state or no_complete:
            self._check_returned(rank, when, count, expect_tx, no_complete)
            row = _returning(qualifiers, drop, expects, counted, no_complete)
            return result(self._k, row, **amount, barrier=barrier)
        made, where = mbarrier.arrive, self._space_of(rank)
        row = variant("mbarrier.arrive", made, where, qualifiers, drop=drop, expect_tx=expects, counted=counted)
        place = self._barrier_of(barrier, rank)
        issue(self._k, row if when is None else guarded(row), **amount, barrier=place, guard=when)
        return None

    def _check_returned(
        self,
        rank: Operand | None,
        when: Operand | None,
        count: Operand | None,
        expect_tx: Operand | None,
        no_complete: bool,
    ) -> None:
        """Raises instruction.variant where an arrival that returns the state cannot have these operands."""
        instruction = "mbarrier.arrive.noComplete" if no_complete else "mbarrier.arrive"
        if rank is not None:
            VARIANT.fail(instruction=instruction, reason="an arrival at another CTA's barrier (rank=) returns no state")
        if when is not None:
            reason = "an arrival of some threads (when=) returns no state; with k.if_(...) it may"
            VARIANT.fail(instruction=instruction, reason=reason)
        if no_complete and (count is None or expect_tx is not None):
            VARIANT.fail(instruction=instruction, reason="it takes count=, and no expect_tx=")

    def expect_tx(
        self,
        barrier: Address,
        transaction_bytes: Operand,
        *,
        scope: str | None = None,
        rank: Operand | None = None,
    ) -> None:
        """mbarrier.expect_tx: this phase waits for `transaction_bytes` more; it counts no arrival (relaxed).

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
        """mbarrier.complete_tx: count `transaction_bytes` of this phase as arrived, without a copy (relaxed).

        With `rank` on the barrier of that CTA of the cluster; `scope` spells "cta" or "cluster". Raises
        mbarrier.address, mbarrier.expect-tx, instruction.variant, target.feature. PTX ISA 9.7.13.15.12.
        """
        self._change_transaction("complete_tx", barrier, transaction_bytes, scope, rank)

    def _change_transaction(
        self, operation: str, barrier: Address, count: Operand, scope: str | None, rank: Operand | None
    ) -> None:
        from nvbackend.intrinsics.sync import mbarrier_phases

        row = variant(f"mbarrier.{operation}", mbarrier_phases.transaction, operation, self._space_of(rank), scope)
        issue(self._k, row, barrier=self._barrier_of(barrier, rank), bytes=count)

    def _space_of(self, rank: Operand | None) -> str:
        """Where the barrier of the CTA of that rank is: without a cluster it is this CTA's own."""
        return "cta" if rank is None or self._k.cluster_size == 1 else "cluster"

    def _barrier_of(self, barrier: Address, rank: Operand | None) -> ir.Value:
        own = mbarrier_address(self._k, barrier)
        if rank is None:
            return own.ir
        if self._k.cluster_size == 1:
            known_rank(self._k, rank)
            return own.ir
        return self._cluster.map_to_peer(own, rank).ir

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
        """mbarrier.test_wait, or try_wait with `blocking`: whether the phase has completed, as a predicate.

        The phase is that of `state`, or else of `parity`. try_wait may sleep, for `sleep` nanoseconds where given.
        Raises mbarrier.address, mbarrier.parity, instruction.variant, target.feature.
        """
        if sleep is not None and not blocking:
            VARIANT.fail(instruction="mbarrier.test_wait", reason="it does not sleep: with sleep=, give blocking=True")
        from nvbackend.intrinsics.sync import mbarrier_phases

        row = variant(
            "mbarrier wait",
            mbarrier_phases.wait,
            "try_wait" if blocking else "test_wait",
            "parity" if state is None else "state",
            qualifiers,
            time_hint=sleep is not None,
        )
        phase = parity if state is None else None
        return result(self._k, row, barrier=barrier, parity=phase, state=state, time_hint=sleep)

    def pending_count(self, state: Value) -> Value:
        """mbarrier.pending_count: how many arrivals (u32) the phase of `state` still needs."""
        from nvbackend.intrinsics.sync import mbarrier_phases

        return result(self._k, mbarrier_phases.pending_count(), state=state)


def _returning(qualifiers: Qualifiers | None, drop: bool, expects: bool, counted: bool, no_complete: bool) -> Row:
    """The row of an arrival that returns the phase's state."""
    from nvbackend.intrinsics.sync import mbarrier_phases

    if no_complete:
        return variant("mbarrier.arrive.noComplete", mbarrier_phases.arrive_no_complete, qualifiers, drop=drop)
    made = mbarrier_phases.arrive_state
    return variant("mbarrier.arrive", made, qualifiers, drop=drop, expect_tx=expects, counted=counted)
