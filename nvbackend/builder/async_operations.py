"""Per-thread asynchronous copies, stores to a cluster, mbarrier phases, reducing barriers, caches, launch control."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.copies import Copies
from nvbackend.builder.memory import Address
from nvbackend.builder.scaling import GLOBAL_SPACE
from nvbackend.builder.values import Operand, Value, as_value
from nvbackend.intrinsics import async_store, cache_control, cp_async, launch_control, mbarrier_phases, sync
from nvbackend.intrinsics.types import f32, pred, s32, u32, u64
from nvbackend.isel.families import family_rules
from nvbackend.isel.families.memory_rules import check_copy_policy, check_read_bytes
from nvbackend.isel.variants import variant

Qualifiers = tuple[str, str]
"""Semantics and scope, such as ("acquire", "cluster")."""


class AsyncOperations(Copies):
    """Single instructions of cp.async, st.async, red.async, mbarrier, bar.red, caches and clusterlaunchcontrol."""

    # -- cp.async (PTX ISA 9.7.9) -----------------------------------------------------------------------------------

    def cp_async(
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
            self._own(address).check_aligned(size, row.ptx)
        given = {"destination": destination.bytes.ir, "source": source.bytes.ir}
        if read_bytes is not None:
            count = as_value(self, read_bytes, s32)
            if isinstance(count.constant, int):
                check_read_bytes(count.constant, size)
            given["bytes"] = count.ir
        if ignore is not None:
            given["ignore"] = as_value(self, ignore, pred).ir
        if cache_policy is not None:
            policy = as_value(self, cache_policy, u64)
            if isinstance(policy.constant, int):
                check_copy_policy(policy.constant)
            given["cache_policy"] = policy.ir
        self.emit(row, given)

    def cp_async_commit(self) -> None:
        """cp.async.commit_group: close this thread's group of copies."""
        self.emit(cp_async.commit_group(), {})

    def cp_async_wait(self, pending: int | None = None) -> None:
        """cp.async.wait_group: wait until at most `pending` groups are left; without a number, for every copy.

        Raises async-copy.pending for a number that the wait can not count.
        """
        if pending is None:
            self.emit(cp_async.wait_all(), {})
        else:
            self.emit(cp_async.wait_group(), {"pending": pending})

    def cp_async_arrive(self, barrier: Address, *, no_increment: bool = False) -> None:
        """cp.async.mbarrier.arrive: arrive on `barrier` once this thread's copies so far have completed.

        With `no_increment` it is one of the arrivals that the barrier expects; else it adds one. Raises
        mbarrier.address.
        """
        self.emit(mbarrier_phases.copy_arrive(no_increment=no_increment), {"barrier": self._mbarrier(barrier).ir})

    # -- mbarrier phases (PTX ISA 9.7.13.15) ------------------------------------------------------------------------

    def mbarrier_arrive_state(
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
        given = {"barrier": self._mbarrier(barrier).ir}
        if count is not None:
            given["count"] = as_value(self, count, s32).ir
        if expect is not None:
            given["bytes"] = as_value(self, expect, s32).ir
        return self._wrap(self.emit(row, given)["state"][0], u64)

    def mbarrier_test(
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
        given = {"barrier": self._mbarrier(barrier).ir}
        if state is not None:
            given["state"] = as_value(self, state, u64).ir
        else:
            phase = as_value(self, parity, s32)
            if isinstance(phase.constant, int):
                family_rules.check_parity(phase.constant)
            given["parity"] = phase.ir
        if sleep is not None:
            given["time_hint"] = as_value(self, sleep, s32).ir
        return self._wrap(self.emit(row, given)["done"][0], pred)

    def mbarrier_pending(self, state: Value) -> Value:
        """mbarrier.pending_count: the arrivals (u32) that the phase of `state` still misses."""
        row = mbarrier_phases.pending_count()
        return self._wrap(self.emit(row, {"state": as_value(self, state, u64).ir})["count"][0], u32)

    # -- stores into a cluster (PTX ISA 9.7.9, 9.7.13) --------------------------------------------------------------

    def store_async(
        self,
        destination: Address,
        values: list[Value],
        barrier: Address,
        rank: Operand,
        *,
        element: str | None = None,
    ) -> None:
        """st.async: 1, 2 or 4 values of one type (at most 16 bytes) to `destination` in the CTA of rank `rank`.

        Their bytes complete on `barrier` of that CTA. Both addresses are this CTA's own. `element` names another PTX
        type of the same width, such as "b32". Raises mbarrier.address, instruction.variant, target.feature. PTX ISA
        9.7.9 (st.async).
        """
        element = element or (str(values[0].type) if values else "nothing")
        row = variant("st.async", async_store.store, element, len(values))
        self.emit(row, {**self._peer(destination, barrier, rank), "values": [value.ir for value in values]})

    def reduce_async(self, destination: Address, operation: str, value: Value, barrier: Address, rank: Operand) -> None:
        """red.async: combine `value` with `destination` in the CTA of rank `rank`; completes on its `barrier`."""
        bitwise = async_store.REDUCED.get(operation) == ("b32",) and value.type in (s32, u32)
        row = variant("red.async", async_store.reduce, operation, "b32" if bitwise else str(value.type))
        self.emit(row, {**self._peer(destination, barrier, rank), "value": value.ir})

    def _peer(self, destination: Address, barrier: Address, rank: Operand) -> dict[str, ir.Value]:
        return {
            "destination": self.map_to_peer(destination.bytes, rank).ir,
            "barrier": self.map_to_peer(self._mbarrier(barrier), rank).ir,
        }

    # -- barriers and fences (PTX ISA 9.7.13) -----------------------------------------------------------------------

    def barrier_reduce(
        self,
        operation: str,
        predicate: Operand,
        identifier: int = 0,
        *,
        threads: int | None = None,
        aligned: bool = True,
    ) -> Value:
        """bar.red: wait for the CTA, or for `threads` of it, as `barrier` does, and combine their predicates.

        The number of threads where `predicate` holds (popc, a u32), or whether it holds in all (and) or any (or).
        Raises barrier.id, barrier.threads, barrier.waits, barrier.crowd, instruction.variant. PTX ISA 9.7.13.1.
        """
        row = variant("bar.red", sync.barrier_reduce, operation, counted=threads is not None, aligned=aligned)
        given = {**self._barrier_operands(identifier, threads), "predicate": as_value(self, predicate, pred).ir}
        return self._wrap(self.emit(row, given)["result"][0], u32 if operation == "popc" else pred)

    def fence(self, semantics: str = "acq_rel", scope: str = "gpu") -> None:
        """fence: order this thread's memory accesses; acq_rel, sc, acquire or release, at cta, cluster, gpu or sys."""
        self.emit(variant("fence", sync.fence, semantics, scope), {})

    # -- caches (PTX ISA 9.7.9) -------------------------------------------------------------------------------------

    def prefetch(self, address: Address, level: str = "L2") -> None:
        """prefetch: bring the line at `address`, in global memory, to L1, L2, L2::evict_last or L2::evict_normal."""
        row = variant("prefetch", cache_control.prefetch, level, "global" if address.space == GLOBAL_SPACE else None)
        self.emit(row, {"address": address.bytes.ir})

    def cache_policy(self, primary: str, secondary: str | None = None, *, fraction: Operand | None = None) -> Value:
        """createpolicy.fractional: a policy (u64) for cache hints: `primary` for a `fraction` of the accesses.

        Priorities are L2::evict_last, L2::evict_normal, L2::evict_first, L2::evict_unchanged; the rest of the accesses
        get `secondary`, L2::evict_unchanged or L2::evict_first.
        """
        row = variant(
            "createpolicy", cache_control.policy_fractional, primary, secondary, fraction=fraction is not None
        )
        given = {} if fraction is None else {"fraction": as_value(self, fraction, f32).ir}
        return self._wrap(self.emit(row, given)["policy"][0], u64)

    # -- clusterlaunchcontrol (PTX ISA 9.7.13) ----------------------------------------------------------------------

    def try_cancel(self, answer: Address, barrier: Address, *, multicast: bool = False) -> None:
        """clusterlaunchcontrol.try_cancel: ask for the work of a cluster that has not started.

        The 16 bytes of `answer` complete on `barrier`; with `multicast`, in every CTA of the cluster. Raises
        mbarrier.address, target.feature.
        """
        row = launch_control.try_cancel(multicast=multicast)
        self.emit(row, {"destination": answer.bytes.ir, "barrier": self._mbarrier(barrier).ir})

    def canceled_cluster(self, answer: Address) -> tuple[Value, list[Value]]:
        """The answer of `try_cancel`: whether there is a cluster to do, and ctaid x, y, z of its first CTA (u32).

        The coordinates mean nothing where there is none.
        """
        halves = [half.ir for half in answer.cast(u64).load(2)]
        got = self.emit(launch_control.is_canceled(), {"answer": halves})["canceled"][0]
        first = self.emit(launch_control.first_ctaid(), {"answer": halves})["ctaid"]
        return self._wrap(got, pred), [self._wrap(one, u32) for one in first[: len(launch_control.AXES)]]

    def canceled_coordinate(self, answer: Address, axis: str) -> Value:
        """The answer of `try_cancel`: ctaid of the cluster's first CTA along `axis` (u32); only where there is one.

        Raises instruction.variant, target.feature. PTX ISA 9.7.13 (clusterlaunchcontrol.query_cancel).
        """
        halves = [half.ir for half in answer.cast(u64).load(2)]
        row = variant("clusterlaunchcontrol.query_cancel", launch_control.first_ctaid_on, axis)
        return self._wrap(self.emit(row, {"answer": halves})["ctaid"][0], u32)
