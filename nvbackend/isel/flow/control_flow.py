"""Which blocks a branch decides about: post-dominators, and the blocks between a branch and where its ways meet.

A branch at the end of block X decides about the blocks that can be reached from X without passing the block where all
ways from X meet again (its immediate post-dominator). Where some way ends the kernel they never do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from nvbackend.isel.flow.graphs import immediate_dominators, postorder, reached

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
            return [one for one in self.predecessors[name] if one in inside]

        return reached(before(block), before)

    @cached_property
    def meeting(self) -> dict[str, str | None]:
        """The block in which all ways from a block meet; None where they end apart, or some way never ends.

        The dominators over the reversed edges, from one common end (None).
        """
        ends = (block for block, following in self.successors.items() if not following)
        order = postorder(ends, self.predecessors.__getitem__)
        found = immediate_dominators([None, *reversed(order)], self._or_the_end)
        return {block: found.get(block) for block in self.successors}

    def _or_the_end(self, block: str | None) -> Sequence[str | None]:
        return () if block is None else self.successors[block] or (None,)


def _reachable(successors: Successors) -> Iterator[str]:
    """What can be reached from the entry, in the order that it is given in."""
    found = set(postorder([next(iter(successors))], successors.__getitem__)) if successors else set()
    return (name for name in successors if name in found)
