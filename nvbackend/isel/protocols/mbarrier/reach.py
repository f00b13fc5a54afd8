"""Who in a cluster does something to whose mbarrier: a use by the CTA that executes it and the CTA that it reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.loops import Loops
from nvbackend.isel.flow.paths import cluster_size, coming_ranks, is_for_each, rank_paths, wrong_mask
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.protocols.mbarrier.uses import Use


class Reaches:
    """The CTAs of the clusters of one function, whose loops these are."""

    def __init__(self, function: MachineFunction, loops: Loops) -> None:
        self._function = function
        self._loops = loops
        self.size = cluster_size(function)
        self.ranks = range(self.size)
        self.peers = self.ranks if self.size > 1 else ()
        """The CTAs that may do something to one another."""
        self._certain: dict[tuple[str, int], bool] = {}

    def coming(self, use: Use) -> Iterator[int]:
        """The CTAs that may come to the instruction, by their ranks."""
        bits = self._coming[use.site.block]
        return (rank for rank in self.ranks if bits >> rank & 1)

    @cached_property
    def _coming(self) -> dict[str, int]:
        return coming_ranks(self._function)

    def targets(self, use: Use, rank: int) -> int | None:
        """The CTAs that one CTA reaches by it, a bit each; None where they are not known, or its mask is an error."""
        reach = use.site.instr.reach
        if wrong_mask(use.site.instr, self.size) is not None:
            return None
        if reach is not None:
            return reach.targets[rank]
        if use.site.instr.semantics.multicast:
            return use.fact(facts.MASK)
        return None if use.is_remote else 1 << rank

    def threads(self, use: Use, rank: int) -> int | None:
        """How many threads of a CTA execute it each time that its block runs; None where that is not known."""
        reach = use.site.instr.reach
        if rank not in self.coming(use):
            return 0
        return use.threads if reach is None else reach.threads[rank]

    def times(self, use: Use, rank: int, target: int) -> int | None:
        """How many of them reach the mbarrier of the CTA `target`; None where that is not known."""
        reach, threads = use.site.instr.reach, self.threads(use, rank)
        targets = self.targets(use, rank)
        if threads == 0 or (targets is not None and not targets >> target & 1):
            return 0
        if targets is None:
            return None
        if reach is None:
            return threads
        counts = reach.counts[rank]
        return None if counts is None else counts[target]

    def times_in_all(self, use: Use, rank: int) -> int | None:
        """How many mbarriers they reach together, of whichever CTAs; None where that is not known."""
        if not use.site.instr.semantics.multicast:
            return self.threads(use, rank)
        each = [times for target in self.ranks if (times := self.times(use, rank, target)) is not None]
        return sum(each) if len(each) == self.size else None

    def may_reach(self, uses: Sequence[Use], target: int) -> bool:
        """Whether some CTA may reach that of rank `target` by one of these."""
        return any(
            targets is None or targets >> target & 1
            for use in uses
            for targets in (self.targets(use, rank) for rank in self.coming(use))
        )

    def certainly(self, use: Use) -> int:
        """The CTAs that certainly are reached wherever the instruction is executed, a bit each."""
        every, reached, sources = -1, 0, [*self.coming(use)]
        for rank in sources:
            certain = self._certainly_by(use, rank)
            every &= certain
            reached |= certain if self.is_executed(use, rank) else 0
        return reached | every if sources else 0

    def _certainly_by(self, use: Use, rank: int) -> int:
        reach = use.site.instr.reach
        if reach is None:
            return self.targets(use, rank) or 0
        return reach.certain[rank] if wrong_mask(use.site.instr, self.size) is None else 0

    def is_executed(self, use: Use, rank: int) -> bool:
        """Whether a CTA of that rank executes it whenever any CTA of that rank does."""
        threads = use.threads if use.site.instr.reach is None else use.site.instr.reach.threads[rank]
        if threads is not None:
            return threads > 0 and rank in self.coming(use)
        key = use.site.block, rank
        if key not in self._certain:
            self._certain[key] = is_for_each(rank_paths(self._function)[rank], use.site.block)
        return self._certain[key]

    def is_even(self, use: Use, scope: Scope) -> bool:
        """Whether all threads of the `scope` run as many rounds of the loops around it."""
        return self._loops.is_even(use.site.block, scope)

    def all_described(self, uses: Iterable[Use]) -> str:
        """Which CTAs reach which ones by each of them."""
        return "; ".join(dict.fromkeys(self._described(use) for use in uses))

    def _described(self, use: Use) -> str:
        goes: dict[int | None, list[int]] = {}
        for rank in (peer for peer in self.coming(use) if self.threads(use, peer) != 0):
            goes.setdefault(self.targets(use, rank), []).append(rank)
        parts = []
        for targets, ranks in goes.items():
            sources = "each CTA" if len(ranks) == self.size else f"rank {' and '.join(map(str, ranks))}"
            parts.append(f"of {sources} to {'a CTA' if targets is None else f'the CTAs {targets:#b}'}")
        return f"{use.site.instr.opcode} {', '.join(parts)}"
