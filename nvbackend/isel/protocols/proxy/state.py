"""What may be pending in shared memory, run by run of accesses: the abstract state of the proxy analysis.

A run is pending from its accesses on: what ordinary code wrote until a fence.proxy.async, what wgmma and bulk stores
read until a wait of their groups, what copies write until a wait. The state says for each run how far it may be on some
path: its age in groups, 0 for an open one, or DONE. An access that meets a run whose pending end is DONE on no path to
there is a mistake. Where the run is DONE on one path and not on another, conditions that belong together may exclude
the latter, so nothing is reported.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.accesses import AccessKind, Relation, Run, relation
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.machine.function import MemoryObject

DONE = -1
_ENDED = frozenset({DONE})
_OPEN = frozenset({0})
_WRITTEN = (AccessKind.WRITE.value, AccessKind.COPY.value)
_MOST_RUNS = 32
"""How many runs of one kind are followed; older runs are no longer judged."""


class Pending(NamedTuple):
    """A run that may be pending; `lost` where its place has become another one, as an index of a loop was set anew."""

    number: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """How far the runs may be: `active` those that may be pending, by their ages, `done` those that are DONE for sure.

    The latter, which are most of a long kernel's, are grouped by the places that they access.
    """

    active: Mapping[Pending, frozenset[int]]
    done: Mapping[int, frozenset[Pending]]


class Step(enum.Enum):
    """What happens to accesses."""

    ACCESS = enum.auto()
    FENCE = enum.auto()  # of the generic and the async proxy
    ENTER = enum.auto()  # a block, where run-time values change
    EXIT = enum.auto()
    PHASE = enum.auto()  # a wait at an mbarrier
    COMMIT = enum.auto()
    WAIT = enum.auto()

    __hash__ = object.__hash__  # quick: Enum's own is of the name, and written in Python


@dataclass(frozen=True, slots=True)
class Event:
    """What an instruction of the reduced program is to the protocol.

    A COMMIT or WAIT is for accesses of a `kind`; `pending` is the number of a wait (None: every group, open ones too),
    `barrier` the mbarrier of one.
    """

    step: Step
    run: Run | None = None
    kind: AccessKind | None = None
    pending: int | None = None
    barrier: MemoryObject | None = None


GROUPED: Mapping[Completion | None, AccessKind] = {
    Completion.MMA_GROUP: AccessKind.MULTIPLY,
    Completion.BULK_GROUP: AccessKind.STORE,
    Completion.COPY_GROUP: AccessKind.COPY,
}
"""The accesses that are done when a wait for their group says so."""

HAZARDS: Mapping[AccessKind, frozenset[AccessKind]] = {
    AccessKind.WRITE: frozenset(
        {AccessKind.MULTIPLY, AccessKind.MULTIPLY_5, AccessKind.STORE, AccessKind.SEND, AccessKind.LOAD}
    ),
    AccessKind.COPY: frozenset(
        {AccessKind.READ, AccessKind.MULTIPLY, AccessKind.MULTIPLY_5, AccessKind.STORE, AccessKind.SEND}
    ),
    AccessKind.MULTIPLY: frozenset({AccessKind.WRITE, AccessKind.COPY, AccessKind.LOAD}),
    AccessKind.STORE: frozenset({AccessKind.WRITE, AccessKind.COPY, AccessKind.LOAD}),
    AccessKind.LOAD: frozenset(
        {AccessKind.READ, AccessKind.MULTIPLY, AccessKind.MULTIPLY_5, AccessKind.STORE, AccessKind.SEND}
    ),
}
"""What must not meet a pending run of each kind."""
_PHASE = (Step.PHASE, None)


def _groups(kind: AccessKind) -> frozenset[tuple[Step, AccessKind | None]]:
    return frozenset(((Step.COMMIT, kind), (Step.WAIT, kind)))


_ENDING: Mapping[AccessKind, frozenset[tuple[Step, AccessKind | None]]] = {
    AccessKind.WRITE: frozenset(((Step.FENCE, None),)),
    AccessKind.COPY: _groups(AccessKind.COPY) | {_PHASE},
    AccessKind.LOAD: frozenset((_PHASE,)),
    AccessKind.MULTIPLY: _groups(AccessKind.MULTIPLY),
    AccessKind.STORE: _groups(AccessKind.STORE),
}
"""The events that a pending run of each kind gets on by, with the kind that they are for."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """An access that meets a run, and how far the run may be there."""

    first: Run
    second: Run
    relation: Relation
    ages: frozenset[int]


class ProxyAnalysis:
    """The protocol over the reduced program, for the runs of some kinds. `events` has one for each position.

    `silenced` gathers the numbers of runs that were lost sight of. Runs of the same places are of one `group`, and
    what they meet is found once for all of them. `threads` may come to each block, and `are_apart` says whether two
    runs certainly share no byte.
    """

    def __init__(
        self,
        runs: Iterable[Run],
        events: Mapping[int, Event],
        oldest: int,
        threads: Mapping[str, int],
        are_apart: Callable[[Run, Run], bool],
    ) -> None:
        self._are_apart = are_apart
        self._runs = {run.number: run for run in runs}
        self._events = events
        self._oldest = oldest
        self.silenced: set[int] = set()
        groups: dict[Hashable, int] = {}
        self._examples: list[Run] = []
        self._group: dict[int, int] = {}
        for run in [*self._runs.values(), *(event.run for event in events.values() if event.run is not None)]:
            alike = run.places, threads[run.site.block]
            group = self._group[run.number] = groups.setdefault(alike, len(groups))
            if group == len(self._examples):
                self._examples.append(run)
        self._kind = [run.kind.value for run in self._examples]
        self._met: dict[tuple[int, int], Relation] = {}
        self._moved: dict[tuple[frozenset[int], bool, int | None], frozenset[int]] = {}
        self._settled: dict[tuple[int, int], tuple[bool, bool]] = {}
        kinds = [run.kind for run in self._runs.values()]
        # Each run may be there twice, as one that was lost and one that was not.
        self._are_few = 2 * max(map(kinds.count, set(kinds)), default=0) <= _MOST_RUNS
        self._objects = {run.object for run in self._runs.values()}
        self._blocks = frozenset[str]().union(*(run.blocks for run in self._runs.values()))
        self._ending = {(Step.EXIT, None)}.union(*(_ENDING[kind] for kind in set(kinds)))

    def matters(self, site: Site) -> bool:
        """Whether the instruction changes what is pending, meets it, or ends the kernel."""
        event = self._events[site.position]
        if event.run is not None:
            return event.run.object in self._objects
        return site.block in self._blocks if event.step is Step.ENTER else (event.step, event.kind) in self._ending

    def entry(self) -> State:
        """Nothing is pending."""
        return State({}, {})

    def join(self, left: State, right: State, /) -> State:
        """What may be pending on either way."""
        if left is right:
            return left
        active = dict(left.active)
        for key, ages in right.active.items():
            active[key] = active[key] | ages if key in active else ages
        done = dict(left.done)
        for group, keys in right.done.items():
            known = done.get(group)
            done[group] = keys if known is None else known if keys <= known else known | keys
        for key, ages in active.items():
            group = self._group[key.number]
            if key in done.get(group, ()):
                active[key] = ages | {DONE}
                done[group] -= {key}
        return self._bounded(active, done)

    def transfer(self, state: State, site: Site, /) -> State:
        """What may be pending after the instruction."""
        event = self._events[site.position]
        if event.run is not None:
            return self._accessed(state, event.run)
        if event.step is Step.ENTER:
            return self._entered(state, site.block)
        aged = {key: self._aged(self._runs[key.number], ages, event) for key, ages in state.active.items()}
        return self._sorted(aged, state.done) if aged != state.active else state

    def meetings(self, state: State, run: Run) -> Iterator[Meeting]:
        """The pending runs that the access must not meet, but for those whose pending end is DONE on every path."""
        for key, ages in state.active.items():
            overlap = self._meets(self._group[key.number], run)
            if not key.lost and overlap is not Relation.NONE:
                yield Meeting(self._runs[key.number], run, overlap, ages)

    def waited_for(self, state: State, run: Run) -> set[int]:
        """The runs of writing threads in the memory of the access whose pending end is over on some path to it.

        Lost runs count too: a ring's stage is read rounds after the round that filled it.
        """
        numbers: set[int] = set()
        for key, ages in state.active.items():
            if DONE in ages and self._is_for(self._group[key.number], run):
                numbers.add(key.number)
        for group, keys in state.done.items():
            if self._is_for(group, run):
                numbers.update(key.number for key in keys)
        return numbers

    def _is_for(self, group: int, run: Run) -> bool:
        """Whether the runs of a group write what the access is to read, as far as their allocation says."""
        if self._kind[group] not in _WRITTEN:
            return False
        first = self._examples[group]
        return first.object is run.object and run.kind in HAZARDS[first.kind] and run.kind is not AccessKind.LOAD

    def pending(self, state: State) -> Iterator[tuple[Run, frozenset[int]]]:
        """Every run that may be pending and is so on every path, with its ages."""
        done = {key.number for keys in state.done.values() for key in keys}
        ages: dict[int, frozenset[int]] = {}
        for key, ages_of_run in state.active.items():
            ages[key.number] = ages.get(key.number, frozenset()) | ages_of_run
        return (
            (self._runs[number], in_groups)
            for number, in_groups in ages.items()
            if DONE not in in_groups and number not in done
        )

    def _meets(self, group: int, run: Run) -> Relation:
        """Whether the access meets the runs of a group, and must not while they are pending."""
        pair = group, self._group[run.number]
        overlap = self._met.get(pair)
        if overlap is None:
            first = self._examples[group]
            overlap = relation(first, run) if run.kind in HAZARDS[first.kind] else Relation.NONE
            if overlap is not Relation.NONE and self._are_apart(first, run):
                overlap = Relation.NONE
            self._met[pair] = overlap
        return overlap

    def _settles(self, group: int, run: Run) -> tuple[bool, bool]:
        """Whether the access settles the runs of a group, and those of them that were lost.

        What it surely meets is settled there; what it fills again is pending no more, wherever that is.
        """
        pair = group, self._group[run.number]
        settled = self._settled.get(pair)
        if settled is None:
            first = self._examples[group]
            refills = run.kind is AccessKind.LOAD and first.kind in (AccessKind.WRITE, AccessKind.COPY)
            fills = refills and relation(first, run) is not Relation.NONE
            settled = self._settled[pair] = (fills or self._meets(group, run) is Relation.SURE, fills)
        return settled

    def _accessed(self, state: State, run: Run) -> State:
        """What the access settles is pending no more; the access itself is, where it is followed."""
        settled = {key for key in state.active if self._settles(self._group[key.number], run)[key.lost]}
        for group, keys in state.done.items():
            fresh, lost = self._settles(group, run)
            if fresh:
                settled.update(key for key in keys if lost or not key.lost)
        begun = Pending(run.number) if run.number in self._runs else None
        if not settled and begun is None:
            return state
        active, done = dict(state.active), dict(state.done)
        if settled:
            active = {key: ages for key, ages in active.items() if key not in settled}
            for group in {self._group[key.number] for key in settled}:
                done[group] = frozenset(key for key in done.get(group, ()) if key not in settled)
        if begun is not None:
            group = self._group[run.number]
            if begun in done.get(group, ()):
                done[group] -= {begun}
            active[begun] = _OPEN
        return self._bounded(active, done)

    def _entered(self, state: State, block: str) -> State:
        """The run-time values that `block` defines are others from here on."""
        active: dict[Pending, frozenset[int]] = {}
        for key, ages in state.active.items():
            lost = Pending(key.number, key.lost or block in self._runs[key.number].blocks)
            active[lost] = active.get(lost, frozenset()) | ages
        done = {
            group: frozenset(Pending(key.number, lost=True) for key in keys)
            if block in self._examples[group].blocks
            else keys
            for group, keys in state.done.items()
        }
        return self.join(State(active, {}), State({}, done))

    def _aged(self, run: Run, ages: frozenset[int], event: Event) -> frozenset[int]:
        if run.kind is AccessKind.WRITE:
            return _ENDED if event.step is Step.FENCE else ages
        if event.step is Step.PHASE:
            return _ENDED if _completes(run, event.barrier) else ages
        if event.kind is not run.kind:
            return ages
        is_commit = event.step is Step.COMMIT
        step = (ages, is_commit, event.pending)
        moved = self._moved.get(step)
        if moved is None:
            if is_commit:
                moved = frozenset(age if age == DONE else min(age + 1, self._oldest) for age in ages)
            else:
                moved = frozenset(DONE if is_drained(age, event.pending) else age for age in ages)
            self._moved[step] = moved
        return moved

    def _sorted(self, aged: Mapping[Pending, frozenset[int]], done: Mapping[int, frozenset[Pending]]) -> State:
        """The state in which those of `aged` are DONE that have no other age."""
        active: dict[Pending, frozenset[int]] = {}
        ended = dict(done)
        for key, ages in aged.items():
            if ages == _ENDED:
                group = self._group[key.number]
                ended[group] = ended.get(group, frozenset()) | {key}
            else:
                active[key] = ages
        return State(active, ended)

    def _bounded(self, active: dict[Pending, frozenset[int]], done: dict[int, frozenset[Pending]]) -> State:
        """The state without the oldest runs of a kind that has too many of them."""
        if self._are_few:
            return State(active, done)
        by_kind: dict[str, list[Pending]] = {}
        for key in active:
            by_kind.setdefault(self._kind[self._group[key.number]], []).append(key)
        for group, keys in done.items():
            by_kind.setdefault(self._kind[group], []).extend(keys)
        for keys_of_kind in by_kind.values():
            for key in sorted(keys_of_kind, reverse=True)[_MOST_RUNS:]:
                self.silenced.add(key.number)
                if active.pop(key, None) is None:
                    done[self._group[key.number]] -= {key}
        return State(active, done)


def _completes(run: Run, barrier: MemoryObject | None) -> bool:
    """Whether a wait on `barrier` may be for this run; cp.async may arrive on any."""
    if run.kind is AccessKind.COPY:
        return True
    return run.kind is AccessKind.LOAD and (barrier is None or None in run.barriers or barrier in run.barriers)


def is_drained(age: int, pending: int | None) -> bool:
    """Whether a wait that leaves `pending` groups, None for none at all, is for a group of this age."""
    return pending is None or age > pending
