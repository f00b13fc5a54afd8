"""The barrier of a cluster along the control flow, and the end of a CTA whose peers still signal it.

Arrivals and waits that an unknown part of the threads execute silence what follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.isel import cluster_protocol_rules as rules
from nvbackend.isel import facts
from nvbackend.isel.dataflow import Site, sites_of, solve
from nvbackend.isel.finished import opcodes
from nvbackend.isel.machine import MachineFunction
from nvbackend.isel.mbarrier_uses import Role, Use, Uses, find_uses

ARRIVE = "barrier.cluster.arrive"
WAIT = "barrier.cluster.wait"
EXIT = "ret"
CLUSTER = "cluster"

NONE = -1
UNKNOWN = -2
State = frozenset[int]
"""The arrival that may be outstanding, by its position; NONE, or UNKNOWN where nobody can say."""


class ClusterAnalysis:
    """The arrival of this thread that no wait has answered yet, as an analysis for the solver."""

    def entry(self) -> State:
        """No arrival yet."""
        return frozenset((NONE,))

    def join(self, left: State, right: State, /) -> State:
        """What may be true on either way."""
        return left | right

    def transfer(self, state: State, site: Site, /) -> State:
        """What may be true behind the instruction."""
        if site.instr.opcode not in (ARRIVE, WAIT):
            return state
        if facts.THREADS not in site.instr.facts:
            return frozenset((UNKNOWN,))
        return frozenset((site.position if site.instr.opcode == ARRIVE else NONE,))


def check_cluster_protocol(function: MachineFunction) -> list[Diagnostic]:
    """Every mistake with the cluster barrier that some path through `function` makes, and a CTA that ends too early."""
    found: list[Diagnostic] = []
    if not opcodes(function).isdisjoint((ARRIVE, WAIT)):
        found += _pairs(function)
    size = function.attributes.get(CLUSTER, 1)
    if isinstance(size, int) and size > 1:
        found += _early_ends(function, find_uses(function))
    return found


def _pairs(function: MachineFunction) -> Iterator[Diagnostic]:
    places: dict[int, Location | None] = {}
    for site, state in solve(function, ClusterAnalysis(), _matters).visit():
        places[site.position] = site.instr.location
        if UNKNOWN in state:
            continue
        pending = sorted(position for position in state if position != NONE)
        if site.instr.opcode == ARRIVE and pending:
            earlier = places.get(pending[0], site.instr.location)
            notes = (("it has arrived here", earlier),)
            yield rules.ARRIVED_TWICE.diagnose(at=site.instr.location, notes=notes, earlier=_line(earlier))
        elif site.instr.opcode == WAIT and NONE in state:
            yield rules.WAIT_ALONE.diagnose(at=site.instr.location)
        elif site.instr.opcode == EXIT and pending:
            yield rules.ARRIVE_ALONE.diagnose(at=places[pending[0]])


def _matters(site: Site) -> bool:
    return site.instr.opcode in (ARRIVE, WAIT, EXIT)


def _line(place: Location | None) -> str:
    return "this line" if place is None else f"line {place.line}"


def _early_ends(function: MachineFunction, uses: Uses) -> Iterator[Diagnostic]:
    """Barriers that peers signal, and that no CTA drains before it ends."""
    fills = {use.site.block for use in uses.all if use.role & (Role.EXPECT | Role.COMPLETE) and not use.is_remote}
    told = set()
    for use in uses.all:
        if not use.is_remote or not use.role & (Role.ARRIVE | Role.COMPLETE) or use.cell.object in told:
            continue
        if uses.lost or not _ends_without_wait(function, use.site):
            continue
        waits = uses.of(use.cell, Role.WAIT | Role.POLL)
        if not any(_drains(function, wait, use, fills) for wait in waits):
            told.add(use.cell.object)
            places = dict.fromkeys(wait.site.instr.location for wait in waits)
            notes = tuple(("waited for here, before it is used again", place) for place in places)
            yield rules.EXIT_BEFORE_PEERS.diagnose(at=use.site.instr.location, notes=notes[:3], barrier=use.cell)


def _drains(function: MachineFunction, wait: Use, signal: Use, fills: Iterable[str]) -> bool:
    """Whether the wait may be for the last signal: behind one of this thread, or not followed by another fill."""
    behind = _reached(function, *function.blocks[wait.site.block].successors) | {wait.site.block}
    after = _reached(function, *function.blocks[signal.site.block].successors)
    same = wait.site.block == signal.site.block and wait.site.position > signal.site.position
    return same or wait.site.block in after or behind.isdisjoint(fills)


def _ends_without_wait(function: MachineFunction, site: Site) -> bool:
    """Whether some way from the instruction to the end of the kernel has no wait at the cluster barrier."""
    rest = sites_of(function)[site.block]
    if any(one.instr.opcode == WAIT for one in rest if one.position > site.position):
        return False
    seen, waiting = {site.block}, [site.block]
    while waiting:
        block = function.blocks[waiting.pop()]
        if not block.successors:
            return True
        for successor in block.successors:
            if successor not in seen and not any(one.opcode == WAIT for one in function.blocks[successor].instructions):
                seen.add(successor)
                waiting.append(successor)
    return False


def _reached(function: MachineFunction, *starts: str) -> set[str]:
    seen, waiting = set(starts), list(starts)
    while waiting:
        for successor in function.blocks[waiting.pop()].successors:
            if successor not in seen:
                seen.add(successor)
                waiting.append(successor)
    return seen
