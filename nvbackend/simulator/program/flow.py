"""The order of a control-flow graph's blocks: a loop's blocks together, before what follows it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

Graph = Sequence[Sequence[int]]
"""The successors of each block; blocks are numbered in the order of the text."""


def order(successors: Graph, entry: int = 0) -> list[int]:
    """The reachable blocks in reverse post order, with each loop's blocks side by side.

    Threads that are apart meet again early where those at the first block of this order run first: all iterations of a
    loop come before what follows it.
    """
    reached = _reachable(successors, entry)
    return _ordered(successors, reached, entry)


def _reachable(successors: Graph, entry: int) -> set[int]:
    found, todo = {entry}, [entry]
    while todo:
        for after in successors[todo.pop()]:
            if after not in found:
                found.add(after)
                todo.append(after)
    return found


def _ordered(successors: Graph, blocks: set[int], entry: int) -> list[int]:
    """Strongly connected parts in topological order; within each its first block, then the rest of it."""
    parts = components(successors, blocks)
    part_of = {block: number for number, part in enumerate(parts) for block in part}
    before = [0] * len(parts)
    after: list[set[int]] = [set() for _ in parts]
    for block in blocks:
        for successor in successors[block]:
            here, there = part_of[block], part_of.get(successor, part_of[block])
            if here != there and there not in after[here]:
                after[here].add(there)
                before[there] += 1
    ready = [(min(part), number) for number, part in enumerate(parts) if not before[number]]
    heapq.heapify(ready)
    found: list[int] = []
    entered = {entry}
    while ready:
        _, number = heapq.heappop(ready)
        part = parts[number]
        found += _within(successors, part, min(part & entered, default=min(part)))
        entered |= {successor for block in part for successor in successors[block]}
        for there in after[number]:
            before[there] -= 1
            if not before[there]:
                heapq.heappush(ready, (min(parts[there]), there))
    return found


def _within(successors: Graph, part: set[int], head: int) -> list[int]:
    if len(part) == 1:
        return [head]
    rest = part - {head}
    inner = next((block for block in successors[head] if block in rest), min(rest))
    return [head, *_ordered(successors, rest, inner)]


def components(successors: Graph, blocks: Iterable[int]) -> list[set[int]]:
    """The strongly connected parts of a graph cut down to `blocks` (Tarjan)."""
    inside = set(blocks)
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[set[int]] = []
    for root in sorted(inside):
        if root in number:
            continue
        work = [(root, iter(successors[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            block, rest = work[-1]
            following = next((one for one in rest if one in inside), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[block])
                if low[block] == number[block]:
                    found.append(_popped(stack, on_stack, block))
            elif following not in number:
                number[following] = low[following] = len(number)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(successors[following])))
            elif following in on_stack:
                low[block] = min(low[block], number[following])
    return found


def _popped(stack: list[int], on_stack: set[int], last: int) -> set[int]:
    part: set[int] = set()
    while last not in part:
        block = stack.pop()
        on_stack.discard(block)
        part.add(block)
    return part
