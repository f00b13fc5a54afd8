"""Mistakes around tensor memory and tcgen05."""

from __future__ import annotations

import dataclasses

from nvbackend import e4m3
from tests.mutations.mutation import Mutation


class DeallocMissing(Mutation):
    """never give the columns back"""

    found_by = ("tcgen05.missing-dealloc",)

    def tcgen05_dealloc(self, tmem, columns, *, cta_group=1):
        self.change()


class DeallocMissingOnOnePath(Mutation):
    """leave before the columns are given back, on one path"""

    found_by = ("tcgen05.missing-dealloc", "tcgen05.missing-fence-before", "tcgen05.missing-barrier")

    def tcgen05_fence_before_thread_sync(self):
        self.change()
        self.return_if(self.block_id() == 7)
        self.right.tcgen05.fence_before_thread_sync()


class DeallocOfOtherColumns(Mutation):
    """give back more columns than were allocated"""

    found_by = ("tcgen05.dealloc-columns",)

    def tcgen05_dealloc(self, tmem, columns, *, cta_group=1):
        self.change()
        self.right.tcgen05.dealloc(tmem, 2 * columns, cta_group=cta_group)


class ColumnsThatAreNoPowerOfTwo(Mutation):
    """allocate 96 columns"""

    found_by = ("tcgen05.columns",)

    def tcgen05_alloc(self, cell, columns, *, cta_group=1):
        self.change()
        self.right.tcgen05.alloc(cell, 96, cta_group=cta_group)


class AllocInOneThread(Mutation):
    """allocate in one thread"""

    found_by = ("control.one-thread",)

    def tcgen05_alloc(self, cell, columns, *, cta_group=1):
        self.change()
        with self.one_thread():
            self.right.tcgen05.alloc(cell, columns, cta_group=cta_group)


class NoCommitOfTheMultiplies(Mutation):
    """drop the commit of the multiplies"""

    found_by = ("mbarrier.no-arrival", "tcgen05.missing-commit", "tcgen05.missing-wait")

    def tcgen05_commit(self, barrier, **options):
        self.change()


class ClearBeforeTheWait(Mutation):
    """clear the accumulator before the multiplies are done"""

    found_by = ("tcgen05.write-in-flight",)

    def tcgen05_mma(self, request, d, *operands, **options):
        self.cleared = d
        self.right.tcgen05.mma(request, d, *operands, **options)

    def mbarrier_wait(self, barrier, parity):
        if hasattr(self, "cleared") and self.core.alone() is None:
            self.change()
            self.tcgen05.st(self.cleared, "32x32b", [0])
            self.tcgen05.wait_st()
        self.right.mbarrier.wait(barrier, parity)


class NoWaitForTheLoads(Mutation):
    """read the registers of a load without its wait"""

    found_by = ("tcgen05.read-before-wait",)

    def tcgen05_wait_ld(self, *loads):
        self.change()


class LoadBehindTheColumns(Mutation):
    """load columns after the allocation"""

    found_by = ("tcgen05.bounds",)

    def tcgen05_ld(self, tmem, shape, count, **options):
        self.change()
        return self.right.tcgen05.ld(tmem, shape, 2 * count, **options)


class NoFenceBehindTheBarrier(Mutation):
    """drop the fence after the barrier of threads"""

    found_by = ("tcgen05.missing-fence-after",)

    def tcgen05_fence_after_thread_sync(self):
        self.change()


class AllocateAfterThePromise(Mutation):
    """allocate again after having promised not to"""

    found_by = ("tcgen05.alloc-after-relinquish",)

    def tcgen05_alloc(self, cell, columns, *, cta_group=1):
        self.change()
        self.tcgen05.relinquish_alloc_permit()
        self.right.tcgen05.alloc(cell, columns, cta_group=cta_group)


class OtherCtaGroup(Mutation):
    """commit for a pair of CTAs what one of them multiplied"""

    found_by = ("tcgen05.cta-groups-mixed",)

    def tcgen05_commit(self, barrier, **options):
        self.change()
        self.right.tcgen05.commit(barrier, **{**options, "cta_group": 2})


class OtherMultiply(Mutation):
    """Each tcgen05.mma with a request and a descriptor of its own."""

    def tcgen05_mma(self, request, d, a, b, descriptor, **options):
        self.change()
        self.right.tcgen05.mma(self.request_of(request), d, a, b, self.descriptor_of(descriptor), **options)

    def request_of(self, request):
        return request

    def descriptor_of(self, descriptor):
        return descriptor


class WrongNOfTheDescriptor(OtherMultiply):
    """an N between two steps"""

    found_by = ("descriptor.alignment",)

    def descriptor_of(self, descriptor):
        return dataclasses.replace(descriptor, n=60)


class NBehindTheColumns(OtherMultiply):
    """an N that is wider than the allocation"""

    found_by = ("tcgen05.bounds", "descriptor.range")

    def descriptor_of(self, descriptor):
        return dataclasses.replace(descriptor, n=2 * descriptor.n)


class MOfAPair(OtherMultiply):
    """the M of two CTAs in one"""

    found_by = ("tcgen05.m",)

    def descriptor_of(self, descriptor):
        return dataclasses.replace(descriptor, m=256)


class DescriptorOfAnotherKind(OtherMultiply):
    """the kind of the instruction is not the descriptor's"""

    found_by = ("tcgen05.descriptor",)

    def request_of(self, request):
        return dataclasses.replace(request, kind="tf32")


class TypeOfAnotherKind(OtherMultiply):
    """an 8-bit type in a descriptor of 16-bit types"""

    found_by = ("tcgen05.types",)

    def descriptor_of(self, descriptor):
        return dataclasses.replace(descriptor, a=e4m3)


class ShiftOfSharedMemory(OtherMultiply):
    """ashift of an A in shared memory"""

    found_by = ("tcgen05.ashift-shared",)

    def request_of(self, request):
        return dataclasses.replace(request, ashift=True)


class AccumulateOnToNothing(Mutation):
    """accumulate on to what the columns held before"""

    found_by = ("tcgen05.undefined-accumulator",)

    def tcgen05_mma(self, request, d, a, b, descriptor, *, accumulate=True, **options):
        self.change()
        self.right.tcgen05.mma(request, d, a, b, descriptor, accumulate=True, **options)
