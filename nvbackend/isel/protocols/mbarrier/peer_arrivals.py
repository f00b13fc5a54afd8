"""Arrivals in a cluster: on the mbarrier of each CTA, by the threads of all of them.

As with those of a kernel without clusters, only sums that are certain are compared with the count of a phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nvbackend.intrinsics.row.semantics import MbarrierUse
from nvbackend.isel.machine import facts
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.counts import Counts, multiplicity, sums
from nvbackend.isel.protocols.mbarrier.finding import CountFinding
from nvbackend.isel.protocols.mbarrier.parity import Firsts
from nvbackend.isel.protocols.mbarrier.reach import Reaches
from nvbackend.isel.protocols.mbarrier.uses import Cell, Use, Uses


class PeerArrivals:
    """The arrivals of one function that runs in clusters."""

    def __init__(self, uses: Uses, reaches: Reaches, counts: Counts, firsts: Firsts) -> None:
        self._uses = uses
        self._reaches = reaches
        self._counts = counts
        self._firsts = firsts

    def findings(self, cell: Cell) -> Iterator[CountFinding]:
        """The first CTA whose waits for a barrier certainly do not end, or end at other times than they should."""
        inits, arrivals = self._uses.of(cell, MbarrierUse.INIT), self._uses.of(cell, MbarrierUse.ARRIVE)
        waits = self._uses.of(cell, MbarrierUse.WAIT)
        if self._uses.lost or not inits:
            return
        for rank in self._reaches.peers:
            finding = self._endless(rank, waits, arrivals) or self._miscounted(rank, cell, waits, arrivals)
            if finding is not None:
                yield finding
                return

    def _endless(self, rank: int, waits: Sequence[Use], arrivals: Sequence[Use]) -> CountFinding | None:
        """A wait for the first phase in a CTA that no arrival reaches."""
        if self._reaches.may_reach(arrivals, rank):
            return None
        for use in waits:
            if self._firsts.parity(use) == 0 and self._reaches.is_executed(use, rank):
                values = (("rank", rank), ("others", self._reaches.all_described(arrivals)))
                return CountFinding(rules.NO_ARRIVAL_IN_PEER, use, tuple(arrivals), values)
        return None

    def _miscounted(self, rank: int, cell: Cell, waits: Sequence[Use], arrivals: Sequence[Use]) -> CountFinding | None:
        """Arrivals of which no part adds up to a phase, in a CTA that waits for one."""
        count, parts = self._counts.initial(cell), self._parts(rank, arrivals)
        if count is None or not parts or count in sums(parts, count):
            return None
        use = next((wait for wait in waits if rank in self._reaches.coming(wait)), None)
        if use is None:
            return None
        values = (
            ("rank", rank),
            ("count", count),
            ("total", sum(parts)),
            ("others", self._reaches.all_described(arrivals)),
        )
        return CountFinding(rules.ARRIVALS_IN_PEER, use, tuple(arrivals), values)

    def _parts(self, rank: int, arrivals: Sequence[Use]) -> list[int] | None:
        """The arrivals of each instruction of each CTA in one phase; None where one of them is not known."""
        parts = []
        for use in arrivals:
            count = use.fact(facts.ARRIVALS)
            if count is not None:
                parts += [count] if self._reaches.may_reach([use], rank) else []
                continue
            for source in self._reaches.coming(use):
                part = self._part(use, source, rank)
                if part is None:
                    return None
                parts += [part] if part else []
        return parts

    def _part(self, use: Use, source: int, rank: int) -> int | None:
        times, each = self._reaches.times(use, source, rank), multiplicity(use)
        if not times:
            return times
        if each is None or self._counts.is_spread(use, times):
            return None
        is_one = self._counts.once_a_phase(use) if source == rank else self._counts.is_outside_of_loops(use)
        return times * each if is_one else None
