"""Threads that read what a bulk copy brings, while only others of the CTA wait for it.

A wait orders what its own thread does. So every thread that reads, or multiplies, either waits itself or comes after
a barrier with one that did. A read is reported where a thread of its crew certainly does neither: the last it acquired
anything was before the copy, on all paths that it can take.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.isel.flow.accesses import AccessKind, Relation, Run, relation, shared_accesses
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.flow.paths import ways
from nvbackend.isel.machine.function import MachineFunction, MemoryTouch
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED, is_waiting
from nvbackend.isel.protocols.proxy.rules import WAITED_BY_OTHERS
from nvbackend.isel.protocols.shared.syncs import acquires

_READS = (AccessKind.MULTIPLY, AccessKind.READ)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A bulk copy into shared memory, and the block that always comes with it."""

    run: Run
    anchor: str


def check_unwaited_reads(function: MachineFunction) -> list[Diagnostic]:
    """Every read of which that is certain, once for each block."""
    accesses = shared_accesses(function)
    kinds = {kind for found in accesses.values() for kind, _ in found}
    if AccessKind.LOAD not in kinds or not kinds & {*_READS} or function.attributes.get(ATTACHED):
        return []
    return list(_Search(function).find())


class _Search:
    """The search in one function."""

    def __init__(self, function: MachineFunction) -> None:
        self._function = function
        self._sites = sites_of(function)
        self._loops = loops_of(function)
        self._accesses = shared_accesses(function)
        self._copies: dict[int, list[_Copy]] = {}
        self._in_front: dict[str, Site | None] = {}
        self._ordering = {
            block: [site for site in sites if acquires(site.instr)] for block, sites in self._sites.items()
        }

    def find(self) -> Iterator[Diagnostic]:
        """All of them, in the order of the text."""
        if not self._loops.regular:
            return
        for kind, site, touch in self._all():
            crew = self._function.blocks[site.block].crew
            if kind is AccessKind.LOAD and crew is not None:
                run = Run(site.position, kind, touch.object, [(site, touch)])
                self._copies.setdefault(touch.object.id, []).append(_Copy(run, crew.anchor))
        told: set[tuple[str, int]] = set()
        for kind, site, touch in self._all():
            if kind in _READS and (site.block, touch.object.id) not in told:
                found = self._fault(Run(site.position, kind, touch.object, [(site, touch)]))
                if found is not None:
                    told.add((site.block, touch.object.id))
                    yield found

    def _all(self) -> Iterator[tuple[AccessKind, Site, MemoryTouch]]:
        for sites in self._sites.values():
            for site in sites:
                for kind, touch in self._accesses.get(site.position, ()):
                    yield kind, site, touch

    def _fault(self, read: Run) -> Diagnostic | None:
        site, crew = read.site, self._function.blocks[read.site.block].crew
        if crew is None or crew.elected or not self._loops.is_reachable(site.block):
            return None
        last = self._nearest(site)
        if last is None:
            return None
        for copy in self._copies_between(last, read):
            if self._loops.dominates(copy.anchor, site.block) and relation(copy.run, read) is Relation.SURE:
                thread = self._thread(last, site, crew.bits)
                if thread is not None:
                    return _diagnose(read, copy.run, thread)
        return None

    def _nearest(self, site: Site) -> Site | None:
        """What every thread that comes here acquired by last, of all that it certainly did."""
        ordering = self._ordering[site.block]
        before = bisect_left(ordering, site.position, key=_position)
        return ordering[before - 1] if before else self._last_before(site.block)

    def _last_before(self, block: str) -> Site | None:
        """The last of them before `block`, which is asked once of each block on the way there."""
        way = []
        while block not in self._in_front:
            way.append(block)
            above = self._loops.dominator(block)
            if above == block or self._ordering[above]:
                self._in_front[block] = None if above == block else self._ordering[above][-1]
                break
            block = above
        found = self._in_front[block]
        self._in_front.update(dict.fromkeys(way, found))
        return found

    def _copies_between(self, last: Site, read: Run) -> Sequence[_Copy]:
        """Those into what is read that are between the two in the text."""
        copies = self._copies.get(read.object.id, [])
        start = bisect_right(copies, last.position, key=_start)
        return copies[start : bisect_left(copies, read.site.position, start, key=_start)]

    def _thread(self, last: Site, read: Site, crew: int) -> int | None:
        """A thread of the crew that acquires nothing between the two, on any way, while others wait."""
        everyone = self._between(last, read, None)
        if not any(is_waiting(site.instr) for site in everyone):
            return None
        for warp in range(0, crew.bit_length(), WARP_SIZE):
            lanes = [thread for thread in range(warp, warp + WARP_SIZE) if crew >> thread & 1]
            if lanes and not self._between(last, read, lanes[-1]):
                return lanes[-1]
        return None

    def _between(self, last: Site, read: Site, thread: int | None) -> list[Site]:
        """What may be acquired by between the two: by `thread`, which takes no way that it certainly does not."""
        found = [one for one in self._ordering[last.block] if one.position > last.position]
        if last.block == read.block:
            return [one for one in found if one.position < read.position]
        waiting, seen = [last.block], {last.block, read.block}
        while waiting:
            for successor, others in ways(self._function.blocks[waiting.pop()]):
                if successor not in seen and (thread is None or not others >> thread & 1):
                    seen.add(successor)
                    waiting.append(successor)
                    found += self._ordering[successor]
        return found + [one for one in self._ordering[read.block] if one.position < read.position]


def _position(site: Site) -> int:
    return site.position


def _start(copy: _Copy) -> int:
    return copy.run.site.position


def _diagnose(read: Run, copy: Run, thread: int) -> Diagnostic:
    site, writer = read.site, copy.site
    name = site.instr.row.ptx if site.instr.row is not None else site.instr.opcode
    barrier = next((one.name for one in copy.barriers if one is not None), "its mbarrier")
    return WAITED_BY_OTHERS.diagnose(
        at=site.instr.location,
        reader=name,
        memory=read.object.name,
        thread=thread,
        barrier=barrier,
        notes=(("the copy is issued here", writer.instr.location),),
    )
