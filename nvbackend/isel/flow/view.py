"""A finished kernel as an analysis of a user's own asks about it: its instructions, and the ways between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from nvbackend.diagnostics import user_facing
from nvbackend.isel.flow.dataflow import Site, sites_of
from nvbackend.isel.flow.paths import coming, thread_count
from nvbackend.isel.flow.plain_accesses import with_plain
from nvbackend.isel.machine.function import MachineFunction


@user_facing
class Flow:
    """The instructions of a finished kernel, and which paths lead from one to another.

    `function` is the machine form, with plain loads and stores of global memory among its instructions. A way is one
    along the branches, whatever their conditions are; a site is "after" another one where the other is executed first.
    """

    def __init__(self, function: MachineFunction) -> None:
        self.function = with_plain(function)
        self._by_block = sites_of(self.function)

    def __repr__(self) -> str:
        return f"<flow of {self.function!r}>"

    @property
    def sites(self) -> Sequence[Site]:
        """The instructions of the machine form, each with its block, in the order of the text.

        What only computes is not among them. Plain loads and stores of global memory have the opcodes "ld.global" and
        "st.global" and no row; they are where the kernel wrote them, and LLVM may move, join or drop them.
        """
        return tuple(site for of_block in self._by_block.values() for site in of_block)

    def reaches(self, first: Site | None, second: Site | None, *, without: Collection[Site] = ()) -> bool:
        """Whether a path leads from after `first` to `second`, and passes none of `without`.

        None is the entry as `first`, and the end of the kernel as `second`. A site reaches itself in a loop.
        """
        avoided = {site.position for site in without}
        goal = None if second is None else second.position
        if first is None:
            block, start = self.function.entry.name, 0
        else:
            block, start = first.block, first.position - self._by_block[first.block][0].position + 1
        waiting, seen = [(block, start)], set[str]()
        while waiting:
            block, start = waiting.pop()
            stop = next(self._stops(block, start, goal, avoided), None)
            if stop is not None:
                if stop.position == goal:
                    return True
                continue
            following = self.function.blocks[block].successors
            if goal is None and not following:
                return True
            waiting += [(name, 0) for name in following if name not in seen]
            seen.update(following)
        return False

    def _stops(self, block: str, start: int, goal: int | None, avoided: Collection[int]) -> Iterator[Site]:
        """The goal, or what may not be passed, from the instruction `start` of a block on."""
        return (site for site in self._by_block[block][start:] if site.position == goal or site.position in avoided)

    def dominates(self, first: Site, second: Site) -> bool:
        """Whether every path from the entry to `second` passes `first`; True if no path leads to `second`."""
        return first.position == second.position or not self.reaches(None, second, without=(first,))

    def postdominates(self, first: Site, second: Site) -> bool:
        """Whether every path from `second` to the end of the kernel passes `first`."""
        return first.position == second.position or not self.reaches(second, None, without=(first,))

    def threads(self, site: Site) -> frozenset[int] | None:
        """The threads of the CTA that may reach a site, by their numbers; None if they are not known.

        Those are left out that a branch over numbers known at build time keeps from it.
        """
        count = thread_count(self.function)
        if not count:
            return None
        bits = coming(self.function)[site.block]
        return frozenset(thread for thread in range(count) if bits >> thread & 1)
