"""Mistakes around who executes what: targets, roles, barriers, exits."""

from __future__ import annotations

from nvbackend import Target
from nvbackend.intrinsics.sync import cluster
from tests.mutations.mutation import Mutation


class WrongSuffix(Mutation):
    """compile for the chip without the suffix"""

    found_by = ("wgmma.target", "tcgen05.target", "setmaxnreg.target", "target.feature", "mma.target", "atom.target")

    @classmethod
    def target_of(cls, target):
        if target.has_arch_conditional:
            cls.change()
        return Target.parse(target.name.rstrip("a"))


class OtherGeneration(Mutation):
    """compile for the other generation"""

    found_by = (
        "wgmma.target",
        "tcgen05.target",
        "target.feature",
        "setmaxnreg.target",
        "mma.target",
        "atom.target",
        "row.emulated",
    )
    unseen = ("turing_gemm", "ampere_gemm")
    because = "it runs there too"

    @classmethod
    def target_of(cls, target):
        cls.change()
        return Target.parse("sm_100a" if target.name == "sm_90a" else "sm_90a")


class RegistersThatAreNoStep(Mutation):
    """a register budget between two steps"""

    found_by = ("setmaxnreg.range",)

    def setmaxnreg_inc(self, count):
        self.change()
        self.right.setmaxnreg.inc(count + 4)


class MoreRegistersThanThereAre(Mutation):
    """more registers for the consumers than the producer gave back"""

    found_by = ("pipeline.registers", "setmaxnreg.pool")
    unseen = ("shared_depth", "equal_shares")
    because = "there are enough for one warpgroup"

    def consumers(self, registers):
        self.change()
        return super().consumers(registers + 8)


class RegistersOfOneWarp(Mutation):
    """setmaxnreg in one warp of the warpgroup"""

    found_by = ("convergence.warpgroup", "setmaxnreg.warpgroup")

    def setmaxnreg_dec(self, count):
        self.change()
        with self.if_(self.warp_id() == 0):
            self.right.setmaxnreg.dec(count)


class RegistersOfOneThread(Mutation):
    """setmaxnreg in one thread"""

    found_by = ("control.one-thread",)

    def setmaxnreg_dec(self, count):
        self.change()
        with self.one_thread():
            self.right.setmaxnreg.dec(count)


class BarrierInOneThread(Mutation):
    """a barrier of the CTA in one thread"""

    found_by = ("control.one-thread",)

    def barrier_sync(self, identifier=0, threads=None, **options):
        self.change()
        with self.if_(self.thread_id() == 0):
            self.right.barrier.sync(identifier, threads, **options)


class BarrierInHalfTheThreads(Mutation):
    """a barrier of the CTA in half of the threads"""

    found_by = ("barrier.divergent", "mbarrier.not-ready", "setmaxnreg.pool")

    def barrier_sync(self, identifier=0, threads=None, **options):
        if threads is not None:
            self.right.barrier.sync(identifier, threads, **options)
            return
        self.change()
        with self.if_(self.thread_id() < self.threads // 2):
            self.right.barrier.sync(identifier, threads, **options)


class BarrierForTooMany(Mutation):
    """a barrier that waits for more threads than there are"""

    found_by = ("barrier.waits",)

    def barrier_sync(self, identifier=0, threads=None, **options):
        self.change()
        self.right.barrier.sync(identifier, 2 * self.threads)


class BarrierOfNoName(Mutation):
    """the seventeenth named barrier"""

    found_by = ("barrier.id",)

    def barrier_sync(self, identifier=0, threads=None, **options):
        self.change()
        self.right.barrier.sync(16, threads)


class ExitBeforeTheBarrier(Mutation):
    """let some threads leave before the first barrier"""

    found_by = ("barrier.skipped", "cluster.skipped", "control.other-warp", "convergence.warpgroup")

    def mbarrier_ready(self):
        self.change()
        self.return_if(self.thread_id() >= self.threads - 32)
        self.right.mbarrier.ready()


class ClusterBarrierWithoutAWait(Mutation):
    """arrive at the cluster's barrier and never wait"""

    found_by = ("mbarrier.not-ready", "pipeline.not-ready")

    def cluster_sync(self, *, relaxed=False, **options):
        if self.cluster_size > 1:
            self.change()
            self.emit(cluster.barrier_arrive("relaxed" if relaxed else None), {})
        else:
            self.right.cluster.sync(relaxed=relaxed, **options)


class ClusterBarrierWithoutAnArrival(Mutation):
    """wait at the cluster's barrier without having arrived"""

    found_by = ("cluster.wait-alone",)

    def cluster_sync(self, *, relaxed=False, **options):
        if self.cluster_size > 1:
            self.change()
            self.emit(cluster.barrier_wait(), {})
        else:
            self.right.cluster.sync(relaxed=relaxed, **options)


class ClusterBarrierInHalfTheThreads(Mutation):
    """the cluster's barrier in half of the threads"""

    found_by = ("cluster.divergent",)

    def cluster_sync(self, *, relaxed=False, **options):
        if self.cluster_size > 1:
            self.change()
            with self.if_(self.thread_id() < self.threads // 2):
                self.right.cluster.sync(relaxed=relaxed, **options)
        else:
            self.right.cluster.sync(relaxed=relaxed, **options)


class WarpThatIsNotThere(Mutation):
    """run the block of one thread in a warp that is not there"""

    found_by = ("kernel.warp",)

    def one_thread(self, warp_index=0):
        self.change()
        return self.right.one_thread(self.threads // 32)


class HalfAWarpgroup(Mutation):
    """a CTA of one warpgroup and a half"""

    found_by = ("wgmma.threads", "pipeline.roles", "setmaxnreg.warpgroup", "shared.bounds", "dry-run.tensor-lanes")
    unseen = ("blackwell_gemm",)
    because = "no operation of it is a warpgroup's"

    def __init__(self, name, target, *, threads, **bounds):
        self.change()
        super().__init__(name, target, threads=threads + 64, **bounds)


class WaitForCopiesInOneWarp(Mutation):
    """wait for the groups of cp.async in one warp alone"""

    found_by = ("async.other-threads",)

    def cp_async_wait_group(self, pending=None):
        self.change()
        with self.if_(self.warp_id() == 0):
            self.right.cp_async.wait_group(pending)
