"""Which threads of a cluster's CTAs are in a with-block, and whose mbarriers their instructions reach.

Conditions, masks and ranks are evaluated for each thread of each CTA. What is computed from anything else than the
thread's index, the CTA's rank and constants is not known, and then nothing is known of the block or instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.scopes.regions import Region, Threads, in_both
from nvbackend.builder.value_tracking.lane_values import Lanes, LaneValues, conjuncts
from nvbackend.intrinsics.copy import tma_parts
from nvbackend.intrinsics.row.guard import GUARD
from nvbackend.intrinsics.row.hierarchy import WARP_SIZE
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Reach

THREAD_INDEX = "llvm.nvvm.read.ptx.sreg.tid.x"
RANK = "llvm.nvvm.read.ptx.sreg.cluster.ctarank"
_SAME_AS_RANK = ("llvm.nvvm.read.ptx.sreg.cluster.ctaid.x",)
_SIZES = ("llvm.nvvm.read.ptx.sreg.cluster.nctarank", "llvm.nvvm.read.ptx.sreg.cluster.nctaid.x")
_PAIR = 2
_MASK = 0xFFFF
"""The bits of a mask of CTAs (PTX ISA 9.7.9, ctaMask)."""
_TWICE = 16


@dataclass(frozen=True, slots=True)
class Numbers:
    """A value by the CTA's rank and the thread's index in its CTA; `by_thread`: threads of a CTA may differ."""

    at: Callable[[int, int], int]
    by_thread: bool = False


def rank_values(cluster: int) -> LaneValues:
    """Values over the rank of the CTA, in a cluster along x."""
    ranks = tuple(range(cluster))
    known: dict[str, Lanes] = dict.fromkeys(_SAME_AS_RANK, ranks)
    return LaneValues(RANK, cluster, known | dict.fromkeys(_SIZES, (cluster,) * cluster))


class ClusterExecution:
    """The threads of the whole cluster that are in the innermost of the `regions`.

    A bit each: those of a CTA from a multiple of whole warps on.
    """

    def __init__(self, regions: Sequence[Region], threads: int, cluster: int) -> None:
        self._regions = regions
        self._threads, self.cluster = threads, cluster
        self._stride = -(-threads // WARP_SIZE) * WARP_SIZE
        self._of_thread, self._of_rank = LaneValues(THREAD_INDEX, threads), rank_values(cluster)
        self._of_both: LaneValues | None = None
        self._cta = (1 << threads) - 1
        self._each = sum(1 << rank * self._stride for rank in range(cluster))
        regions[0].in_cluster = Threads(self._cta * self._each)

    def split(self, condition: ir.Value, elected: Sequence[ir.Value]) -> tuple[Threads | None, Threads | None]:
        """Those of the threads here for which `condition` holds, and the others; None for what is not known."""
        here = self._regions[-1].in_cluster
        if here is None or here.elected:
            by_rank = None if here is None else self._by_rank(condition)
            if here is None or by_rank is None:
                return None, None
            return Threads(here.bits & by_rank, True), Threads(here.bits & ~by_rank, True)
        chosen = self._holds(condition, elected)
        if chosen is None:
            return None, None
        kept = Threads(here.bits & chosen.bits, chosen.elected)
        return kept, here.without(kept)

    def _holds(self, condition: ir.Value, elected: Sequence[ir.Value]) -> Threads | None:
        found: Threads | None = None
        for one in conjuncts(condition):
            holding = self._holds_alone(one, elected)
            found = holding if found is None or holding is None else in_both(found, holding)
            if found is None:
                return None
        return found

    def _holds_alone(self, condition: ir.Value, elected: Sequence[ir.Value]) -> Threads | None:
        if any(condition is one for one in elected):
            firsts = sum(1 << first for first in range(0, self._threads, WARP_SIZE))
            return Threads(firsts * self._each, elected=True)
        lanes = self._of_thread.lanes(condition)
        if lanes is not None:
            return Threads(sum(1 << thread for thread, holds in enumerate(lanes) if holds) * self._each)
        by_rank = self._by_rank(condition)
        if by_rank is not None:
            return Threads(by_rank)
        both = self._both().lanes(condition)
        everyone = self._cta * self._each
        return None if both is None else Threads(sum(1 << place for place, one in enumerate(both) if one) & everyone)

    def _by_rank(self, condition: ir.Value) -> int | None:
        """The threads of the CTAs in which a condition over their rank holds."""
        lanes = self._of_rank.lanes(condition)
        if lanes is None:
            return None
        return sum(self._cta << rank * self._stride for rank, holds in enumerate(lanes) if holds)

    def _both(self) -> LaneValues:
        """Values over the thread and the CTA's rank together."""
        if self._of_both is None:
            total = self._stride * self.cluster
            ranks = tuple(place // self._stride for place in range(total))
            known = dict.fromkeys((RANK, *_SAME_AS_RANK), ranks) | dict.fromkeys(_SIZES, (self.cluster,) * total)
            known[THREAD_INDEX] = tuple(place % self._stride for place in range(total))
            self._of_both = LaneValues(THREAD_INDEX, total, known)
        return self._of_both

    def numbers(self, value: ir.Value | int) -> Numbers | None:
        """The value in each thread of each CTA; None where it is not known."""
        if isinstance(value, int):
            return Numbers(lambda *_: value)
        ranks = self._of_rank.lanes(value)
        if ranks is not None:
            return Numbers(lambda rank, *_: ranks[rank])
        threads = self._of_thread.lanes(value)
        if threads is not None:
            return Numbers(lambda *place: threads[place[1]], by_thread=True)
        both, stride = self._both().lanes(value), self._stride
        return None if both is None else Numbers(lambda rank, thread: both[rank * stride + thread], by_thread=True)

    def executing(self, operands: Operands) -> Threads | None:
        """The threads that execute an instruction here, those left out that its guard takes out."""
        here, guard = self._regions[-1].in_cluster, operands.get(GUARD)
        if here is None or guard is None:
            return here
        holds = self._holds(guard, ()) if isinstance(guard, ir.Value) and not here.elected else None
        return None if holds is None else Threads(here.bits & holds.bits)

    def lanes(self, executing: Threads, rank: int) -> Iterator[range]:
        """The threads of a CTA that execute something: one of each range, which of it is not known."""
        bits = executing.bits >> rank * self._stride & self._cta
        while bits:
            first = (bits & -bits).bit_length() - 1
            bits &= bits - 1
            yield range(first, min(first + WARP_SIZE, self._threads) if executing.elected else first + 1)

    @property
    def own(self) -> Numbers:
        """The rank of the thread's own CTA."""
        return Numbers(lambda rank, *_: rank)

    def first(self, operands: Operands, is_so: Callable[[int, int], bool]) -> tuple[int, int] | None:
        """A CTA and a thread of it that certainly execute an instruction here, and of which something `is_so`.

        Where it is not known who comes, it must be so of everybody.
        """
        executing = self.executing(operands)
        if executing is None:
            everyone = ((rank, thread) for rank in range(self.cluster) for thread in range(self._threads))
            return (0, 0) if all(is_so(*place) for place in everyone) else None
        for rank in range(self.cluster):
            for group in self.lanes(executing, rank):
                if all(is_so(rank, thread) for thread in group):
                    return rank, group[0]
        return None

    def reach(self, row: Row, operands: Operands, owner: Numbers | None) -> Reach:
        """Whose mbarriers `row` reaches; `owner` has the CTA that its barrier's address is of, where that is known."""
        executing, given = self.executing(operands), operands.get(facts.MASK)
        mask = self.numbers(given) if isinstance(given, (ir.Value, int)) else None
        if row.axes.get("multicast") and not row.has_operand(facts.MASK):
            mask = Numbers(lambda *_: _MASK)  # it goes to every CTA of the cluster
        addressed = _addressed(row, mask, owner)
        parts = zip(*(self._of_cta(rank, executing, addressed) for rank in range(self.cluster)), strict=True)
        threads, targets, certain, counts = parts
        masks = tuple(self._same(rank, executing, mask) for rank in range(self.cluster))
        return Reach(threads, targets, certain, counts, masks)

    def _same(self, rank: int, executing: Threads | None, mask: Numbers | None) -> int | None:
        """The mask of all threads of a CTA that execute it, None where they have several."""
        if mask is None or not mask.by_thread:
            return None if mask is None else mask.at(rank, 0) & _MASK
        groups = [range(self._threads)] if executing is None else self.lanes(executing, rank)
        found = {mask.at(rank, thread) & _MASK for group in groups for thread in group}
        return found.pop() if len(found) == 1 else None

    def _of_cta(
        self, rank: int, executing: Threads | None, addressed: Numbers | None
    ) -> tuple[int | None, int | None, int, tuple[int, ...] | None]:
        """What `Reach` has of one CTA: threads, targets, certain ones, and counts."""
        groups = None if executing is None else [*self.lanes(executing, rank)]
        count = None if groups is None else len(groups)
        if count == 0:
            return 0, 0, 0, (0,) * self.cluster
        if addressed is None:
            return count, None, 0, None
        if not addressed.by_thread:
            reached = addressed.at(rank, 0)
            targets = self._inside(reached)
            return count, targets, targets, None if count is None else self._counted([reached] * count)
        each = [{addressed.at(rank, thread) for thread in group} for group in groups or [range(self._threads)]]
        targets = self._inside(reduce(or_, set[int]().union(*each)))
        certain = self._inside(reduce(or_, (reduce(and_, one) for one in each)))
        known = groups is not None and all(len(one) == 1 for one in each)
        return count, targets, certain, self._counted([one.pop() for one in each]) if known else None

    def _inside(self, reached: int) -> int:
        return reached & (1 << self.cluster) - 1

    def _counted(self, reached: Sequence[int]) -> tuple[int, ...]:
        """How many times they reach each CTA."""
        return tuple(
            sum((one >> rank & 1) + (one >> _TWICE + rank & 1) for one in reached) for rank in range(self.cluster)
        )


def _addressed(row: Row, mask: Numbers | None, owner: Numbers | None) -> Numbers | None:
    """The CTAs whose mbarriers one execution reaches, a bit each, and from bit `_TWICE` on those that it reaches twice.

    `owner` has the CTA of the barrier's address.
    """
    if not row.axes.get("multicast"):
        return None if owner is None else Numbers(lambda *place: 1 << (owner.at(*place) & 15), owner.by_thread)
    if mask is None:
        return None
    if row.axes.get("cta_group") != _PAIR or row.family != tma_parts.FAMILY:
        return Numbers(lambda *place: mask.at(*place) & _MASK, mask.by_thread)
    if owner is None:
        return None
    # PTX ISA 9.7.9 (cp.async.bulk.tensor): of each pair it is the CTA whose rank has the parity of the barrier's CTA.
    return Numbers(
        lambda *place: _of_parity(mask.at(*place) & _MASK, owner.at(*place) & 1), mask.by_thread or owner.by_thread
    )


def _of_parity(mask: int, parity: int) -> int:
    """The CTAs of that parity in the pairs that have a CTA in the mask, and twice those of pairs that have both."""
    found = 0
    for rank in range(mask.bit_length()):
        if mask >> rank & 1:
            one = 1 << (rank & ~1 | parity)
            found |= one << _TWICE if found & one else one
    return found
