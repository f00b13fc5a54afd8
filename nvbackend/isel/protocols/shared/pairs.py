"""Pairs of accesses to one allocation of which the second may follow the first with nothing between that orders them.

The runs of accesses on some path before an access, since the last acquire, are open there. Few are open at a
time, so the search is linear; the few pairs that look like mistakes are checked again, path by path.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.accesses import AccessKind, Run, shared_accesses
from nvbackend.isel.flow.dataflow import Site, sites_of, solve
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.machine.function import Crew, MachineFunction, MachineInstr, MemoryObject, MemoryTouch
from nvbackend.isel.protocols.shared.syncs import releases

Hazards = Mapping[AccessKind, Collection[AccessKind]]
"""What must not follow an access of each kind in another thread."""

_MOST_RUNS = 64
"""How many runs are followed at a time; older runs are not judged."""
_COPIES = Completion.COPY_GROUP
START = -1
"""The start of the kernel, among the positions of what a thread acquired by."""


@dataclass(frozen=True, slots=True)
class _State:
    """The runs since a thread acquired anything, by number, and the places where it may have done so last."""

    open: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset({START})


class _Analysis:
    """What is open along the control flow."""

    def __init__(
        self, begun: Mapping[int, Sequence[Run]], last: dict[int, frozenset[int]], ordering: Collection[int]
    ) -> None:
        self._begun = begun
        self._last = last
        self._ordering = ordering

    def entry(self) -> _State:
        return _State()

    def join(self, left: _State, right: _State, /) -> _State:
        return left if left == right else _State(_bounded(left.open | right.open), left.last | right.last)

    def transfer(self, state: _State, site: Site, /) -> _State:
        begun = self._begun.get(site.position)
        if begun is None:
            return _State(frozenset(), frozenset({site.position}))
        numbers = frozenset(run.number for run in begun)
        for number in numbers:
            self._last[number] = self._last.get(number, frozenset()) | state.last
        if is_atomic(site) and site.position in self._ordering:
            return _State(frozenset(), frozenset({site.position}))  # it is an access, and acquires
        return _State(_bounded(state.open | numbers), state.last)


def is_atomic(site: Site) -> bool:
    """Whether it reads and writes in one step, which races with other accesses and not with others such."""
    return site.instr.semantics.atomic


def _bounded(runs: frozenset[int]) -> frozenset[int]:
    return runs if len(runs) <= _MOST_RUNS else frozenset(sorted(runs)[-_MOST_RUNS:])


class Pairs:
    """The pairs of one function, in `memory`. `orders` says of an instruction whether it may order two threads."""

    def __init__(
        self,
        function: MachineFunction,
        memory: Collection[MemoryObject],
        hazards: Hazards,
        orders: Callable[[MachineInstr], bool],
    ) -> None:
        self.function = function
        self.sites = sites_of(function)
        self.loops = loops_of(function)
        self.last: dict[int, frozenset[int]] = {}
        """By a run's number: the positions of what a thread may have acquired by last before it."""
        self._hazards = hazards
        self._accesses = shared_accesses(function)
        self._ordering = {site.position for sites in self.sites.values() for site in sites if orders(site.instr)}
        self._ordering_in = {
            block: [site.position for site in sites if site.position in self._ordering]
            for block, sites in self.sites.items()
        }
        self._ways: dict[int, Mapping[str, Collection[bool]]] = {}
        """By the numbers of runs, those that were asked for last."""
        self._runs: list[Run] = []
        self._landed: set[int] = set()
        for sites in self.sites.values():
            self._add_runs(sites, memory)
        self._begun: dict[int, list[Run]] = {}
        for run in self._runs:
            self._begun.setdefault(run.site.position, []).append(run)

    def find(self) -> Iterator[tuple[Run, Run]]:
        """All pairs, by the second access."""
        if not self.loops.regular:
            return
        analysis = _Analysis(self._begun, self.last, self._ordering)
        followed = self._begun.keys() | self._ordering
        for site, state in solve(self.function, analysis, lambda site: site.position in followed).visit():
            for second in (run for run in self._begun.get(site.position, ()) if run.number not in self._landed):
                for first in (self._runs[number] for number in sorted(state.open)):
                    if first.object is second.object and second.kind in self._hazards.get(first.kind, ()):
                        yield first, second

    def crew(self, run: Run) -> Crew | None:
        """Who certainly executes a run."""
        return self.function.blocks[run.site.block].crew

    def is_before(self, first: Run, anchor: str, second: Run) -> bool:
        """Whether the first was executed whenever a thread comes to the second, by who comes with `anchor`."""
        return first.site.position < second.site.position and self.loops.dominates(anchor, second.site.block)

    def is_ordered_somewhere(self, first: Run, second: Run) -> bool:
        """Whether some way from one of a pair to the other acquires, and does not come by the first again.

        Nothing acquires right before the second, in its block: such two are not a pair.
        """
        block = second.site.block
        if block == first.site.block and second.site.position > first.site.position:
            return False
        return True in self._entered(first).get(block, ())

    def _entered(self, first: Run) -> Mapping[str, Collection[bool]]:
        """The blocks that a way from the run leads to, not by the run again: whether it acquires before it is there."""
        known = self._ways.pop(first.number, None)
        if known is None:
            known = self._find_ways(first)
            if len(self._ways) >= 2 * _MOST_RUNS:
                del self._ways[next(iter(self._ways))]
        self._ways[first.number] = known
        return known

    def _find_ways(self, first: Run) -> Mapping[str, Collection[bool]]:
        blocks, start = self.function.blocks, first.site.block
        entered: dict[str, set[bool]] = {}
        waiting = [
            (start, bool(self._ordering_in[start][bisect_right(self._ordering_in[start], first.site.position) :]))
        ]
        while waiting:
            block, ordered = waiting.pop()
            for successor in blocks[block].successors:
                flags = entered.setdefault(successor, set())
                if ordered not in flags:
                    flags.add(ordered)
                    if successor != start:
                        waiting.append((successor, ordered or bool(self._ordering_in[successor])))
        return entered

    def _add_runs(self, sites: Iterable[Site], memory: Collection[MemoryObject]) -> None:
        """The accesses to `memory` in a block; one joins the run before it unless something between may order them."""
        latest: dict[MemoryObject, Run] = {}
        copied: list[tuple[Site, MemoryTouch]] = []
        ordered = 0
        for site in sites:
            if site.position in self._ordering or releases(site.instr):
                latest.clear()
            if site.position in self._ordering:
                ordered = len(copied)
            elif _COPIES in (site.instr.semantics.awaits, site.instr.semantics.tracks):
                if not site.instr.immediates.get("pending"):
                    self._add_landed(site, copied[:ordered])
                copied, ordered = [], 0
            for kind, touch in self._accesses.get(site.position, ()):
                if touch.object not in memory:
                    continue
                if kind is AccessKind.COPY:
                    copied.append((site, touch))
                run = latest.get(touch.object)
                if run is not None and run.kind is kind and is_atomic(run.site) is is_atomic(site):
                    assert isinstance(run.accesses, list)
                    run.accesses.append((site, touch))
                else:
                    latest[touch.object] = run = Run(len(self._runs), kind, touch.object, [(site, touch)])
                    self._runs.append(run)

    def _add_landed(self, wait: Site, copied: Iterable[tuple[Site, MemoryTouch]]) -> None:
        """Copies that are only done at the wait of their thread: what ordered the threads before it did not order them.

        So they are accesses there once more, judged only with what follows them.
        """
        by_object: dict[MemoryObject, list[tuple[Site, MemoryTouch]]] = {}
        if wait.instr.semantics.tracks is not None:
            return  # who waits for that mbarrier has them
        for site, touch in copied:
            by_object.setdefault(touch.object, []).append((replace(site, position=wait.position), touch))
        for memory, accesses in by_object.items():
            self._landed.add(len(self._runs))
            self._runs.append(Run(len(self._runs), AccessKind.COPY, memory, accesses))
