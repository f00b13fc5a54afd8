"""Mistakes in the sums of several CTAs: of a cluster, and in global memory."""

from __future__ import annotations

from tests.mutations.mutation import Mutation


class SumsThatAreNotSent(Mutation):
    """send the other CTAs of a cluster no sums"""

    found_by = ("mbarrier.missing-bytes", "mma.unread")

    def async_store_store(self, *operands, **options):
        self.change()


class SumsForOneCta(Mutation):
    """send the sums of all columns to one CTA of the cluster"""

    found_by = ("mbarrier.missing-in-peer",)

    def async_store_store(self, destination, values, barrier=None, rank=None, **options):
        self.change()
        self.right.async_store.store(destination, values, barrier, 0, **options)


class SumsBeforeTheWait(Mutation):
    """read the sums of the other CTAs without a wait"""

    found_by = ("proxy.read-before-wait", "cluster.exit-before-peers")

    def mbarrier_wait(self, barrier, parity):
        if self.name != "shared_depth" or not self.is_call("wait", 2):
            self.right.mbarrier.wait(barrier, parity)


class PartOfTheSumsExpected(Mutation):
    """announce half of the bytes that the other CTAs send"""

    found_by = ("mbarrier.wrong-bytes",)

    def mbarrier_arrive(self, barrier, **options):
        if self.name == "shared_depth" and self.is_call("arrive", 0):
            options["expect_tx"] //= 2
        self.right.mbarrier.arrive(barrier, **options)


class FlagBeforeTheSums(Mutation):
    """raise the flag of partial sums before all threads have stored theirs"""

    unseen = ("equal_shares",)
    because = "in the simulator: `simulator.flag-barrier`"

    def barrier_sync(self, identifier=0, threads=None, **options):
        if self.name != "equal_shares" or threads is None or not self.is_call("sync", 0):
            self.right.barrier.sync(identifier, threads, **options)


class FlagWithoutAcquire(Mutation):
    """take the flag of partial sums without acquire"""

    unseen = ("equal_shares",)
    because = "in the simulator: `simulator.flag-order`"

    def atomic_cas(self, *operands, **options):
        self.change()
        return self.right.atomic.cas(*operands)
