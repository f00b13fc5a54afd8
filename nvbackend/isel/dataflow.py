"""A forward worklist solver over the blocks of a machine function, for every protocol analysis.

An analysis says what is known at the entry, how an instruction changes it, and how two ways into a block join. States
are immutable and compare by value; joins only add, over a finite set, so that a fixed point is reached.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from nvbackend.isel.graphs import postorder
from nvbackend.isel.machine import MachineFunction, MachineInstr

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction and its place: `position` counts the function's instructions in the order of the text."""

    position: int
    block: str
    instr: MachineInstr


class Analysis(Protocol[State]):
    """What an analysis gives the solver."""

    def entry(self) -> State:
        """What holds where the function starts."""

    def join(self, left: State, right: State, /) -> State:
        """What may hold where two ways meet. Commutative, associative, idempotent."""

    def transfer(self, state: State, site: Site, /) -> State:
        """What holds behind the instruction, given what holds before it."""


@dataclass(frozen=True)
class Solution(Generic[State]):
    """The fixed point: the state at the entry of every block that can be reached.

    `transfers` counts the transfers that it took, which grows with the text and the depth of loops.
    """

    analysis: Analysis[State]
    sites: Mapping[str, tuple[Site, ...]]
    at_entry: Mapping[str, State]
    transfers: int

    def visit(self) -> Iterator[tuple[Site, State]]:
        """Every reachable instruction once, in the order of the text, with the state before it."""
        for block, sites in self.sites.items():
            if block not in self.at_entry:
                continue
            state = self.at_entry[block]
            for site in sites:
                yield site, state
                state = self.analysis.transfer(state, site)


def solve(
    function: MachineFunction, analysis: Analysis[State], matters: Callable[[Site], bool] | None = None
) -> Solution[State]:
    """The fixed point of `analysis` over `function`, whose successors must all name blocks of it (KeyError).

    Only what `matters` is followed and visited, where that is given.
    """
    if not function.blocks:
        return Solution(analysis, {}, {}, 0)
    sites = sites_of(function)
    if matters is not None:
        sites = {block: tuple(filter(matters, found)) for block, found in sites.items()}
    order = reverse_postorder(function)
    rank = {block: index for index, block in enumerate(order)}
    at_entry = {function.entry.name: analysis.entry()}
    waiting = [rank[function.entry.name]]
    queued = {function.entry.name}
    transfers = 0
    while waiting:
        block = order[heapq.heappop(waiting)]
        queued.discard(block)
        state = at_entry[block]
        for site in sites[block]:
            state = analysis.transfer(state, site)
        transfers += len(sites[block])
        for successor in function.blocks[block].successors:
            known = at_entry.get(successor)
            joined = state if known is None else analysis.join(known, state)
            if known is None or joined != known:
                at_entry[successor] = joined
                if successor not in queued:
                    queued.add(successor)
                    heapq.heappush(waiting, rank[successor])
    return Solution(analysis, sites, at_entry, transfers)


def sites_of(function: MachineFunction) -> dict[str, tuple[Site, ...]]:
    """The function's instructions with their places, block by block."""
    sites: dict[str, tuple[Site, ...]] = {}
    position = 0
    for block in function.blocks.values():
        start = position
        position += len(block.instructions)
        sites[block.name] = tuple(
            Site(start + index, block.name, instr) for index, instr in enumerate(block.instructions)
        )
    return sites


def reverse_postorder(function: MachineFunction) -> list[str]:
    """The reachable blocks, each before its successors except along back edges.

    What the first successor leads to comes before what only the others do: the body of a loop before what is behind it,
    so that the solver has done with a loop before it goes on, and its work grows with the text alone.
    """
    return postorder([function.entry.name], lambda block: reversed(function.blocks[block].successors))[::-1]
