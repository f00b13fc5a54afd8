"""Warps that hand over to one another by mbarriers of one phase: which of them never go on, by trying it out."""

from __future__ import annotations

import random

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import gather

RULE = "mbarrier.deadlock"
WARPS = 4
Step = tuple[bool, int]
"""Whether it waits, and for which barrier; else one thread arrives there."""


def drawn(chance: random.Random) -> list[list[Step]]:
    """The steps of each warp: each barrier has one arrival, somewhere, and one or two waits."""
    warps: list[list[Step]] = [[] for _ in range(WARPS)]
    for barrier in range(chance.randint(2, 5)):
        for is_wait in (False, True, *[True] * chance.randint(0, 1)):
            steps = chance.choice(warps)
            steps.insert(chance.randint(0, len(steps)), (is_wait, barrier))
    return warps


def ends(warps: list[list[Step]]) -> bool:
    """Whether every warp comes to its end."""
    at, arrived, moved = [0] * WARPS, set[int](), True
    while moved:
        moved = False
        for warp, steps in enumerate(warps):
            while at[warp] < len(steps):
                is_wait, barrier = steps[at[warp]]
                if is_wait and barrier not in arrived:
                    break
                arrived |= set() if is_wait else {barrier}
                at[warp], moved = at[warp] + 1, True
    return at == [len(steps) for steps in warps]


def told(warps: list[list[Step]], order: list[int]) -> list[str]:
    """What is said of the kernel in which the warps' branches stand in this order: a warp in it twice has two of them.

    Each warp also waits for what a barrier of its own counts as complete at first, and arrives there at its end.
    """
    k = KernelBuilder("kernel", "sm_90a", threads=32 * len(warps))
    barriers = [k.mbarrier.array(1, arrivals=1, name=f"b{number}") for number in range(16)]
    own = k.mbarrier.array(len(warps), arrivals=1, name="own")
    k.mbarrier.ready()
    for place, warp in enumerate(order):
        turns, turn, steps = order.count(warp), order[:place].count(warp), warps[warp]
        with k.if_(k.warp_id() == warp):
            if turn == 0:
                k.mbarrier.wait(own + warp, 1)
            for is_wait, barrier in steps[len(steps) * turn // turns : len(steps) * (turn + 1) // turns]:
                if is_wait:
                    k.mbarrier.wait(barriers[barrier], 0)
                else:
                    with k.if_(k.thread_id() == 32 * warp) if barrier % 2 else k.one_thread(warp):
                        k.mbarrier.arrive(barriers[barrier])
            if turn == turns - 1:
                with k.one_thread(warp):
                    k.mbarrier.arrive(own + warp)
    found = gather(k.finish)
    assert len({one.message for one in found}) == len(found), "each cause once"
    return [one.rule_id for one in found]


@pytest.mark.parametrize(("seed", "branches"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_what_never_goes_on_is_told_and_nothing_else(seed: int, branches: int) -> None:
    """Also of warps that leave a branch of theirs and come to another."""
    chance, seen = random.Random(seed), {True: 0, False: 0}
    for _ in range(16):
        warps = drawn(chance)
        is_right = ends(warps)
        order = chance.sample([*range(WARPS)] * branches, WARPS * branches)
        assert {*told(warps, order)} == (set() if is_right else {RULE}), warps
        seen[is_right] += 1
    assert min(seen.values()) >= 2, seen


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_each_pair_that_waits_for_one_another_is_told(pairs: int) -> None:
    warps: list[list[Step]] = []
    for first in range(0, 2 * pairs, 2):
        warps += [[(True, first), (False, first + 1)], [(True, first + 1), (False, first)]]
    assert told(warps, [*range(len(warps))]) == [RULE] * pairs


@pytest.mark.parametrize("is_right", [True, False])
def test_a_long_chain_leads_to_the_mistake(is_right: bool) -> None:
    """Two warps wake one another in turn, twelve times; then each waits for the other, or one arrives first."""
    warps: list[list[Step]] = [[], []]
    for barrier in range(12):
        warps[barrier % 2].append((False, barrier))
        warps[1 - barrier % 2].append((True, barrier))
    warps[0] += [(True, 12), (False, 13)]
    warps[1] += [(True, 13), (False, 12)][:: -1 if is_right else 1]
    assert told(warps, [1, 0]) == ([] if is_right else [RULE])
