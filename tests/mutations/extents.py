"""Mistakes about who waits for what is read, and how much there is of it."""

from __future__ import annotations

from tests.mutations.mutation import Mutation


class WaitInOneWarp(Mutation):
    """wait for the bytes of a tile in one warp, and read it in all"""

    found_by = ("proxy.waited-by-others", "proxy.read-before-wait", "tcgen05.missing-wait")

    def mbarrier_wait(self, barrier, parity):
        if self.name != "gemm" and self.core.alone() is None and self.is_call("wait", 0):
            with self.if_(self.warp_id() == 0):
                self.right.mbarrier.wait(barrier, parity)
        else:
            self.right.mbarrier.wait(barrier, parity)


class BufferOfHalfTheSize(Mutation):
    """allocate half of a buffer"""

    found_by = ("shared.bounds", "tensor.bounds")

    def shared(self, element, count, *, align=16, name="shared"):
        half = element.bits < 64 and count > 2 and self.is_call("shared", 0)
        return self.right.shared(element, count // 2 if half else count, align=align, name=name)
