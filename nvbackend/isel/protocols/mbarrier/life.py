"""The life of mbarriers along the control flow: initialised, made visible, used, invalidated.

Every part of the state holds on some path to the place. Threads are not distinguished: what one thread initialises, all
have once a barrier follows. Instructions that an unknown part of the threads execute (a run-time condition comes
around them) begin nothing, so that no path is blamed that no thread takes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import FenceOf, MbarrierUse, Scope
from nvbackend.isel.flow.accesses import AccessKind, Run
from nvbackend.isel.flow.finished import with_successors
from nvbackend.isel.flow.footprints import footprints_of
from nvbackend.isel.flow.loops import Loops
from nvbackend.isel.machine import facts
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.uses import WRITES, Cell, Use, Uses

if TYPE_CHECKING:
    from nvbackend.isel.flow.dataflow import Site
    from nvbackend.isel.machine.function import MachineFunction, MachineInstr, MemoryObject, MemoryTouch

_FENCES = (FenceOf.INIT, FenceOf.ASYNC_PROXY)


class _Order(enum.Enum):
    """Whom an instruction shows what was done before it."""

    NONE = enum.auto()
    FENCE = enum.auto()
    CTA = enum.auto()
    CLUSTER = enum.auto()


Marks = int
"""A set of the instructions that initialise or invalidate, a bit each in the order of the text: a kernel can have
thousands of barriers, and each changes the set."""


class Life(NamedTuple):
    """What may hold before an instruction.

    `begun`: initialised on some path, ever. `live` and `dead`: initialised or invalidated, with nothing that undoes it
    since. `unseen`: initialised, and no barrier of the CTA since; `unseen_by_peers`: no barrier of the cluster;
    `unfenced`: no fence.
    """

    begun: Marks = 0
    live: Marks = 0
    dead: Marks = 0
    unseen: Marks = 0
    unseen_by_peers: Marks = 0
    unfenced: Marks = 0


@dataclass(frozen=True, slots=True)
class LifeFinding:
    """A broken rule, where, of which cell; the places that made it one; what is missing for it to be right."""

    rule: Rule
    site: Site
    cell: Cell
    causes: frozenset[int] = frozenset()
    missing: str = ""


class LifeAnalysis:
    """The life of mbarriers as an analysis for the solver."""

    def __init__(self, function: MachineFunction, uses: Uses, cluster: int) -> None:
        self._function = function
        self._footprints = footprints_of(function)
        self._uses = {use.site.position: use for use in uses.all}
        self._known = uses
        self._cluster = cluster
        self._marks = [use for use in uses.all if use.role in (MbarrierUse.INIT, MbarrierUse.INVAL)]
        self._bits = {use.site.position: 1 << index for index, use in enumerate(self._marks)}
        self._exactly: dict[Cell, Marks] = {}
        self._inside: dict[MemoryObject, Marks] = {}
        self._meeting: dict[Cell, Marks] = {}
        for use in self._marks:
            bit = self._bits[use.site.position]
            self._exactly[use.exact] = self._exactly.get(use.exact, 0) | bit
            self._inside[use.exact.object] = self._inside.get(use.exact.object, 0) | bit

    def matters(self, site: Site) -> bool:
        """Whether the instruction uses, orders or may overwrite mbarriers."""
        if site.position in self._uses or _order(site.instr) is not _Order.NONE:
            return True
        return any(touch.use in WRITES for touch in site.instr.memory)

    def entry(self) -> Life:
        """Nothing is initialised."""
        return Life()

    def join(self, left: Life, right: Life, /) -> Life:
        """What may be true on either way."""
        return Life(*(side | other for side, other in zip(left, right, strict=True)))

    def transfer(self, state: Life, site: Site, /) -> Life:
        """What may be true after the instruction."""
        use = self._uses.get(site.position)
        if use is not None and use.role is MbarrierUse.INIT:
            return self._initialised(state, use)
        if use is not None and use.role is MbarrierUse.INVAL:
            return self._invalidated(state, use)
        return _ordered(state, site.instr)

    def _initialised(self, state: Life, use: Use) -> Life:
        bit, others = self._bits[use.site.position], ~self._exactly[use.exact]
        begun, dead = state.begun | bit, state.dead & ~self._met(use.exact)
        if use.threads is None:
            return state._replace(begun=begun, dead=dead)
        return Life(
            begun,
            state.live & others | bit,
            dead,
            state.unseen & others | bit,
            state.unseen_by_peers & others | bit,
            state.unfenced & others | bit,
        )

    def _invalidated(self, state: Life, use: Use) -> Life:
        bit, others = self._bits[use.site.position], ~self._met(use.exact)
        return Life(
            state.begun,
            state.live & others,
            state.dead if use.threads is None else state.dead & ~self._exactly[use.exact] | bit,
            state.unseen & others,
            state.unseen_by_peers & others,
            state.unfenced & others,
        )

    def _met(self, cell: Cell) -> Marks:
        """The marks of those cells that may be the same mbarrier."""
        met = self._meeting.get(cell)
        if met is None:
            if cell.offset is None:
                met = self._inside.get(cell.object, 0)
            else:
                met = self._exactly.get(cell, 0) | self._exactly.get(Cell(cell.object, None), 0)
            self._meeting[cell] = met
        return met

    def _places(self, marks: Marks) -> frozenset[int]:
        """The positions of the instructions."""
        return frozenset(use.site.position for use in self._of(marks))

    def _of(self, marks: Marks) -> Iterator[Use]:
        while marks:
            bit = marks & -marks
            yield self._marks[bit.bit_length() - 1]
            marks ^= bit

    def findings(self, state: Life, site: Site) -> Iterator[LifeFinding]:
        """What the instruction breaks, given what may hold before it."""
        use = self._uses.get(site.position)
        if use is None:
            yield from self._writes(state, site)
        elif use.role is MbarrierUse.INIT:
            live = state.live & self._exactly[use.exact]
            if use.exact.offset is not None and use.threads is not None and live:
                yield LifeFinding(rules.DOUBLE_INIT, site, use.exact, self._places(live))
        else:
            yield from self._use(state, use)

    def _use(self, state: Life, use: Use) -> Iterator[LifeFinding]:
        site, cell = use.site, use.exact
        met = self._met(cell)
        if not state.begun & met:
            known_later = not self._known.lacks(cell, MbarrierUse.INIT)
            if not known_later or (self._known.of(cell, MbarrierUse.INIT) and not self._known.lost & MbarrierUse.INIT):
                yield LifeFinding(rules.UNINITIALISED, site, cell, missing="later" if known_later else "never")
            return
        if use.role is MbarrierUse.INVAL:
            return
        if state.dead & met:
            yield LifeFinding(rules.AFTER_INVAL, site, cell, self._places(state.dead & met))
            return
        missing = self._missing(state, use, met)
        if missing is not None:
            yield LifeFinding(rules.NOT_READY, site, cell, missing[1], missing[0])

    def _missing(self, state: Life, use: Use, met: Marks) -> tuple[str, frozenset[int]] | None:
        """What the initialisation still lacks for this use, and where it was."""
        unseen = frozenset(init.site.position for init in self._of(state.unseen & met) if _by_others(init, use))
        if unseen:
            return "no barrier of the CTA", unseen
        if state.unfenced & met and use.is_by_engine:
            return "no fence.mbarrier_init", self._places(state.unfenced & met)
        if state.unseen_by_peers & met and self._cluster > 1 and use.is_remote:
            return "no barrier of the cluster", self._places(state.unseen_by_peers & met)
        return None

    def _writes(self, state: Life, site: Site) -> Iterator[LifeFinding]:
        for touch in site.instr.memory:
            if touch.use not in WRITES:
                continue
            for use in self._of(state.live & self._inside.get(touch.object, 0)):
                cell = use.exact
                if cell.offset is None:
                    continue
                if self._hits(site, touch, cell.offset, cell.offset + cell.object.element_bytes):
                    live = state.live & self._exactly[cell]
                    yield LifeFinding(rules.OVERWRITTEN, site, cell, self._places(live))
                    break

    def _hits(self, site: Site, touch: MemoryTouch, start: int, end: int) -> bool:
        """Whether an access certainly touches these bytes: at a constant place, or at that of some thread."""
        if not touch.symbol:
            return (touch.bytes is None or start < touch.offset + touch.bytes) and touch.offset < end
        crew = self._function.blocks[site.block].crew
        run = Run(site.position, AccessKind.WRITE, touch.object, ((site, touch),))
        return crew is not None and self._footprints.reaches(run, crew, start, end)


def some_thread(function: MachineFunction, loops: Loops) -> MachineFunction:
    """`function`, whose `loops` these are, with every block that some of the threads run on the way of all of them.

    An mbarrier is initialised or invalidated when one thread has done it, so what matters is that some thread runs the
    block, and not that the others go around it.
    """
    taken = {}
    for name, block in function.blocks.items():
        ways = block.successors
        if block.sides is not None and len(ways) == 2 and loops.is_reachable(name):
            left = [way for way in ways if not _leads(function, loops, ways[way == ways[0]], way, name)]
            if left:
                taken[name] = left
    return with_successors(function, taken) if taken else function


def _leads(function: MachineFunction, loops: Loops, start: str, end: str, without: str) -> bool:
    """Whether a path leads from `start` to `end`, both after `without`, that does not pass that block."""
    if start == without or loops.is_entered_from(end, without):
        return False  # the latter known at once, where the search would visit all the rest of the function
    seen, waiting = {start, without}, [start]
    while waiting:
        for successor in function.blocks[waiting.pop()].successors:
            if successor == end:
                return True
            if successor not in seen:
                seen.add(successor)
                waiting.append(successor)
    return False


def _by_others(init: Use, use: Use) -> bool:
    """Whether the use is certainly executed by other threads than the initialising thread."""
    if use.threads is None:
        return False
    thread = init.fact(facts.THREAD)
    return (
        use.threads != 1 or init.threads != 1 or (thread is not None and use.fact(facts.THREAD) not in (thread, None))
    )


def _order(instr: MachineInstr) -> _Order:
    said = instr.semantics
    if said.barrier is not None:
        if said.barrier.scope < Scope.CLUSTER:
            return _Order.CTA
        return _Order.CLUSTER if said.barrier.waits else _Order.NONE
    return _Order.FENCE if said.fence is not None and said.fence.of in _FENCES else _Order.NONE


def _ordered(state: Life, instr: MachineInstr) -> Life:
    order = _order(instr)
    if order is _Order.CLUSTER:
        return state._replace(unseen=0, unseen_by_peers=0)
    if order is _Order.CTA:
        return state._replace(unseen=0) if state.unseen else state
    return state._replace(unfenced=0) if order is _Order.FENCE and state.unfenced else state
