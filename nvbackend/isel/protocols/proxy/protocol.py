"""Shared memory between ordinary and asynchronous accesses, along the control flow: what is not ordered between them.

`find_meetings` reduces the function to the accesses and what orders them, follows what is pending, and keeps what no
path orders; `check_proxy_protocol` reports each cause once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion, FenceOf, Scope
from nvbackend.isel.flow.accesses import AccessKind, Relation, Run, shared_accesses
from nvbackend.isel.flow.dataflow import Site, sites_of, solve
from nvbackend.isel.flow.finished import finished, kept, with_successors
from nvbackend.isel.flow.footprints import Footprints, footprints_of
from nvbackend.isel.flow.paths import coming
from nvbackend.isel.machine.function import (
    Crew,
    MachineBlock,
    MachineFunction,
    MachineInstr,
    MemoryObject,
    MemoryTouch,
)
from nvbackend.isel.protocols.mbarrier.uses import barrier_touch, is_waiting
from nvbackend.isel.protocols.proxy.state import (
    DONE,
    GROUPED,
    HAZARDS,
    Event,
    Meeting,
    ProxyAnalysis,
    Step,
)
from nvbackend.isel.protocols.proxy.unwaited import filled_by_copies_alone, first_reads, unwaited_reads
from nvbackend.isel.protocols.wgmma import rules as wgmma_rules
from nvbackend.isel.protocols.wgmma.protocol import find_mistakes

_ENTERED = MachineInstr("enter")
"""Marks where run-time values change."""
_OF_ONE_THREAD = frozenset({AccessKind.STORE, AccessKind.LOAD})
"""What one thread issues; stores are also waited for by the thread that issued them."""
_BROUGHT = (AccessKind.LOAD, AccessKind.RECEIVE)
"""What completes on an mbarrier that readers wait on."""
_ORDINARY = (AccessKind.READ, AccessKind.WRITE)
"""What needs no order of the proxies while nothing else touches shared memory."""
_GENERIC_WRITES = (AccessKind.WRITE, AccessKind.COPY)
_OF_THE_ASYNC_PROXY = HAZARDS[AccessKind.WRITE]
_MOST_GROUPS = 64
"""A wait that leaves more groups in flight counts as this many: each age is a state of its own."""
_WRONG_WAITS = (
    wgmma_rules.READ_IN_FLIGHT,
    wgmma_rules.WRITE_IN_FLIGHT,
    wgmma_rules.MISSING_COMMIT,
    wgmma_rules.WAIT_LEAVES_GROUP,
    wgmma_rules.MISSING_WAIT,
)


@dataclass(frozen=True)
class Reduced:
    """A function of nothing but accesses and what orders them: `events` by position."""

    function: MachineFunction
    events: dict[int, Event]
    runs: list[Run]
    footprints: Footprints
    crews: Mapping[str, Crew | None]
    threads: Mapping[str, int]

    def are_apart(self, first: Run, second: Run) -> bool:
        """Whether the threads that may come to two accesses certainly share no byte there."""
        threads, also = (self.threads[run.site.block] for run in (first, second))
        return self.footprints.are_apart(first, threads, second, also)

    def share_a_byte(self, meeting: Meeting) -> bool:
        """Whether some byte is certainly accessed by both, at places that may differ by the thread."""
        by, also = (self.crews[run.site.block] for run in (meeting.first, meeting.second))
        if by is None or also is None:
            return False
        return self.footprints.common(meeting.first, by, self.footprints, meeting.second, also) is not None

    def is_excluded(self, meeting: Meeting) -> bool:
        """Whether threads that come to the first access never come to the second, and those that do use other bytes."""
        from nvbackend.isel.flow.exclusive import exclusions_of

        first, second = meeting.first, meeting.second
        scope = exclusions_of(self.function).scope(first.site.block, second.site.block)
        if scope is None or scope >= Scope.CTA:
            return scope is not None
        threads, also = (self.threads[run.site.block] for run in (first, second))
        return self.footprints.are_within(scope, first, threads, second, also)

    @property
    def oldest(self) -> int:
        """No wait leaves a group of this age in flight."""
        return 1 + max((event.pending or 0 for event in self.events.values()), default=0)


def check_proxy_protocol(function: MachineFunction) -> list[Diagnostic]:
    """Every access to shared memory that nothing orders with a pending one it meets, in the order of the text.

    What one fence or wait fixes is reported once.
    """
    if not any(_may_err(kind) for pairs in shared_accesses(function).values() for kind, _ in pairs):
        return []
    reduced = reduce_function(function)
    meetings = find_meetings(reduced)
    if any(meeting.first.kind is AccessKind.MULTIPLY for meeting in meetings) and waits_are_wrong(function):
        meetings = [meeting for meeting in meetings if meeting.first.kind is not AccessKind.MULTIPLY]
    misplaced = {meeting.second.number for meeting in meetings if meeting.second.kind in _GENERIC_WRITES}
    meetings = [
        meeting
        for meeting in meetings
        if meeting.second.kind is not AccessKind.LOAD or meeting.first.number not in misplaced
    ]
    unwaited = unwaited_reads(function, reduced.runs)
    meetings = sorted([*meetings, *_of_first_rounds(function, reduced, meetings), *unwaited], key=_place)
    left = list(_left_at_exit(reduced, {meeting.first.number for meeting in meetings}))
    if not meetings and not left:
        return []
    from nvbackend.isel.protocols.proxy.text import diagnose, diagnose_exit

    diagnostics = [diagnose(causes, _tracker(function)) for causes in _by_cause(meetings)]
    return diagnostics + [diagnose_exit(run, site, ages) for run, site, ages in left]


def waits_are_wrong(function: MachineFunction) -> bool:
    """Whether the protocol of wgmma says already that mma are in flight too long: if so, it reports their reads."""
    return any(finding.rule in _WRONG_WAITS for finding in find_mistakes(function))


def find_meetings(reduced: Reduced) -> list[Meeting]:
    """The meetings that no path orders, by the place of the second access."""
    followed = ((_one_thread(reduced), _OF_ONE_THREAD), (reduced, frozenset(HAZARDS) - {AccessKind.STORE}))
    meetings = [meeting for program, kinds in followed for meeting in unordered(program, kinds)]
    meetings += _after_copies(reduced)
    meetings += _never_waited(
        reduced, {meeting.first.object for meeting in meetings if meeting.first.kind is AccessKind.LOAD}
    )
    return sorted(meetings, key=_place)


def _after_copies(reduced: Reduced) -> Iterator[Meeting]:
    """What the async proxy does with what cp.async has written: until a fence of the proxies, it is like any write."""
    kinds = {run.kind for run in reduced.runs}
    if AccessKind.COPY not in kinds or _OF_THE_ASYNC_PROXY.isdisjoint(kinds):
        return
    written = {run.number: replace(run, kind=AccessKind.WRITE) for run in reduced.runs if run.kind is AccessKind.COPY}
    events = {
        position: event if event.run is None else replace(event, run=written.get(event.run.number, event.run))
        for position, event in reduced.events.items()
    }
    runs = [written.get(run.number, run) for run in reduced.runs if run.kind is not AccessKind.WRITE]
    for meeting in unordered(replace(reduced, events=events, runs=runs), frozenset({AccessKind.WRITE})):
        if meeting.second.kind in _OF_THE_ASYNC_PROXY:
            yield meeting


def _place(meeting: Meeting) -> tuple[int, int]:
    return meeting.second.site.position, meeting.first.site.position


def _of_first_rounds(function: MachineFunction, reduced: Reduced, told: Iterable[Meeting]) -> Iterator[Meeting]:
    """The first reads of copies that have not come, of allocations without a report so far."""
    if not any(run.kind is AccessKind.COPY for run in reduced.runs):
        return
    known = {meeting.first.object.id for meeting in told if meeting.first.kind is AccessKind.COPY}
    alone = filled_by_copies_alone(function)
    for meeting in first_reads(reduced.function, reduced.events, reduced.oldest):
        memory = meeting.first.object.id
        if memory in alone and memory not in known:
            yield meeting


def unordered(reduced: Reduced, kinds: frozenset[AccessKind]) -> Iterator[Meeting]:
    """The accesses that meet a pending run of one of the `kinds`, which is done on no path to there."""
    if not any(run.kind in kinds for run in reduced.runs):
        return
    analysis = _analysis(reduced, kinds)
    meetings: list[Meeting] = []
    ordered: set[int] = set()
    for site, state in solve(reduced.function, analysis, analysis.matters).visit():
        run = reduced.events[site.position].run
        if run is not None:
            meetings += analysis.meetings(state, run)
            ordered |= analysis.waited_for(state, run)
    for meeting in meetings:
        if DONE in meeting.ages or meeting.first.number in analysis.silenced or reduced.is_excluded(meeting):
            continue
        is_sure = meeting.relation is Relation.SURE or reduced.share_a_byte(meeting)
        if is_sure or _published_never(meeting, ordered):
            yield meeting


def _published_never(meeting: Meeting, ordered: set[int]) -> bool:
    """In one tile, at unknown places: a mistake only if no read of the written data is ordered.

    A copy there may fill other bytes than those that were written.
    """
    is_read = meeting.second.kind is not AccessKind.LOAD
    return is_read and meeting.first.kind in (AccessKind.WRITE, AccessKind.COPY) and meeting.first.number not in ordered


def _never_waited(reduced: Reduced, told: set[MemoryObject]) -> Iterator[Meeting]:
    """Reads of what only copies fill, perhaps of another warp, where the kernel waits for none of their mbarriers."""
    waits = {event.barrier for event in reduced.events.values() if event.step is Step.PHASE}
    loads: dict[MemoryObject, list[Run]] = {}
    for run in reduced.runs:
        if run.kind in _BROUGHT:
            loads.setdefault(run.object, []).append(run)
    other = told | {run.object for run in reduced.runs if run.kind in (AccessKind.WRITE, AccessKind.COPY)}
    never = {
        memory: filled[0]
        for memory, filled in loads.items()
        if memory not in other and _certainly_not_waited(filled, waits)
    }
    for run in reduced.runs:
        if run.object in never and run.kind in HAZARDS[AccessKind.LOAD]:
            yield Meeting(never[run.object], run, Relation.SURE, frozenset())


def _certainly_not_waited(loads: Iterable[Run], waits: set[MemoryObject | None]) -> bool:
    barriers = frozenset[MemoryObject | None]().union(*(load.barriers for load in loads))
    return None not in barriers | waits and barriers.isdisjoint(waits)


def _left_at_exit(reduced: Reduced, told: set[int]) -> Iterator[tuple[Run, Site, frozenset[int]]]:
    """Bulk stores not in `told` that may be pending at the kernel's end, with no wait on any path to there."""
    if not any(run.kind is AccessKind.STORE for run in reduced.runs):
        return
    program = _one_thread(reduced)
    analysis = _analysis(program, frozenset({AccessKind.STORE}))
    for site, state in solve(program.function, analysis, analysis.matters).visit():
        if program.events[site.position].step is not Step.EXIT:
            continue
        for run, ages in analysis.pending(state):
            if run.number not in told | analysis.silenced:
                told = told | {run.number}
                yield run, site, ages


def _analysis(reduced: Reduced, kinds: frozenset[AccessKind]) -> ProxyAnalysis:
    """Over the runs of some kinds, where anything can go wrong with their memory."""
    others: dict[MemoryObject, set[AccessKind]] = {}
    for run in reduced.runs:
        others.setdefault(run.object, set()).add(run.kind)
    runs = [
        run
        for run in reduced.runs
        if run.kind in kinds and (run.kind is AccessKind.STORE or not HAZARDS[run.kind].isdisjoint(others[run.object]))
    ]
    return ProxyAnalysis(runs, reduced.events, reduced.oldest, reduced.threads, reduced.are_apart)


def _one_thread(reduced: Reduced) -> Reduced:
    """The program as executed by the thread that blocks of one thread are for: it skips none of them."""
    alone = {
        name: block.successors[:1]
        for name, block in reduced.function.blocks.items()
        if block.branch is not None and block.branch.one_thread
    }
    return replace(reduced, function=with_successors(reduced.function, alone)) if alone else reduced


@kept
def reduce_function(function: MachineFunction) -> Reduced:
    """The accesses of `function` to shared memory as runs, and what orders them."""
    runs: list[Run] = []
    accesses = shared_accesses(function)
    blocks = {name: list(_events(sites, accesses, runs)) for name, sites in sites_of(function).items()}
    defining = frozenset[str]().union(*(run.blocks for run in runs))
    reduced = MachineFunction(function.name, function.target)
    events: dict[int, Event] = {}
    for name, steps in blocks.items():
        if name in defining:
            steps.insert(0, (Event(Step.ENTER), None))
        events.update(enumerate((event for event, _ in steps), start=len(events)))
        block = function.blocks[name]
        instructions = [_ENTERED if site is None else site.instr for _, site in steps]
        reduced.blocks[name] = MachineBlock(name, instructions, block.successors, block.branch)
    crews = {name: block.crew for name, block in function.blocks.items()}
    return Reduced(finished(reduced), events, runs, footprints_of(function), crews, coming(function))


def _events(
    sites: Iterable[Site], accesses: Mapping[int, Sequence[tuple[AccessKind, MemoryTouch]]], runs: list[Run]
) -> Iterator[tuple[Event, Site | None]]:
    """What matters of a block. An access joins the run before it unless something else happened to its memory."""
    latest: dict[MemoryObject, Run] = {}
    for site in sites:
        order = _order(site.instr)
        if order is not None:
            latest.clear()
            yield order, site
        for kind, touch in accesses.get(site.position, ()):
            run = latest.get(touch.object)
            if run is not None and run.kind is kind:
                assert isinstance(run.accesses, list)
                run.accesses.append((site, touch))
                continue
            latest[touch.object] = run = Run(len(runs), kind, touch.object, [(site, touch)])
            runs.append(run)
            yield Event(Step.ACCESS, run), site


def _order(instr: MachineInstr) -> Event | None:
    """What the instruction is to the order of accesses, None for nothing."""
    said = instr.semantics
    if said.awaits in GROUPED:
        pending = instr.immediates.get("pending")
        return Event(
            Step.WAIT, kind=GROUPED[said.awaits], pending=None if pending is None else min(pending, _MOST_GROUPS)
        )
    if said.commits in GROUPED:
        return Event(Step.COMMIT, kind=GROUPED[said.commits])
    if said.exits:
        return Event(Step.EXIT)
    if is_waiting(instr):
        touch = barrier_touch(instr)
        return Event(Step.PHASE, barrier=None if touch is None else touch.object)
    if said.fence is not None and said.fence.of is FenceOf.ASYNC_PROXY and said.fence.shared:
        return Event(Step.FENCE)
    return None


def _may_err(kind: AccessKind) -> bool:
    return kind not in _ORDINARY


def _tracker(function: MachineFunction) -> MachineInstr | None:
    """What arrives on an mbarrier when the thread's cp.async are done, where these are in no groups."""
    kind = Completion.COPY_GROUP
    if any(instr.semantics.commits is kind for instr in function.instructions()):
        return None
    return next((instr for instr in function.instructions() if instr.semantics.tracks is kind), None)


def _by_cause(meetings: Iterable[Meeting]) -> list[list[Meeting]]:
    """Groups what one fence or wait before the first fixes, and what is on one line."""
    causes: list[list[Meeting]] = []
    told: set[tuple[int, AccessKind]] = set()
    for meeting in meetings:
        last = causes[-1] if causes else None
        if (meeting.first.number, meeting.first.kind) in told:
            continue
        told.add((meeting.first.number, meeting.first.kind))
        if last is not None and _one_cause(last[0], meeting):
            last.append(meeting)
        else:
            causes.append([meeting])
    return causes


def _one_cause(told: Meeting, meeting: Meeting) -> bool:
    if told.first.kind is not meeting.first.kind:
        return False
    first, second = told.second.site, meeting.second.site
    same_line = first.instr.location == second.instr.location is not None
    between = first.position < meeting.first.site.position < second.position
    return same_line or (first.block == second.block and not between)
