"""The CTAs whose mbarriers each instruction of a cluster reaches.

Masks and ranks are evaluated for each thread of each CTA. A value that depends on more than these is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_

from llvmlite import ir

from nvbackend.builder.thread_tables.tables import Cta, ThreadSet, signed
from nvbackend.builder.value_tracking.known import Known
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion, Scope, Semantics
from nvbackend.isel.machine.function import Reach

_MASK = 0xFFFF
"""The bits of a mask of CTAs (PTX ISA 9.7.9, ctaMask)."""
_TWICE = 16


@dataclass(frozen=True, slots=True)
class Numbers:
    """A value by the CTA's rank and the thread's index in its CTA; `by_thread`: threads of a CTA may differ."""

    at: Callable[[int, int], int]
    by_thread: bool = False
    of_several: Callable[[int, Sequence[int]], set[int]] | None = None
    """The same of several threads of a CTA, where that is quicker than one after another."""

    def of(self, rank: int, threads: Sequence[int]) -> set[int]:
        """What it is in these threads of a CTA."""
        if self.by_thread and self.of_several is not None:
            return self.of_several(rank, threads)
        return {self.at(rank, thread) for thread in (threads if self.by_thread else threads[:1])}

    def then(self, function: Callable[[int], int]) -> Numbers:
        """What a function makes of it."""
        return Numbers(
            lambda rank, thread: function(self.at(rank, thread)),
            self.by_thread,
            lambda rank, threads: {function(number) for number in self.of(rank, threads)},
        )


class ClusterExecution:
    """The instructions of a function whose `cta` is one of several, with what is `known` and who is `executing`."""

    def __init__(
        self, cta: Cta, known: Callable[[ir.Value], Known], executing: Callable[[object], ThreadSet | None]
    ) -> None:
        self._threads, self.cluster = cta.threads, cta.cluster
        self._everyone = [*range(cta.threads)]
        self._known = known
        self._executing = executing

    def numbers(self, value: ir.Value | int) -> Numbers | None:
        """The value in each thread of each CTA; None where it is not known."""
        if isinstance(value, int):
            return Numbers(lambda *_: value)
        known = self._known(value)
        if known.numbers is None or known.where is not None or known.numbers.shape[0] != 1:
            return None
        table = signed(known.numbers, value.type.width).wide(self._threads)
        rows = [table.of_rank(rank).rows[0] for rank in range(self.cluster)]
        return Numbers(
            lambda rank, thread: int(rows[rank][thread]),
            known.certain < Scope.CTA,
            lambda rank, threads: {rows[rank][thread] for thread in threads},
        )

    def _groups(self, guard: object) -> list[list[list[int]] | None]:
        """The threads of each CTA that execute something with this `guard`: one of each list, it is not known which."""
        executing = self._executing(guard)
        if executing is None:
            return [None] * self.cluster
        return [executing.in_cta(rank).candidates for rank in range(self.cluster)]

    @property
    def own(self) -> Numbers:
        """The rank of the thread's own CTA."""
        return Numbers(lambda rank, *_: rank)

    def first(self, guard: object, is_so: Callable[[int, int], bool]) -> tuple[int, int] | None:
        """A CTA and a thread of it that certainly execute an instruction here, and of which something `is_so`.

        Where it is not known who comes, it must be so of everybody.
        """
        everyone = ((rank, thread) for rank in range(self.cluster) for thread in range(self._threads))
        groups = [each for each in self._groups(guard) if each is not None]
        if not groups:
            return (0, 0) if all(is_so(*place) for place in everyone) else None
        for rank, each in enumerate(groups):
            for group in each:
                if all(is_so(rank, thread) for thread in group):
                    return rank, group[0]
        return None

    def reach(self, said: Semantics, selected: object, owner: Numbers | None, guard: object, *, paired: bool) -> Reach:
        """Whose mbarriers an instruction reaches: of the CTAs of the mask `selected`, or of the `owner` of its barrier.

        A `paired` one is of a pair of CTAs. An owner or a mask that is not known is None.
        """
        groups = self._groups(guard)
        mask = self.numbers(selected) if isinstance(selected, (ir.Value, int)) else None
        addressed = _addressed(said, mask, owner, paired=paired)
        parts = zip(*(self._of_cta(rank, each, addressed) for rank, each in enumerate(groups)), strict=True)
        threads, targets, certain, counts = parts
        masks = tuple(self._same(rank, each, mask) for rank, each in enumerate(groups))
        return Reach(threads, targets, certain, counts, masks)

    def _same(self, rank: int, groups: list[list[int]] | None, mask: Numbers | None) -> int | None:
        """The mask of all threads of a CTA that execute it, None where they have several."""
        if mask is None:
            return None
        if not mask.by_thread:
            return mask.at(rank, 0) & _MASK
        targets = {number & _MASK for group in groups or [self._everyone] for number in mask.of(rank, group)}
        return targets.pop() if len(targets) == 1 else None

    def _of_cta(
        self, rank: int, groups: list[list[int]] | None, addressed: Numbers | None
    ) -> tuple[int | None, int | None, int, tuple[int, ...] | None]:
        """What `Reach` has of one CTA: threads, targets, certain ones, and counts."""
        count = None if groups is None else len(groups)
        if count == 0:
            return 0, 0, 0, (0,) * self.cluster
        if addressed is None:
            return count, None, 0, None
        if not addressed.by_thread:
            targets = self._inside(addressed.at(rank, 0))
            return count, targets, targets, None if count is None else self._counted([addressed.at(rank, 0)], count)
        each = [addressed.of(rank, group) for group in groups or [self._everyone]]
        targets = self._inside(reduce(or_, set[int]().union(*each)))
        certain = self._inside(reduce(or_, (reduce(and_, by_group) for by_group in each)))
        known = groups is not None and all(len(by_group) == 1 for by_group in each)
        return count, targets, certain, self._counted([by_group.pop() for by_group in each]) if known else None

    def _inside(self, reached: int) -> int:
        return reached & (1 << self.cluster) - 1

    def _counted(self, reached: Sequence[int], times: int = 1) -> tuple[int, ...]:
        """How many times they reach each CTA, where there are so many `times` as many."""
        return tuple(
            times * sum((targets >> rank & 1) + (targets >> _TWICE + rank & 1) for targets in reached)
            for rank in range(self.cluster)
        )


def _addressed(said: Semantics, mask: Numbers | None, owner: Numbers | None, *, paired: bool) -> Numbers | None:
    """The CTAs whose mbarriers one execution reaches, a bit each, and from bit `_TWICE` on those that it reaches twice.

    `owner` has the CTA of the barrier's address.
    """
    if not said.multicast:
        return None if owner is None else owner.then(lambda rank: 1 << (rank & 15))
    if mask is None:
        return None
    if not paired or said.issues is not Completion.BYTES:
        return mask.then(lambda targets: targets & _MASK)
    if owner is None:
        return None
    # PTX ISA 9.7.9 (cp.async.bulk.tensor): of each pair it is the CTA whose rank has the parity of the barrier's CTA.
    return Numbers(
        lambda *place: _of_parity(mask.at(*place) & _MASK, owner.at(*place) & 1), mask.by_thread or owner.by_thread
    )


def _of_parity(mask: int, parity: int) -> int:
    """The CTAs of that parity in the pairs that have a CTA in the mask, and twice those of pairs that have both."""
    targets = 0
    for rank in range(mask.bit_length()):
        if mask >> rank & 1:
            bit = 1 << (rank & ~1 | parity)
            targets |= bit << _TWICE if targets & bit else bit
    return targets
