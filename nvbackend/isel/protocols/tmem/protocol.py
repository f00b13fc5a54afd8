"""Tensor memory along the control flow: allocations, and the order between mma, loads, stores and threads.

Each class of warps is followed separately (`warp_paths`), with what it must know of the others. One cause is reported
once: the same rule at the same instruction, and at the same line of the user's program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.intrinsics.row.semantics import MbarrierUse, TensorMemory
from nvbackend.isel.flow.dataflow import Site, sites_of, solve
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.flow.paths import reachable, warp_paths
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch, MemoryUse
from nvbackend.isel.operands.memory import BOUNDS
from nvbackend.isel.protocols.convergence.convergence import check_convergence
from nvbackend.isel.protocols.convergence.rules import BARRIER_DIVERGENT, BARRIER_SKIPPED
from nvbackend.isel.protocols.mbarrier.uses import is_waiting
from nvbackend.isel.protocols.tmem import rules
from nvbackend.isel.protocols.tmem.state import (
    Fact,
    KnownFact,
    State,
    Surroundings,
    TmemFinding,
    accumulates,
    columns,
    concerns,
    is_barrier,
    is_commit,
    is_mma,
    is_placed,
    manages,
    step,
)

_TOLD_WHERE_BEGUN = (rules.MISSING_COMMIT, rules.MISSING_FENCE_BEFORE, rules.MISSING_BARRIER)
"""Rules found at the end of the kernel whose mistake is where the fact began."""
_FENCE_BEFORE = "k.tcgen05.fence_before_thread_sync()"
_WRITE = MemoryUse.ASYNC_WRITE
_OF_A_WAIT = (rules.MISSING_WAIT, rules.WRITE_IN_FLIGHT)
_ALLOCATE, _FREE = TensorMemory.ALLOCATE, TensorMemory.FREE


@dataclass(frozen=True)
class TmemAnalysis:
    """The facts as an analysis for the solver, for one class of warps."""

    start: State
    around: Surroundings
    findings: dict[int, list[TmemFinding]] = field(default_factory=dict)
    """The mistakes of the last turn at each position."""

    def entry(self) -> State:
        """What the warp finds where the kernel begins."""
        return self.start

    def join(self, left: State, right: State, /) -> State:
        """What may hold on either way."""
        return left | right

    def transfer(self, state: State, site: Site, /) -> State:
        """What may hold after the instruction."""
        state, self.findings[site.position] = step(state, site, self.around)
        return state


def check_tmem_protocol(function: MachineFunction) -> list[Diagnostic]:
    """Every mistake with tensor memory that some warp makes on some path, in the order of the text."""
    whole = _Whole(function)
    by_cause = {_cause(mistake): mistake for mistake in [*_outside(whole), *_never_freed(whole)]}
    for path in warp_paths(function):
        for finding in _of_warps(path, whole):
            by_cause.setdefault(_cause(finding), finding)
    if any(mistake.rule is rules.MISSING_COMMIT for mistake in by_cause.values()):
        # No wait is for an mma that has no commit: putting that right may be all there is to do.
        by_cause = {key: mistake for key, mistake in by_cause.items() if mistake.rule not in _OF_A_WAIT}
    if by_cause and _has_parted_barrier(function):
        # That barrier may be the one: where all threads come to it, nothing is missing.
        by_cause = {key: mistake for key, mistake in by_cause.items() if mistake.rule is not rules.MISSING_BARRIER}
    told: dict[object, Diagnostic] = {}
    for _, finding in sorted(by_cause.items(), key=lambda item: item[0][1]):
        diagnostic = whole.diagnostic(finding)
        told.setdefault((finding.rule.id, diagnostic.location), diagnostic)
    return list(told.values())


def _has_parted_barrier(function: MachineFunction) -> bool:
    """Whether only a part of the threads comes to some barrier of them all, which is an error of its own."""
    parted = (BARRIER_DIVERGENT.id, BARRIER_SKIPPED.id)
    return any(diagnostic.rule_id in parted for diagnostic in check_convergence(function))


def _cause(finding: TmemFinding) -> tuple[str, int]:
    """What two findings of one cause have in common: the rule, and the place of its mistake."""
    begun = finding.rule in _TOLD_WHERE_BEGUN and finding.site.instr.semantics.exits
    return finding.rule.id, finding.fact.place if begun else finding.site.position


class _Whole:
    """The function as a whole: who allocates, writes, reads and gives back what."""

    def __init__(self, function: MachineFunction) -> None:
        self.function = function
        reached = reachable(function, [function.entry.name])
        by_block = {name: sites for name, sites in sites_of(function).items() if name in reached}
        self.sites = {site.position: site for sites in by_block.values() for site in sites}
        self.touching = {
            name: [site.instr for site in sites if columns(site.instr)] for name, sites in by_block.items()
        }
        """By block: what accesses tensor memory."""
        self.concerned = frozenset(position for position, site in self.sites.items() if concerns(site))
        self.using = {site.block for site in self.sites.values() if site.instr.semantics.is_of_tensor_memory}
        instructions = [site.instr for site in self.sites.values()]
        self.allocated = _allocated_in(instructions)
        self.deallocations = [instr for instr in instructions if manages(instr, _FREE)]
        self.freed_unknown = any(not columns(instr) for instr in self.deallocations)
        self.freed = _objects(self.deallocations)
        self.results = _results(instructions)
        self.preset = _preset(instructions)
        self.related = frozenset(self._related(by_block))
        self.together = dict(self._together(by_block))

    def _related(self, by_block: Mapping[str, tuple[Site, ...]]) -> Iterator[int]:
        """The waits after which an mma may be done: on a barrier that a commit or an arrival may complete."""
        commits = [site.instr for site in self.sites.values() if is_commit(site.instr)]
        arrivals = [site.instr for site in self.sites.values() if _arrives(site.instr)]
        completed = [_barriers(instr) for instr in (*commits, *arrivals)]
        behind = self._behind_mma(by_block)
        for site in self.sites.values():
            if is_waiting(site.instr):
                waited = _barriers(site.instr)
                if waited is None or any(group is None or group & waited for group in completed):
                    yield site.position
            elif is_barrier(site.instr) and site.block in behind:
                yield site.position

    def _together(self, by_block: Mapping[str, tuple[Site, ...]]) -> Iterator[tuple[int, frozenset[str]]]:
        """The waits that are in a loop with an mma, each with the blocks of the innermost such loop."""
        multiplying = {name for name, sites in by_block.items() if any(is_mma(site.instr) for site in sites)}
        loops = loops_of(self.function)
        for position in self.related:
            around = loops.around(self.sites[position].block)
            shared = next((loop for loop in around if not multiplying.isdisjoint(loop.blocks)), None)
            if shared is not None:
                yield position, shared.blocks

    def _behind_mma(self, by_block: Mapping[str, tuple[Site, ...]]) -> set[str]:
        """The blocks in which something may be executed after some mma."""
        return reachable(
            self.function, [name for name, sites in by_block.items() if any(is_mma(site.instr) for site in sites)]
        )

    # -- words --------------------------------------------------------------------------------------------------

    def diagnostic(self, finding: TmemFinding) -> Diagnostic:
        """The finding in words, with notes that point to where it begins."""
        fact, site = finding.fact, finding.site
        memory = fact.object if finding.touch is None else finding.touch.object
        begun = self.sites.get(fact.place)
        name = memory.name if memory is not None else "tensor memory"
        values = {
            "instruction": site.instr.opcode,
            "name": name,
            "columns": 0 if memory is None else memory.bytes,
            "mma": self._line("the mma", begun),
            "reason": f"it is allocated at {self._line('', begun)}, and no dealloc is on the way",
            "given": site.instr.operands.get("columns", "other"),
            "what": self._what(finding),
            "last": "fence" if fact.known is KnownFact.FENCED else "wait for the load",
            "barrier": "k.barrier.sync()"
            if fact.known is KnownFact.FENCED
            else f"{_FENCE_BEFORE} and k.barrier.sync()",
            "total": sum(block.bytes for block in self.allocated),
            "limit": tcgen05_memory.COLUMNS,
            "names": ", ".join(sorted({block.name for block in self.allocated})),
        }
        begins = finding.rule in _TOLD_WHERE_BEGUN and site.instr.semantics.exits
        told = begun is None or fact.place == site.position or begins
        notes = () if told or begun is None else ((f"{fact.known.value}: here", begun.instr.location),)
        at = site.instr.location
        if begun is not None and (at is None or begins):
            at = begun.instr.location
        return finding.rule.diagnose(at=at, notes=notes, **values)

    def _what(self, finding: TmemFinding) -> str:
        touch = finding.touch
        if finding.rule is BOUNDS and touch is not None:
            return f"columns {touch.offset} to {touch.offset + (touch.bytes or 1) - 1}"
        if finding.site.instr.semantics.exits:
            return "the kernel ends here"
        name = touch.object.name if touch else "tensor memory"
        return f"{finding.site.instr.opcode} reads {name} here"

    @staticmethod
    def _line(what: str, site: Site | None) -> str:
        if site is None:
            return f"{what} of another warp" if what else "its allocation"
        place: Location | None = site.instr.location
        line = f"line {place.line}" if place else f"instruction {site.position}"
        return f"{what} of {line}" if what else line


def _of_warps(path: MachineFunction, whole: _Whole) -> list[TmemFinding]:
    """What the warps that go this way do wrong."""
    reached = reachable(path, [path.entry.name])
    if whole.using.isdisjoint(reached):
        return []
    instructions = [instr for name in reached for instr in whole.touching[name]]
    allocated = _objects(instr for instr in instructions if manages(instr, _ALLOCATE))
    freed = _objects(instr for instr in instructions if manages(instr, _FREE))
    elsewhere = whole.freed - freed
    inherited = frozenset() if whole.freed_unknown else freed - allocated
    certain = frozenset(block for block in allocated if _on_every_path(path, block))
    owed = frozenset() if whole.freed_unknown else certain & freed
    around = Surroundings(whole.related, certain, owed | inherited, elsewhere, whole.together)
    entry = frozenset(_at_entry(instructions, inherited, whole))
    analysis = TmemAnalysis(entry, around)
    solution = solve(path, analysis, lambda site: site.position in whole.concerned)
    return [mistake for site, _ in solution.visit() for mistake in analysis.findings[site.position]]


def _at_entry(instructions: list[MachineInstr], inherited: Iterable[MemoryObject], whole: _Whole) -> Iterator[Fact]:
    """What these warps find: allocations that others make for them, accumulators that others write."""
    reached = set(map(id, instructions))
    elsewhere = [instr for instrs in whole.touching.values() for instr in instrs if id(instr) not in reached]
    mmas = [instr for instr in instructions if is_mma(instr)]
    for memory in inherited:
        yield Fact(KnownFact.OPEN, object=memory)
    for memory in whole.results - whole.preset - _results(mmas):
        yield Fact(KnownFact.UNSYNCHRONISED, object=memory)
    # Where other warps write it first, what these add to is theirs to know.
    overwritten = _results(instr for instr in elsewhere if is_mma(instr) and accumulates(instr) is not True)
    for memory in _results(mmas) - _preset(elsewhere) - overwritten:
        places = {use for mma in mmas for use in columns(mma) if use.object == memory and use.use is _WRITE}
        anywhere = MemoryTouch(memory, MemoryUse.DECLARE, bytes=memory.bytes)
        for touch in places if all(map(is_placed, places)) else [anywhere]:
            yield Fact(KnownFact.UNWRITTEN, touch=touch)


def _on_every_path(path: MachineFunction, memory: MemoryObject) -> bool:
    """Whether every way from the entry to an end makes the allocation."""
    making = {name for name, block in path.blocks.items() if memory in _allocated_in(block.instructions)}
    around = reachable(path, [path.entry.name], without=making)
    return not any(instr.semantics.exits for name in around for instr in path.blocks[name].instructions)


def _outside(whole: _Whole) -> Iterator[TmemFinding]:
    """Accesses that leave their allocation, whatever the state."""
    for site in whole.sites.values():
        for touch in columns(site.instr):
            if touch.use is MemoryUse.DECLARE or touch.symbol:
                continue
            if touch.offset + (touch.bytes or 1) > touch.object.bytes:
                yield TmemFinding(BOUNDS, site, Fact(KnownFact.OPEN), touch)


def _never_freed(whole: _Whole) -> Iterator[TmemFinding]:
    """Allocations that nothing in the whole function gives back."""
    if whole.freed_unknown:
        return
    for site in whole.sites.values():
        if manages(site.instr, _ALLOCATE):
            for memory in _objects([site.instr]) - whole.freed:
                yield TmemFinding(rules.MISSING_DEALLOC, site, Fact(KnownFact.OPEN, site.position, memory))


def _objects(instructions: Iterable[MachineInstr]) -> frozenset[MemoryObject]:
    return frozenset(touch.object for instr in instructions for touch in columns(instr))


def _allocated_in(instructions: Iterable[MachineInstr]) -> frozenset[MemoryObject]:
    return _objects(instr for instr in instructions if manages(instr, _ALLOCATE))


def _results(mmas: Iterable[MachineInstr]) -> frozenset[MemoryObject]:
    """The allocations that these mma write."""
    return frozenset(touch.object for mma in mmas for touch in columns(mma) if touch.use is MemoryUse.ASYNC_WRITE)


def _preset(instructions: Iterable[MachineInstr]) -> frozenset[MemoryObject]:
    """The allocations that something other than an mma writes."""
    others = (instr for instr in instructions if not is_mma(instr))
    return frozenset(touch.object for mma in others for touch in columns(mma) if touch.use is MemoryUse.ASYNC_WRITE)


def _arrives(instr: MachineInstr) -> bool:
    """Whether a thread publishes by it what it knows, and does not announce data."""
    said = instr.semantics
    use = said.mbarrier
    return use is not None and MbarrierUse.ARRIVE in use and MbarrierUse.EXPECT not in use and said.tracks is None


def _barriers(instr: MachineInstr) -> frozenset[MemoryObject] | None:
    """The mbarriers that an instruction operates on; None where one is not known."""
    barriers = frozenset(touch.object for touch in instr.memory if touch.use is MemoryUse.SYNCHRONIZE)
    return barriers or None
