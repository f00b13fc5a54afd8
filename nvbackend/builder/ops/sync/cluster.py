"""The CTAs of a cluster: ranks, barriers, shared memory of peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.core.memory import Address, Memory, own
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.threads import Threads, known_axis
from nvbackend.builder.ops.sync.barrier import Barrier
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value, as_value, constant
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import s32, u32
from nvbackend.intrinsics.sync import cluster
from nvbackend.isel.protocols.cluster import rules as cluster_rules
from nvbackend.isel.target.target import variant


@user_facing
class Cluster(Noun):
    """The CTAs of a cluster: ranks, barriers, shared memory of peers (PTX ISA 9.7.13.3)."""

    __noun__ = "cluster"
    __usual__ = "sync"
    __number__ = "k.cluster_size"

    def __init__(
        self, k: Core, memory: Memory, threads: Threads, barrier: Barrier, reduction: Callable[..., Any]
    ) -> None:
        super().__init__(k)
        self._reduction = reduction
        self._memory = memory
        self._threads = threads
        self._barrier = barrier

    def arrive(self, semantics: str | None = None, *, aligned: bool = True) -> None:
        """barrier.cluster.arrive: arrive and go on; "release" is the default, "relaxed" orders nothing.

        Raises instruction.variant, target.feature. PTX ISA 9.7.13.3.
        """
        issue(self._k, variant("barrier.cluster.arrive", cluster.barrier_arrive, semantics, aligned=aligned))

    def wait(self, semantics: str | None = None, *, aligned: bool = True) -> None:
        """barrier.cluster.wait: wait for every thread of the cluster, and acquire; `semantics` may spell "acquire".

        Raises instruction.variant, target.feature. PTX ISA 9.7.13.3.
        """
        issue(self._k, variant("barrier.cluster.wait", cluster.barrier_wait, semantics, aligned=aligned))

    def rank_of(self, address: Value) -> Value:
        """getctarank: the rank (u32) of the CTA that owns the shared::cluster `address` (u32).

        PTX ISA 9.7.9 (getctarank).
        """
        return result(self._k, cluster.getctarank(), address=as_value(self._k, address, u32).ir)

    def rank(self, axis: str | None = None) -> Value:
        """The CTA's rank in its cluster, or its index there along an `axis`; 0 where the kernel has no cluster.

        Ranks go along x first, then y, then z. Raises instruction.variant for an axis other than x, y and z.
        """
        register = "cluster_ctarank" if axis is None else f"cluster_ctaid.{known_axis('cluster_ctaid', axis)}"
        if self._k.cluster_size == 1:
            return constant(self._k, 0, s32)
        return self._threads.special_register(register)

    def id(self, axis: str = "x") -> Value:
        """The index of the CTA's cluster in the grid along `axis`; the CTA's own index where there is no cluster."""
        if self._k.cluster_size == 1:
            return self._threads.block_id(axis)
        return self._threads.special_register(f"clusterid.{known_axis('clusterid', axis)}")

    def count(self, axis: str = "x") -> Value:
        """How many clusters the grid has along `axis`."""
        if self._k.cluster_size == 1:
            return self._threads.block_count(axis)
        return self._threads.special_register(f"nclusterid.{known_axis('nclusterid', axis)}")

    def sync(self, *, relaxed: bool = False, scope: str = "cluster", aligned: bool = True) -> None:
        """Wait for all threads of the cluster, or of the CTA where the kernel has no cluster or `scope` is "cta".

        The arrival releases this thread's writes to the cluster, which costs a fence of GPU scope. With `relaxed` it
        orders nothing: use that after a fence, or where no data is handed over. Without `aligned` the threads of a warp
        need not execute it together. Raises cluster.scope.
        """
        if scope not in ("cta", "cluster"):
            cluster_rules.SCOPE.fail(given=scope)
        if self._k.cluster_size == 1 or scope == "cta":
            self._barrier.sync(aligned=aligned)
        else:
            issue(self._k, cluster.barrier_arrive("relaxed" if relaxed else None, aligned=aligned))
            issue(self._k, cluster.barrier_wait(aligned=aligned))

    def reduce(self, operation: str | Callable[[Any, Any], Any], value: Any, *, nan: bool = False) -> Any:
        """`value` of all threads of the cluster combined, in each of them; of the CTA where the kernel has no cluster.

        As `k.cta.reduce`, which reduces each CTA's part; then the CTAs read the parts of all through distributed shared
        memory, in the order of their ranks, between two `sync`. Raises what `k.cta.reduce` raises.
        """
        return self._reduction(self, operation, value, nan=nan)

    def peer_rank(self) -> Value:
        """The rank of the other CTA of this CTA's pair: its own rank with the last bit flipped.

        Raises cluster.no-peer where the cluster's size is odd.
        """
        size = self._k.cluster_size
        if size % 2:
            instead = "2" if size == 1 else f"{size + 1}; or name the next CTA: (k.cluster.rank() + 1) % {size}"
            cluster_rules.NO_PEER.fail(call="k.cluster.peer_rank()", cluster=size, instead=instead)
        return self.rank() ^ 1

    def map_to_peer(self, address: Value, rank: Operand) -> Value:
        """The shared::cluster address (u32) of this CTA's shared address in the CTA of rank `rank`.

        Raises cluster.rank for a number that is not a rank, cluster.no-peer without a cluster.
        """
        if known_rank(self._k, rank) is None and self._k.cluster_size == 1:
            cluster_rules.NO_PEER.fail(call="k.cluster.map_to_peer(...)", cluster=1, instead=2)
        number = as_value(self._k, rank, s32).ir
        (mapped,) = issue(self._k, cluster.mapa(), address=address.ir, rank=number)["mapped"]
        if (place := self._k.places.of_address(address.ir)) is not None:
            self._k.places.addresses[mapped] = place
        execution = self._k.execution
        is_own = execution.in_each_cta(number) == tuple(range(self._k.cluster_size))
        self._k.peers.map(mapped, execution.first_peers(number), number, is_own=is_own)
        return self._k.wrap(mapped, u32)

    def map_shared_rank(self, address: Address, rank: Operand) -> Address:
        """The address in the CTA of rank `rank` that corresponds to this CTA's shared `address`.

        Loads, stores and atomics take it. Access it between two `k.cluster.sync`, so that every CTA has started and
        none has ended (cluster.access-before-start, cluster.exit-before-access). Raises cluster.rank, cluster.no-peer,
        and cluster.not-shared for an address of global memory.
        """
        here = own(self._k, address)
        if here.space == GLOBAL_SPACE:
            cluster_rules.NOT_SHARED.fail(call="k.cluster.map_shared_rank(...)", given=repr(address))
        return self._memory.from_number(self.map_to_peer(here.bytes, rank).ir, address.element, address.align)


def at_peer(cluster: Cluster, destination: Value, barrier: Value, rank: Operand) -> dict[str, ir.Value]:
    """The operands of what goes to the CTA of that rank: where it goes, and the barrier there that it completes on."""
    return {
        "destination": cluster.map_to_peer(destination, rank).ir,
        "barrier": cluster.map_to_peer(barrier, rank).ir,
    }


def known_rank(k: Core, rank: Operand) -> int | None:
    """The rank, where it is a constant. Raises cluster.rank where the cluster has no such CTA."""
    number = rank if isinstance(rank, int) else getattr(rank, "constant", None)
    if isinstance(number, int) and not 0 <= number < k.cluster_size:
        legal = "0" if k.cluster_size == 1 else f"0 to {k.cluster_size - 1}"
        if k.cluster_size == 1 and number > 0:
            legal += f", or declare the cluster where the kernel is made: cluster={number + 1}"
        cluster_rules.RANK.fail(rank=number, cluster=k.cluster_size, legal=legal)
    return number if isinstance(number, int) else None
