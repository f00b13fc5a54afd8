"""The life of mbarriers along the control flow: initialised, made visible, used, invalidated.

Every part of the state holds on some path to the place. Threads are not told apart: what one thread initialises, all
have once a barrier follows. Instructions that an unknown part of the threads execute (a run-time condition stands
around them) begin nothing, so that no path is blamed that no thread takes.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nvbackend.diagnostics import Rule
from nvbackend.isel import facts
from nvbackend.isel import mbarrier_protocol_rules as rules
from nvbackend.isel.finished import with_successors
from nvbackend.isel.loops import Loops
from nvbackend.isel.mbarrier_uses import WRITES, Cell, Role, Use, Uses

if TYPE_CHECKING:
    from nvbackend.isel.dataflow import Site
    from nvbackend.isel.machine import MachineFunction, MachineInstr

_CTA_BARRIERS = ("bar.", "barrier.cta", "barrier.sync", "barrier.red")
_CLUSTER_WAIT = "barrier.cluster.wait"
_FENCES = ("fence.mbarrier_init", "fence.proxy.async")


class _Order(enum.Enum):
    """Whom an instruction shows what was done before it."""

    NONE = enum.auto()
    FENCE = enum.auto()
    CTA = enum.auto()
    CLUSTER = enum.auto()


Places = Mapping[Cell, frozenset[int]]
"""Where something happened to a cell, as positions."""
_NOWHERE: Places = MappingProxyType({})


class Life(NamedTuple):
    """What may hold before an instruction.

    `begun`: initialised on some path, ever. `live` and `dead`: initialised or invalidated, with nothing that undoes it
    since. `unseen`: initialised, and no barrier of the CTA since; `unseen_by_peers`: no barrier of the cluster;
    `unfenced`: no fence.
    """

    begun: frozenset[Cell] = frozenset()
    live: Places = _NOWHERE
    dead: Places = _NOWHERE
    unseen: Places = _NOWHERE
    unseen_by_peers: Places = _NOWHERE
    unfenced: Places = _NOWHERE


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

    def __init__(self, uses: Uses, cluster: int) -> None:
        self._uses = {use.site.position: use for use in uses.all}
        self._known = uses
        self._cluster = cluster

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
        return Life(
            left.begun if right.begun <= left.begun else left.begun | right.begun,
            _union(left.live, right.live),
            _union(left.dead, right.dead),
            _union(left.unseen, right.unseen),
            _union(left.unseen_by_peers, right.unseen_by_peers),
            _union(left.unfenced, right.unfenced),
        )

    def transfer(self, state: Life, site: Site, /) -> Life:
        """What may be true behind the instruction."""
        use = self._uses.get(site.position)
        if use is not None and use.role is Role.INIT:
            return _initialised(state, use)
        if use is not None and use.role is Role.INVAL:
            return _invalidated(state, use)
        return _ordered(state, site.instr)

    def findings(self, state: Life, site: Site) -> Iterator[LifeFinding]:
        """What the instruction breaks, given what may hold before it."""
        use = self._uses.get(site.position)
        if use is None:
            yield from self._writes(state, site)
        elif use.role & Role.INIT:
            if use.exact.offset is not None and use.threads is not None and use.exact in state.live:
                yield LifeFinding(rules.DOUBLE_INIT, site, use.exact, state.live[use.exact])
        else:
            yield from self._use(state, use)

    def _use(self, state: Life, use: Use) -> Iterator[LifeFinding]:
        site, cell = use.site, use.exact
        if not _met(state.begun, cell):
            known_later = not self._known.lacks(cell, Role.INIT)
            if not known_later or (self._known.of(cell, Role.INIT) and not self._known.lost & Role.INIT):
                yield LifeFinding(rules.UNINITIALISED, site, cell, missing="later" if known_later else "never")
            return
        dead = _of(state.dead, cell)
        if dead and not use.role & Role.INVAL:
            yield LifeFinding(rules.AFTER_INVAL, site, cell, dead)
            return
        if use.role & Role.INVAL:
            return
        missing = self._missing(state, use)
        if missing is not None:
            yield LifeFinding(rules.NOT_READY, site, cell, missing[1], missing[0])

    def _missing(self, state: Life, use: Use) -> tuple[str, frozenset[int]] | None:
        """What the initialisation still lacks for this use, and where it was."""
        unseen = frozenset(one for one in _of(state.unseen, use.exact) if _by_others(self._uses[one], use))
        if unseen:
            return "no barrier of the CTA", unseen
        if use.role & Role.COMPLETE and (unfenced := _of(state.unfenced, use.exact)):
            return "no fence.mbarrier_init", unfenced
        if use.is_remote and self._cluster > 1 and (unseen := _of(state.unseen_by_peers, use.exact)):
            return "no barrier of the cluster", unseen
        return None

    def _writes(self, state: Life, site: Site) -> Iterator[LifeFinding]:
        for touch in site.instr.memory:
            if touch.use not in WRITES or touch.offset is None or touch.symbol:
                continue
            end = None if touch.bytes is None else touch.offset + touch.bytes
            for cell, causes in state.live.items():
                if cell.object != touch.object or cell.offset is None:
                    continue
                if (end is None or cell.offset < end) and touch.offset < cell.offset + cell.object.element_bytes:
                    yield LifeFinding(rules.OVERWRITTEN, site, cell, causes)
                    break


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
            if left and left != ways:
                taken[name] = left
    return with_successors(function, taken) if taken else function


def _leads(function: MachineFunction, loops: Loops, start: str, end: str, without: str) -> bool:
    """Whether there is a way from `start` to `end`, both behind `without`, that does not come through that block."""
    if loops.is_entered_from(end, without):
        return False  # told at once, where the search would go through all the rest of the function
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
    """Whether certainly other threads than the one that initialises execute the use."""
    if init.threads is None or use.threads is None:
        return False
    one = init.fact(facts.THREAD)
    return use.threads != 1 or init.threads != 1 or (one is not None and use.fact(facts.THREAD) not in (one, None))


def _initialised(state: Life, use: Use) -> Life:
    place = {use.exact: frozenset((use.site.position,))}
    begun = state.begun | {use.exact}
    if use.threads is None:
        return state._replace(begun=begun, dead=_without(state.dead, use.exact))
    return Life(
        begun,
        {**state.live, **place},
        _without(state.dead, use.exact),
        {**state.unseen, **place},
        {**state.unseen_by_peers, **place},
        {**state.unfenced, **place},
    )


def _invalidated(state: Life, use: Use) -> Life:
    dead = state.dead if use.threads is None else {**state.dead, use.exact: frozenset((use.site.position,))}
    return Life(
        state.begun,
        _without(state.live, use.exact),
        dead,
        _without(state.unseen, use.exact),
        _without(state.unseen_by_peers, use.exact),
        _without(state.unfenced, use.exact),
    )


def _order(instr: MachineInstr) -> _Order:
    return _order_of(instr.opcode, instr.opcode if instr.row is None else instr.row.ptx)


@cache
def _order_of(opcode: str, spelling: str) -> _Order:
    if opcode == _CLUSTER_WAIT:
        return _Order.CLUSTER
    if opcode.startswith(_CTA_BARRIERS):
        return _Order.CTA
    return _Order.FENCE if spelling.startswith(_FENCES) else _Order.NONE


def _ordered(state: Life, instr: MachineInstr) -> Life:
    order = _order(instr)
    if order is _Order.CLUSTER:
        return state._replace(unseen=_NOWHERE, unseen_by_peers=_NOWHERE)
    if order is _Order.CTA:
        return state._replace(unseen=_NOWHERE) if state.unseen else state
    return state._replace(unfenced=_NOWHERE) if order is _Order.FENCE and state.unfenced else state


def _of(places: Places, cell: Cell) -> frozenset[int]:
    return frozenset().union(*(places[one] for one in _met(places, cell)))


def _without(places: Places, cell: Cell) -> Places:
    met = _met(places, cell)
    if not met:
        return places
    left = dict(places)
    for one in met:
        del left[one]
    return left


def _met(known: Collection[Cell], cell: Cell) -> list[Cell]:
    """Those of the known cells that may be the same mbarrier; looked up, since kernels can have thousands."""
    if cell.offset is None:
        return [one for one in known if one.meets(cell)]
    return [one for one in (cell, Cell(cell.object, None)) if one in known]


def _union(left: Places, right: Places) -> Places:
    if left is right or not right:
        return left
    joined = dict(left)
    for cell, found in right.items():
        joined[cell] = joined[cell] | found if cell in joined else found
    return joined
