"""Mistakes around wgmma: its protocol, its operands, its shapes."""

from __future__ import annotations

import dataclasses

from nvbackend import bf16
from nvbackend.builder.core.tile import SharedTile
from tests.mutations.mutation import Mutation


class DropTheFence(Mutation):
    """drop the fence"""

    found_by = ("wgmma.missing-fence",)

    def wgmma_fence(self):
        self.change()


class DropTheCommit(Mutation):
    """drop the commit"""

    found_by = ("wgmma.missing-commit",)

    def wgmma_commit_group(self):
        self.change()


class DropEveryWait(Mutation):
    """drop every wait"""

    found_by = ("wgmma.read-in-flight", "wgmma.write-in-flight")

    def wgmma_wait_group(self, pending=0, drains=()):
        self.change()


class DropTheLastWait(Mutation):
    """drop the wait in front of the epilogue"""

    found_by = ("wgmma.read-in-flight", "wgmma.write-in-flight", "pipeline.in-flight")

    def wgmma_wait_group(self, pending=0, drains=()):
        if drains:
            self.change()
        else:
            self.right.wgmma.wait_group(pending, drains)


class WaitForOneTooFew(Mutation):
    """wait for one group too few"""

    found_by = ("wgmma.read-in-flight", "wgmma.wait-leaves-group", "pipeline.in-flight")

    def wgmma_wait_group(self, pending=0, drains=()):
        self.change()
        self.right.wgmma.wait_group(pending + 1, drains)


class WaitForOneTooMany(Mutation):
    """wait for one group too many"""

    unseen = ("hopper_gemm", "dynamic_gemm", "shared_depth", "equal_shares")
    because = "right, and slower"

    def wgmma_wait_group(self, pending=0, drains=()):
        if pending:
            self.change()
        self.right.wgmma.wait_group(max(pending - 1, 0), drains)


class SwapTwoWaits(Mutation):
    """swap two waits"""

    unseen = ("hopper_gemm", "dynamic_gemm", "shared_depth", "equal_shares")
    because = "right, and slower"

    def wgmma_wait_group(self, pending=0, drains=()):
        if pending or self.changed:
            self.change()
            pending = 1 - pending
        self.right.wgmma.wait_group(pending, drains)


class WaitBeforeTheCommit(Mutation):
    """wait before the commit"""

    found_by = ("wgmma.missing-commit", "wgmma.read-in-flight")

    def wgmma_commit_group(self):
        self.change()
        self.right.wgmma.wait_group(0)
        self.right.wgmma.commit_group()

    def wgmma_wait_group(self, pending=0, drains=()):
        pass


class FenceInsideTheGroup(Mutation):
    """fence between two multiplies of one chain"""

    found_by = ("wgmma.needless-fence",)

    def wgmma_mma_async(self, *operands, **options):
        if self.is_call("mma", 1):
            self.wgmma.fence()
        self.right.wgmma.mma_async(*operands, **options)


class TouchTheAccumulatorBeforeTheWait(Mutation):
    """change the accumulator between commit and wait"""

    found_by = ("wgmma.write-in-flight", "wgmma.read-in-flight")

    def wgmma_commit_group(self):
        self.right.wgmma.commit_group()
        self.change()
        self.core.accumulators[-1].fill(1.0)


class OneChainForAll(Mutation):
    """scale-D 1 in the first multiply of a chain"""

    found_by = ("wgmma.unwritten",)
    unseen = ("equal_shares",)
    because = "the sums of the piece before"

    def wgmma_mma_async(self, *operands, **options):
        self.change()
        self.right.wgmma.mma_async(*operands, **{**options, "accumulate": True})


class NoClear(Mutation):
    """leave out the clear between two tiles"""

    found_by = ("accumulator.carried", "accumulator.carried-by-grid", "shares.not-cleared")
    unseen = ("shared_depth",)
    because = "right: it is one tile"

    def wgmma_accumulator(self, *operands, **options):
        made = self.right.wgmma.accumulator(*operands, **options)
        vars(made)["clear"] = self.change
        return made


class AdvanceInBytes(Mutation):
    """advance the descriptor in bytes instead of elements"""

    found_by = ("layout.bounds", "layout.straddle", "layout.origin", "descriptor.pattern")

    def wgmma_mma_async(self, accumulator, a, b, request, *, b_at=(0, 0), **options):
        self.change()
        if isinstance(b, SharedTile):
            b_at = (b_at[0], 2 * b_at[1])
        else:
            b = b.advance(b.inside)
        self.right.wgmma.mma_async(accumulator, a, b, request, b_at=b_at, **options)


class AdvanceInElementsOfAWord(Mutation):
    """advance the descriptor into a core matrix"""

    found_by = ("layout.origin", "descriptor.advance-unit")

    def wgmma_mma_async(self, accumulator, a, b, request, *, b_at=(0, 0), **options):
        self.change()
        if isinstance(b, SharedTile):
            b_at = (b_at[0], b_at[1] // 4)
        else:
            b = b.advance(b.inside // 4)
        self.right.wgmma.mma_async(accumulator, a, b, request, b_at=b_at, **options)


class NotAdvanced(Mutation):
    """multiply the first columns of B in each step along K"""

    found_by = ("copy.unread",)
    unseen = ("register_operand", "ordinary_stores", "equal_shares")
    because = "no copy beside it is read for several steps, or the run waits for a flag"

    def wgmma_mma_async(self, accumulator, a, b, request, *, b_at=(0, 0), **options):
        self.change()
        if isinstance(b, SharedTile):
            b_at = (b_at[0], 0)
        else:
            b = b.advance(-b.inside)
        self.right.wgmma.mma_async(accumulator, a, b, request, b_at=b_at, **options)


class OtherRequest(Mutation):
    """Each multiply with a request that differs in some facts from what was asked for."""

    def wgmma_mma_async(self, accumulator, a, b, request, **options):
        self.change()
        self.right.wgmma.mma_async(accumulator, a, b, dataclasses.replace(request, **self.facts_of(request)), **options)

    def facts_of(self, request):
        return {}


class WrongMajorness(OtherRequest):
    """the other majorness of B"""

    found_by = ("wgmma.operand-major",)

    def facts_of(self, request):
        return {"trans_b": 1}


class WrongN(OtherRequest):
    """N of half the tile"""

    found_by = ("wgmma.accumulator",)

    def facts_of(self, request):
        return {"n": request.n // 2}


class WrongK(OtherRequest):
    """K of twice the instruction's"""

    found_by = ("wgmma.k",)

    def facts_of(self, request):
        return {"k": 2 * request.k}


class WrongElement(OtherRequest):
    """multiply f16 tiles as bf16"""

    found_by = ("wgmma.operand-element",)

    def facts_of(self, request):
        return {"a": bf16, "b": bf16}


class OtherResidency(OtherRequest):
    """A in registers where it is in shared memory, and the other way round"""

    found_by = ("wgmma.residency",)

    def facts_of(self, request):
        return {"a_in_registers": not request.a_in_registers}


class ReservedBitInTheDescriptor(Mutation):
    """set a reserved bit of the descriptor"""

    found_by = ("descriptor.reserved-bits",)

    def wgmma__operand_descriptor(self, name, given, *place):
        self.change()
        if isinstance(given, SharedTile):
            given = self.right.wgmma._tile_operand(given, *place[:2])
        given.word |= 1 << 60
        return self.right.wgmma._operand_descriptor(name, given, *place)


class MultiplyInOneWarp(Mutation):
    """multiply in one warp of the warpgroup"""

    found_by = ("convergence.warpgroup",)

    def wgmma_mma_async(self, *operands, **options):
        self.change()
        with self.if_(self.warp_id() % 4 == 0):
            self.right.wgmma.mma_async(*operands, **options)
