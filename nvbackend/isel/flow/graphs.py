"""Graphs of blocks: the order of a walk in depth, cycles, and dominators."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
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
    found = {start for start in starts if start not in without}
    waiting = list(found)
    while waiting:
        for other in following(waiting.pop()):
            if other not in found and other not in without:
                found.add(other)
                waiting.append(other)
    return found


def on_cycles(order: Sequence[Node], before: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The nodes from which a way leads back to them.

    `order` is a reverse postorder, `before` says what leads to a node; what `order` leaves out counts for no way. By
    Kosaraju's algorithm: what still leads to a node, in that order, is in one component with it.
    """
    found: set[Node] = set()
    left = set(order)
    for root in order:
        if root not in left:
            continue
        component, waiting = [root], [root]
        left.remove(root)
        while waiting:
            for one in before(waiting.pop()):
                if one in left:
                    left.remove(one)
                    component.append(one)
                    waiting.append(one)
        if len(component) > 1 or root in before(root):
            found.update(component)
    return found


def immediate_dominators(order: Sequence[Node], before: Callable[[Node], Iterable[Node]]) -> dict[Node, Node]:
    """The nearest other node on every way from the first of `order` to each; the first's is itself.

    `order` is a reverse postorder, `before` says what leads to a node; what `order` leaves out counts for no way. By
    the iterative algorithm of Cooper, Harvey and Kennedy.
    """
    if not order:
        return {}
    rank = {node: index for index, node in enumerate(order)}
    found = {order[0]: order[0]}
    rest, settled = order[1:], False
    while not settled:
        settled = True
        for node in rest:
            ways = [*before(node)]
            nearest, *others = known = [one for one in ways if one in found]
            for one in others:
                nearest = _common(found, rank, nearest, one)
            if node not in found or found[node] != nearest:
                # A node that comes after all its predecessors is settled as soon as they are.
                settled = settled and node not in found and len(known) == len(ways)
                found[node] = nearest
    return found


def _common(found: Mapping[Node, Node], rank: Mapping[Node, int], left: Node, right: Node) -> Node:
    """The nearest node that dominates both."""
    while left != right:
        if rank[left] > rank[right]:
            left = found[left]
        else:
            right = found[right]
    return left
