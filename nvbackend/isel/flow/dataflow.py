"""A forward worklist solver over the blocks of a machine function, for every protocol analysis.

An analysis says what is known at the entry, how an instruction changes it, and how two ways into a block join. States
are immutable and compare by value; joins only add, over a finite set, so that a fixed point is reached.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from nvbackend.diagnostics.classes.brief import cut
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.flow.finished import kept, kept_of_text
from nvbackend.isel.flow.graphs import postorder
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, print_instr

State = TypeVar("State")
Key = TypeVar("Key")
Fact = TypeVar("Fact")


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction and its place: `position` counts the function's instructions in the order of the text."""

    position: int
    block: str
    instr: MachineInstr

    def __repr__(self) -> str:
        return cut(f"<instruction {self.position} of block {self.block}: {print_instr(self.instr)}>")


class Analysis(Protocol[State]):
    """What an analysis gives the solver."""

    def entry(self) -> State:
        """What holds where the function starts."""

    def join(self, left: State, right: State, /) -> State:
        """What may hold where two ways meet. Commutative, associative, idempotent."""

    def transfer(self, state: State, site: Site, /) -> State:
        """What holds after the instruction, given what holds before it."""


@dataclass(frozen=True)
class Solution(Generic[State]):
    """The fixed point: the state at the entry of every block that can be reached.

    `before` are the states before each of the block's sites. `transfers` counts the transfers that it took, which grows
    with the text and the depth of loops.
    """

    analysis: Analysis[State]
    sites: Mapping[str, tuple[Site, ...]]
    at_entry: Mapping[str, State]
    before: Mapping[str, Sequence[State]]
    transfers: int

    def visit(self) -> Iterator[tuple[Site, State]]:
        """Every reachable instruction once, in the order of the text, with the state before it."""
        for block, sites in self.sites.items():
            if block in self.before:
                yield from zip(sites, self.before[block], strict=True)


def solve(
    function: MachineFunction, analysis: Analysis[State], matters: Callable[[Site], bool] | None = None
) -> Solution[State]:
    """The fixed point of `analysis` over `function`, whose successors must all name blocks of it (KeyError).

    Only what `matters` is followed and visited, where that is given.
    """
    if not function.blocks:
        return Solution(analysis, {}, {}, {}, 0)
    sites = sites_of(function)
    if matters is not None:
        sites = {block: tuple([site for site in of_block if matters(site)]) for block, of_block in sites.items()}
    order, following = _numbered(function)
    texts = [sites[block] for block in order]
    at_entry = {0: analysis.entry()}
    before: dict[int, list[State]] = {}
    waiting, queued = [0], {0}
    transfers = 0
    while waiting:
        block = heapq.heappop(waiting)
        queued.discard(block)
        state = at_entry[block]
        # A block whose entry changes comes again, so what its last turn finds is the fixed point.
        recorded = before[block] = []
        for site in texts[block]:
            recorded.append(state)
            state = analysis.transfer(state, site)
        transfers += len(texts[block])
        for successor in following[block]:
            if successor not in at_entry:
                at_entry[successor] = state
            elif not _adds(analysis, at_entry, successor, state):
                continue
            if successor not in queued:
                queued.add(successor)
                heapq.heappush(waiting, successor)
    return Solution(
        analysis,
        sites,
        {order[block]: state for block, state in at_entry.items()},
        {order[block]: states for block, states in before.items()},
        transfers,
    )


def _adds(analysis: Analysis[State], at_entry: dict[int, State], block: int, state: State) -> bool:
    """Join what comes to a block with what was known there; whether that is more."""
    known = at_entry[block]
    if state is known or state == known:
        return False
    joined = analysis.join(known, state)
    if joined is known or joined == known:
        return False
    at_entry[block] = joined
    return True


@kept
def _numbered(function: MachineFunction) -> tuple[list[str], list[list[int]]]:
    """The reachable blocks in reverse postorder, and the numbers there of those that follow each."""
    order = reverse_postorder(function)
    rank = {block: index for index, block in enumerate(order)}
    return order, [[rank[successor] for successor in function.blocks[block].successors] for block in order]


@kept_of_text
def sites_of(function: MachineFunction) -> dict[str, tuple[Site, ...]]:
    """The function's instructions with their places, block by block."""
    sites: dict[str, tuple[Site, ...]] = {}
    position = 0
    for block in function.blocks.values():
        start = position
        position += len(block.instructions)
        name = block.name
        sites[name] = tuple([Site(at, name, instr) for at, instr in enumerate(block.instructions, start)])
    return sites


@kept
def reverse_postorder(function: MachineFunction) -> list[str]:
    """The reachable blocks, each before its successors except along back edges.

    What the first successor leads to comes before what only the others do: the body of a loop before what follows it,
    so that the solver finishes a loop before it continues, and its work grows with the text alone.
    """
    return postorder([function.entry.name], lambda block: reversed(function.blocks[block].successors))[::-1]


def union(left: Mapping[Key, frozenset[Fact]], right: Mapping[Key, frozenset[Fact]]) -> Mapping[Key, frozenset[Fact]]:
    """The facts of both by their keys: how two paths join that each add some."""
    if left is right:
        return left
    joined = dict(left)
    for key, facts in right.items():
        joined[key] = joined[key] | facts if key in joined else facts
    return joined
