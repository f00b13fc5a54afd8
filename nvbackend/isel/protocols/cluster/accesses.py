"""Loads, stores and atomics in another CTA's shared memory: the CTA must start before the first and end after the last.

Here only a cluster barrier proves that. If the function waits at mbarriers, or is attached, no error is reported: a
peer may have signalled that it has started, or waited before its end. Run-time values are those of one rank's CTA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import MbarrierUse, Scope
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.footprints import Footprints
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.flow.memory_uses import DEFINED_IN
from nvbackend.isel.flow.paths import cluster_size, thread_count
from nvbackend.isel.machine.function import MachineFunction, RunTimeValues
from nvbackend.isel.protocols.cluster import rules
from nvbackend.isel.protocols.mbarrier.uses import find_uses


@dataclass(frozen=True)
class OfRank:
    """The values of a function in the CTA of one rank."""

    values: RunTimeValues
    rank: int
    threads: int

    def numbers(self, name: str) -> Sequence[int] | None:
        """The value in each thread of this CTA."""
        known, by_rank = self.values.numbers(name), self.values.ranks(name)
        return known if known is not None or by_rank is None else (by_rank[self.rank],) * self.threads

    def ranks(self, name: str) -> Sequence[int] | None:
        """The value in each CTA of the cluster."""
        return self.values.ranks(name)

    def counted(self, name: str) -> tuple[int, int] | None:
        """The values in the first and in the last round of the loop that it counts."""
        return self.values.counted(name)

    def is_same(self, name: str) -> bool:
        """Whether all threads of the cluster have it: a parameter, or what counts a known number of rounds."""
        return DEFINED_IN not in name or self.values.counted(name) is not None

    def array(self, name: str) -> str | None:
        """The parameter to which an address points."""
        return self.values.array(name)

    def scope(self, name: str) -> Scope:
        """Over which threads it is the same."""
        return self.values.scope(name)


def footprints_by_rank(function: MachineFunction, values: RunTimeValues) -> list[Footprints]:
    """The footprints in the CTA of each rank."""
    threads = thread_count(function)
    return [Footprints(function, OfRank(values, rank, threads)) for rank in range(cluster_size(function))]


def check_cluster_accesses(function: MachineFunction) -> Iterator[Diagnostic]:
    """Accesses that may come before the other CTA's start, and after its end (once each, at the first of them)."""
    sites = sites_of(function)
    accesses = [site for block in function.blocks for site in sites[block] if site.instr.semantics.in_peer]
    if not accesses:
        return
    uses = find_uses(function)
    if any(role & (MbarrierUse.WAIT | MbarrierUse.POLL) for role in (uses.lost, *(use.role for use in uses.all))):
        return
    after = {name: block.successors for name, block in function.blocks.items()}
    before: dict[str, list[str]] = {name: [] for name in after}
    for name, successors in after.items():
        for successor in successors:
            before[successor].append(name)
    waits = {
        name: [site.position for site in sites[name] if site.instr.semantics.waits_at(Scope.CLUSTER)] for name in after
    }
    entry = function.entry.name
    ends = [name for name, successors in after.items() if not successors]
    yield from _first(
        rules.ACCESS_EARLY, accesses, lambda access: _reaches(access, before, waits, [entry], forward=False)
    )
    yield from _first(rules.ACCESS_LATE, accesses, lambda access: _reaches(access, after, waits, ends, forward=True))


def _first(rule: Rule, sites: Iterable[Site], is_open: Callable[[Site], bool]) -> Iterator[Diagnostic]:
    site = next(filter(is_open, sites), None)
    if site is not None:
        yield rule.diagnose(at=site.instr.location, instruction=f"this {site.instr.opcode}")


def _reaches(
    site: Site,
    steps: Mapping[str, Iterable[str]],
    waits: Mapping[str, list[int]],
    ends: Iterable[str],
    *,
    forward: bool,
) -> bool:
    """Whether some way along `steps` from the site comes to one of `ends` without a wait at the cluster barrier."""
    own = waits[site.block]
    if any(position > site.position if forward else position < site.position for position in own):
        return False
    waiting = {name for name, positions in waits.items() if positions}
    return not {site.block, *reached(steps[site.block], steps.__getitem__, without=waiting)}.isdisjoint(ends)
