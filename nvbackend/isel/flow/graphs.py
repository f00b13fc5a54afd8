"""Graphs of blocks: the order of a walk in depth, cycles, dominators, and which blocks a branch decides about.

A branch at the end of block X decides about the blocks that can be reached from X without passing the block where all
ways from X meet again (its immediate post-dominator). Where some way ends the kernel they never do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def postorder(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """Everything that can be reached from `starts`, each after its successors except along back edges."""
    finished: list[Node] = []
    seen: set[Node] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(following(start)))]
        while path:
            node, others = path[-1]
            for other in others:
                if other not in seen:
                    seen.add(other)
                    path.append((other, iter(following(other))))
                    break
            else:
                finished.append(node)
                path.pop()
    return finished


def reached(
    starts: Iterable[Node], following: Callable[[Node], Iterable[Node]], *, without: Container[Node | None] = ()
) -> set[Node]:
    """`starts` and what can be reached from them, not through the nodes `without`."""
    reached = {start for start in starts if start not in without}
    waiting = list(reached)
    while waiting:
        for other in following(waiting.pop()):
            if other not in reached and other not in without:
                reached.add(other)
                waiting.append(other)
    return reached


def on_cycles(order: Sequence[Node], before: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The nodes from which a way leads back to them.

    `order` is a reverse postorder, `before` says what leads to a node; what `order` leaves out counts for no way. By
    Kosaraju's algorithm: what still leads to a node, in that order, is in one component with it.
    """
    cyclic: set[Node] = set()
    left = set(order)
    for root in order:
        if root not in left:
            continue
        component, waiting = [root], [root]
        left.remove(root)
        while waiting:
            for node in before(waiting.pop()):
                if node in left:
                    left.remove(node)
                    component.append(node)
                    waiting.append(node)
        if len(component) > 1 or root in before(root):
            cyclic.update(component)
    return cyclic


def immediate_dominators(order: Sequence[Node], before: Callable[[Node], Iterable[Node]]) -> dict[Node, Node]:
    """The nearest other node on every way from the first of `order` to each; the first's is itself.

    `order` is a reverse postorder, `before` says what leads to a node; what `order` leaves out counts for no way. By
    the iterative algorithm of Cooper, Harvey and Kennedy.
    """
    if not order:
        return {}
    rank = {node: index for index, node in enumerate(order)}
    dominators = {order[0]: order[0]}
    rest, settled = order[1:], False
    while not settled:
        settled = True
        for node in rest:
            ways = [*before(node)]
            nearest, *others = known = [other for other in ways if other in dominators]
            for way in others:
                nearest = _common(dominators, rank, nearest, way)
            if node not in dominators or dominators[node] != nearest:
                # A node that comes after all its predecessors is settled as soon as they are.
                settled = settled and node not in dominators and len(known) == len(ways)
                dominators[node] = nearest
    return dominators


def _common(dominators: Mapping[Node, Node], rank: Mapping[Node, int], left: Node, right: Node) -> Node:
    """The nearest node that dominates both."""
    while left != right:
        if rank[left] > rank[right]:
            left = dominators[left]
        else:
            right = dominators[right]
    return left


Successors = Mapping[str, Sequence[str]]


class ControlFlow:
    """The blocks that can be reached from the entry, the first of `successors`, and how they follow one another."""

    def __init__(self, successors: Successors) -> None:
        self.successors: dict[str, tuple[str, ...]] = {
            name: tuple(dict.fromkeys(successors[name])) for name in _reachable(successors)
        }
        self.predecessors: dict[str, list[str]] = {name: [] for name in self.successors}
        for name, following in self.successors.items():
            for successor in following:
                self.predecessors[successor].append(name)

    def region(self, block: str) -> set[str]:
        """The blocks that the branch at the end of `block` decides about; `block` itself where it can come again."""
        return self.decided([block])

    def decided(self, blocks: Iterable[str]) -> set[str]:
        """The union of the regions of `blocks`, which must all have the same meeting."""
        sources = list(blocks)
        end = self.meeting.get(sources[0])
        return self.reached((successor for block in sources for successor in self.successors[block]), {end})

    def reached(self, starts: Iterable[str], ends: Collection[str | None] = ()) -> set[str]:
        """`starts` and the blocks that can be reached from them, up to and without `ends`."""
        return reached(starts, self.successors.__getitem__, without=ends)

    def reaching(self, block: str, inside: Collection[str]) -> set[str]:
        """The blocks of `inside` from which `block` can be reached without leaving `inside`."""

        def before(name: str) -> list[str]:
            return [predecessor for predecessor in self.predecessors[name] if predecessor in inside]

        return reached(before(block), before)

    @cached_property
    def meeting(self) -> dict[str, str | None]:
        """The block in which all ways from a block meet; None where they end apart, or some way never ends.

        The dominators over the reversed edges, from one common end (None).
        """
        ends = (block for block, following in self.successors.items() if not following)
        order = postorder(ends, self.predecessors.__getitem__)
        nearest = immediate_dominators([None, *reversed(order)], self._or_the_end)
        return {block: nearest.get(block) for block in self.successors}

    def _or_the_end(self, block: str | None) -> Sequence[str | None]:
        return () if block is None else self.successors[block] or (None,)


def _reachable(successors: Successors) -> Iterator[str]:
    """What can be reached from the entry, in the order that it is given in."""
    reachable = set(postorder([next(iter(successors))], successors.__getitem__)) if successors else set()
    return (name for name in successors if name in reachable)
