"""Who a thread is, and how threads wait for one another: special registers, barriers, clusters, fences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from llvmlite import ir

from nvbackend.builder import rules
from nvbackend.builder.blocks import with_block
from nvbackend.builder.memory import Address, Memory
from nvbackend.builder.scaling import GLOBAL_SPACE
from nvbackend.builder.values import Operand, Value, as_value
from nvbackend.builder.warp_indices import SharedIndex
from nvbackend.intrinsics import cluster, register_budget, special_registers, sync, warp
from nvbackend.intrinsics.hierarchy import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row import RegisterClass
from nvbackend.intrinsics.types import f32, pred, s32, s64, u32
from nvbackend.isel.families import family_rules
from nvbackend.isel.protocols.cluster import rules as cluster_rules
from nvbackend.isel.variants import VARIANT

_SPECIAL_TYPES = {RegisterClass.B64: s64, RegisterClass.PRED: pred}
"""The values that special registers are, where not s32."""
_AXES = ("x", "y", "z")


class Threads(Memory):
    """Special registers, CTA and cluster barriers, election, fences, register budgets."""

    threads: int
    cluster: int

    def special_register(self, name: str) -> Value:
        """A special register by its PTX name without the percent sign, such as "tid.x".

        It is an s32, an s64 where it has 64 bits, or a predicate.

        Raises register.name for a name that is none.
        """
        family_rules.check_special_register(name)
        row = special_registers.special_register(name)
        element = _SPECIAL_TYPES.get(row.operand("value").register, s32)
        return self._wrap(self.emit(row, {}, name=name)["value"][0], element)

    def thread_id(self, axis: str = "x") -> Value:
        """The thread's index in its CTA."""
        return self._along("tid", axis)

    def block_id(self, axis: str = "x") -> Value:
        """The CTA's index in the grid."""
        return self._along("ctaid", axis)

    def block_count(self, axis: str = "x") -> Value:
        """The CTAs of the grid."""
        return self._along("nctaid", axis)

    def _along(self, register: str, axis: str) -> Value:
        """An index or an extent along one of the axes (instruction.variant)."""
        if axis not in _AXES:
            VARIANT.fail(instruction=f"%{register}", reason=f"{axis!r} is not an axis; x, y and z are")
        return self.special_register(f"{register}.{axis}")

    def lane_id(self) -> Value:
        """The thread's index in its warp."""
        return self.thread_id() % WARP_SIZE

    def warp_id(self) -> Value:
        """The warp's index in its CTA, in a form the compiler knows to be the same for the whole warp.

        Any lane may ask for it by itself.
        """
        return self._index_of(WARP_SIZE)

    def warpgroup_id(self) -> Value:
        """The warpgroup's index in its CTA, likewise uniform."""
        return self._index_of(WARPGROUP_SIZE)

    def _index_of(self, size: int) -> Value:
        """The index of the thread's group of `size`: lane 0's, or its own where only some lanes of the warp come."""
        own = self.thread_id() // size
        if self._alone() is not None:
            return own
        shared = self.uniform(own)
        here = self._execution.here()
        if here is None or not here.is_of_whole_warps:
            emitted = self.machine.block(self._ir.block.name).instructions[-1]
            self._indices.append(SharedIndex(own.ir, shared.ir, emitted))
        return shared

    def cluster_rank(self) -> Value:
        """The CTA's rank in its cluster; the constant 0 where the kernel has no cluster."""
        return self.const(0, s32) if self.cluster == 1 else self.special_register("cluster_ctarank")

    def cluster_id(self) -> Value:
        """The index of the CTA's cluster in the grid along x; the CTA's own index where there is no cluster."""
        return self.block_id() if self.cluster == 1 else self.special_register("clusterid.x")

    def cluster_count(self) -> Value:
        """The clusters of the grid along x."""
        return self.block_count() if self.cluster == 1 else self.special_register("nclusterid.x")

    def uniform(self, value: Value) -> Value:
        """Lane 0's `value` (32-bit) in every lane, so that what is computed from it can live in uniform registers."""
        given = value.bitcast(s32) if value.type is f32 else value
        operands = {"members": warp.ALL_LANES, "value": given.ir, "lane": 0, "clamp": warp.WHOLE_WARP}
        result = self._wrap(self.emit(warp.shuffle("idx"), operands)["result"][0], given.type)
        return result.bitcast(f32) if value.type is f32 else result

    def elect(self) -> Value:
        """A predicate that one lane of the warp has (elect.sync); the whole warp executes it."""
        elected = self.emit(sync.elect(), {"mask": warp.ALL_LANES})["elected"][0]
        return self._wrap(elected, pred)

    @with_block
    def one_thread(self, warp_index: int = 0) -> Iterator[None]:
        """Run the block in one elected thread of the CTA's warp `warp_index`.

        Raises control.one-thread inside for what a whole warp executes, and kernel.warp where there is no such warp.
        """
        warps = self.threads // WARP_SIZE
        if not 0 <= warp_index < warps:
            rules.WARP.fail(given=warp_index, warps=warps, last=warps - 1)
        with self.if_((self.warp_id() == warp_index) & self.elect()):
            yield

    def barrier(self, identifier: Operand = 0, threads: Operand | None = None, *, aligned: bool = True) -> None:
        """Wait at barrier `identifier` (0 to 15) for the whole CTA, or for `threads` of it (a multiple of 32).

        Without `aligned` (barrier.sync instead of bar.sync) the threads of a warp need not execute it together. Raises
        barrier.id, barrier.threads, barrier.waits, barrier.crowd. PTX ISA 9.7.13.1.
        """
        row = sync.barrier_sync(counted=threads is not None, aligned=aligned)
        self.emit(row, self._barrier_operands(identifier, threads))

    def barrier_arrive(self, identifier: Operand, threads: Operand, *, aligned: bool = True) -> None:
        """bar.arrive: arrive at barrier `identifier` (0 to 15) that `threads` threads in all are for, and go on.

        Raises barrier.id, barrier.threads, barrier.waits, barrier.crowd. PTX ISA 9.7.13.1.
        """
        self.emit(sync.barrier_arrive(aligned=aligned), self._barrier_operands(identifier, threads))

    def _barrier_operands(self, identifier: Operand, threads: Operand | None) -> dict[str, ir.Value]:
        number = as_value(self, identifier, s32)
        if isinstance(number.constant, int):
            family_rules.check_barrier_id(number.constant)
        if threads is None:
            return {"id": number.ir}
        count = as_value(self, threads, s32)
        if isinstance(count.constant, int):
            family_rules.check_barrier_threads(count.constant)
            if count.constant > self.threads:
                rules.BARRIER_WAITS.fail(threads=count.constant, there=self.threads)
            family_rules.check_barrier_crowd(count.constant, self._coming_to(number))
        return {"id": number.ir, "threads": count.ir}

    def _coming_to(self, barrier: Value) -> int:
        """The most threads here that certainly come to one barrier, whose number is `barrier`; 0 where not known."""
        here = self._execution.here()
        if isinstance(barrier.constant, int):
            return 0 if here is None else here.count or 0
        return max(Counter(self._execution.numbers_here(barrier.ir).values()).values(), default=0)

    def cluster_sync(self, *, relaxed: bool = False, scope: str = "cluster", aligned: bool = True) -> None:
        """Wait for all threads of the cluster, or of the CTA where the kernel has no cluster or `scope` is "cta".

        The arrival releases this thread's writes to the cluster, which costs a fence of GPU scope; with `relaxed` it
        orders nothing, for where a fence stands before it or nothing is handed over. Without `aligned` the threads of a
        warp need not execute it together. Raises cluster.scope.
        """
        if scope not in ("cta", "cluster"):
            cluster_rules.SCOPE.fail(given=scope)
        if self.cluster == 1 or scope == "cta":
            self.barrier(aligned=aligned)
        else:
            self.emit(cluster.barrier_arrive("relaxed" if relaxed else None, aligned=aligned), {})
            self.emit(cluster.barrier_wait(aligned=aligned), {})

    def peer_rank(self) -> Value:
        """The rank of the other CTA of this CTA's pair: its own with the last bit flipped.

        Raises cluster.no-peer where the cluster is no whole number of pairs.
        """
        if self.cluster % 2:
            cluster_rules.NO_PEER.fail(call="k.peer_rank()", cluster=self.cluster, instead=self.cluster + 1)
        return self.cluster_rank() ^ 1

    def fence_mbarrier_init(self) -> None:
        """Make this thread's mbarrier.init visible to the cluster and the async proxy."""
        self.emit(sync.fence_mbarrier_init(), {})

    def fence_proxy_async(self, space: str | None = "shared::cta") -> None:
        """Order ordinary accesses to `space` before accesses by TMA and wgmma that follow (every space for None)."""
        self.emit(sync.fence_proxy_async(space), {})

    def increase_registers(self, count: int) -> None:
        """Take registers from the CTA's pool until each thread has `count` (24 to 256 by 8); blocks until there are."""
        self._set_registers("inc", count)

    def decrease_registers(self, count: int) -> None:
        """Give registers back so that each thread has `count` left (24 to 256 by 8)."""
        self._set_registers("dec", count)

    def _set_registers(self, action: str, count: int) -> None:
        family_rules.check_setmaxnreg_target(self.target)
        family_rules.check_register_count(count)
        self.emit(register_budget.setmaxnreg(action), {"registers": count})

    def map_to_peer(self, address: Value, rank: Operand) -> Value:
        """The shared::cluster address (u32) of this CTA's shared address in the CTA of rank `rank`.

        Raises cluster.rank for a number that is no rank, cluster.no-peer where the kernel has no cluster.
        """
        self._check_rank(rank)
        number = as_value(self, rank, s32).ir
        operands = {"address": address.ir, "rank": number}
        mapped = self.emit(cluster.mapa(), operands)["mapped"][0]
        self._places.is_address(mapped, self._places.of_address(address.ir))
        self._peers.map(mapped, self._execution.first_peers(number), number)
        return self._wrap(mapped, u32)

    def map_shared_rank(self, address: Address, rank: Operand) -> Address:
        """The same place as this CTA's shared `address`, in the CTA of rank `rank`: to load, to store, and for atomics.

        All CTAs are there between two `cluster_sync`, one before the first access and one after the last
        (cluster.access-before-start, cluster.exit-before-access). Raises cluster.rank, cluster.no-peer, and
        cluster.not-shared for an address of global memory.
        """
        if self._own(address).space == GLOBAL_SPACE:
            cluster_rules.NOT_SHARED.fail(call="k.map_shared_rank(...)", given=repr(address))
        return self._from_number(self.map_to_peer(self._own(address).bytes, rank).ir, address.element, address.align)

    def _check_rank(self, rank: Operand) -> None:
        number = rank if isinstance(rank, int) else getattr(rank, "constant", None)
        if isinstance(number, int) and not 0 <= number < self.cluster:
            legal = "0" if self.cluster == 1 else f"0 to {self.cluster - 1}"
            cluster_rules.RANK.fail(rank=number, cluster=self.cluster, legal=legal)
        if number is None and self.cluster == 1:
            cluster_rules.NO_PEER.fail(call="k.map_to_peer(...)", cluster=1, instead=2)
