"""Reads of what an asynchronous copy brings, to which no way leads that waits at the mbarrier of the copy.

Other accesses to the same memory, such as ordinary stores that clear it before, make no difference: the bytes come at
any time. Of what a peer sends it must be certain that the peer does so where this CTA reads.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.isel.flow.accesses import AccessKind, Relation, Run, relation
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.flow.paths import is_avoided, is_for_each, rank_paths, reachable
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Crew, MachineFunction, MemoryObject, RunTimeValues
from nvbackend.isel.protocols.cluster.phases import may_order
from nvbackend.isel.protocols.cluster.rank_values import footprints_by_rank
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED, barrier_touch, is_waiting
from nvbackend.isel.protocols.proxy.state import Meeting

_READS = (AccessKind.READ, AccessKind.MULTIPLY)
_BROUGHT = (AccessKind.LOAD, AccessKind.RECEIVE)


def unwaited_reads(function: MachineFunction, runs: list[Run], told: set[MemoryObject]) -> Iterator[Meeting]:
    """The first such read of each allocation that is not in `told`."""
    copies = [run for run in runs if run.kind in _BROUGHT and run.object not in told and None not in run.barriers]
    values = function.values
    if copies and values is not None and not function.attributes.get(ATTACHED) and loops_of(function).regular:
        search = _Search(function, values)
        for read in runs:
            if read.kind in _READS and read.object not in told:
                first = next(
                    (one for one in copies if one.object == read.object and search.is_unwaited(one, read)), None
                )
                if first is not None:
                    told = told | {read.object}
                    yield Meeting(first, read, Relation.SURE, frozenset({0}))


class _Search:
    """The search in one function."""

    def __init__(self, function: MachineFunction, values: RunTimeValues) -> None:
        self._function = function
        self._loops = loops_of(function)
        sites = [site for found in sites_of(function).values() for site in found]
        self._footprints = footprints_by_rank(function, values)
        self._waits = [site for site in sites if is_waiting(site.instr)]
        self._ordering = [site for site in sites if may_order(site.instr)]
        self._after: dict[object, tuple[dict[str, int], set[str]]] = {}

    def is_unwaited(self, copy: Run, read: Run) -> bool:
        """Whether the bytes of `copy` certainly may come when `read` is executed."""
        if copy.site.position > read.site.position or self._leads(read.site, copy.barriers):
            return False
        by, also = (self._function.blocks[one.site.block].crew for one in (copy, read))
        if by is None or also is None or not all(self._loops.is_reachable(one.site.block) for one in (copy, read)):
            return False
        return any(self._meet(copy, by, read, also, *ranks) for ranks in self._ranks(copy, by, read, also))

    def _ranks(self, copy: Run, by: Crew, read: Run, also: Crew) -> Iterator[tuple[int, int]]:
        """The CTAs of which one certainly issues the copy into the memory of the other, which certainly reads."""
        paths = rank_paths(self._function)
        comes_first = self._loops.dominates(by.anchor, read.site.block)
        if copy.kind is AccessKind.LOAD:
            yield from ((rank, rank) for rank in range(len(paths)) if comes_first)
            return
        comes_first = comes_first and all(is_for_each(path, copy.site.block) for path in paths)
        if not comes_first and self._leads(copy.site, None):
            return  # the peer may have waited until it was read
        sent = copy.site.instr.facts.get(facts.PEERS, 0)
        for rank, path in enumerate(paths):
            for peer in facts.peers_of(sent, rank):
                if comes_first or not (is_avoided(path, by.anchor) or is_avoided(paths[peer], also.anchor)):
                    yield rank, peer

    def _meet(self, copy: Run, by: Crew, read: Run, also: Crew, rank: int, peer: int) -> bool:
        """Whether the bytes of the copy, issued by the CTA of one rank, are read in the other."""
        if relation(copy, read) is Relation.SURE:
            return True
        here, there = self._footprints[rank], self._footprints[peer]
        return here.common(copy, by, there, read, also) is not None

    def _leads(self, target: Site, barriers: frozenset[MemoryObject | None] | None) -> bool:
        """Whether some way to the target waits at one of the `barriers`, or for None at anything that orders CTAs."""
        if barriers not in self._after:
            waits = self._ordering
            if barriers is not None:
                waits = [one for one in self._waits if _barrier(one) is None or _barrier(one) in barriers]
            first = {one.block: one.position for one in reversed(waits)}
            blocks = self._function.blocks
            self._after[barriers] = (
                first,
                reachable(self._function, [on for one in first for on in blocks[one].successors]),
            )
        first, after = self._after[barriers]
        return target.block in after or first.get(target.block, target.position) < target.position


def _barrier(site: Site) -> MemoryObject | None:
    touch = barrier_touch(site.instr)
    return None if touch is None else touch.object
