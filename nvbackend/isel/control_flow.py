"""Which blocks a branch decides about: post-dominators, and the blocks between a branch and where its ways meet.

A branch at the end of block X decides about the blocks that can be reached from X without passing the block where all
ways from X meet again (its immediate post-dominator). Where some way ends the kernel they never do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

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
        self.meeting = self._post_dominators()
        """The block in which all ways from a block meet; None where they end apart, or some way never ends."""

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
        found = {start for start in starts if start not in ends}
        waiting = list(found)
        while waiting:
            for successor in self.successors[waiting.pop()]:
                if successor not in found and successor not in ends:
                    found.add(successor)
                    waiting.append(successor)
        return found

    def reaching(self, block: str, inside: Collection[str]) -> set[str]:
        """The blocks of `inside` from which `block` can be reached without leaving `inside`."""
        found: set[str] = set()
        waiting = [block]
        while waiting:
            for predecessor in self.predecessors[waiting.pop()]:
                if predecessor in inside and predecessor not in found:
                    found.add(predecessor)
                    waiting.append(predecessor)
        return found

    def _post_dominators(self) -> dict[str, str | None]:
        """By the iterative algorithm of Cooper, Harvey and Kennedy, over the reversed edges from one common end."""
        order = self._from_the_end()
        rank = {block: index for index, block in enumerate(order)}
        end = len(order)
        found: dict[str, int] = {}
        changed = True
        while changed:
            changed = False
            for block in reversed(order):
                met = None if self.successors[block] else end
                for successor in self.successors[block]:
                    if successor in found and successor != block:
                        way = rank[successor]
                        met = way if met is None else _common(met, way, found, order, end)
                if met is not None and found.get(block) != met:
                    found[block] = met
                    changed = True
        return {block: None if found.get(block, end) == end else order[found[block]] for block in self.successors}

    def _from_the_end(self) -> list[str]:
        """The blocks from which an end can be reached, in postorder over the reversed edges."""
        finished: list[str] = []
        seen: set[str] = set()
        for last in (block for block, following in self.successors.items() if not following):
            if last in seen:
                continue
            seen.add(last)
            path = [(last, iter(self.predecessors[last]))]
            while path:
                block, before = path[-1]
                for predecessor in before:
                    if predecessor not in seen:
                        seen.add(predecessor)
                        path.append((predecessor, iter(self.predecessors[predecessor])))
                        break
                else:
                    finished.append(block)
                    path.pop()
        return finished


def _common(left: int, right: int, found: Mapping[str, int], order: Sequence[str], end: int) -> int:
    """The nearest common post-dominator of two blocks, given by their ranks."""
    while left != right:
        if end in (left, right):
            return end
        if left < right:
            left = found[order[left]]
        else:
            right = found[order[right]]
    return left


def _reachable(successors: Successors) -> dict[str, None]:
    entry = next(iter(successors), None)
    if entry is None:
        return {}
    seen = {entry: None}
    waiting = [entry]
    while waiting:
        for successor in successors[waiting.pop()]:
            if successor not in seen:
                seen[successor] = None
                waiting.append(successor)
    return {name: None for name in successors if name in seen}
