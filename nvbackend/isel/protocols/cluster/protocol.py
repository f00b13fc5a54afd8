"""The barrier of a cluster along the control flow, and the end of a CTA whose peers still signal it.

Arrivals and waits that an unknown part of the threads execute silence what follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.intrinsics.row.semantics import MbarrierUse, Scope
from nvbackend.isel.flow.dataflow import Site, sites_of, solve
from nvbackend.isel.flow.finished import semantics_in
from nvbackend.isel.flow.graphs import on_cycles, postorder
from nvbackend.isel.flow.paths import cluster_size, reachable
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.cluster import rules
from nvbackend.isel.protocols.cluster.accesses import check_cluster_accesses
from nvbackend.isel.protocols.cluster.phases import meets
from nvbackend.isel.protocols.mbarrier.uses import Use, Uses, find_uses

NONE = -1
UNKNOWN = -2
State = frozenset[int]
"""The arrival that may be outstanding, by its position; NONE, or UNKNOWN."""


class ClusterAnalysis:
    """The arrival of this thread that no wait has answered yet, as an analysis for the solver."""

    def entry(self) -> State:
        """No arrival yet."""
        return frozenset((NONE,))

    def join(self, left: State, right: State, /) -> State:
        """What may be true on either way."""
        return left | right

    def transfer(self, state: State, site: Site, /) -> State:
        """What may be true after the instruction."""
        if not meets(site.instr):
            return state
        if facts.THREADS not in site.instr.facts:
            return frozenset((UNKNOWN,))
        return frozenset((site.position if site.instr.semantics.arrives_at(Scope.CLUSTER) else NONE,))


def check_cluster_protocol(function: MachineFunction) -> list[Diagnostic]:
    """Every mistake with the cluster barrier that some path through `function` makes, and a CTA that ends too early."""
    faults: list[Diagnostic] = []
    if any(said.arrives_at(Scope.CLUSTER) or said.waits_at(Scope.CLUSTER) for said in semantics_in(function)):
        faults += _pairs(function)
    size = cluster_size(function)
    if size > 1:
        faults += _early_ends(function, find_uses(function), (1 << size) - 1)
        faults += check_cluster_accesses(function)
        if any(facts.PEERS in instr.facts for instr in function.instructions()):
            from nvbackend.isel.protocols.cluster.exchanges import check_exchanges

            faults += check_exchanges(function)
    return faults


def _pairs(function: MachineFunction) -> Iterator[Diagnostic]:
    places = {site.position: site.instr.location for of_block in sites_of(function).values() for site in of_block}
    for site, state in solve(function, ClusterAnalysis(), _matters).visit():
        if UNKNOWN in state:
            continue
        pending = sorted(position for position in state if position != NONE)
        said = site.instr.semantics
        if said.arrives_at(Scope.CLUSTER) and pending:
            earlier = places[pending[0]]
            notes = (("it has arrived here", earlier),)
            yield rules.ARRIVED_TWICE.diagnose(at=site.instr.location, notes=notes, earlier=_line(earlier))
        elif said.waits_at(Scope.CLUSTER) and NONE in state:
            yield rules.WAIT_ALONE.diagnose(at=site.instr.location)
        elif said.exits and pending:
            yield rules.ARRIVE_ALONE.diagnose(at=places[pending[0]])


def _matters(site: Site) -> bool:
    return meets(site.instr) or site.instr.semantics.exits


def _waits(instr: MachineInstr) -> bool:
    return instr.semantics.waits_at(Scope.CLUSTER)


def _line(place: Location | None) -> str:
    return "this line" if place is None else f"line {place.line}"


def _early_ends(function: MachineFunction, uses: Uses, everyone: int) -> Iterator[Diagnostic]:
    """Barriers that peers signal, and that no CTA drains before it ends, or of `everyone` some CTA does not."""
    if uses.lost:
        return
    fills = {
        use.site.block
        for use in uses.all
        if use.role & (MbarrierUse.EXPECT | MbarrierUse.COMPLETE) and not use.is_remote
    }
    told = set()
    for use in uses.all:
        if (
            not use.role & (MbarrierUse.ARRIVE | MbarrierUse.COMPLETE)
            or not _reaches_peers(use)
            or use.cell.object in told
        ):
            continue
        waits = uses.of(use.cell, MbarrierUse.WAIT | MbarrierUse.POLL)
        if not waits and not use.is_remote:
            continue  # without a wait for the bytes, their reader is reported
        if _ends_without_wait(function, use.site) and not any(_drains(function, wait, use, fills) for wait in waits):
            is_early = True
        else:
            is_early = use.fact(facts.MASK) == everyone and _is_skipped(function, use, waits)
        if is_early:
            told.add(use.cell.object)
            places = dict.fromkeys(wait.site.instr.location for wait in waits)
            notes = tuple(("waited for here, before it is used again", place) for place in places)
            yield rules.EXIT_BEFORE_PEERS.diagnose(at=use.site.instr.location, notes=notes[:3], barrier=use.cell)


def _reaches_peers(use: Use) -> bool:
    """Whether it signals barriers of other CTAs: at a mapped address, or as a copy that several CTAs get."""
    mask = use.fact(facts.MASK)
    return use.is_remote or (mask is not None and mask.bit_count() > 1)


def _is_skipped(function: MachineFunction, signal: Use, waits: Iterable[Use]) -> bool:
    """Whether some CTA may go by all of these waits, and by those at the cluster barrier after the signal.

    Only a branch that is the CTA's own, and not one of a loop, lets it: of every other branch both ways are taken.
    """
    choices = {
        name
        for name, block in function.blocks.items()
        if block.branch is not None and block.branch.uniform is Scope.CTA
    }
    if not choices:
        return False
    waiting = {use.site.block for use in waits} | _meets_peers(function, signal.site)
    before: dict[str, list[str]] = {name: [] for name in function.blocks}
    for name, block in function.blocks.items():
        for successor in block.successors:
            before[successor].append(name)
    order: list[str] = postorder([function.entry.name], lambda name: function.blocks[name].successors)[::-1]
    cyclic: set[str] = on_cycles(order, before.__getitem__)
    choices -= cyclic
    left = list(waiting)
    while left:
        for name in before[left.pop()]:
            if name not in waiting and (name not in choices or waiting.issuperset(function.blocks[name].successors)):
                waiting.add(name)
                left.append(name)
    return function.entry.name not in waiting


def _meets_peers(function: MachineFunction, signal: Site) -> set[str]:
    """The blocks that wait at the cluster barrier after the signal."""
    sites = sites_of(function)
    behind = reachable(function, function.blocks[signal.block].successors)
    meeting = {name for name in behind if any(_waits(site.instr) for site in sites[name])}
    if _waits_after(function, signal):
        meeting.add(signal.block)
    return meeting


def _drains(function: MachineFunction, wait: Use, signal: Use, fills: Iterable[str]) -> bool:
    """Whether the wait may be for the last signal: after one of this thread, or not followed by another fill."""
    behind = reachable(function, function.blocks[wait.site.block].successors) | {wait.site.block}
    after = reachable(function, function.blocks[signal.site.block].successors)
    sites = sites_of(function)[signal.site.block]
    same = wait.site in sites[sites.index(signal.site) :]
    return same or wait.site.block in after or behind.isdisjoint(fills)


def _ends_without_wait(function: MachineFunction, site: Site) -> bool:
    """Whether some way from the instruction to the end of the kernel has no wait at the cluster barrier."""
    if _waits_after(function, site):
        return False
    waiting = {name for name, block in function.blocks.items() if any(map(_waits, block.instructions))}
    after = reachable(function, function.blocks[site.block].successors, without=waiting)
    return any(not function.blocks[name].successors for name in {site.block, *after})


def _waits_after(function: MachineFunction, site: Site) -> bool:
    """Whether the block of an instruction waits at the cluster barrier after it."""
    sites = sites_of(function)[site.block]
    return any(_waits(later.instr) for later in sites[sites.index(site) :])
