"""What is said of a set of threads, against Python's sets: one for each lane that `elect.sync` may choose."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nvbackend.builder.thread_tables.tables import ThreadSet
from tests.support.tables import table

WARP = 32
KINDS = ("none", "all", "some", "elected", "others")
Warps = list[tuple[str, int]]


def threads(warps: Warps, leader: int) -> set[int]:
    """The threads, if each warp elects lane `leader`; `some` are those of a mask."""
    lanes = range(WARP)
    there = {
        "none": lambda mask: (),
        "all": lambda mask: lanes,
        "some": lambda mask: [lane for lane in lanes if mask >> lane & 1],
        "elected": lambda mask: [leader],
        "others": lambda mask: [lane for lane in lanes if lane != leader],
    }
    return {warp * WARP + lane for warp, (kind, mask) in enumerate(warps) for lane in there[kind](mask)}


def chosen(warps: Warps) -> ThreadSet:
    present = np.zeros((WARP, 1, WARP * len(warps)), bool)
    for leader in range(WARP):
        present[leader, 0, sorted(threads(warps, leader))] = True
    return ThreadSet(table(present))


@settings(max_examples=60, deadline=None)
@example([("elected", 0), ("all", 0)])
@example([("elected", 0), ("elected", 0)])
@example([("elected", 0), ("some", 4)])
@example([("others", 0)])
@example([("none", 0)])
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, (1 << WARP) - 1)), min_size=1, max_size=3))
def test_a_set_is_what_pythons_sets_are(warps: Warps) -> None:
    ways = [threads(warps, leader) for leader in range(WARP)]
    some = chosen(warps)
    by_warp = [[{one for one in way if one // WARP == warp} for way in ways] for warp in range(len(warps))]
    counts = {tuple(len(way[leader]) for way in by_warp) for leader in range(WARP)}
    exact = all(way == ways[0] for way in ways)
    one_each = len(counts) == 1 and all(count <= 1 for way in counts for count in way)
    assert some.is_exact == exact
    assert some.is_elected == (not exact and one_each)
    assert some.exact == (sorted(ways[0]) if exact else [])
    assert some.count == (sum(next(iter(counts))) if len(counts) == 1 else None)
    assert some.warps == sum(any(way) for way in by_warp)
    assert some.is_one_lane == (any(ways) and all(len(way) <= 1 for warp in by_warp for way in warp))
    assert some.is_of_whole_warps == all(len(way) in (0, WARP) for warp in by_warp for way in warp)
    every = [sorted(set().union(*warp)) for warp in by_warp]
    if exact:
        assert some.candidates == [[one] for one in sorted(ways[0])]
        assert some.bits == sum(1 << one for one in ways[0])
    elif one_each:
        assert some.candidates == [warp for warp in every if warp]
        assert some.bits == sum(1 << WARP * number for number, warp in enumerate(every) if warp)
    else:
        assert some.candidates is None
        assert some.crew("entry") is None
