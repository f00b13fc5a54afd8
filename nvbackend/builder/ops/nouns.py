"""The nouns that not every kernel uses: their modules are imported when they are asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvbackend.builder.core.control import Control
    from nvbackend.builder.core.core import Core
    from nvbackend.builder.core.local import Local
    from nvbackend.builder.core.memory import Memory
    from nvbackend.builder.core.threads import Threads
    from nvbackend.builder.ops.atomics import Atomic
    from nvbackend.builder.ops.constants import Constant
    from nvbackend.builder.ops.conversion import Convert
    from nvbackend.builder.ops.copy.async_store import AsyncStore
    from nvbackend.builder.ops.copy.bulk import Bulk
    from nvbackend.builder.ops.copy.cache import CacheControl
    from nvbackend.builder.ops.copy.cp_async import CpAsync
    from nvbackend.builder.ops.copy.multimem import Multimem
    from nvbackend.builder.ops.copy.tensormap import TensorMaps
    from nvbackend.builder.ops.cta import CtaWide
    from nvbackend.builder.ops.debug.debug import Debug
    from nvbackend.builder.ops.debug.places import SourceLocation
    from nvbackend.builder.ops.debug.static import StaticAssert
    from nvbackend.builder.ops.groups import Groups
    from nvbackend.builder.ops.launch_control import LaunchControl
    from nvbackend.builder.ops.math.integer import IntegerOperations
    from nvbackend.builder.ops.math.packed import PackedOperations
    from nvbackend.builder.ops.matrix.mma import Mma
    from nvbackend.builder.ops.matrix.tcgen05 import Tcgen05
    from nvbackend.builder.ops.matrix.wgmma import Wgmma
    from nvbackend.builder.ops.matrix.wmma import Wmma
    from nvbackend.builder.ops.sync.barrier import Barrier
    from nvbackend.builder.ops.sync.cluster import Cluster
    from nvbackend.builder.ops.warp import Warp


class LateNouns:
    """One object for each of these nouns, made of the parts of a builder; `k` has them as attributes of its own."""

    cluster: Cluster
    """Given when it is made: what is late reduces in it."""

    def __init__(
        self, core: Core, control: Control, memory: Memory, threads: Threads, barrier: Barrier, groups: Groups
    ) -> None:
        self._core = core
        self._control = control
        self._memory = memory
        self._threads = threads
        self._barrier = barrier
        self._groups = groups

    @cached_property
    def warp(self) -> Warp:
        """The lanes of a warp: shuffles, votes, reductions."""
        from nvbackend.builder.ops.warp import Warp

        return Warp(self._core)

    @cached_property
    def cta(self) -> CtaWide:
        """Reductions and scans over the threads of a CTA."""
        from nvbackend.builder.ops.cta import CtaWide

        return CtaWide(self._core, self._threads, self._control, self._groups, self.warp)

    def reduce_in_cluster(self, cluster: Cluster, *arguments: Any, **options: Any) -> Any:
        """What `k.cluster.reduce` does."""
        from nvbackend.builder.ops.cluster_reduction import ClusterReduction

        reduce = ClusterReduction(self._core, self._memory, self._threads, self._control, self.cta)
        return reduce(cluster, *arguments, **options)

    @cached_property
    def atomic(self) -> Atomic:
        """Memory that is read, changed and written in one step: atom, red."""
        from nvbackend.builder.ops.atomics import Atomic

        return Atomic(self._core)

    @cached_property
    def _debug(self) -> Debug:
        """Prints, assertions, traps and clocks."""
        from nvbackend.builder.ops.debug.debug import Debug

        return Debug(self._core, self._control, self._threads)

    @cached_property
    def static_assert(self) -> StaticAssert:
        """Assertions that are decided when the kernel is built."""
        from nvbackend.builder.ops.debug.static import StaticAssert

        return StaticAssert(self._core)

    @cached_property
    def location(self) -> SourceLocation:
        """The places in another language's source."""
        from nvbackend.builder.ops.debug.places import SourceLocation

        return SourceLocation(self._core)

    @cached_property
    def bulk(self) -> Bulk:
        """Copies of contiguous bytes: cp.async.bulk."""
        from nvbackend.builder.ops.copy.bulk import Bulk

        return Bulk(self._core, self.cluster)

    @cached_property
    def tensormap(self) -> TensorMaps:
        """Tensor maps in memory: tensormap.replace."""
        from nvbackend.builder.ops.copy.tensormap import TensorMaps

        return TensorMaps(self._core)

    @cached_property
    def cp_async(self) -> CpAsync:
        """Copies by each thread: cp.async."""
        from nvbackend.builder.ops.copy.cp_async import CpAsync

        return CpAsync(self._core)

    @cached_property
    def async_store(self) -> AsyncStore:
        """Stores and reductions that complete later: st.async, red.async."""
        from nvbackend.builder.ops.copy.async_store import AsyncStore

        return AsyncStore(self._core, self.cluster)

    @cached_property
    def cache(self) -> CacheControl:
        """Prefetches, eviction priorities and cache policies."""
        from nvbackend.builder.ops.copy.cache import CacheControl

        return CacheControl(self._core)

    @cached_property
    def local(self) -> Local:
        """Memory of one thread."""
        from nvbackend.builder.core.local import Local

        return Local(self._core)

    @cached_property
    def constant(self) -> Constant:
        """Constant memory."""
        from nvbackend.builder.ops.constants import Constant

        return Constant(self._core)

    @cached_property
    def launch_control(self) -> LaunchControl:
        """Clusters taken over from the launch: clusterlaunchcontrol."""
        from nvbackend.builder.ops.launch_control import LaunchControl

        return LaunchControl(self._core)

    @cached_property
    def mma(self) -> Mma:
        """mma.sync and the matrix moves of a warp."""
        from nvbackend.builder.ops.matrix.mma import Mma

        return Mma(self._core)

    @cached_property
    def wmma(self) -> Wmma:
        """wmma: fragments, and their product."""
        from nvbackend.builder.ops.matrix.wmma import Wmma

        return Wmma(self._core)

    @cached_property
    def wgmma(self) -> Wgmma:
        """wgmma: accumulators, fences, groups and the product."""
        from nvbackend.builder.ops.matrix.wgmma import Wgmma

        return Wgmma(self._core, self._control)

    @cached_property
    def tcgen05(self) -> Tcgen05:
        """tcgen05: tensor memory, its copies and the product."""
        from nvbackend.builder.ops.matrix.tcgen05 import Tcgen05

        return Tcgen05(self._core, self._control, self._memory, self._threads, self._barrier, self.cluster)

    @cached_property
    def convert(self) -> Convert:
        """Conversions of several numbers in one register, and of one with everything named: cvt."""
        from nvbackend.builder.ops.conversion import Convert

        return Convert(self._core)

    @cached_property
    def integer(self) -> IntegerOperations:
        """Integer instructions that no operator is."""
        from nvbackend.builder.ops.math.integer import IntegerOperations

        return IntegerOperations(self._core)

    @cached_property
    def packed(self) -> PackedOperations:
        """Arithmetic on several numbers in one register."""
        from nvbackend.builder.ops.math.packed import PackedOperations

        return PackedOperations(self._core)

    @cached_property
    def multimem(self) -> Multimem:
        """Memory of several GPUs at one address: multimem."""
        from nvbackend.builder.ops.copy.multimem import Multimem

        return Multimem(self._core)
