"""Mistakes around copies, mbarriers and proxies."""

from __future__ import annotations

import dataclasses

from nvbackend import bf16, s32, u32
from nvbackend.intrinsics.row.row import GUARD
from nvbackend.intrinsics.words.smem_descriptor import SwizzleMode
from tests.mutations.mutation import Mutation


class OtherSwizzleOfTheMap(Mutation):
    """another swizzle in the tensor map"""

    found_by = ("tma.swizzle",)

    @classmethod
    def parameters_of(cls, parameters):
        return cls.with_maps(parameters, swizzle=0)


class OtherSwizzleOfTheTile(Mutation):
    """another swizzle of the tile that a map fills"""

    found_by = ("tma.swizzle", "tma.box")
    unseen = ("ordinary_stores",)
    because = "the stores compute their own addresses"

    def shared_tiles(self, layout, count=1, *, name="tile"):
        self.change()
        return super().shared_tiles(dataclasses.replace(layout, swizzle=SwizzleMode.B64), count, name=name)

    def shared_tile(self, layout, *, name="tile"):
        return self.shared_tiles(layout, name=name).at(0)


class OtherElementOfTheMap(Mutation):
    """another element type in the tensor map"""

    found_by = ("tma.element",)

    @classmethod
    def parameters_of(cls, parameters):
        return cls.with_maps(parameters, element=bf16)


class WrongBox(Mutation):
    """a box of half the columns"""

    found_by = ("tma.box",)

    @classmethod
    def parameters_of(cls, parameters):
        return cls.with_maps(parameters, box=(64, 32))


class OneCoordinateTooMany(Mutation):
    """one coordinate too many"""

    found_by = ("tma.place",)

    def tma_load(self, tile, source, at, barrier, **options):
        self.change()
        self.right.tma.load(tile, source, (*at, 0), barrier, **options)


class DropALoad(Mutation):
    """drop one of the loads"""

    found_by = ("mbarrier.wrong-bytes", "mbarrier.missing-bytes")

    def tma_load(self, tile, source, at, barrier, **options):
        if not self.is_call("load", 0):
            self.right.tma.load(tile, source, at, barrier, **options)


class WaitForTheFirstRelease(Mutation):
    """wait for the release of a stage before its first fill"""

    found_by = ("mbarrier.deadlock",)

    def mbarrier_wait(self, barrier, parity):
        if barrier._place.object.name == "empty":
            self.change()
            parity = parity ^ 1
        self.right.mbarrier.wait(barrier, parity)


class LoadInEveryLane(Mutation):
    """load in every lane of the warp instead of one"""

    found_by = ("mbarrier.arrivals", "pipeline.role", "dynamic-tiles.role", "tma.one-thread")

    def elect(self):
        self.change()
        return self.lane_id() < 32


class StoreFromInside16Bytes(Mutation):
    """store tiles 4 columns further, which is not a multiple of 16 bytes"""

    found_by = ("tma.start",)
    unseen = ("hopper_gemm", "dynamic_gemm")
    because = "the column is a variable, set where the tile was computed"

    def tma_store(self, target, at, tile):
        self.change()
        row, column = at
        self.right.tma.store(target, (row, column + 4), tile)


class LoadFromInside16Bytes(Mutation):
    """load tiles from 4 columns further"""

    found_by = ("tma.start",)

    def tma_load(self, tile, source, at, barrier, **options):
        self.change()
        self.right.tma.load(tile, source, (at[0], at[1] + 4), barrier, **options)


class WrongExpectedBytes(Mutation):
    """expect 16 bytes too many"""

    found_by = ("mbarrier.wrong-bytes",)

    def mbarrier_arrive(self, barrier, *, expect_tx=None, **options):
        if expect_tx is not None:
            self.change()
            expect_tx += 16
        self.right.mbarrier.arrive(barrier, expect_tx=expect_tx, **options)


class ExpectNothing(Mutation):
    """arrive without expecting the bytes of the loads"""

    found_by = ("mbarrier.unexpected-bytes",)

    def mbarrier_arrive(self, barrier, *, expect_tx=None, **options):
        if expect_tx is not None:
            self.change()
        self.right.mbarrier.arrive(barrier, **options)


class ExpectNegativeBytes(Mutation):
    """expect a negative number of bytes"""

    found_by = ("mbarrier.expect-tx",)

    def mbarrier_arrive(self, barrier, *, expect_tx=None, **options):
        if expect_tx is not None:
            self.change()
            expect_tx = -expect_tx
        self.right.mbarrier.arrive(barrier, expect_tx=expect_tx, **options)


class ForgetTheArrival(Mutation):
    """wait for a barrier that nobody arrives on"""

    found_by = ("mbarrier.no-arrival", "mbarrier.unexpected-bytes")

    def mbarrier_arrive(self, barrier, *, expect_tx=None, **options):
        if expect_tx is not None:
            self.change()
        else:
            self.right.mbarrier.arrive(barrier, **options)


class ForgetTheRelease(Mutation):
    """never give a stage back"""

    found_by = ("mbarrier.no-arrival", "mbarrier.arrivals")

    def emit(self, row, operands, **recorded):
        if GUARD not in operands:
            return super().emit(row, operands, **recorded)
        self.change()
        return {}


class ArriveCountTooHigh(Mutation):
    """initialise a barrier to one arrival too many"""

    found_by = ("mbarrier.arrivals",)

    def mbarrier_init(self, barrier, arrivals):
        self.change()
        self.right.mbarrier.init(barrier, arrivals + 1)


class ArriveCountTooLow(Mutation):
    """initialise a barrier to one arrival too few"""

    found_by = ("mbarrier.arrivals", "mbarrier.count")

    def mbarrier_init(self, barrier, arrivals):
        self.change()
        self.right.mbarrier.init(barrier, arrivals - 1)


class DropTheInitialisation(Mutation):
    """use a barrier that was never initialised"""

    found_by = ("mbarrier.uninitialised",)

    def mbarrier_init(self, barrier, arrivals):
        self.change()


class InitialiseTwice(Mutation):
    """initialise a barrier twice"""

    found_by = ("mbarrier.double-init",)

    def mbarrier_init(self, barrier, arrivals):
        self.change()
        self.right.mbarrier.init(barrier, arrivals)
        self.right.mbarrier.init(barrier, arrivals)


class DropTheInitFence(Mutation):
    """drop fence.mbarrier_init"""

    found_by = ("mbarrier.not-ready",)

    def fence_mbarrier_init(self):
        self.change()


class DropTheBarrierBehindTheInit(Mutation):
    """drop the barrier (of the cluster) after the initialisation"""

    found_by = ("mbarrier.not-ready", "pipeline.not-ready", "shared.missing-barrier")
    unseen = ("blackwell_gemm",)
    because = "right: the allocation of tensor memory has a barrier of its own"

    def cluster_sync(self, *, relaxed=False, **options):
        self.change()


class StoreIntoABarrier(Mutation):
    """store ordinary data where a barrier is"""

    found_by = ("mbarrier.overwritten",)

    def mbarrier_array(self, count, arrivals, *, name="mbarrier"):
        self.change()
        self.made = self.right.mbarrier.array(count, arrivals, name=name)
        return self.made

    def mbarrier_ready(self):
        self.right.mbarrier.ready()
        self.made[0] = 0


class PhaseNotFlipped(Mutation):
    """wait for the same parity in every round"""

    found_by = ("mbarrier.parity-fixed", "mbarrier.deadlock")

    def mbarrier_wait(self, barrier, parity):
        if not isinstance(parity, int):
            self.change()
        self.right.mbarrier.wait(barrier, 0)


class ParityOfTheOtherPhase(Mutation):
    """wait for the other parity"""

    found_by = ("mbarrier.parity-first",)

    def mbarrier_wait(self, barrier, parity):
        self.change()
        self.right.mbarrier.wait(barrier, (self.const(parity, s32) if isinstance(parity, int) else parity) ^ 1)


class NumberOfThePhase(Mutation):
    """wait for the number of the phase instead of its parity"""

    found_by = ("mbarrier.parity",)

    def mbarrier_wait(self, barrier, parity):
        if isinstance(parity, int):
            self.change()
            parity += 2
        self.right.mbarrier.wait(barrier, parity)


class ReadWithoutAWait(Mutation):
    """read a tile without waiting for its bytes"""

    found_by = ("proxy.read-before-wait", "tcgen05.missing-wait")

    def mbarrier_wait(self, barrier, parity):
        of_gemm = 3 if self._dynamic_tiles else 2
        if not self.is_call("wait", {"gemm": of_gemm, "shared_depth": 1, "equal_shares": 1}.get(self.name, 0)):
            self.right.mbarrier.wait(barrier, parity)


class DropTheProxyFence(Mutation):
    """drop fence.proxy.async"""

    found_by = ("proxy.missing-fence",)

    def fence_proxy_async(self, space="shared::cta"):
        self.change()


class ProxyFenceOfAnotherSpace(Mutation):
    """fence the proxy of global memory where shared memory was written"""

    found_by = ("proxy.missing-fence",)

    def fence_proxy_async(self, space="shared::cta"):
        self.change()
        self.right.fence.proxy_async("global")


class RefillWithoutABarrier(Mutation):
    """fill a tile again while other threads' multiplies read it"""

    found_by = ("proxy.refill",)

    def barrier_sync(self, identifier=0, threads=None, **options):
        if self.name not in ("register_operand", "ordinary_stores") or not self.is_call("barrier", 1):
            self.right.barrier.sync(identifier, threads, **options)


class FillBeforeItIsEmpty(Mutation):
    """fill a stage of the ring without waiting until it is empty"""

    found_by = ("dry-run.unwaited-phase", "proxy.refill", "proxy.refill-in-flight")

    def mbarrier_wait(self, barrier, parity):
        if self.name != "gemm" or not self.is_call("wait", 1 if self._dynamic_tiles else 0):
            self.right.mbarrier.wait(barrier, parity)


class StoreBeforeTheOthersHaveWritten(Mutation):
    """store a tile, or read an address, with no barrier after the threads that write it"""

    found_by = ("shared.missing-barrier",)

    def barrier_sync(self, identifier=0, threads=None, **options):
        of_set_up = 1 if self._dynamic_tiles else 0  # that of a cluster is another call
        if self.name != "gemm" or not self.is_call("barrier", 1 + of_set_up):
            self.right.barrier.sync(identifier, threads, **options)


class WriteBeforeTheOthersHaveRead(Mutation):
    """write a buffer again with no barrier after what reads it in other threads"""

    found_by = ("shared.overwritten-early", "proxy.write-in-flight")

    def barrier_sync(self, identifier=0, threads=None, **options):
        of_set_up = 1 if self._dynamic_tiles else 0
        if self.target.number not in (75, 90) or self.name != "gemm" or not self.is_call("barrier", of_set_up):
            self.right.barrier.sync(identifier, threads, **options)


class NoBarrierInTheRing(Mutation):
    """no barrier of threads between the rounds of a ring of cp.async"""

    found_by = ("async-copy.read-before-wait",)

    def barrier_sync(self, identifier=0, threads=None, **options):
        if self.target.number not in (80, 89, 120) or not self.is_call("barrier", 0):
            self.right.barrier.sync(identifier, threads, **options)


class RefillBeforeTheWait(Mutation):
    """write into a tile while this thread's own multiplies read it"""

    found_by = ("proxy.write-in-flight",)

    def wgmma_mma_async(self, accumulator, a, b, request, **options):
        self.right.wgmma.mma_async(accumulator, a, b, request, **options)
        self.latest = b

    def wgmma_commit_group(self):
        self.right.wgmma.commit_group()
        self.change()
        self.latest.address.cast(u32)[self.thread_id()] = 0


class StoresLeftUncommitted(Mutation):
    """leave the stores of the epilogue uncommitted"""

    found_by = ("proxy.write-in-flight", "proxy.store-not-committed")

    def tma_commit_group(self):
        self.change()


class StoresNotWaitedFor(Mutation):
    """end, or write the buffer again, while a store reads it"""

    found_by = ("proxy.write-in-flight", "proxy.store-not-waited")

    def tma_wait_group(self, pending=0, *, reading=False):
        self.change()


class FewerThanNoStores(Mutation):
    """leave -1 stores pending"""

    found_by = ("tma.pending",)

    def tma_wait_group(self, pending=0, *, reading=False):
        self.change()
        self.right.tma.wait_group(pending - 1, reading=reading)


class LoadOnToAnotherBarrier(Mutation):
    """let the bytes of a load complete on the barrier after the one that expects them"""

    found_by = (
        *("mbarrier.unexpected-bytes", "mbarrier.missing-bytes", "mbarrier.wrong-bytes", "mbarrier.uninitialised"),
        *("mbarrier.wrong-barrier", "shared.bounds"),
    )

    def tma_load(self, tile, source, at, barrier, **options):
        if self.is_call("load", 0):
            barrier = barrier.byte_offset(8)
        self.right.tma.load(tile, source, at, barrier, **options)
