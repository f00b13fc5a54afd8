"""Reads of asynchronously copied data before it has arrived.

First, waits that leave too many groups of cp.async in flight for the first read of a loop: a ring of tiles is filled
ahead of a loop, and each iteration waits for its own tile alone. Which tile a group fills is known only at run time;
but if no group at all has completed when a tile is first read, that tile has not arrived. So each read is checked as
it is first reached: without the back edges of the loops around it.

Reads to which no way leads that waits at the mbarrier of the copy. Other accesses to the same memory, such as ordinary
stores that clear it before, make no difference: the bytes come at any time. Of what a peer sends it must be certain
that the peer does so where this CTA reads.

Threads that read while only others of the CTA wait. A wait orders what its own thread does. So every thread that reads,
or multiplies, either waits itself or comes after a barrier with one that did. A read is reported where a thread of its
crew certainly does neither: the last it acquired anything was before the copy, on all paths that it can take.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

from nvbackend.diagnostics import Diagnostic
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Completion, Scope
from nvbackend.isel.flow.accesses import AccessKind, Relation, Run, relation, shared_accesses
from nvbackend.isel.flow.dataflow import Site, sites_of, solve
from nvbackend.isel.flow.finished import with_successors
from nvbackend.isel.flow.loops import Loops, loops_of
from nvbackend.isel.flow.memory_uses import writes_elsewhere
from nvbackend.isel.flow.paths import coming_ranks, is_avoided, is_for_each, rank_paths, reachable, ways
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Crew, MachineFunction, MemoryObject, MemoryTouch, MemoryUse, RunTimeValues
from nvbackend.isel.protocols.cluster.accesses import footprints_by_rank
from nvbackend.isel.protocols.cluster.phases import may_order
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED, barrier_touch, is_waiting
from nvbackend.isel.protocols.proxy.rules import WAITED_BY_OTHERS
from nvbackend.isel.protocols.proxy.state import (
    DONE,
    HAZARDS,
    Event,
    Meeting,
    Step,
    is_drained,
)
from nvbackend.isel.protocols.shared.syncs import acquires

_MOST_BLOCKS = 8
"""So many blocks that read what is copied are looked at, each by itself."""
_WRITES = (MemoryUse.WRITE, MemoryUse.ASYNC_WRITE)
Ages = frozenset[tuple[int, int]]
"""The state of copies on some path: the id of an allocation, and the age of a group that fills it, or DONE."""


@dataclass(frozen=True)
class CopyAges:
    """The ages of all copies into each allocation, as an analysis for the solver; `events` by position."""

    events: Mapping[int, Event]
    oldest: int

    def entry(self) -> Ages:
        """Nothing is copied yet."""
        return frozenset()

    def join(self, left: Ages, right: Ages, /) -> Ages:
        """What may be so on either way."""
        return left | right

    def transfer(self, state: Ages, site: Site, /) -> Ages:
        """What may be so after the instruction."""
        event = self.events[site.position]
        if event.run is not None:
            return state | {(event.run.object.id, 0)} if event.run.kind is AccessKind.COPY else state
        if event.step is Step.COMMIT and event.kind is AccessKind.COPY:
            return frozenset((copied, age if age == DONE else min(age + 1, self.oldest)) for copied, age in state)
        if event.step is Step.PHASE or _is_wait(event):
            return frozenset((copied, DONE if is_drained(age, event.pending) else age) for copied, age in state)
        return state


def _is_wait(event: Event) -> bool:
    return event.step is Step.WAIT and event.kind is AccessKind.COPY


def first_reads(function: MachineFunction, events: Mapping[int, Event], oldest: int) -> Iterator[Meeting]:
    """The reads of what copies alone fill, where on no way that comes there first any copy into it is done.

    `function` and `events` are of the reduced program, `oldest` is an age that no wait leaves in flight.
    """
    if not any(_is_wait(event) and event.pending for event in events.values()):
        return
    runs = [event.run for event in events.values() if event.run is not None]
    copies: dict[int, Run] = {}
    for run in runs:
        if run.kind is AccessKind.COPY:
            copies.setdefault(run.object.id, run)
    reads = {run for run in runs if run.object.id in copies and run.kind in HAZARDS[AccessKind.COPY]}
    loops = loops_of(function)
    blocks = filter(loops.is_reachable, dict.fromkeys(_blocks(function, events, reads)))
    for block in list(blocks)[:_MOST_BLOCKS] if loops.regular else ():
        for site, state in solve(_until(function, loops, block), CopyAges(events, oldest)).visit():
            read = events[site.position].run
            if site.block == block and read is not None and read in reads:
                ages = frozenset(age for copied, age in state if copied == read.object.id)
                if ages and DONE not in ages:
                    yield Meeting(copies[read.object.id], read, Relation.SURE, frozenset({max(ages)}))


def filled_by_copies_alone(function: MachineFunction) -> frozenset[int]:
    """The allocations, by id, that cp.async and nothing else writes to; none where a place is not known."""
    if function.attributes.get("attached") or any(map(writes_elsewhere, function.instructions())):
        return frozenset()
    written: dict[bool, set[int]] = {False: set(), True: set()}
    for instr in function.instructions():
        written[instr.semantics.issues is Completion.COPY_GROUP].update(
            use.object.id for use in instr.memory if use.use in _WRITES
        )
    return frozenset(written[True] - written[False])


def _blocks(function: MachineFunction, events: Mapping[int, Event], reads: set[Run]) -> Iterator[str]:
    position = 0
    for name, block in function.blocks.items():
        for _ in block.instructions:
            if events[position].run in reads:
                yield name
            position += 1


def _until(function: MachineFunction, loops: Loops, block: str) -> MachineFunction:
    """The ways that lead to `block` for the first time: without those back to a loop all of whose rounds run it."""
    taken = {}
    for name, body in function.blocks.items():
        ahead = [
            successor
            for successor in body.successors
            if not (loops.dominates(successor, block) and loops.dominates(block, name))
        ]
        if len(ahead) != len(body.successors):
            taken[name] = ahead
    return with_successors(function, taken)


_READS = (AccessKind.READ, AccessKind.MULTIPLY)
_BROUGHT = (AccessKind.LOAD, AccessKind.RECEIVE)


def unwaited_reads(function: MachineFunction, runs: list[Run]) -> Iterator[Meeting]:
    """The first such read of each allocation."""
    copies = [run for run in runs if run.kind in _BROUGHT and None not in run.barriers]
    values, told = function.values, set[MemoryObject]()
    if copies and values is not None and not function.attributes.get(ATTACHED) and loops_of(function).regular:
        search = _Search(function, values)
        for read in runs:
            if read.kind in _READS and read.object not in told:
                first = next(
                    (copy for copy in copies if copy.object == read.object and search.is_unwaited(copy, read)), None
                )
                if first is not None:
                    told.add(read.object)
                    yield Meeting(first, read, Relation.SURE, frozenset({0}))


class _Search:
    """The search in one function."""

    def __init__(self, function: MachineFunction, values: RunTimeValues) -> None:
        self._function = function
        self._loops = loops_of(function)
        sites = [site for of_block in sites_of(function).values() for site in of_block]
        self._footprints = footprints_by_rank(function, values)
        self._waits = [site for site in sites if is_waiting(site.instr)]
        self._ordering = [site for site in sites if may_order(site.instr)]
        self._after: dict[object, tuple[dict[str, int], set[str]]] = {}

    def is_unwaited(self, copy: Run, read: Run) -> bool:
        """Whether the bytes of `copy` certainly may come when `read` is executed."""
        if copy.site.position > read.site.position or self._leads(read.site, copy.barriers):
            return False
        by, also = (self._function.blocks[run.site.block].crew for run in (copy, read))
        if by is None or also is None or not all(self._loops.is_reachable(run.site.block) for run in (copy, read)):
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
        sent, reading = copy.site.instr.facts.get(facts.PEERS, 0), coming_ranks(self._function)[read.site.block]
        for rank, path in enumerate(paths):
            for peer in facts.peers_of(sent, rank):
                if not reading >> peer & 1:
                    continue
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
                waits = [wait for wait in self._waits if _barrier(wait) is None or _barrier(wait) in barriers]
            first = {wait.block: wait.position for wait in reversed(waits)}
            blocks = self._function.blocks
            self._after[barriers] = (
                first,
                reachable(self._function, [on for name in first for on in blocks[name].successors]),
            )
        first, after = self._after[barriers]
        return target.block in after or first.get(target.block, target.position) < target.position


def _barrier(site: Site) -> MemoryObject | None:
    touch = barrier_touch(site.instr)
    return None if touch is None else touch.object


@dataclass(frozen=True, slots=True)
class _Copy:
    """A bulk copy into shared memory, and the block that always comes with it."""

    run: Run
    anchor: str


def check_unwaited_reads(function: MachineFunction) -> list[Diagnostic]:
    """Every read of which that is certain, once for each block."""
    return [] if function.attributes.get(ATTACHED) else list(_Threads(function).find())


class _Threads:
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
        self._meetings = {
            block: [site for site in sites if site.instr.semantics.waits_at(Scope.WARP)]
            for block, sites in self._sites.items()
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
        if not self._copies:
            return
        told: set[tuple[str, int]] = set()
        for kind, site, touch in self._all():
            if kind in _READS and (site.block, touch.object.id) not in told:
                fault = self._fault(Run(site.position, kind, touch.object, [(site, touch)]))
                if fault is not None:
                    told.add((site.block, touch.object.id))
                    yield fault

    def _all(self) -> Iterator[tuple[AccessKind, Site, MemoryTouch]]:
        for sites in self._sites.values():
            for site in sites:
                for kind, touch in self._accesses.get(site.position, ()):
                    yield kind, site, touch

    def _fault(self, read: Run) -> Diagnostic | None:
        site, crew = read.site, self._function.blocks[read.site.block].crew
        if crew is None or crew.elected or not self._loops.is_reachable(site.block):
            return None
        if bisect_left(self._ordering[site.block], site.position, key=_position):
            return None  # every thread acquired by it, and no wait is between
        last = self._last_before(site.block)
        if last is None:
            return None
        for copy in self._copies_between(last, read):
            if self._loops.dominates(copy.anchor, site.block) and relation(copy.run, read) is Relation.SURE:
                thread = self._thread(last, site, crew.bits)
                if thread is not None:
                    return _diagnose(read, copy.run, thread)
        return None

    def _last_before(self, block: str) -> Site | None:
        """What every thread acquired by last before `block`, of all that it certainly did.

        It is asked once of each block on the way there.
        """
        way = []
        while block not in self._in_front:
            way.append(block)
            above = self._loops.dominator(block)
            if above == block or self._ordering[above]:
                self._in_front[block] = None if above == block else self._ordering[above][-1]
            else:
                block = above
        last = self._in_front[block]
        self._in_front.update(dict.fromkeys(way, last))
        return last

    def _copies_between(self, last: Site, read: Run) -> Sequence[_Copy]:
        """Those into what is read that are between the two in the text."""
        copies = self._copies.get(read.object.id, [])
        start = bisect_right(copies, last.position, key=_start)
        return copies[start : bisect_left(copies, read.site.position, start, key=_start)]

    def _thread(self, last: Site, read: Site, crew: int) -> int | None:
        """A thread of the crew that acquires nothing between the two, on any way, while others wait."""
        everyone = self._between(self._ordering, last, read, None)
        if not any(is_waiting(site.instr) for site in everyone):
            return None
        for warp in range(0, crew.bit_length(), WARP_SIZE):
            lanes = [thread for thread in range(warp, warp + WARP_SIZE) if crew >> thread & 1]
            if lanes and not self._waits(last, read, lanes):
                return lanes[-1]
        return None

    def _waits(self, last: Site, read: Site, lanes: Sequence[int]) -> bool:
        """Whether the last lane of a warp may acquire anything between the two, or meet another one that does."""
        if self._between(self._ordering, last, read, lanes[-1]):
            return True
        meets = self._between(self._meetings, last, read, lanes[-1])
        return bool(meets) and any(self._between(self._ordering, last, read, lane) for lane in lanes)

    def _between(self, sites: Mapping[str, list[Site]], last: Site, read: Site, thread: int | None) -> list[Site]:
        """Those of `sites` that may be between the two: for `thread`, which takes no way that it certainly does not."""
        between = [site for site in sites[last.block] if site.position > last.position]
        waiting, seen = [last.block], {last.block, read.block}
        while waiting:
            for successor, others in ways(self._function.blocks[waiting.pop()]):
                if successor not in seen and (thread is None or not others >> thread & 1):
                    seen.add(successor)
                    waiting.append(successor)
                    between += sites[successor]
        return between + [site for site in sites[read.block] if site.position < read.position]


def _position(site: Site) -> int:
    return site.position


def _start(copy: _Copy) -> int:
    return copy.run.site.position


def _diagnose(read: Run, copy: Run, thread: int) -> Diagnostic:
    site, writer = read.site, copy.site
    name = site.instr.row.ptx if site.instr.row is not None else site.instr.opcode
    barrier = next((allocation.name for allocation in copy.barriers if allocation is not None), "its mbarrier")
    return WAITED_BY_OTHERS.diagnose(
        at=site.instr.location,
        reader=name,
        memory=read.object.name,
        thread=thread,
        barrier=barrier,
        notes=(("the copy is issued here", writer.instr.location),),
    )
