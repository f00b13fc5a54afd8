"""What of the cluster's barrier a thread has passed: its last arrival, and the arrivals that its last wait was for.

An access is ordered before one of another CTA where it comes before an arrival that the other's thread has waited for.
So of two accesses none is ordered before the other where one follows an arrival, and no wait for a later one precedes
the other.
"""

from __future__ import annotations

from typing import NamedTuple

from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr

START = -1
UNKNOWN = -2
"""In place of an arrival: the kernel's start, and whatever else may order CTAs."""

Places = frozenset[int]


class Passed(NamedTuple):
    """Where a thread may have arrived last, and at the arrivals of which its last wait may have been."""

    arrived: Places = frozenset((START,))
    waited: Places = frozenset((START,))

    def joined(self, other: Passed) -> Passed:
        """Either of the two."""
        return self if self == other else Passed(self.arrived | other.arrived, self.waited | other.waited)


class Phase(NamedTuple):
    """What a thread has passed: arrivals that release its accesses, all arrivals, and the arrival that it waits for."""

    released: Passed = Passed()
    passed: Passed = Passed()
    pending: Places = frozenset((START,))


class Phases:
    """The phase of each instruction, as an analysis for the solver. `repeated` are the blocks of loops."""

    def __init__(self, relaxed: frozenset[int], repeated: frozenset[str]) -> None:
        self._relaxed = relaxed
        self._repeated = repeated

    def entry(self) -> Phase:
        """Nothing has been passed."""
        return Phase()

    def join(self, left: Phase, right: Phase, /) -> Phase:
        """What may have been passed on either way."""
        released, passed = left.released.joined(right.released), left.passed.joined(right.passed)
        return Phase(released, passed, left.pending | right.pending)

    def transfer(self, state: Phase, site: Site, /) -> Phase:
        """What has been passed after the instruction."""
        said = site.instr.semantics
        if said.arrives_at(Scope.CLUSTER):
            return self._arrive(state, site)
        if said.waits_at(Scope.CLUSTER):
            return self._wait(state, site)
        # By repeated atomics threads may wait for one another.
        if may_order(site.instr) or (said.atomic and site.block in self._repeated):
            unknown = frozenset((UNKNOWN,))
            released, passed = state.released._replace(waited=unknown), state.passed._replace(waited=unknown)
            return state._replace(released=released, passed=passed)
        return state

    def _arrive(self, state: Phase, site: Site) -> Phase:
        here = frozenset((site.position if facts.THREADS in site.instr.facts else UNKNOWN,))
        passed = state.passed._replace(arrived=here)
        released = state.released if site.position in self._relaxed else state.released._replace(arrived=here)
        return Phase(released, passed, here)

    def _wait(self, state: Phase, site: Site) -> Phase:
        known = state.pending if facts.THREADS in site.instr.facts else frozenset((UNKNOWN,))
        passed = state.passed._replace(waited=known)
        if self._relaxed.issuperset(known):
            return Phase(state.released, passed, state.pending)
        certain = known if self._relaxed.isdisjoint(known) else frozenset((UNKNOWN,))
        return Phase(state.released._replace(waited=certain), passed, state.pending)


def matters(site: Site) -> bool:
    """Whether the instruction may change a phase."""
    return meets(site.instr) or site.instr.semantics.atomic or may_order(site.instr)


def meets(instr: MachineInstr) -> bool:
    """Whether it arrives or waits at the barrier of the cluster."""
    barrier = instr.semantics.barrier
    return barrier is not None and barrier.scope is Scope.CLUSTER


def may_order(instr: MachineInstr) -> bool:
    """Whether it may let its thread go on after what another CTA did, other than the barrier of the cluster."""
    return instr.semantics.acquires > Scope.CTA and instr.semantics.barrier is None


def unordered(first: Passed, second: Passed, carried: Places) -> bool:
    """Whether of two accesses of different CTAs, made in these states, certainly none is ordered before the other.

    `carried` are arrivals in each round of a loop that both accesses are in each round of: one of them may follow such
    an arrival in this round, and the other in the next.
    """
    if any(UNKNOWN in phases for phases in (*first, *second)):
        return False
    places = ((first.arrived, second.waited), (second.arrived, first.waited), (first.arrived, second.arrived))
    return any((mine == other and len(mine) == 1) or mine & other & carried for mine, other in places)
