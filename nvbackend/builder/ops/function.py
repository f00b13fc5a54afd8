"""The calls of one function: control flow, values and memory on `k`, machine operations by noun."""

from __future__ import annotations

from typing import Any

from nvbackend.builder.core.instructions import Instructions
from nvbackend.builder.core.tile_memory import TileMemory
from nvbackend.builder.ops.copy.async_store import AsyncStore
from nvbackend.builder.ops.copy.bulk import Bulk
from nvbackend.builder.ops.copy.cache import Cache
from nvbackend.builder.ops.copy.cp_async import CpAsync
from nvbackend.builder.ops.copy.multimem import Multimem
from nvbackend.builder.ops.copy.tensormap import TensorMaps
from nvbackend.builder.ops.copy.tma import Tma
from nvbackend.builder.ops.launch_control import LaunchControl
from nvbackend.builder.ops.math_functions import Math
from nvbackend.builder.ops.matrix.mma import Mma
from nvbackend.builder.ops.matrix.tcgen05 import Tcgen05
from nvbackend.builder.ops.matrix.wgmma import Wgmma
from nvbackend.builder.ops.matrix.wmma import Wmma
from nvbackend.builder.ops.sync.barrier import Barrier
from nvbackend.builder.ops.sync.cluster import Cluster
from nvbackend.builder.ops.sync.fence import Fence
from nvbackend.builder.ops.sync.mbarrier import Mbarrier
from nvbackend.builder.ops.sync.setmaxnreg import SetMaxNReg
from nvbackend.builder.ops.warp import Warp


class FunctionBuilder(TileMemory, Instructions):
    """What every builder has: the calls on `k`, and one object for each noun of the PTX ISA."""

    barrier: Barrier
    """The CTA's barriers: barrier.sync, barrier.arrive, barrier.red (PTX ISA 9.7.13.1)."""
    fence: Fence
    """Fences between threads and between proxies (PTX ISA 9.7.13.4)."""
    setmaxnreg: SetMaxNReg
    """Registers that a warpgroup takes and gives back (PTX ISA 9.7.19.5)."""
    cluster: Cluster
    """The CTAs of a cluster: ranks, barriers, shared memory of peers (PTX ISA 9.7.13.3)."""
    mbarrier: Mbarrier
    """Mbarriers: arrivals, transactions and phases (PTX ISA 9.7.13.15)."""
    tma: Tma
    """Copies of tensor boxes between global and shared memory (PTX ISA 9.7.9.27)."""
    bulk: Bulk
    """Copies of contiguous bytes by the TMA unit (PTX ISA 9.7.9.25)."""
    tensormap: TensorMaps
    """Tensor maps in memory: how to change, publish and fetch them (PTX ISA 9.7.9.26)."""
    cp_async: CpAsync
    """Copies by each thread from global to shared memory (PTX ISA 9.7.9.25.3)."""
    async_store: AsyncStore
    """Stores and reductions that complete later: st.async, red.async (PTX ISA 9.7.9)."""
    cache: Cache
    """Prefetches, eviction priorities and cache policies (PTX ISA 9.7.9)."""
    launch_control: LaunchControl
    """Clusters taken over from the launch: clusterlaunchcontrol (PTX ISA 9.7.14)."""
    warp: Warp
    """What the lanes of a warp do together: shuffles, votes, reductions (PTX ISA 9.7.13)."""
    mma: Mma
    """mma.sync and the matrix moves of a warp (PTX ISA 9.7.14)."""
    wmma: Wmma
    """wmma: fragments, their loads and stores, and the product (PTX ISA 9.7.14.4)."""
    wgmma: Wgmma
    """wgmma: accumulators, fences, groups and the product (PTX ISA 9.7.15)."""
    tcgen05: Tcgen05
    """tcgen05: tensor memory, its copies and the product (PTX ISA 9.7.16)."""
    math: Math
    """Mathematics: extremes, fused products, roots, powers, packing (PTX ISA 9.7.3)."""
    multimem: Multimem
    """Memory of several GPUs at one address (PTX ISA 9.7.9.14)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.barrier = Barrier(self)
        self.fence = Fence(self)
        self.setmaxnreg = SetMaxNReg(self)
        self.cluster = Cluster(self, self.barrier)
        self.mbarrier = Mbarrier(self, self.barrier, self.cluster, self.fence)
        self.tma = Tma(self, self.cluster)
        self.bulk = Bulk(self, self.cluster)
        self.tensormap = TensorMaps(self)
        self.cp_async = CpAsync(self)
        self.async_store = AsyncStore(self, self.cluster)
        self.cache = Cache(self)
        self.launch_control = LaunchControl(self)
        self.warp = Warp(self)
        self.mma = Mma(self)
        self.wmma = Wmma(self)
        self.wgmma = Wgmma(self)
        self.tcgen05 = Tcgen05(self, self.barrier, self.cluster)
        self.math = Math(self)
        self.multimem = Multimem(self)
