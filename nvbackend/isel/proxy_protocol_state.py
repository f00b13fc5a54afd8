"""What may be pending in shared memory, run by run of accesses: the abstract state of the proxy analysis.

A run is pending from its accesses on: what ordinary code wrote until a fence.proxy.async, what wgmma and bulk stores
read until a wait of their groups, what copies write until a wait. The state says for each run how it may stand on some
path: its age in groups, 0 for an open one, or DONE. An access that meets a run whose pending end is DONE on no path to
there is a mistake. Where the run is DONE on one path and not on another, conditions that belong together may exclude
the latter, so nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from nvbackend.isel.dataflow import Site
from nvbackend.isel.machine import MemoryObject
from nvbackend.isel.proxy_accesses import Kind, Relation, Run, relation

DONE = -1
_MOST_RUNS = 32
"""So many runs of one kind are followed; of the older ones nothing is said any more."""


@dataclass(frozen=True, slots=True, order=True)
class Pending:
    """A run that may be pending; `lost` where its place has become another one, as an index of a loop was set anew."""

    number: int
    lost: bool = False


State = Mapping[Pending, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Event:
    """What an instruction of the reduced program is to the protocol: an access, or one of the names below.

    `pending` is the number of a wait (None: every group, open ones too), `barrier` the mbarrier of one.
    """

    name: str
    run: Run | None = None
    pending: int | None = None
    barrier: MemoryObject | None = None


ACCESS, PROXY_FENCE, ENTER, EXIT, MBARRIER_WAIT = "access", "fence.proxy.async", "enter", "exit", "mbarrier.wait"
COMMITS = {
    Kind.MULTIPLY: "wgmma.commit_group",
    Kind.STORE: "cp.async.bulk.commit_group",
    Kind.COPY: "cp.async.commit_group",
}
WAITS = {Kind.MULTIPLY: "wgmma.wait_group", Kind.STORE: "cp.async.bulk.wait_group", Kind.COPY: "cp.async.wait_group"}

HAZARDS: Mapping[Kind, frozenset[Kind]] = {
    Kind.WRITE: frozenset({Kind.MULTIPLY, Kind.MULTIPLY_5, Kind.STORE, Kind.SEND}),
    Kind.COPY: frozenset({Kind.READ, Kind.MULTIPLY, Kind.MULTIPLY_5, Kind.STORE, Kind.SEND}),
    Kind.MULTIPLY: frozenset({Kind.WRITE, Kind.COPY, Kind.LOAD}),
    Kind.STORE: frozenset({Kind.WRITE, Kind.COPY, Kind.LOAD}),
    Kind.LOAD: frozenset({Kind.READ, Kind.MULTIPLY, Kind.MULTIPLY_5, Kind.STORE, Kind.SEND}),
}
"""What must not meet a pending run of each kind."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """An access that meets a run, with how the run may stand there."""

    first: Run
    second: Run
    relation: Relation
    ages: frozenset[int]


class ProxyAnalysis:
    """The protocol over the reduced program, for the runs of some kinds. `events` has one for each position.

    `silenced` gathers the numbers of runs that were lost sight of.
    """

    def __init__(self, runs: Iterable[Run], events: Mapping[int, Event], oldest: int) -> None:
        self._runs = {run.number: run for run in runs}
        self._events = events
        self._oldest = oldest
        self.silenced: set[int] = set()
        self.relation = cache(relation)

    def entry(self) -> State:
        """Nothing is pending."""
        return {}

    def join(self, left: State, right: State, /) -> State:
        """What may be pending on either way."""
        joined = dict(left)
        for key, ages in right.items():
            joined[key] = joined.get(key, frozenset()) | ages
        return self._bounded(joined)

    def transfer(self, state: State, site: Site, /) -> State:
        """What may be pending behind the instruction."""
        event = self._events[site.position]
        if event.run is not None:
            return self._accessed(state, event.run)
        if event.name == ENTER:
            return self._entered(state, site.block)
        return {key: self._aged(self._runs[key.number], ages, event) for key, ages in state.items()}

    def meetings(self, state: State, run: Run) -> Iterable[Meeting]:
        """The pending runs that the access must not meet."""
        for key, ages in state.items():
            first = self._runs[key.number]
            if not key.lost and run.kind in HAZARDS[first.kind]:
                found = self.relation(first, run)
                if found is not Relation.NONE:
                    yield Meeting(first, run, found, ages)

    def waited_for(self, state: State, run: Run) -> set[int]:
        """The runs in the memory of the access whose pending end is over on some path to it.

        Of those that were lost too: a ring's stage is read rounds after the one that filled it.
        """
        return {
            key.number
            for key, ages in state.items()
            if DONE in ages and self._runs[key.number].object is run.object
            if run.kind in HAZARDS[self._runs[key.number].kind]
        }

    def pending(self, state: State) -> Iterable[tuple[Run, frozenset[int]]]:
        """Every run that may be pending, with its ages."""
        ages: dict[int, frozenset[int]] = {}
        for key, found in state.items():
            ages[key.number] = ages.get(key.number, frozenset()) | found
        return ((self._runs[number], found) for number, found in ages.items())

    def _accessed(self, state: State, run: Run) -> State:
        """What the access surely meets is settled there; what it fills again is pending no more."""
        settled = {meeting.first.number for meeting in self.meetings(state, run) if meeting.relation is Relation.SURE}
        if run.kind is Kind.LOAD:
            settled |= {
                key.number
                for key in state
                if self._runs[key.number].kind in (Kind.WRITE, Kind.COPY)
                and self.relation(self._runs[key.number], run) is not Relation.NONE
            }
        left = {key: ages for key, ages in state.items() if key.number not in settled}
        if run.number in self._runs:
            left[Pending(run.number)] = frozenset({0})
        return self._bounded(left)

    def _entered(self, state: State, block: str) -> State:
        """The run-time values that `block` defines are others from here on."""
        left: dict[Pending, frozenset[int]] = {}
        for key, ages in state.items():
            lost = Pending(key.number, key.lost or block in self._runs[key.number].blocks)
            left[lost] = left.get(lost, frozenset()) | ages
        return left

    def _aged(self, run: Run, ages: frozenset[int], event: Event) -> frozenset[int]:
        if run.kind is Kind.WRITE:
            return frozenset({DONE}) if event.name == PROXY_FENCE else ages
        if event.name == MBARRIER_WAIT:
            return frozenset({DONE}) if _completes(run, event.barrier) else ages
        if event.name == COMMITS.get(run.kind):
            return frozenset(age if age == DONE else min(age + 1, self._oldest) for age in ages)
        if event.name == WAITS.get(run.kind):
            return frozenset(DONE if _drained(age, event.pending) else age for age in ages)
        return ages

    def _bounded(self, state: dict[Pending, frozenset[int]]) -> State:
        if len(state) <= _MOST_RUNS:
            return state
        kinds: dict[Kind, list[Pending]] = {}
        for key in sorted(state, reverse=True):
            kinds.setdefault(self._runs[key.number].kind, []).append(key)
        for keys in kinds.values():
            for key in keys[_MOST_RUNS:]:
                self.silenced.add(key.number)
                del state[key]
        return state


def _completes(run: Run, barrier: MemoryObject | None) -> bool:
    """Whether a wait on `barrier` may be for this run; cp.async may arrive on any."""
    if run.kind is Kind.COPY:
        return True
    return run.kind is Kind.LOAD and (barrier is None or None in run.barriers or barrier in run.barriers)


def _drained(age: int, pending: int | None) -> bool:
    return pending is None or (age > 0 and age > pending)
