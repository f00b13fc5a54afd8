"""What a CTA reads of its shared memory and a peer writes, or the other way round, with no barrier of the cluster.

All CTAs run the same program. An access of a CTA to its own memory and one of a peer to the same bytes race where one
of them writes and, in the ways that these two CTAs take by their ranks, the barrier of the cluster orders neither
before the other. It is an error only where it is certain who executes both, of which CTA a peer's address is, and
which bytes they are, and where nothing else may order the CTAs (an mbarrier, a fence, a polled atomic).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from nvbackend.diagnostics import Diagnostic
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.accesses import AccessKind, Run
from nvbackend.isel.flow.dataflow import Site, sites_of, solve
from nvbackend.isel.flow.footprints import Overlap
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.flow.paths import is_avoided, is_for_each, rank_paths
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Crew, MachineFunction, MemoryTouch, MemoryUse, RunTimeValues
from nvbackend.isel.protocols.cluster import rules
from nvbackend.isel.protocols.cluster.accesses import footprints_by_rank
from nvbackend.isel.protocols.cluster.phases import START, Phase, Phases, Places, matters, meets, unordered
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED

_KINDS = {MemoryUse.READ: AccessKind.READ, MemoryUse.WRITE: AccessKind.WRITE}
_MOST = 256
"""So many runs of accesses to one allocation are compared."""


@dataclass(frozen=True)
class _Access:
    """Accesses of one kind in one block with nothing between that orders CTAs; `peers` where they are a peer's."""

    run: Run
    peers: int | None

    @property
    def site(self) -> Site:
        return self.run.site

    @property
    def is_atomic(self) -> bool:
        return self.site.instr.semantics.atomic


def check_exchanges(function: MachineFunction) -> Iterator[Diagnostic]:
    """Every such race, once for each allocation, at the later of the two accesses."""
    if function.attributes.get(ATTACHED) or function.values is None:
        return
    yield from _Search(function, function.values).find()


class _Search:
    """The search in one function."""

    def __init__(self, function: MachineFunction, values: RunTimeValues) -> None:
        self._function = function
        self._sites = sites_of(function)
        self._loops = loops_of(function)
        self._paths = rank_paths(function)
        self._footprints = footprints_by_rank(function, values)
        sites = (site for of_block in self._sites.values() for site in of_block)
        self._relaxed = frozenset(site.position for site in sites if _is_relaxed(site))

    def find(self) -> Iterator[Diagnostic]:
        """All races, by the allocation."""
        if not self._all_meet():
            return
        own, peers = self._accesses()
        for twin, those in peers.items():
            first = next((race for race in self._races(own.get(twin, [])[:_MOST], those[:_MOST])), None)
            if first is not None:
                yield first

    def _all_meet(self) -> bool:
        """Whether all CTAs come to the same barriers of the cluster, each as often as the others."""
        blocks = {name for name, block_sites in self._sites.items() if any(meets(site.instr) for site in block_sites)}
        return all(is_for_each(path, name) for path in self._distinct for name in blocks)

    @cached_property
    def _distinct(self) -> list[MachineFunction]:
        return list({id(path): path for path in self._paths}.values())

    @cached_property
    def _phases(self) -> dict[int, dict[int, Phase]]:
        """The phase before each access, by path and position."""
        repeated = frozenset(name for name in self._sites if self._loops.innermost(name))
        analysis = Phases(self._relaxed, repeated)
        return {
            id(path): {
                site.position: state
                for site, state in solve(path, analysis, lambda site: matters(site) or bool(site.instr.memory)).visit()
            }
            for path in self._distinct
        }

    def _accesses(self) -> tuple[dict[int, list[_Access]], dict[int, list[_Access]]]:
        """The accesses of CTAs to their own memory, and to their peers', by the allocation."""
        own: dict[int, list[_Access]] = {}
        peers: dict[int, list[_Access]] = {}
        for sites in self._sites.values():
            latest: dict[object, list[tuple[Site, MemoryTouch]]] = {}
            for site in sites:
                if matters(site):
                    latest.clear()
                known = site.instr.facts.get(facts.PEERS)
                for touch in site.instr.memory:
                    kind = _KINDS.get(touch.use)
                    if kind is None or (touch.object.twin is not None and known is None):
                        continue
                    key = (touch.object, kind, known, site.instr.opcode)
                    if key in latest:
                        latest[key].append((site, touch))
                        continue
                    latest[key] = [(site, touch)]
                    access = _Access(Run(site.position, kind, touch.object, latest[key]), known)
                    twin = touch.object.twin
                    (own if twin is None else peers).setdefault(touch.object.id if twin is None else twin, []).append(
                        access
                    )
        return own, peers

    def _races(self, own: Sequence[_Access], peers: Sequence[_Access]) -> Iterator[Diagnostic]:
        for other in peers:
            for mine in own:
                if {mine.run.kind, other.run.kind} != {AccessKind.READ, AccessKind.WRITE} or (
                    mine.is_atomic and other.is_atomic
                ):
                    continue
                overlap = next(self._overlaps(mine, other), None)
                if overlap is not None:
                    yield _diagnose(mine, other, *overlap)

    def _overlaps(self, own: _Access, other: _Access) -> Iterator[tuple[Overlap, int, bool]]:
        """A byte that both access unordered, in the memory of which CTA, and whether a relaxed arrival is to blame."""
        assert other.peers is not None
        by, also = (self._function.blocks[access.site.block].crew for access in (own, other))
        if by is None or also is None:
            return
        for rank in range(len(self._paths)):
            for owner in facts.peers_of(other.peers, rank):
                known = self._is_unordered(own, owner, other, rank)
                if known is None or not self._are_both(own, by, owner, other, also, rank):
                    continue
                overlap = self._footprints[owner].common(own.run, by, self._footprints[rank], other.run, also)
                if overlap is not None:
                    yield overlap, owner, known

    def _is_unordered(self, own: _Access, owner: int, other: _Access, rank: int) -> bool | None:
        """Whether only relaxed arrivals lie between; None where they are or may be ordered.

        What is written for later after a relaxed barrier is let by: the reads have been executed.
        """
        mine = self._phases[id(self._paths[owner])].get(own.site.position)
        theirs = self._phases[id(self._paths[rank])].get(other.site.position)
        if mine is None or theirs is None or START in theirs.passed.waited:
            return None  # an access before the first wait is an error of its own
        carried = self._carried(own, other)
        if unordered(mine.passed, theirs.passed, carried):
            return False
        reads, writes = (own, other) if own.run.kind is AccessKind.READ else (other, own)
        is_read_later = writes.site.position < reads.site.position
        return True if is_read_later and unordered(mine.released, theirs.released, carried) else None

    def _carried(self, own: _Access, other: _Access) -> Places:
        """The arrivals of a loop, where each of them and both accesses are in each round, and in no loop inside."""
        loop = self._loops.innermost(own.site.block)
        if loop is None or other.site.block not in loop.blocks:
            return frozenset()
        arrivals = [site for name in loop.blocks for site in self._sites[name] if _arrives(site)]
        once = {own.site.block, other.site.block, *(site.block for site in arrivals)}
        if not all(self._loops.every_round(loop, name) for name in once):
            return frozenset()  # an arrival that is not in each round may come between the two
        return frozenset(site.position for site in arrivals)

    def _are_both(self, own: _Access, by: Crew, owner: int, other: _Access, also: Crew, rank: int) -> bool:
        """Whether the owner's CTA certainly executes one access where the peer executes the other, or the reverse."""
        here, there = own.site.block, other.site.block
        mine, theirs = self._paths[owner], self._paths[rank]
        together = self._loops.dominates(by.anchor, there) or self._loops.dominates(also.anchor, here)
        if together and is_for_each(mine, here) and is_for_each(theirs, there):
            return True
        return not is_avoided(mine, by.anchor) and not is_avoided(theirs, also.anchor)


def _arrives(site: Site) -> bool:
    return site.instr.semantics.arrives_at(Scope.CLUSTER)


def _is_relaxed(site: Site) -> bool:
    barrier = site.instr.semantics.barrier
    return barrier is not None and barrier.relaxed


def _diagnose(own: _Access, other: _Access, overlap: Overlap, owner: int, is_relaxed: bool) -> Diagnostic:
    first, second = sorted((own, other), key=lambda access: access.site.position)
    reader, writer = (own, other) if own.run.kind is AccessKind.READ else (other, own)
    fix = "put k.cluster.sync() between the two, where all threads of the cluster come"
    if is_relaxed:
        fix = 'arrive with release: leave out relaxed=True of k.cluster.sync, or "relaxed" of k.cluster.arrive, '
        fix += "between the two"
    return rules.MISSING_BARRIER.diagnose(
        at=second.site.instr.location,
        notes=((f"it is {'written' if first is writer else 'read'} here", first.site.instr.location),),
        reader=_named(reader),
        writer=_named(writer),
        memory=own.run.object.called,
        byte=overlap.byte,
        owner=owner,
        fix=fix,
    )


def _named(access: _Access) -> str:
    place = access.site.instr.location
    return f"the {access.site.instr.opcode}" + (f" of line {place.line}" if place else "")
