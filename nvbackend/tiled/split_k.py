"""K in parts, each with accumulators of its own, and the additions that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.layout import Layout, make_layout, size
from nvbackend.tiled.fragment import Fragment
from nvbackend.tiled.rules import GEMM
from nvbackend.tiled.schedule import Issue, check_fragments, outer_product
from nvbackend.tiled.tiled_mma import TiledMMA


@user_facing
@dataclass(frozen=True)
class Reduction:
    """The threads that have partial sums of the same elements, when several atoms lie along K.

    `layout` goes from (thread of a part, part) to the thread. Those of part 0 are the owners: to each value of an owner
    the same value of its partners in all other parts is to be added, after which the owners have C.
    """

    layout: Layout

    @property
    def parts(self) -> int:
        """How many threads have a partial sum of an element; 1 if nothing has to be added."""
        return size(self.layout, 1)

    @property
    def owners(self) -> tuple[int, ...]:
        """The threads that hold C at the end."""
        return tuple(self.layout[0].offsets())

    def addends(self, owner: int) -> tuple[int, ...]:
        """The threads whose accumulators are to be added to those of `owner`; none to those of other threads."""
        if owner not in self.owners:
            return ()
        return tuple(owner + further for further in self.layout[1].offsets()[1:])

    def rounds(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """(from, to) of what can be added at once, in rounds that halve the number of parts."""
        starts = self.layout[1].offsets()
        return tuple(
            tuple((owner + starts[source], owner + starts[target]) for source, target in pairs for owner in self.owners)
            for pairs in halving(self.parts)
        )


@user_facing
def reduction(tiled_mma: TiledMMA) -> Reduction:
    """The additions after a multiplication with `tiled_mma`, whose atom layout may have several atoms along K."""
    v, m, n, k = tiled_mma.thr_layout_vmnk.modes
    return Reduction(make_layout(make_layout(v, m, n), k))


@user_facing
@dataclass(frozen=True)
class SplitK:
    """The instructions of a multiplication whose K is split, and what must be added: (from, to) of fragments of C."""

    issues: tuple[Issue, ...]
    additions: tuple[tuple[Fragment, Fragment], ...]

    __repr__ = short_repr


@user_facing
def split_k(tiled_mma: TiledMMA, a: Fragment, b: Fragment, c: Fragment, *, scale_d: Any = 1) -> SplitK:
    """As `gemm`, with as many accumulators as the fourth mode of C has, which take the steps along K in turn.

    So no instruction waits for the sum of the last. C is the fragment of a tile (M, N, parts). `scale_d` is
    that of the first k of part 0; the other parts begin with 0. Raises tiled-mma.gemm, also where the steps along K are
    no multiple of the parts.
    """
    steps = check_fragments(tiled_mma, a, b, c, split=True)
    parts = size(c.layout, 3)
    if steps % parts:
        problem = f"{steps} steps along K cannot be dealt out to {parts} accumulators"
        instead = "let the accumulators' number divide the steps"
        GEMM.fail(a=a.layout, b=b.layout, c=c.layout, mma=tiled_mma, problem=problem, instead=instead)
    sums = [c(None, None, None, part) for part in range(parts)]
    firsts = [scale_d, *[0] * (parts - 1)]
    issues = (
        issue
        for k in range(steps)
        for issue in outer_product(tiled_mma, a, b, sums[k % parts], k, 1 if k >= parts else firsts[k])
    )
    additions = tuple((sums[source], sums[target]) for pairs in halving(parts) for source, target in pairs)
    return SplitK(tuple(issues), additions)


def halving(parts: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """(from, to) of `parts` parts to be added, in rounds after each of which there are half as many."""
    while parts > 1:
        half = (parts + 1) // 2
        yield tuple((part, part - half) for part in range(half, parts))
        parts = half
